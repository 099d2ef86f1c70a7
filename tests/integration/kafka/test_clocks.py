"""A node on a real broker whose wall clock is an hour off and jumps back and forth: the results do not show it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.fleet_support import owners
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.kafka_stage import KafkaStage
from tests.integration.processes import PLENTY_S, ROOT

OTHER_CLOCK = Path(__file__).parents[1] / "other_clock"
HOUR_S = 3600


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[KafkaStage]:
    stage = KafkaStage(tmp_path, session_bootstrap())
    yield stage
    stage.log.close()


def clock(shift_s: int) -> dict[str, str]:
    return {"PYTHONPATH": f"{OTHER_CLOCK}{os.pathsep}{ROOT}", "OTHER_CLOCK_S": str(shift_s)}


def test_the_other_clock_is_wrong_and_jumps() -> None:
    """The instrument itself."""
    script = "import time\nfrom itertools import count\n"
    script += "a = time.time()\nfor _ in count():\n    if abs(time.time() - a) > 3000: break\nprint('jumped')\n"
    environment = {**os.environ, **clock(HOUR_S)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, timeout=PLENTY_S, check=True
    )
    assert done.stdout == b"jumped\n"


@pytest.mark.long
def test_nodes_whose_clocks_are_hours_apart_agree(stage: KafkaStage) -> None:
    """One is an hour ahead, one an hour behind, by turns; the first is killed and the other takes over."""
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(0) as fleet:
        for number, shift_s in enumerate((HOUR_S, -HOUR_S)):
            fleet.environment |= clock(shift_s)
            fleet.add(number, expected=2)
        with stage.feeding():
            stage.until(monitor, lambda: set(owners(monitor)) == {0, 1}, "both own partitions", fleet)
            stage.until(monitor, lambda: monitor.consumed > 1500, "both work", fleet)
            fleet.kill(0)
            stage.until(monitor, lambda: set(owners(monitor)) == {1}, "the other owns all", fleet)
            before = monitor.consumed
            stage.until(monitor, lambda: monitor.consumed > before + 1500, "it works on", fleet)
        stage.finish(run, fleet)
    stage.assert_exact()
