"""Copies in virtual time, where nothing else disturbs: what a healthy fleet writes twice, and what a kill delays."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from holon.outputs.identity import OutputId
from nodes.sim.checks import whole
from nodes.sim.drawing import draw
from nodes.sim.jobs import OUTPUT, TOPIC
from nodes.sim.node_process import NodeProcess
from nodes.sim.options import Options
from nodes.sim.trace import Trace
from nodes.sim.world import World

NEVER_MS = 10**6
KILL_MS = 1000
END_MS = 2200
SETTLED_MS = 300
FED_MS = 1900


def options(case: str, replicas: int, **changes: Any) -> Options:
    """Three nodes that look at the log every few ms, input for two seconds, no fault, nobody is ever suspected."""
    calm = replace(
        draw(7, case=case, calm=True, replicas=replicas),
        nodes=3,
        max_nodes=3,
        partitions=4,
        empty_partitions=0,
        records=400,
        feed_ms=2000,
        preloaded=0.0,
        poison=0.0,
        late=0.0,
        spread_ms=5,
        window_ms=50,
        tick_ms=2,
        batch_max_records=1000,
        broadcast_interval_ms=50,
        checkpoint_interval_ms=400,
        max_watermark_drift_ms=0,
        failure_timeout_ms=NEVER_MS,
        standby_after_ms=30,
        safety_ms=NEVER_MS,
    )
    return replace(calm, **changes)


def latest_ms(world: World) -> dict[str, int]:
    """The longest time from a record's append to its result's, of records before the kill and from then on."""
    found = {"before": 0, "after": 0}
    for partition in range(world.options.partitions):
        appended = whole(world.log, TOPIC, partition).timestamps_ms
        results = whole(world.log, OUTPUT, partition)
        first: dict[int, int] = {}
        for header, at_ms in zip(results.headers, results.timestamps_ms.tolist(), strict=True):
            first.setdefault(OutputId.from_bytes(header).position, at_ms)
        for offset, fed_ms in enumerate(appended.tolist()):
            if SETTLED_MS <= fed_ms < END_MS - 150:
                when = "before" if fed_ms < KILL_MS - 50 else "after"
                found[when] = max(found[when], first.get(offset, NEVER_MS) - fed_ms)
    return found


def killed(replicas: int, nodes: list[int]) -> dict[str, int]:
    world = World(options("stateless", replicas), Trace())
    world.run_until(lambda: False, KILL_MS)
    for number in nodes:
        world.kill(next(process for process in world.processes if process.name == f"node-{number}"))
    world.run_until(lambda: False, END_MS)
    return latest_ms(world)


def test_a_kill_delays_no_result_by_more_than_50_ms_with_two_copies_and_no_suspicion() -> None:
    latency = killed(2, [1])
    assert latency["before"] < 30
    assert latency["after"] < latency["before"] + 50, latency


def test_two_kills_at_once_are_made_good_by_a_third_copy() -> None:
    latency = killed(3, [0, 1])
    assert latency["after"] < latency["before"] + 2 * 50, "the second standby waits twice as long as the first"


def test_with_one_copy_results_wait_for_a_suspicion() -> None:
    assert killed(1, [1])["after"] > 900


# --- an idle timeout --------------------------------------------------------------------------------------------------

SILENT: dict[str, Any] = {"empty_partitions": 1, "idle_timeout_ms": 120, "arrival": 0.5}


def longest_ms(world: World) -> dict[str, int]:
    """The longest time between the results of one window and the next, before the kill and from then on."""
    first: dict[int, int] = {}
    for partition in range(world.options.output_partitions):
        results = whole(world.log, OUTPUT, partition)
        for header, at_ms in zip(results.headers, results.timestamps_ms.tolist(), strict=True):
            end = OutputId.from_bytes(header).position
            first[end] = min(first.get(end, at_ms), at_ms)
    at = [SETTLED_MS, *sorted(at_ms for at_ms in first.values() if at_ms > SETTLED_MS), FED_MS]
    gaps = [(after - before, before) for before, after in pairwise(at)]
    return {
        "before": max(gap for gap, at_ms in gaps if at_ms < KILL_MS - 200),
        "after": max(gap for gap, at_ms in gaps if at_ms >= KILL_MS - 200),
    }


@pytest.mark.parametrize("of", [0, 3])
def test_a_kill_delays_no_window_for_long_where_a_partition_is_silent(of: int) -> None:
    """Of the node with the silent partition, 3, or of one without; nobody is suspected."""
    world = World(options("idle", 2, **SILENT), Trace())
    world.run_until(lambda: False, KILL_MS)
    dead = next(process for process in world.processes if of in owned(process))
    assert (3 in owned(dead)) is (of == 3)
    world.kill(dead)
    world.run_until(lambda: False, FED_MS)
    found = longest_ms(world)
    assert found["after"] < found["before"] + 150, found


def owned(process: NodeProcess) -> list[int]:
    return [runner.partition for runner in process.node.work.owned()]


def test_beside_a_healthy_owner_standbys_neither_publish_nor_begin_anew() -> None:
    world = World(options("idle", 2, **SILENT), Trace())
    world.run_until(lambda: False, FED_MS)
    replicas = [process.node.work.replicas for process in world.processes]
    assert sum(each.abreast for each in replicas) == 5
    assert [sum(each.published for each in replicas), sum(each.restarts for each in replicas)] == [0, 0]


@pytest.mark.parametrize("case", ["stateless", "two-stages"])
def test_a_healthy_fleet_writes_each_result_once(case: str) -> None:
    world = World(options(case, 2), Trace())
    world.run_until(lambda: False, END_MS)
    assert sum(process.node.work.replicas.abreast for process in world.processes) > 0
    assert sum(process.node.work.emitted for process in world.processes) > 0
    assert sum(process.node.work.replicas.published for process in world.processes) == 0
