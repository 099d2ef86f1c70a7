"""Buffers that are full again and again at a real broker: partitions are paused and resumed, and none is forgotten."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as KafkaPartition

from nodes.log import TopicPartition
from nodes.log.kafka import columns
from nodes.log.kafka.confluent_reader import ConfluentReader
from nodes.log.kafka.direct.consumer import DirectReader
from tests.integration.kafka_broker import session_log
from tests.integration.kafka_load import IMPLEMENTATIONS
from tests.integration.log_makers import read_by_columns
from tests.integration.processes import until

PARTITIONS, ROUNDS, TAKEN = 8, 150, 25
SILENT = frozenset([2, 5])
"""Partitions that get their first records at the end."""
READERS = {"direct": DirectReader, "confluent": ConfluentReader}


@pytest.mark.parametrize("reader", sorted(READERS))
@pytest.mark.parametrize("seed", range(2))
def test_partitions_that_are_paused_again_and_again_lose_nothing_and_stay_in_order(
    reader: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(columns, "BUFFER_RECORDS", 40)
    pauses = dict.fromkeys(range(PARTITIONS), 0)
    kind, pause = READERS[reader], READERS[reader].pause

    def counted(self: DirectReader | ConfluentReader, partitions: Sequence[KafkaPartition]) -> None:
        for one in partitions:
            pauses[one.partition] += 1
        pause(self, partitions)  # type: ignore[arg-type]

    monkeypatch.setattr(kind, "pause", counted)
    rng = random.Random(seed)
    at = dict.fromkeys((TopicPartition("t", number) for number in range(PARTITIONS)), 0)
    sent: dict[TopicPartition, list[bytes]] = {where: [] for where in at}
    found: dict[TopicPartition, list[bytes]] = {where: [] for where in at}

    def take(places: Sequence[TopicPartition]) -> None:
        log.wait(at, 0.002)
        for where in places:
            chunk = log.poll(*where, at[where], max_records=TAKEN)
            assert chunk.offsets.tolist() == list(range(at[where], chunk.next_offset))
            found[where] += list(chunk.values)
            at[where] = chunk.next_offset

    def is_all() -> bool:
        take(list(at))
        return all(len(found[where]) >= len(sent[where]) for where in at)

    # A partition without progress would be noticed, which must not be what this test sees.
    with (
        caplog.at_level("INFO", "nodes.log.kafka"),
        session_log(tmp_path, IMPLEMENTATIONS[reader], stall_timeout_s=0) as log,
        session_log(tmp_path) as writer,
    ):
        read_by_columns(log)
        log.create_topic("t", PARTITIONS)
        busy = [where for where in at if where.partition not in SILENT]
        for number in range(ROUNDS + 1):
            for where in rng.sample(busy, 2) if number < ROUNDS else list(at):
                values = [b"%d %d" % (number, row) for row in range(rng.choice([1, 30, 90]))]
                writer.append(*where, values)
                sent[where] += values
            for _ in range(rng.randrange(6)):
                take(rng.sample(list(at), rng.randrange(1, PARTITIONS)))
            if rng.random() < 0.05:
                until(is_all, "a lull")
        until(is_all, "all is read")
    assert found == sent
    assert all(pauses[where.partition] >= 5 for where in busy) and sum(pauses.values()) > 60, pauses
    assert reader != "direct" or "is read by confluent-kafka" not in caplog.text
