"""A slow output, a hot key, a window that holds everything: the nodes wait, stay small, and lose nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from nodes.results.reader import OutputReader
from nodes.streams.jobs import declare_end
from tests.integration.fleet_support import JOB, NOBODY_IS_SUSPECTED, Stage, owners
from tests.integration.jobs_hot import clicks
from tests.integration.jobs_mixed import INPUT, OUTPUT
from tests.integration.processes import PLENTY_S, ROOT, until
from tests.integration.scraping import Samples, ports, scrape, total

HOT = "tests.integration.jobs_hot:job"
SUSPECT_MS = 1500
SLOW_S = 2.0
"""Longer than a suspicion; an append takes a thousandth of it."""
ROOM_BYTES = 24_000_000
"""A node may grow by so much for buffers and caches, whatever the input."""


@pytest.fixture
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Here nodes are suspected soon, unless the test says when."""
    stage = Stage(tmp_path, getattr(request, "param", f"node.failure_timeout_ms={SUSPECT_MS}"))
    yield stage
    stage.log.close()


@contextmanager
def slow_node(stage: Stage, flag: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.integration.slow_node", JOB, str(flag), str(SLOW_S), *stage.definitions]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_slow_output_holds_the_node_back_and_nothing_else_happens(stage: Stage, tmp_path: Path) -> None:
    flag = tmp_path / "slow"
    run = stage.open()
    monitor = stage.monitor(run)
    with slow_node(stage, flag) as node:
        stage.until(monitor, lambda: len(ports(monitor)) == 1 and set(owners(monitor)) == {0}, "it owns all")
        (port,) = ports(monitor).values()
        stage.feed(2000)
        stage.until(monitor, lambda: sum(monitor.taken()) == stage.fed, "all is in checkpoints")
        before_bytes = total([scrape(port)], "holon_memory_bytes")
        flag.touch()
        stage.feed(20_000)
        until(lambda: total([scrape(port)], "holon_backPressuredTimeMsPerSecond") > 500, "back pressure shows")
        until(lambda: total([scrape(port)], "holon_lag_seconds") > 4, "the input waits")
        slow = scrape(port)
        assert total([slow], "holon_memory_bytes") < before_bytes + ROOM_BYTES
        assert total([slow], "holon_numRecordsIn_total") < 2000 + 20_000, "it does not read what it cannot give out"
        flag.unlink()
        declare_end(stage.log, run)
        stage.until(monitor, lambda: monitor.done, "the job is done")
        assert node.wait(PLENTY_S) == 0
    assert monitor.steals == 0 and max(monitor.ownership.version(p) for p in range(run.partitions)) == 1
    assert monitor.conserved()
    stage.assert_exact()


@pytest.mark.long
@pytest.mark.parametrize("stage", [NOBODY_IS_SUSPECTED], indirect=True)  # else a slow node's work moves to the other
def test_hot_key_and_a_giant_window_stay_small_and_in_balance(stage: Stage) -> None:
    run = stage.open(HOT)
    monitor = stage.monitor(run)
    wanted: Counter[str] = Counter()

    def feed(first: int, count: int) -> None:
        rows: dict[int, list[bytes]] = defaultdict(list)
        for click in clicks(first, count):
            wanted[click.key] += 1
            rows[click.ts % stage.partitions].append(msgspec.json.encode(click))
        for partition, values in rows.items():
            stage.log.append(INPUT, partition, values)

    with stage.fleet(2, HOT) as fleet:
        feed(0, 10_000)
        halved = lambda: Counter(owners(monitor)) == {0: 2, 1: 2}  # noqa: E731
        stage.until(monitor, lambda: halved() and len(ports(monitor)) == 2, "nothing is handed over any more", fleet)
        stage.until(monitor, lambda: sum(monitor.taken()) == 10_000, "all is taken", fleet)
        before = [scrape(port) for _, port in sorted(ports(monitor).items())]
        feed(10_000, 60_000)
        stage.until(monitor, lambda: sum(monitor.taken()) == 70_000, "all is taken", fleet)
        after: list[Samples] = []

        def sized() -> bool:
            """A node whose loop has not turned since it was asked shows what it showed before."""
            after[:] = [scrape(port) for _, port in sorted(ports(monitor).items())]
            return total(after, "holon_partition_records_taken") == 70_000

        until(sized, "the figures are of now")
        for one, other in zip(before, after, strict=True):
            assert total([other], "holon_memory_bytes") < total([one], "holon_memory_bytes") + ROOM_BYTES
            assert total([other], "holon_open_descriptors") <= total([one], "holon_open_descriptors") + 2
        largest = max(size for samples in after for size in samples["holon_checkpoint_size_bytes"].values())
        assert largest < 40 * len(wanted), "a checkpoint grows with the keys, not with the records"
        until(lambda: all(total([scrape(port)], "holon_lag_seconds") < 1 for port in ports(monitor).values()), "no lag")
        stage.finish(run, fleet)
    assert wanted.most_common(1)[0][1] > 0.3 * wanted.total(), "it is a hot key"
    values = [output.value for output in OutputReader(stage.log, OUTPUT, decode=json.loads).read_available()]
    (giant,) = [value for value in values if "totals" in value]
    assert Counter(giant["totals"]) == wanted
