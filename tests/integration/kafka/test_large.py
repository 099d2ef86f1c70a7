"""Deltas and results that do not fit into a record of a real broker's topics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from nodes.machine import messages as m
from nodes.results.reader import OutputReader
from nodes.streams.jobs import load_job
from tests.integration import jobs_mixed
from tests.integration.fleet_support import UNTRIMMED, run_command
from tests.integration.jobs_large import digest, text_of
from tests.integration.jobs_mixed import INPUT, OUTPUT, Event
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.kafka_stage import KafkaStage

BULKY = "tests.integration.jobs_large:bulky"
WORDY = "tests.integration.jobs_large:wordy"
EVENTS = 5_500
KAFKAS_DEFAULT_BYTES = 1_048_588
PLENTY_S = 60.0


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[KafkaStage]:
    stage = KafkaStage(tmp_path, session_bootstrap(), UNTRIMMED, "node.batch_max_records=20000", partitions=2)
    yield stage
    stage.log.close()


def create_limited(stage: KafkaStage, topic: str, max_bytes: int) -> None:
    """A topic as somebody else has made it, with a limit of its own."""
    admin, name = AdminClient({"bootstrap.servers": session_bootstrap()}), stage.prefix + topic
    config = {"max.message.bytes": str(max_bytes), "message.timestamp.type": "LogAppendTime"}
    admin.create_topics([NewTopic(name, stage.partitions, config=config)])[name].result(PLENTY_S)


@pytest.mark.long
def test_deltas_of_5_mb_go_through_topics_of_kafkas_default_size(stage: KafkaStage) -> None:
    """One window of 11 MB over two partitions, on two nodes: each has to put the other's pieces together."""
    job = load_job(BULKY)
    broadcast = job.broadcast_topic(0)
    create_limited(stage, broadcast, KAFKAS_DEFAULT_BYTES)
    stage.feed(EVENTS)
    with run_command(stage, "--nodes", "2", "--bounded", job=BULKY) as command:
        assert command.json()["accepted"] == EVENTS
    (result,) = [o.value for o in OutputReader(stage.log, OUTPUT, decode=json.loads).read_available()]
    texts = [text_of(event) for events in stage.events.values() for event in events]
    assert (result["count"], result["digest"]) == (EVENTS, digest(texts))
    records = [v for p in range(2) for v in stage.log.read(broadcast, p, 0, max_bytes=1 << 30).values]
    assert any(isinstance(m.decode_broadcast(value), m.PieceSent) for value in records)
    assert max(map(len, records)) < KAFKAS_DEFAULT_BYTES


@pytest.mark.long
def test_a_result_that_is_too_large_stops_the_job_with_its_key_and_size(stage: KafkaStage) -> None:
    """All nodes stop for it, none dies of it; what came before is there, what comes after is not hidden by it."""
    create_limited(stage, OUTPUT, 200_000)
    stage.feed(100)
    at = stage.log.end_offset(INPUT, 1)
    stage.put(1, msgspec.json.encode(Event(ts=100_000, id=777, amount=0, poison="long")))
    stage.put(1, *jobs_mixed.payloads(100, 150, 1)[0])
    with run_command(stage, "--nodes", "2", "--bounded", job=WORDY) as command:
        code, out, err = command.finish()
    assert (code, json.loads(out)["ending"], json.loads(out)["restarts"]) == (1, "failed", 0)
    assert "an output of partition 1 cannot be written" in err
    assert "key b'key-777'" in err and "has 3000" in err and "the limit is 199" in err
    seen = [o.value["id"] for o in OutputReader(stage.log, OUTPUT, decode=json.loads).read_available()]
    assert all(number < 100 for number in seen), "nothing behind it was written"
    assert stage.log.end_offset(INPUT, 1) == at + 51
