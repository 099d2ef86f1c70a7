"""Real node processes with standbys and an idle timeout: owners die, and windows go on though a partition is silent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.fleet.monitor import Monitor
from nodes.fleet.processes import Fleet
from nodes.results.reader import OutputReader
from tests.integration import jobs_mixed
from tests.integration.fleet_support import NOBODY_IS_SUSPECTED, Stage
from tests.integration.jobs_idle import silent_job
from tests.integration.jobs_mixed import OUTPUT
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.kafka_stage import KafkaStage
from tests.integration.streams.test_standbys import goodbye
from tests.shares import share_of

FED, SILENT = 4, 4
"""So many partitions have records; the last one has none."""


class FewerFed(Stage):
    def feed(self, count: int) -> None:
        first, self._next = self._next, self._next + count
        for partition, rows in jobs_mixed.payloads(first, self._next, FED).items():
            self.put(partition, *rows)


class FewerFedOnKafka(FewerFed, KafkaStage):
    pass


@pytest.fixture(params=share_of(["embedded", "kafka"], 2, __name__))
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    settings = ("node.replicas=2", NOBODY_IS_SUSPECTED)
    if request.param == "kafka":
        stage: Stage = FewerFedOnKafka(tmp_path, session_bootstrap(), *settings, partitions=FED + 1)
    else:
        stage = FewerFed(tmp_path, *settings, partitions=FED + 1)
    stage.reference = f"{silent_job.__module__}:silent_job"
    assert stage.events[SILENT] == []
    yield stage
    stage.log.close()


def owners(monitor: Monitor) -> list[int | None]:
    names = (monitor.ownership.owner(partition) for partition in range(FED + 1))
    return [None if name is None else monitor.ownership.members.get(name) for name in names]


def settled(monitor: Monitor, nodes: int) -> bool:
    """Every partition has its owner for good, and its standby."""
    shares = Counter(owners(monitor))
    views = [view for name, view in monitor.nodes.items() if name in monitor.ownership.members]
    even = None not in shares and len(shares) == nodes and max(shares.values()) - min(shares.values()) <= 1
    return even and len(views) == nodes and sum(view.stats.get("standbys", 0.0) for view in views) == FED + 1


def answered_ms(stage: Stage) -> int:
    """The end of the last window that has a result."""
    found = (json.loads(output.value) for output in OutputReader(stage.log, OUTPUT).read_available())
    return max((row["end"] for row in found if "end" in row), default=0)


def goes_on(stage: Stage, monitor: Monitor, fleet: Fleet, windows: int) -> None:
    """Until so many further windows have results."""
    end_ms = answered_ms(stage) + windows * jobs_mixed.WINDOW_MS
    stage.until(monitor, lambda: answered_ms(stage) >= end_ms, f"windows through {end_ms} ms have results", fleet)


@pytest.mark.long
def test_windows_go_on_without_any_claim_when_the_owner_of_a_silent_partition_is_killed(stage: Stage) -> None:
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(2) as fleet:
        with stage.feeding():
            stage.until(monitor, lambda: settled(monitor, 2), "every partition has a standby", fleet)
            goes_on(stage, monitor, fleet, 3)
            dead = owners(monitor)[SILENT]
            assert dead is not None
            fleet.kill(dead)
            goes_on(stage, monitor, fleet, 10)
            assert owners(monitor)[SILENT] == dead, "nobody has claimed anything"
        goodbye(stage, monitor, fleet)
        done = stage.finish(run, fleet)
    stage.assert_exact()
    counts = done.counts()
    assert (counts.accepted, counts.late, counts.late_inserts) == (stage.fed, 0, 0)
