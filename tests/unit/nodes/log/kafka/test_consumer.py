"""Following partitions of Kafka when what arrives is damaged: nothing behind the damage is given out before it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from nodes.log.contract import LogUnavailable, TopicPartition
from nodes.log.kafka import consumer as consuming
from nodes.log.kafka.columns import RecordRun
from nodes.log.kafka.confluent_reader import ConfluentReader, PartitionEvent, Where
from nodes.log.kafka.consumer import Follower
from nodes.log.kafka.errors import Connection
from nodes.log.kafka.topics import EndsRequest

T = TopicPartition("t", 0)
RECORDS = 4


class Arrived:
    """An item of a consumer: a record, or (``error``) an event about the partition."""

    def __init__(self, offset: int, error: KafkaError | None = None) -> None:
        self._offset, self._error = offset, error

    def topic(self) -> str:
        return T.topic

    def partition(self) -> int:
        return T.partition

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return self._error

    def value(self) -> bytes:
        return b"%d" % self._offset

    def key(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 1000

    def __len__(self) -> int:
        return 1


class DamagedOnce:
    """A consumer whose first fetch is damaged in the middle, and which hands out all the same what comes behind it.

    librdkafka does so where a fetch holds several batches and one of them does not fit its checksum.
    """

    def __init__(self) -> None:
        self.assigned: list[int] = []
        self._arriving: deque[Arrived] = deque()

    def incremental_assign(self, places: Sequence[KafkaPartition]) -> None:
        (place,) = places
        self.assigned.append(place.offset)
        first = len(self.assigned) == 1
        for offset in range(place.offset, RECORDS):
            damaged = first and offset == 1
            self._arriving.append(Arrived(offset, KafkaError(KafkaError._BAD_MSG) if damaged else None))

    def incremental_unassign(self, places: Sequence[KafkaPartition]) -> None:
        self._arriving.clear()

    def list_topics(self, name: str, timeout: float) -> None:
        pass

    def consume(self, most: int, timeout_s: float) -> list[Arrived]:
        return [self._arriving.popleft() for _ in range(min(most, len(self._arriving)))]


class Ends:
    """The broker's answer about the partition."""

    def offsets(self, places: Sequence[TopicPartition], at_end: bool) -> dict[TopicPartition, int]:
        return dict.fromkeys(places, RECORDS if at_end else 0)

    def request_ends(self, places: Iterable[TopicPartition]) -> EndsRequest:
        found: Future[Any] = Future()
        found.set_result(SimpleNamespace(offset=RECORDS))
        return EndsRequest(dict.fromkeys(places, found))


def follower(consumer: Any) -> Follower:
    ends: Any = Ends()
    return Follower(ConfluentReader(consumer, {}), ends, Connection("b:1"), "", timeout_s=5.0)


def test_what_is_followed_behind_a_damaged_record_waits_until_that_was_fetched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consuming, "PUMP_INTERVAL_S", -1.0)  # as if some time had passed
    consumer = DamagedOnce()
    log = follower(consumer)
    values: list[bytes] = []
    offset = 0
    for _ in range(20):
        chunk = log.poll(T, offset, 100, 1 << 20)
        assert chunk.offsets.tolist() == list(range(offset, chunk.next_offset)), "no record is left out"
        values, offset = values + chunk.values, chunk.next_offset
    assert values == [b"0", b"1", b"2", b"3"]
    assert consumer.assigned == [0, 1]


def test_what_is_read_behind_a_damaged_record_waits_too() -> None:
    consumer = DamagedOnce()
    chunk = follower(consumer).read(T, 0, 100, 1 << 20)
    assert chunk.values == [b"0", b"1", b"2", b"3"] and chunk.next_offset == RECORDS
    assert consumer.assigned == [0, 1]


class WholeMilliseconds(DamagedOnce):
    """A consumer to which nothing comes; it waits as librdkafka's does, and a call takes 10 us of the clock itself."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.calls = 0

    def incremental_assign(self, places: Sequence[KafkaPartition]) -> None:
        pass

    def consume(self, most: int, timeout_s: float) -> list[Arrived]:
        self.calls += 1
        self.now_s += int(timeout_s * 1000) / 1000 + 0.00001
        return []

    def monotonic(self) -> float:
        return self.now_s


@pytest.mark.parametrize("timeout_s", [0.001, 0.0104, 0.0005])
def test_whoever_waits_does_not_turn_busily_until_a_millisecond_is_over(
    monkeypatch: pytest.MonkeyPatch, timeout_s: float
) -> None:
    consumer = WholeMilliseconds()
    monkeypatch.setattr("nodes.log.kafka.consumer.time", consumer)
    assert follower(consumer).wait({T: RECORDS}, timeout_s) == []
    assert timeout_s <= consumer.now_s < timeout_s + 0.0021
    assert consumer.calls <= 3


class PieceReader:
    """A reader that gives what a test hands it, and notes its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.arriving: list[Any] = []

    def list_topics(self, name: str, timeout: float) -> object:
        return None

    def incremental_assign(self, partitions: Sequence[KafkaPartition]) -> None:
        self.calls += [("assign", one.offset) for one in partitions]

    def incremental_unassign(self, partitions: Sequence[KafkaPartition]) -> None:
        self.calls += [("unassign", one.offset) for one in partitions]

    def pause(self, partitions: Sequence[KafkaPartition]) -> None:
        self.calls += [("pause", one.offset) for one in partitions]

    def restart(self, partition: KafkaPartition) -> None:
        self.calls.append(("restart", partition.offset))

    def held_s(self, where: Where) -> float:
        return float("-inf")

    def take(self, timeout_s: float) -> list[Any]:
        found, self.arriving = self.arriving, []
        return found

    def close(self) -> None:
        pass

    def bring(self, start: int, stop: int) -> None:
        """Records of these offsets arrive as a piece."""
        offsets = np.arange(start, stop)
        values = [b"%d" % offset for offset in range(start, stop)]
        self.arriving.append((T.topic, T.partition, RecordRun(offsets, offsets, values, None, None, 1)))


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> tuple[Follower, PieceReader]:
    """A follower for which five records are many, and its reader."""
    monkeypatch.setattr(consuming, "PUMP_INTERVAL_S", -1.0)
    monkeypatch.setattr("nodes.log.kafka.columns.BUFFER_RECORDS", 5)
    reader, ends = PieceReader(), Ends()
    return Follower(reader, cast("Any", ends), Connection("b:1"), "", timeout_s=5.0), reader


def test_a_partition_of_which_enough_has_arrived_is_paused_and_its_records_on_their_way_are_kept(
    followed: tuple[Follower, PieceReader],
) -> None:
    log, reader = followed
    log.poll(T, 0, 1, 1 << 20)
    reader.bring(0, 6), reader.bring(6, 9)
    assert log.poll(T, 0, 2, 1 << 20).offsets.tolist() == [0, 1]
    reader.bring(9, 12)
    offset, found = 2, [0, 1]
    while offset < 12:
        log.wait({T: offset}, 0.0)
        chunk = log.poll(T, offset, 2, 1 << 20)
        assert len(reader.calls) == 2 or offset >= 7, "five are still many"
        found, offset = found + chunk.offsets.tolist(), chunk.next_offset
    assert found == list(range(12))
    assert reader.calls == [("assign", 0), ("pause", 6), ("assign", 12)], "it went on where the last piece ended"


def test_a_paused_partition_that_is_forgotten_is_let_go(followed: tuple[Follower, PieceReader]) -> None:
    log, reader = followed
    log.poll(T, 0, 1, 1 << 20)
    reader.bring(0, 6)
    log.poll(T, 0, 1, 1 << 20)
    log.forget(T)
    assert reader.calls == [("assign", 0), ("pause", 6), ("unassign", 6)]


class Assigned(DamagedOnce):
    """A consumer that refuses, as librdkafka does, to give up a partition that it does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.has: set[str] = set()

    def incremental_assign(self, places: Sequence[KafkaPartition]) -> None:
        assert not self.has
        self.has |= {place.topic for place in places}
        self._arriving = deque(Arrived(offset) for offset in range(places[0].offset, RECORDS))

    def incremental_unassign(self, places: Sequence[KafkaPartition]) -> None:
        assert self.has == {place.topic for place in places}
        self.has.clear()
        super().incremental_unassign(places)


def test_a_partition_that_confluent_kafka_gave_up_is_not_given_up_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.log.kafka.columns.BUFFER_RECORDS", 1)
    consumer = Assigned()
    log = follower(consumer)
    for _ in range(3):
        assert [log.read(T, at, 1, 1 << 20).values for at in range(RECORDS)] == [[b"0"], [b"1"], [b"2"], [b"3"]]
        log.forget(T)
    assert not consumer.has


def refused() -> PartitionEvent:
    """The event of a connection to which the broker gives no rights any more."""
    return PartitionEvent(None, 0, 0, KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED))


def test_records_that_come_with_a_refusal_are_not_passed_over(followed: tuple[Follower, PieceReader]) -> None:
    log, reader = followed
    log.poll(T, 0, 9, 1 << 20)
    reader.arriving.append(refused())
    reader.bring(0, 2)
    with pytest.raises(LogUnavailable):
        log.poll(T, 0, 9, 1 << 20)
    assert log.poll(T, 0, 9, 1 << 20).values == [b"0", b"1"]
    reader.bring(2, 4)
    assert log.poll(T, 2, 9, 1 << 20).values == [b"2", b"3"]
