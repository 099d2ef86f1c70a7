"""A backlog of requests waits on the log: what a node holds of it is bounded, however long it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from nodes.machine import messages as m
from nodes.transactions.topics import FIRST_INCARNATION
from tests.unit.txn_stage import SEQUENCERS, Stage, counters
from transactional.requests import WireRequest, partition_of, request_record
from transactional.sequencer import READ_AHEAD_CUTS

MAX_REQUESTS = 20
BACKLOG = 3_000


def asked(stage: Stage, count: int, together: int) -> list[str]:
    """So many requests, in records of so many each; gives their ids."""
    by_place: dict[int, list[WireRequest]] = {}
    names = [f"r{number}" for number in range(count)]
    for number, name in enumerate(names):
        wire = WireRequest(name, "count", f"k{number % 50}", "add", [1])
        by_place.setdefault(partition_of(name, SEQUENCERS), []).append(wire)
    for place, wires in sorted(by_place.items()):
        records = [request_record(wires[at : at + together]) for at in range(0, len(wires), together)]
        stage.log.append(stage.topics.requests, place, records)
    return names


@pytest.mark.parametrize("together", [1, 10])
def test_what_is_read_ahead_of_a_backlog_is_bounded_and_all_of_it_is_answered(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodes.transactions.driver.REQUESTS_BATCH", MAX_REQUESTS)
    stage = Stage(counters("backlog", 2), interval_ms=50)
    stage.config = replace(stage.config, max_requests=MAX_REQUESTS)
    names = asked(stage, BACKLOG, together)
    stage.client._waiting.update(names)
    most: Counter[str] = Counter()
    stage.start("a")
    stage.start("b")
    for _ in range(4_000):
        stage.turn()
        for driver, _ in stage.nodes.values():
            for sequencer in driver.node.sequencers.values():
                most["requests"] = max(most["requests"], len(sequencer._requests))
            for partition in driver.node.partitions.values():
                most["calls"] = max(most["calls"], len(partition._received))
        stage.client.poll()
        if all(name in stage.client.answered for name in names):
            break
    assert all(name in stage.client.answered for name in names)
    ahead = READ_AHEAD_CUTS + stage.config.ahead + 1
    assert most["requests"] <= (ahead * MAX_REQUESTS + MAX_REQUESTS * together), most
    assert most["calls"] <= 10 * SEQUENCERS, most


def test_a_node_that_has_room_for_nothing_more_is_not_woken_by_requests() -> None:
    stage = Stage(counters("backlog", 2))
    stage.config = replace(stage.config, max_requests=MAX_REQUESTS, ahead=1)
    asked(stage, BACKLOG, 1)
    full = 0
    stage.start("a")
    stage.start("b")
    for _ in range(200):
        stage.turn()
        for driver, _ in stage.nodes.values():
            waits = {where.partition for where in driver.waits_for() if where.topic == stage.topics.requests}
            for number, sequencer in driver.node.sequencers.items():
                full += not sequencer.has_room
                assert sequencer.has_room or number not in waits
    assert full > 10


def test_what_nodes_said_before_this_one_began_is_no_sign_of_life() -> None:
    stage = Stage(counters("beats", 2))
    stage.log.append(stage.topics.heartbeats, 0, [m.encode(m.Heartbeat(FIRST_INCARNATION, "before", 1))])
    driver = stage.start("a")
    stage.turn()
    stage.log.append(stage.topics.heartbeats, 0, [m.encode(m.Heartbeat(FIRST_INCARNATION, "since", 1))])
    stage.turn(10)
    detector = driver.claiming.detector
    assert (
        detector.silence_ms("before", stage.now_ms) is None and detector.silence_ms("since", stage.now_ms) is not None
    )
