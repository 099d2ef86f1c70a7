"""A backlog of requests waits on the log: what a node holds of it is bounded, however long it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from nodes.log.contract import FetchedRecords
from nodes.log.memory import MemoryLog
from nodes.machine import messages as m
from nodes.transactions import orphaned_work as orphaned_work
from nodes.transactions.topics import FIRST_INCARNATION, create_topics
from tests.unit.txn_stage import SEQUENCERS, Stage, counters
from transactional.epochs.sequencer import READ_AHEAD_CUTS
from transactional.requests.requests import RequestAdmission, WireRequest, partition_of, request_record

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
    stage.client.expect(names)
    most: Counter[str] = Counter()
    stage.start("a")
    stage.start("b")
    for _ in range(4_000):
        stage.turn()
        for driver, _ in stage.nodes.values():
            for sequencer in driver.node.sequencers.values():
                most["requests"] = max(most["requests"], sequencer.held)
            for partition in driver.node.partitions.values():
                most["calls"] = max(most["calls"], len(partition.received))
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


def test_what_nodes_said_before_this_one_began_is_no_heartbeat() -> None:
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


def records_of(draw: Random, count: int) -> list[bytes]:
    """Requests in lists and alone, of which some come again, are refused, or too old, or are none at all."""
    found: list[bytes] = []
    for offset in range(count):
        wires = [
            WireRequest(
                *(f"r{draw.randrange(200)}", "count", "a", draw.choice(["add"] * 5 + ["ad"]), [draw.randrange(2)]),
                since=draw.choice([None, max(0, offset - draw.randrange(40))]),
            )
            for _ in range(draw.choice([1, 1, 2, 12]))
        ]
        found.append(b"[{" if draw.random() < 0.1 else request_record(wires[0] if len(wires) == 1 else wires))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_an_admission_that_begins_late_decides_as_one_that_has_read_all(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphaned_work, "BACK_RECORDS", 1)
    draw, window = Random(seed), 30
    log, program = MemoryLog(), counters("late", 2)
    topics = create_topics(log, program, 1)
    log.append(topics.requests, 0, records_of(draw, 400))
    needed = draw.randrange(100, 400)
    start = orphaned_work.ids_from(log, topics, program, 0, sequencers=1, needed=needed, id_window=window)
    assert needed - window <= start < needed
    decided = []
    for begin in (0, start):
        admission = RequestAdmission(program, 0, 1, window)
        chunk = log.read(topics.requests, 0, begin)
        made = [admission.admit(at, value) for at, value in zip(chunk.offsets.tolist(), chunk.values, strict=True)]
        decided.append(made[needed - begin :])
    assert decided[0] == decided[1]


def test_a_sequencer_that_is_taken_over_reads_few_records_where_each_holds_many_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(orphaned_work, "BACK_RECORDS", 2)
    stage = Stage(counters("lists", 2), interval_ms=50, id_window=200)
    stage.start("a")
    stage.turn(20)
    names = asked(stage, 8_000, 40)
    stage.client.expect(names)
    while not all(name in stage.client.answered for name in names):
        stage.turn()
        stage.client.poll()
    stage.turn(200)
    del stage.nodes["a"]
    read: Counter[str] = Counter()
    plain = stage.log.read

    def counted(topic: str, partition: int, offset: int, **limits: int) -> FetchedRecords:
        chunk = plain(topic, partition, offset, **limits)
        read[topic] += len(chunk)
        return chunk

    monkeypatch.setattr(stage.log, "read", counted)
    driver = stage.start("b")
    stage.turn(200)
    assert len(driver.claiming.owned) == 4
    records = 8_000 // 40
    assert 0 < read[stage.topics.requests] <= records // 4, read
    again = stage.client.send_request(WireRequest(names[-1], "count", f"k{(len(names) - 1) % 50}", "add", [1]))
    stage.turn(50)
    stage.client.poll()
    assert stage.client.take(again) == len(names) // 50
