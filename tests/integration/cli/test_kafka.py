"""The command line on a log on Kafka: --log and --bootstrap, doctor, the broker that a benchmark run starts itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # pyright: ignore[reportPrivateImportUsage]

from nodes.cli.main import run
from nodes.local_kafka import broker as kafka_broker
from nodes.log.kafka.log import KafkaLog
from tests.integration.kafka_broker import session_bootstrap, session_log
from tests.integration.nexmark.test_run import holon
from tests.integration.processes import PLENTY_S, ROOT, until

pytestmark = pytest.mark.usefixtures("empty_folder")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[KafkaLog]:
    with session_log(tmp_path) as log:
        yield log
        log.delete_topics(list(log.topics()))


def command(capfd: pytest.CaptureFixture[str], log: KafkaLog, *arguments: str) -> tuple[int, Any]:
    """Exit code and JSON of a command on the same log."""
    code = run([*arguments, "--bootstrap", session_bootstrap(), "-D", f"log.prefix={log.prefix}", "--json"])
    return code, json.loads(capfd.readouterr().out)


def test_lines_go_to_kafka_and_are_seen_there(log: KafkaLog, capfd: pytest.CaptureFixture[str]) -> None:
    Path("lines").write_text("a\nb\nc\n")
    code, appended = command(capfd, log, "log", "append", "lines", "--topic", "t", "--create", "--partitions", "2")
    assert (code, appended["partitions"]) == (0, [2, 1])
    code, listed = command(capfd, log, "log", "ls", "--log", "kafka")
    assert code == 0 and listed["log"] == f"kafka:{session_bootstrap()}"
    assert [(row["topic"], row["partition"], row["end_offset"]) for row in listed["partitions"]] == [
        ("t", 0, 2), ("t", 1, 1),
    ]  # fmt: skip
    code, tail = command(capfd, log, "log", "tail", "t", "-p", "0", "-n", "1")
    assert [(row["offset"], row["value"]) for row in tail["records"]] == [(1, "c")]


def test_settings_say_the_same_as_the_options(
    log: KafkaLog, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log.create_topic("t", 1)
    monkeypatch.setenv("HOLON__LOG__BOOTSTRAP", session_bootstrap())
    assert run(["log", "ls", "--log", "kafka", "-D", f"log.prefix={log.prefix}", "--json"]) == 0
    assert [row["topic"] for row in json.loads(capfd.readouterr().out)["partitions"]] == ["t"]


def test_doctor_names_topics_that_lose_records_or_have_foreign_times(
    log: KafkaLog, capfd: pytest.CaptureFixture[str]
) -> None:
    def rows() -> dict[str, Any]:
        code, report = command(capfd, log, "doctor")
        assert code == 0
        return {row["name"]: row for row in report["checks"]}

    log.create_topic("good", 1)
    log.create_topic("_holon.job.heartbeats", 1, retention_ms=60_000)
    found = rows()
    assert found["kafka"]["status"] == "ok" and session_bootstrap() in found["kafka"]["found"]
    assert found["kafka: topics"]["status"] == "ok"
    config = {"retention.ms": "1000000", "message.timestamp.type": "CreateTime"}
    admin = AdminClient({"bootstrap.servers": session_bootstrap()})
    admin.create_topics([NewTopic(f"{log.prefix}bad", 1, config=config)])[f"{log.prefix}bad"].result(PLENTY_S)
    bad: dict[str, Any] = {}

    def warned() -> bool:
        """The controller has made it; the broker that is asked may hear of it later."""
        bad.update(rows()["kafka: topics"])
        return bad["status"] == "warning"

    until(warned, "doctor warns of the topic")
    assert bad["found"].startswith("1 of 3: bad: log timestamps are the producers'")
    assert "retention.ms = 1000000" in bad["found"]


def test_doctor_says_within_seconds_that_no_broker_answers(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--bootstrap", "127.0.0.1:1", "--json"]) == 4
    (row,) = (row for row in json.loads(capfd.readouterr().out)["checks"] if row["name"] == "kafka")
    assert row["status"] == "missing" and "127.0.0.1:1" in row["found"] and "holon kafka up" in row["advice"]


def test_what_a_reader_in_another_language_needs_is_as_documented(log: KafkaLog) -> None:
    """The example of docs/kafka.md, on a plain consumer, drops a repeat."""
    from holon.outputs.identity import OutputId, Track

    log.create_topic("out", 1)
    producer = Producer({"bootstrap.servers": session_bootstrap()})
    for position, value in ((7, b"first"), (9, b"second"), (7, b"first"), (9, b"second"), (11, b"third")):
        header = OutputId("job", 0, 3, Track.RECORD, position, 0).to_bytes()
        producer.produce(f"{log.prefix}out", value, partition=0, headers={"holon": header})
    assert producer.flush(PLENTY_S) == 0
    page = (ROOT / "docs" / "kafka.md").read_text()
    (example,) = (block for block in page.split("```python\n")[1:] if "Consumer(" in block.partition("```")[0])
    script = example.partition("```")[0]
    assert '"127.0.0.1:9092"' in script and '"shares"' in script
    script = script.replace("127.0.0.1:9092", session_bootstrap()).replace('"shares"', f'"{log.prefix}out"')
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PLENTY_S, check=True, cwd=ROOT)
    assert done.stdout.split() == ["first", "second", "third"]


@pytest.mark.long
def test_a_benchmark_run_starts_a_broker_if_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    arguments = ("nexmark", "run", "q0", "--log", "kafka", "--events", "2000", "--partitions", "2", "--nodes", "1")
    try:
        code, result, said = holon(*arguments, "--generator", "plain", "--validate", "plain")
        broker = kafka_broker.status(kafka_broker.default_folder())
        assert code == 0 and result["validated"] is True, said
        assert broker is not None and f"{broker.bootstrap}, started" in said
        code, result, said = holon("nexmark", "generate", "--log", "kafka", "--events", "10")
        assert code == 2 and "holon kafka up" in result["error"]["message"]
    finally:
        kafka_broker.down(kafka_broker.default_folder(), delete=True)
