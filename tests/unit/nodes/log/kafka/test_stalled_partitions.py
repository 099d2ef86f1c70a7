"""Partitions of which nothing arrives although the log has more: found, counted and read on, and no others."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from nodes.log.contract import FetchedRecords, TopicPartition
from nodes.log.embedded.chunk import empty_chunk
from nodes.log.kafka.columns import RecordRun
from nodes.log.kafka.confluent_reader import AT_END, Arrived, ConfluentReader, PartitionEvent, Throttle, Where
from nodes.log.kafka.consumer import Follower
from nodes.log.kafka.errors import Connection
from nodes.log.kafka.stalled_partitions import StallWatch
from nodes.log.kafka.topics import EndsRequest
from nodes.metrics.counters import Meter, MeteredLog

TIMEOUT_S = 10.0
TURN_S = 0.25
LONG_AGO_MS = 1_000
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Broker:
    """Two partitions with a clock, their reader, and the requests for their ends.

    ``stable``: ends; ``visible``: up to where records are given. Nothing is given of what is ``forgotten`` until its
    reading begins anew, nor of what is ``lost`` at all. ``silent``: requests for ends are not answered, ``failing``:
    by an error.
    """

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.stable = {A: 0, B: 0}
        self.visible = {A: 0, B: 0}
        self.positions: dict[Where, int] = {}
        self.forgotten: set[Where] = set()
        self.lost: set[Where] = set()
        self.markers: set[Where] = set()
        self.held: dict[Where, float] = {}
        self.silent = self.failing = False
        self.requested: list[TopicPartition] = []
        self.restarted: list[tuple[int, int]] = []
        self.paused: list[int] = []

    def monotonic(self) -> float:
        return self.now_s

    def append(self, where: TopicPartition, count: int = 1) -> None:
        self.stable[where] += count
        self.visible[where] = self.stable[where]

    def request_ends(self, wheres: Iterable[TopicPartition]) -> EndsRequest:
        answers: dict[TopicPartition, Future[Any]] = {}
        for where in wheres:
            self.requested.append(where)
            answers[where] = Future()
            if self.failing:
                answers[where].set_exception(KafkaException("no leader"))
            elif not self.silent:
                answers[where].set_result(SimpleNamespace(offset=self.stable[where]))
        return EndsRequest(answers)

    def offsets(self, wheres: Iterable[TopicPartition], *, at_end: bool) -> dict[TopicPartition, int]:
        return {where: self.stable[where] if at_end else 0 for where in wheres}

    # --- as a reader ---

    def list_topics(self, name: str, timeout: float) -> object:
        return None

    def incremental_assign(self, partitions: Sequence[KafkaPartition]) -> None:
        self.positions |= {(one.topic, one.partition): one.offset for one in partitions}

    def incremental_unassign(self, partitions: Sequence[KafkaPartition]) -> None:
        for one in partitions:
            self.positions.pop((one.topic, one.partition), None)

    def pause(self, partitions: Sequence[KafkaPartition]) -> None:
        self.paused += [one.partition for one in partitions]
        self.incremental_unassign(partitions)

    def restart(self, partition: KafkaPartition) -> None:
        self.restarted.append((partition.partition, partition.offset))
        self.forgotten.discard((partition.topic, partition.partition))
        self.incremental_assign([partition])

    def held_s(self, where: Where) -> float:
        return self.held.get(where, float("-inf"))

    def take(self, timeout_s: float) -> list[Arrived]:
        found: list[Arrived] = []
        for where, position in self.positions.items():
            stop = self.visible[TopicPartition(*where)]
            if position < stop and where not in self.forgotten | self.lost:
                offsets = np.arange(position, stop)
                values = [b"%d" % offset for offset in range(position, stop)]
                found.append((*where, RecordRun(offsets, offsets, values, None, None, 1)))
                self.positions[where] = stop
            elif where in self.markers and position < self.stable[TopicPartition(*where)]:
                self.positions[where] = self.stable[TopicPartition(*where)]
                found.append(PartitionEvent(*where, self.positions[where], AT_END))
        return found

    def close(self) -> None:
        pass


class Reading:
    """A node that polls both partitions in turns, and which offsets it has."""

    def __init__(self, broker: Broker, timeout_s: float = TIMEOUT_S) -> None:
        self.broker = broker
        self.watch = StallWatch(broker.request_ends, timeout_s)
        parts = cast("Any", broker)
        self.follower = Follower(parts, parts, Connection("b:1"), "", 5.0, self.watch)
        self.at = {A: 0, B: 0}
        self.found: dict[TopicPartition, list[int]] = {A: [], B: []}
        self.most = 1000

    def turn(self, seconds: float = TURN_S) -> None:
        self.follower.wait(self.at, 0.0)
        for where, offset in self.at.items():
            chunk = self.follower.poll(where, offset, self.most, 1 << 20) if self.most else None
            if chunk is not None:
                self.found[where] += chunk.offsets.tolist()
                self.at[where] = chunk.next_offset
        self.broker.now_s += seconds

    def turns(self, seconds: float) -> None:
        for _ in range(round(seconds / TURN_S)):
            self.turn()


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    for module in ("consumer", "columns"):
        monkeypatch.setattr(f"nodes.log.kafka.{module}.time", broker)
    return broker


class Messages(logging.Handler):
    """Warnings, and that a partition is read again."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.all: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.all.append(record.getMessage())


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    messages, logger = Messages(), logging.getLogger("nodes.log.kafka.stalled_partitions")
    with caplog.at_level(logging.INFO, logger.name):
        logger.addHandler(messages)
        yield messages.all
        logger.removeHandler(messages)


def test_a_partition_that_its_reader_forgot_is_named_counted_and_read_on(broker: Broker, warnings: list[str]) -> None:
    reading = Reading(broker)
    broker.append(A, 3), broker.append(B, 2)
    reading.turns(5)
    broker.forgotten.add(A)
    broker.append(A, 4)
    reading.turns(TIMEOUT_S)
    assert reading.watch.count == 0 and reading.found[A] == [0, 1, 2]
    broker.append(B)
    reading.turns(TIMEOUT_S + 2)
    assert reading.found == {A: list(range(7)), B: [0, 1, 2]}, "each record once, in order"
    assert (reading.watch.count, broker.restarted) == (1, [(0, 3)])
    warning, again = warnings
    assert "'t' partition 0 is stalled" in warning and "offset 3" in warning and "ends at 7" in warning
    assert "for 2" in warning and "attempt 1" in warning
    assert again.endswith("is read again: its position is 7")


def test_the_lag_of_a_partition_goes_on_while_its_log_is_known_to_have_more(broker: Broker) -> None:
    reading, meter = Reading(broker), Meter()
    log = cast("Any", SimpleNamespace(stalls=reading.watch, poll=lambda t, p, at, **_: chunks.pop() or empty_chunk(at)))
    chunks: list[FetchedRecords | None] = []
    topics = cast("Any", SimpleNamespace(layout=SimpleNamespace(places=lambda: [A, B]), broadcast="b", outputs={}))
    counting = MeteredLog(log, topics, meter)

    def through_ms(where: TopicPartition, found: FetchedRecords | None = None) -> int:
        chunks.append(found)
        counting.poll(*where, reading.at[where])
        return meter.read_through_ms[[A, B].index(where)]

    broker.append(A, 3), broker.append(B, 2)
    broker.forgotten.add(A)
    reading.turns(5)
    assert min(through_ms(A), through_ms(B)) > LONG_AGO_MS, "nothing is known of what is missing"
    meter.read_through_ms[0] = meter.read_through_ms[1] = LONG_AGO_MS
    reading.turns(1.5 * TIMEOUT_S)
    assert reading.watch.count == 0 and through_ms(A) == LONG_AGO_MS < through_ms(B)
    broker.lost.add(A)
    reading.turns(3 * TIMEOUT_S)
    assert reading.watch.count > 0 and through_ms(A) == LONG_AGO_MS, "reading anew has not helped"
    broker.lost.clear()
    reading.turns(1)
    assert reading.at[A] == 3
    reading.turns(TIMEOUT_S)
    assert through_ms(A) > LONG_AGO_MS, "all of it is here"
    one = FetchedRecords(np.array([0]), np.array([77]), [b""], [b""], None, 1)
    assert through_ms(A, one) == 77


def test_a_partition_without_news_costs_one_request_in_each_timeout(broker: Broker, warnings: list[str]) -> None:
    reading = Reading(broker)
    broker.append(A, 3)
    reading.turns(10 * TIMEOUT_S)
    assert 7 <= broker.requested.count(A) <= 10 and 7 <= broker.requested.count(B) <= 10
    assert not warnings and not broker.restarted
    broker.requested.clear()
    for _ in range(round(5 * TIMEOUT_S)):
        broker.append(B)
        reading.turns(1)
    assert 3 <= broker.requested.count(A) <= 5 and B not in broker.requested


def test_records_that_are_only_late_accuse_nobody(broker: Broker, warnings: list[str]) -> None:
    reading = Reading(broker)
    for _ in range(20):  # as slow as can be without two ends in a row
        broker.stable[A] += 1
        reading.turns(TIMEOUT_S * 1.7)
        broker.visible[A] = broker.stable[A]
        reading.turns(1)
    assert reading.found[A] == list(range(20)) and not warnings


@pytest.mark.parametrize("begin", [0.0, 3.0])
def test_where_a_quota_or_others_records_hold_it_up_silence_is_no_sign(
    broker: Broker, warnings: list[str], begin: float
) -> None:
    reading = Reading(broker)
    reading.turns(begin)
    broker.forgotten.add(A)
    broker.append(A, 4)
    for _ in range(60):
        broker.held[A] = broker.now_s
        reading.turns(2)
    assert not warnings and not broker.restarted
    reading.turns(3 * TIMEOUT_S)
    assert reading.watch.count == 1 and reading.found[A] == [0, 1, 2, 3]


def test_a_full_buffer_is_no_silence(broker: Broker, warnings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.log.kafka.columns.BUFFER_RECORDS", 5)
    reading = Reading(broker)
    reading.turn()
    reading.most = 0  # the node waits for others, and looks at its log
    broker.append(A, 8)
    reading.turn()
    broker.append(A, 8)
    reading.turns(6 * TIMEOUT_S)
    assert broker.paused == [0] and not warnings and A not in broker.requested
    reading.most = 1
    reading.turns(10)
    assert reading.found[A] == list(range(16)) and reading.watch.count == 0


def test_a_process_that_stood_still_accuses_nobody(broker: Broker, warnings: list[str]) -> None:
    reading = Reading(broker)
    reading.turn()
    broker.stable[A] += 1
    for _ in range(8):
        reading.turn(seconds=100.0)
    broker.visible[A] = broker.stable[A]
    reading.turns(1)
    assert reading.found[A] == [0] and not warnings


def test_behind_control_records_the_position_goes_on(broker: Broker, warnings: list[str]) -> None:
    reading = Reading(broker)
    broker.markers.add(A)
    broker.append(A, 3)
    reading.turn()
    broker.stable[A] += 2  # markers, which no reader is given
    reading.turns(6 * TIMEOUT_S)
    assert reading.at[A] == 5 and not warnings


@pytest.mark.parametrize("how", ["silent", "failing"])
def test_without_an_end_nobody_is_accused_and_nobody_waits(broker: Broker, warnings: list[str], how: str) -> None:
    reading = Reading(broker)
    broker.forgotten.add(A)
    broker.append(A, 4)
    setattr(broker, how, True)
    reading.turns(10 * TIMEOUT_S)
    assert not warnings and (len(broker.requested) == 2) is (how == "silent"), "one request at a time"


def test_an_end_that_fails_in_between_begins_the_count_anew(broker: Broker, warnings: list[str]) -> None:
    reading = Reading(broker)
    broker.forgotten.add(A)
    broker.append(A, 4)
    reading.turns(1.4 * TIMEOUT_S)
    broker.failing = True  # as while a leader is elected
    reading.turns(TIMEOUT_S)
    broker.failing = False
    reading.turns(TIMEOUT_S)
    assert not warnings
    reading.turns(1.5 * TIMEOUT_S)
    assert reading.watch.count == 1


def test_what_does_not_help_is_tried_more_and_more_rarely(broker: Broker, warnings: list[str]) -> None:
    reading = Reading(broker)
    broker.lost.add(A)
    broker.append(A, 4)
    reading.turns(100 * TIMEOUT_S)
    assert 4 <= reading.watch.count == len(warnings) <= 6
    assert broker.restarted == [(0, 0)] * reading.watch.count, "it never goes on elsewhere"
    broker.lost.clear()
    reading.turns(1)
    assert reading.found[A] == [0, 1, 2, 3]
    broker.forgotten.add(A)
    broker.append(A)
    reading.turns(3 * TIMEOUT_S)
    assert reading.found[A] == [0, 1, 2, 3, 4], "as soon as the first time"


def test_with_a_timeout_of_0_nothing_is_requested(broker: Broker, warnings: list[str]) -> None:
    reading = Reading(broker, timeout_s=0)
    broker.forgotten.add(A)
    broker.append(A, 4)
    reading.turns(10 * TIMEOUT_S)
    assert not broker.requested and not warnings


def test_a_partition_that_nobody_reads_on_is_nobodys(broker: Broker, warnings: list[str]) -> None:
    reading = Reading(broker)
    reading.turn()
    broker.forgotten.add(A)
    broker.append(A, 4)
    del reading.at[A]
    reading.turns(6 * TIMEOUT_S)
    assert A not in broker.requested and not warnings


class Client:
    """A consumer that has lost one of its partitions."""

    def __init__(self) -> None:
        self.assigned: list[KafkaPartition] = []

    def incremental_unassign(self, partitions: Sequence[KafkaPartition]) -> None:
        raise KafkaException("not assigned")

    def incremental_assign(self, partitions: Sequence[KafkaPartition]) -> None:
        self.assigned += partitions

    def resume(self, partitions: Sequence[KafkaPartition]) -> None:
        pass


def test_confluent_kafka_begins_anew_at_the_position_though_it_has_lost_the_partition() -> None:
    client = Client()
    reader = ConfluentReader(cast("Any", client), {})
    reader.restart(KafkaPartition("t", 1, 17))
    assert [(one.topic, one.partition, one.offset) for one in client.assigned] == [("t", 1, 17)]


def test_confluent_kafka_is_held_up_by_a_quota_for_as_long_as_the_broker_says() -> None:
    throttle = Throttle()
    reader = ConfluentReader(cast("Any", Client()), {}, None, throttle)
    assert reader.held_s(("t", 0)) == float("-inf")
    throttle.note(SimpleNamespace(throttle_time=1e6))
    assert reader.held_s(("t", 0)) > 1e6 - 10
