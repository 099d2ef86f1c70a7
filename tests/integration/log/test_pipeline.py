"""Sending without waiting, and following without asking (nodes/log/contract.py), on each kind of log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holon.columnar.payloads import BinaryColumn
from nodes.log import Log, OffsetOutOfRange, RecordTooLarge, TopicPartition
from tests.integration.kafka_broker import session_log
from tests.integration.log_makers import MAKERS, read_by_columns

PLENTY_S = 60.0


def by_librdkafka(folder: Path) -> Log:
    """Columns as ``kafka-columns``, but sent by the library instead of batches that are written here."""
    log = session_log(folder, {"holon.writer": "librdkafka"})
    read_by_columns(log)
    return log


@pytest.fixture(params=[*sorted(MAKERS), "kafka-columns-by-librdkafka"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    maker = MAKERS.get(request.param)
    with by_librdkafka(tmp_path) if maker is None else maker.make(tmp_path / "log", None) as log:
        log.create_topic("t", 2)
        yield log


def follow_until(log: Log, partition: int, count: int) -> list[bytes]:
    """The records that a follower reads from the start, until it has read so many."""
    values, offset = [], 0
    while len(values) < count:
        chunk = log.poll("t", partition, offset, max_records=100)
        values, offset = [*values, *chunk.values], chunk.next_offset
        if not chunk.values:
            assert log.wait({TopicPartition("t", partition): offset}, PLENTY_S)
    return values


def test_what_is_sent_arrives_in_order_and_is_acknowledged_with_its_end(log: Log) -> None:
    ends: list[tuple[int, int]] = []
    for number in range(300):
        partition = number % 2
        log.send("t", partition, [b"%d" % number, b"+"], done=lambda end, p=partition: ends.append((p, end)))
    log.poll_acks(wait=True)
    for partition in (0, 1):
        assert [end for p, end in ends if p == partition] == list(range(2, 302, 2))
        sent = [b"%d" % number for number in range(partition, 300, 2)]
        assert log.read("t", partition, 0).values[::2] == sent
        assert follow_until(log, partition, 300)[::2] == sent


def test_headers_and_keys_are_sent_too(log: Log) -> None:
    log.send("t", 0, [b"a", b"b"], headers=[b"", b"\x00h"], keys=[b"k", None])
    log.poll_acks(wait=True)
    chunk = log.read("t", 0, 0)
    assert (chunk.values, chunk.headers, chunk.keys) == ([b"a", b"b"], [b"", b"\x00h"], [b"k", None])


def test_a_batch_may_come_as_columns_and_be_more_than_what_may_be_on_its_way(log: Log) -> None:
    """More than librdkafka holds at once (100,000)."""
    ends: list[int] = []
    values = [b"%d" % number for number in range(120_000)]
    headers = [value if number % 3 else b"" for number, value in enumerate(values)]
    log.send("t", 1, BinaryColumn.of(values), headers=BinaryColumn.of(headers), done=ends.append)
    log.send("t", 1, BinaryColumn.of([b"last"]), keys=[b""], done=ends.append)
    log.poll_acks(wait=True)
    assert ends == [120_000, 120_001]
    for first in (0, 99_990, 119_990):
        chunk = log.read("t", 1, first, max_records=10)
        assert (list(chunk.values), list(chunk.headers)) == (values[first : first + 10], headers[first : first + 10])
    last = log.read("t", 1, 120_000)
    assert (list(last.values), last.keys) == ([b"last"], [b""])


def test_nothing_is_acknowledged_without_being_on_the_log(log: Log) -> None:
    seen: list[bool] = []
    log.send("t", 0, [b"x"], done=lambda end: seen.append(log.end_offset("t", 0) >= end))
    log.poll_acks(wait=True)
    assert seen == [True]


def test_a_record_that_is_too_large_is_refused_before_anything_is_sent(log: Log) -> None:
    with pytest.raises(RecordTooLarge):
        log.send("t", 0, [b"small", bytes(64 << 20)])
    log.poll_acks(wait=True)
    assert log.end_offset("t", 0) == 0


def test_a_follower_hears_of_an_offset_that_is_gone(log: Log) -> None:
    log.append("t", 0, [b"x"] * 10)
    log.delete_before("t", 0, 5)
    with pytest.raises(OffsetOutOfRange):
        follow_until(log, 0, 1)
