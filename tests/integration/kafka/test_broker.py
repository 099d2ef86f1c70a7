"""`holon kafka up|down|status`, and a broker that is killed, comes back, or has lost the end of a partition."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from nodes.errors import MissingDependency, Unreachable
from nodes.local_kafka import broker as kafka_broker
from nodes.local_kafka import jars as kafka_jars
from nodes.log import LogDamaged, LogUnavailable
from nodes.log.kafka.log import KafkaLog
from tests.integration.kafka_patience import patient_log
from tests.integration.processes import PLENTY_S, ROOT, until


def holon(folder: Path, *arguments: str, **environment: str) -> tuple[int, dict[str, Any]]:
    """`holon kafka ...` on the broker of that folder: exit code and JSON."""
    command = [sys.executable, "-m", "nodes.cli", "kafka", *arguments, "--dir", str(folder), "--json"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.stdout.count("\n") == 1, done.stdout + done.stderr
    return done.returncode, msgspec.json.decode(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("broker")
    yield folder
    holon(folder, "down", "--delete")


def up(folder: Path) -> str:
    """Its address, running."""
    code, said = holon(folder, "up", "--heap-mb", "256")
    assert code == 0, said
    return said["bootstrap"]


def kill(folder: Path) -> None:
    """`kill -9` of the broker."""
    pid = holon(folder, "status")[1]["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: kafka_broker.status(folder) is None, "the broker is dead")


def read_all(log: KafkaLog) -> list[bytes]:
    values: list[bytes] = []
    offset = 0
    while (chunk := log.read("t", 0, offset)).next_offset > offset:
        values += chunk.values
        offset = chunk.next_offset
    return values


@pytest.mark.long
def test_a_broker_is_started_once_and_keeps_its_records_and_its_address(folder: Path) -> None:
    code, said = holon(folder, "status")
    assert (code, said["running"]) == (4, False)
    code, first = holon(folder, "up", "--heap-mb", "256")
    assert (code, first["fresh"], first["bootstrap"][:10]) == (0, True, "127.0.0.1:")
    code, second = holon(folder, "up")
    assert (code, second["fresh"], second["pid"]) == (0, False, first["pid"])
    until(lambda: holon(folder, "status")[1]["answers"], "it answers")
    with patient_log(first["bootstrap"]) as log:
        log.create_topic("kept", 1)
        log.append("kept", 0, [b"x"])
    assert holon(folder, "down") == (0, {"stopped": True, "deleted": False, "dir": str(folder)})
    assert not psutil.pid_exists(first["pid"])
    assert holon(folder, "down")[1]["stopped"] is False
    assert up(folder) == first["bootstrap"]
    with patient_log(first["bootstrap"]) as log:
        assert log.read("kept", 0, 0).values == [b"x"]


def test_a_killed_broker_that_comes_back_has_all_that_was_acknowledged_once(folder: Path) -> None:
    """The writer and the reader stay where they are; they find the broker again by themselves."""
    with patient_log(up(folder), timeout_s=2 * PLENTY_S) as log:
        log.create_topic("t", 1)
        acknowledged: list[bytes] = []
        over = threading.Event()

        def write() -> None:
            while not over.is_set():
                batch = [b"%d" % number for number in range(len(acknowledged), len(acknowledged) + 7)]
                log.append("t", 0, batch)
                acknowledged.extend(batch)

        writer = threading.Thread(target=write)
        writer.start()
        until(lambda: len(acknowledged) > 500, "it writes")
        kill(folder)
        before = len(acknowledged)
        up(folder)
        until(lambda: len(acknowledged) > before + 500, "it writes on")
        over.set()
        writer.join()
        assert read_all(log) == acknowledged


def test_a_log_without_its_broker_says_so_and_appends_no_more(folder: Path) -> None:
    bootstrap = up(folder)
    with patient_log(bootstrap) as patient:
        patient.create_topic("u", 1)
        patient.append("u", 0, [b"before"])
    with ExitStack() as stack:
        newcomer = stack.enter_context(patient_log(bootstrap, timeout_s=4.0))
        logs: list[KafkaLog] = []

        def appended() -> bool:
            """One that has met a slow broker appends no more."""
            logs.append(stack.enter_context(patient_log(bootstrap, timeout_s=4.0)))
            with suppress(LogUnavailable):
                logs[-1].append("u", 0, [b"just before"])
                return True
            return False

        until(appended, "a log has appended")
        log = logs[-1]
        kill(folder)
        with pytest.raises(LogUnavailable, match=r"'u' partition 0.*nobody knows whether.*holon kafka status"):
            log.append("u", 0, [b"during"])
        with pytest.raises(LogUnavailable, match="requesting offsets"):
            log.end_offset("u", 0)
        with pytest.raises(LogUnavailable, match="requesting limits"):
            newcomer.append("u", 0, [b"during"])
        up(folder)
        with pytest.raises(LogUnavailable, match="would leave a gap; open it again"):
            log.append("u", 0, [b"after"])


def test_a_partition_that_lost_its_end_is_noticed(folder: Path) -> None:
    """The broker dies, and the file of its partition is shorter when it comes back."""
    with patient_log(up(folder), timeout_s=2 * PLENTY_S) as log:
        log.create_topic("cut", 1)
        for number in range(20):
            log.append("cut", 0, [b"%d" % number] * 10)
        assert log.read("cut", 0, 0).next_offset == 200
        kill(folder)
        segment = folder / "data" / "cut-0" / "00000000000000000000.log"
        os.truncate(segment, segment.stat().st_size // 2)
        up(folder)
        with pytest.raises(LogDamaged, match=r"topic 'cut' partition 0.*records.*--reset"):
            until(lambda: log.read("cut", 0, 200) is None, "the loss is noticed")


def test_what_is_missing_is_named_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, said = holon(tmp_path, "up", JAVA_HOME="", PATH="/nowhere")
    assert code == 3
    assert "Java 17" in said["error"]["message"] and "install" in said["error"]["message"]
    monkeypatch.setitem(sys.modules, "jgo.maven", None)
    with pytest.raises(MissingDependency, match=r"holon-streams\[broker\]"):
        kafka_jars.kafka_jars(tmp_path)


def test_a_broker_needs_no_spark(tmp_path: Path) -> None:
    """Where no module can be imported that comes with it."""
    script = "import sys; sys.modules.update(dict.fromkeys(['pyspark', 'pandas', 'pyarrow', 'py4j']))\n"
    script += "from nodes.cli.entry import main; main(['kafka', *sys.argv[1:], '--json'])"
    up = ["up", "--heap-mb", "256", "--dir", str(tmp_path)]
    done = subprocess.run([sys.executable, "-c", script, *up], cwd=ROOT, capture_output=True, timeout=280, check=False)
    holon(tmp_path, "down", "--delete")
    assert done.returncode == 0 and msgspec.json.decode(done.stdout)["fresh"], done.stderr


def test_jars_that_cannot_be_fetched_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jgo")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with pytest.raises(Unreachable, match=r"the jars of Kafka .* could not be fetched.*HTTPS_PROXY"):
        kafka_jars.kafka_jars(tmp_path)
    assert [path.name for path in (tmp_path / "kafka").iterdir()] == ["lock"]


@pytest.mark.nightly
def test_the_jars_of_a_broker_and_of_a_connector_are_fetched(tmp_path: Path) -> None:
    """The bundles' jars and all that they need: as many jars as Kafka's own distribution has for its server."""
    jars = {path.name for path in kafka_jars.kafka_jars(tmp_path).glob("*.jar")}
    assert len(jars) == 46 and {"kafka_2.13-4.1.1.jar", "kafka-clients-4.1.1.jar", "slf4j-simple-1.7.36.jar"} <= jars
    connector = kafka_jars.kafka_jars(tmp_path, kafka_jars.spark_connector("4.0.0"))
    assert {path.name.partition("_")[0] for path in connector.glob("spark-*kafka*.jar")} >= {"spark-sql-kafka-0-10"}


@pytest.mark.long
def test_a_broker_that_does_not_come_up_says_why(folder: Path, tmp_path: Path) -> None:
    port = up(folder).rpartition(":")[2]
    code, said = holon(tmp_path, "up", "--port", port)
    assert code == 1
    assert f"{port} is in use" in said["error"]["message"]
