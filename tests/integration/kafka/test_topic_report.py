"""`holon doctor --topic`: which way a topic is read, as its log lines say it, and what would make it quicker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from nodes.log.contract import Record
from tests.integration.fleet_support import Command, Stage
from tests.integration.jobs_mixed import INPUT
from tests.integration.kafka_broker import session_bootstrap, session_mutual_tls
from tests.integration.kafka_stage import KafkaStage

PLENTY_S = 60.0


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[KafkaStage]:
    stage = KafkaStage(tmp_path, session_bootstrap(), partitions=2)
    yield stage
    stage.log.close()


def report(stage: Stage, *definitions: str) -> dict[str, Any]:
    stage.definitions = (*stage.definitions, *definitions)
    with Command("doctor", "--topic", INPUT, "--json", stage=stage) as command:
        found: dict[str, Any] = command.json()
    return found


def write(stage: KafkaStage, codec: str, *, transactional: bool = False) -> None:
    options = {"transactional.id": stage.prefix} if transactional else {}
    writer = Producer({"bootstrap.servers": session_bootstrap(), "compression.type": codec, **options})
    if transactional:
        writer.init_transactions(PLENTY_S)
        writer.begin_transaction()
    for number in range(100):
        writer.produce(stage.prefix + INPUT, b"%d" % number * 40, partition=0)
    assert writer.flush(PLENTY_S) == 0
    if transactional:
        writer.commit_transaction(PLENTY_S)


def test_a_plain_topic_is_read_directly(stage: KafkaStage) -> None:
    write(stage, "none")
    found = report(stage)
    assert {name: found[name] for name in ("topic", "log", "partitions", "records", "way", "why", "compiled")} == {
        "topic": INPUT, "log": "kafka", "partitions": 2, "records": 100, "way": "direct", "why": None, "compiled": True,
    }  # fmt: skip
    assert (found["compression"], found["transactional"], found["security"]) == (["none"], False, "PLAINTEXT")
    assert found["brokers"] == [session_bootstrap()] and found["append_time"] is True and not found["keys"]
    assert any("JsonColumns" in line for line in found["advice"])


def test_codecs_and_transactions_are_told(stage: KafkaStage) -> None:
    stage.log.append_records(INPUT, 1, [Record(b"v", b"k")])
    write(stage, "gzip", transactional=True)
    found = report(stage)
    assert (found["way"], found["transactional"], found["keys"]) == ("direct", True, True)
    assert "gzip" in found["compression"] and any("gzip takes" in line for line in found["advice"])
    with Command("doctor", "--topic", INPUT, stage=stage) as command:
        code, out, _ = command.finish()
    assert code == 0 and "read directly, by compiled loops" in out and "read committed" in out


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("log.kafka.client.rack=r1", "client.rack"),
        ("log.kafka.ssl.cipher.suites=DEFAULT", "ssl.cipher.suites"),
        ("log.kafka.holon.reader=librdkafka", "holon.reader is librdkafka"),
    ],
)
def test_what_leaves_a_topic_to_confluent_kafka_is_named(stage: KafkaStage, given: str, why: str) -> None:
    found = report(stage, given)
    assert found["way"] == "confluent-kafka" and why in found["why"]
    assert any("leave that property out" in line for line in found["advice"])


def test_a_certificate_is_told(stage: KafkaStage) -> None:
    bootstrap, folder = session_mutual_tls()
    files = {"ca": "authority", "certificate": "client", "key": "client-key"}
    given = [f"log.kafka.ssl.{name}.location={folder / of}.pem" for name, of in files.items()]
    found = report(stage, f"log.bootstrap={bootstrap}", "log.kafka.security.protocol=SSL", *given)
    assert (found["way"], found["security"]) == ("direct", "SSL with a certificate of this client")


def test_a_topic_that_is_missing_ends_with_2_and_a_broker_that_is_away_with_4(stage: KafkaStage) -> None:
    with Command("doctor", "--topic", INPUT + "x", stage=stage) as command:
        code, out, err = command.finish()
    assert code == 2 and INPUT in out + err
    stage.definitions = (*stage.definitions, "log.bootstrap=127.0.0.1:1")
    with Command("doctor", "--topic", INPUT, stage=stage) as command:
        assert command.finish()[0] == 4


def test_a_topic_of_the_embedded_log_is_told_too(tmp_path: Path) -> None:
    stage = Stage(tmp_path, partitions=1)
    stage.log.append(INPUT, 0, [b"v"], keys=[b"k"])
    found = report(stage)
    stage.log.close()
    assert (found["way"], found["security"], found["keys"], found["records"]) == ("embedded", None, True, 1)
    assert any("one by one" in line for line in found["advice"])
    assert json.dumps(found)
