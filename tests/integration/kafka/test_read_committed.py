"""Topics that are written in transactions: what was taken back is no record, for each reader alike."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from confluent_kafka import Producer

from nodes.log.kafka.log import KafkaLog
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.kafka_patience import await_decided
from tests.integration.log_makers import READERS
from tests.integration.processes import until

PLENTY_S = 60.0
ROUNDS = 12
KAFKA = [name for name in sorted(READERS) if name.startswith("kafka")]


def writer(log: KafkaLog, name: str, codec: str) -> Producer:
    options = {"transactional.id": log.prefix + name, "compression.type": codec, "linger.ms": 5}
    made = Producer({"bootstrap.servers": session_bootstrap(), **options})
    made.init_transactions(PLENTY_S)
    return made


def write(log: KafkaLog, codec: str) -> list[bytes]:
    """Interleaved transactions of three writers, half of them aborted; the values of the others."""
    rng = random.Random(7)
    writers = [writer(log, str(number), codec) for number in range(3)]
    kept: list[bytes] = []
    for number in range(ROUNDS):
        rows = {at: [b"%d-%d-%d" % (number, at, row) * 40 for row in range(rng.randrange(1, 60))] for at in range(3)}
        for one in writers:
            one.begin_transaction()
        for at in rng.sample(range(3), 3) * 2:  # each writes twice, between others
            for value in rows[at][at % 2 :: 2] if at else rows[at]:
                writers[at].produce(log.prefix + "t", value, partition=0)
            assert writers[at].flush(PLENTY_S) == 0
            rows[at], sent = [], rows[at]
            kept += [] if (number + at) % 2 else sent[at % 2 :: 2] if at else sent
        for at in rng.sample(range(3), 3):
            (writers[at].abort_transaction if (number + at) % 2 else writers[at].commit_transaction)(PLENTY_S)
    return kept


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("reader", KAFKA)
def test_committed_transactions_are_read_and_aborted_ones_are_not(
    reader: str, codec: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with READERS[reader].make(tmp_path, None) as log, caplog.at_level("INFO", "nodes.log.kafka"):
        assert isinstance(log, KafkaLog)
        log.create_topic("t", 1)
        kept = write(log, codec)
        await_decided(log, "t")
        end = log.end_offset("t", 0)
        found: list[tuple[int, bytes]] = []
        offset = 0
        while offset < end:
            chunk = log.read("t", 0, offset, max_records=50)
            found += zip(chunk.offsets.tolist(), chunk.values, strict=True)
            assert chunk.next_offset > offset
            offset = chunk.next_offset
        assert sorted(value for _, value in found) == sorted(kept)
        for start in (offset // 3, offset // 2):
            chunk = log.read("t", 0, start, max_records=5)
            assert list(chunk.offsets) == [at for at, _ in found if at >= start][: len(chunk)]
    if reader == "kafka-own":
        assert "is read by confluent-kafka" not in caplog.text


@pytest.mark.parametrize("reader", KAFKA)
def test_an_open_transaction_is_not_read_before_it_is_decided(reader: str, tmp_path: Path) -> None:
    with READERS[reader].make(tmp_path, None) as log:
        assert isinstance(log, KafkaLog)
        log.create_topic("t", 1)
        one = writer(log, "open", "none")
        one.begin_transaction()
        one.produce(log.prefix + "t", b"open", partition=0)
        assert one.flush(PLENTY_S) == 0
        log.append("t", 0, [b"behind it"])
        chunk = log.poll("t", 0, 0)
        assert (len(chunk), chunk.next_offset, log.end_offset("t", 0)) == (0, 0, 0)
        one.commit_transaction(PLENTY_S)
        until(lambda: log.end_offset("t", 0) == 3, "both are decided")
        found = log.read("t", 0, 0)
        while len(found) < 2:
            found = log.read("t", 0, 0)
        assert list(found.values) == [b"open", b"behind it"]
