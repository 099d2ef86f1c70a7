"""The broker under a running job dies, comes back at once or late, or comes back with less than it had."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import psutil
import pytest

from nodes.fleet.monitor import Monitor
from nodes.fleet.processes import Fleet
from nodes.local_kafka import broker as kafka_broker
from nodes.log.kafka.log import KafkaLog
from nodes.runtime.log_opening import open_settings_log
from tests.integration import jobs_mixed
from tests.integration.fleet_support import PARTITIONS, Command, owners, run_command
from tests.integration.jobs_mixed import INPUT
from tests.integration.kafka_patience import patient_log
from tests.integration.kafka_proxy import PRODUCE, Proxy
from tests.integration.kafka_stage import KafkaStage
from tests.integration.log_makers import read_by_columns
from tests.integration.processes import PLENTY_S, until
from tests.shares import share_of

HEAP_MB = 256
DRAWN = pytest.mark.parametrize(
    "stage", share_of(["plain", "own"], 2, __name__), indirect=True
)  # the latter falls back to "columns"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder of a broker that these tests may kill."""
    folder = tmp_path_factory.mktemp("broker")
    kafka_broker.up(folder, heap_mb=HEAP_MB)
    yield folder
    kafka_broker.down(folder, delete=True, timeout_s=5.0)


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path, broker: Path) -> Iterator[KafkaStage]:
    """All wait for the broker as long as a busy machine takes to start one. Its parameter is one of its readers."""
    bootstrap = kafka_broker.up(broker, heap_mb=HEAP_MB).bootstrap
    stage = KafkaStage(tmp_path, bootstrap, "log.timeout_ms=240000")
    stage.read_by(getattr(request, "param", "plain"))
    yield stage
    stage.log.close()


def kill(broker: Path) -> None:
    """`kill -9`."""
    running = kafka_broker.status(broker)
    assert running is not None
    process = psutil.Process(running.pid)
    process.kill()
    process.wait(60)


def ended(command: Command) -> bool:
    assert command.process.poll() is None, command.finish()
    return False


def until_at_work(stage: KafkaStage, monitor: Monitor, fleet: Fleet, records: int = 500) -> None:
    before = monitor.consumed
    stage.until(monitor, lambda: set(owners(monitor)) == {0, 1}, "both own partitions", fleet)
    stage.until(monitor, lambda: monitor.consumed > before + records, "both work", fleet)


@pytest.mark.long
@DRAWN
def test_nodes_wait_for_a_broker_that_was_killed_and_write_nothing_twice(stage: KafkaStage, broker: Path) -> None:
    """Killed while they append, twice; away for some seconds each time. They live on, and what was on its way when it
    died is neither lost nor repeated."""
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(2) as fleet:
        with stage.feeding():
            for _ in range(2):
                until_at_work(stage, monitor, fleet)
                kill(broker)
                kafka_broker.up(broker, heap_mb=HEAP_MB)
            # Not both of them: on a starved machine a node that was taken from is no heir before it keeps pace.
            consumed = monitor.consumed
            stage.until(monitor, lambda: monitor.consumed > consumed + 500, "the work goes on", fleet)
        monitor = stage.finish(run, fleet)
        assert len(fleet.members) == 2
    stage.assert_exact()
    if all(monitor.ownership.version(partition) == 1 for partition in range(PARTITIONS)):
        assert stage.repeats_dropped == 0


@pytest.mark.long
def test_a_run_without_its_broker_ends_with_a_named_error_and_resumes(stage: KafkaStage, broker: Path) -> None:
    patient = stage.definitions
    stage.definitions = (*patient, "log.timeout_ms=20000")
    stage.feed(1000)
    monitor = stage.monitor(stage.open())
    with run_command(stage, "--nodes", "2") as command, stage.feeding():
        stage.until(monitor, lambda: set(owners(monitor)) == {0, 1} or ended(command), "both own partitions")
        stage.until(monitor, lambda: monitor.consumed > 500, "both work")
        kill(broker)
        message = command.json(exit_code=4)["error"]["message"]
        assert "holon kafka status" in message
        kafka_broker.up(broker, heap_mb=HEAP_MB)
    stage.definitions = patient
    with run_command(stage, "--nodes", "2", "--bounded") as command:
        result = command.json()
    assert result["ending"] == "done" and result["conserved"]
    stage.assert_exact()


@pytest.mark.long
@DRAWN
def test_nodes_whose_input_lost_its_end_stop_and_name_it(
    stage: KafkaStage, broker: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The broker comes back with half of a partition, as after an unclean election, and it grows again at once."""
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(2) as fleet:
        stage.feed(2000)
        stage.until(monitor, lambda: monitor.consumed == 2000, "all is taken", fleet)
        kill(broker)
        segment = broker / "data" / f"{stage.prefix}{INPUT}-2" / "00000000000000000000.log"
        os.truncate(segment, segment.stat().st_size // 2)
        kafka_broker.up(broker, heap_mb=HEAP_MB)
        with open_settings_log(stage.settings) as other:
            other.append(INPUT, 2, jobs_mixed.payloads(0, 1500, 1)[0])
            assert other.end_offset(INPUT, 2) > len(stage.events[2]), "beyond what the nodes have read"
        until(lambda: any(m.process.poll() is not None for m in fleet.members), "a node stops")
        assert {m.process.poll() for m in fleet.members} <= {None, 1}
    assert "lost acknowledged records" in capfd.readouterr().err


@pytest.mark.long
def test_an_input_that_lost_its_end_and_grew_again_while_no_node_ran_is_named(
    stage: KafkaStage, broker: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(2) as fleet:
        stage.feed(2000)
        stage.until(monitor, lambda: monitor.counts().taken == 2000, "all is in checkpoints", fleet)
    kill(broker)
    segment = broker / "data" / f"{stage.prefix}{INPUT}-2" / "00000000000000000000.log"
    os.truncate(segment, segment.stat().st_size // 2)
    kafka_broker.up(broker, heap_mb=HEAP_MB)
    with open_settings_log(stage.settings) as other:
        other.append(INPUT, 2, jobs_mixed.payloads(0, 1500, 1)[0])
        assert other.end_offset(INPUT, 2) > len(stage.events[2]), "beyond what the nodes have read"
    with stage.fleet(2) as fleet:
        until(lambda: any(m.process.poll() is not None for m in fleet.members), "a node stops")
        assert {m.process.poll() for m in fleet.members} <= {None, 1}
    assert "holds another record at offset" in capfd.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("writer", share_of(["direct", "librdkafka"], 2, __name__))
def test_batches_whose_answers_were_lost_with_the_broker_are_on_the_log_once(broker: Path, writer: str) -> None:
    """Five of a partition, as many as may be on their way: a broker that recovers knows what of them it had taken."""
    prefix = f"answers-{writer}-"
    with ExitStack() as stack:
        proxy = stack.enter_context(Proxy(kafka_broker.up(broker, heap_mb=HEAP_MB).bootstrap))
        patient = patient_log(proxy.bootstrap, {"holon.writer": writer}, prefix=prefix, timeout_s=PLENTY_S)
        log = stack.enter_context(patient)
        read_by_columns(log)
        log.create_topic("t", 1)
        log.send("t", 0, [b"before"])
        log.poll_acks(wait=True)
        held = proxy.hold("reply", key=PRODUCE)
        for number in range(5):
            log.send("t", 0, [b"%d" % number])
            log.poll_acks()
            until(partial(reaches, log, number + 2), "the broker has it")
        assert held.seen
        kill(broker)
        held.release()
        kafka_broker.up(broker, heap_mb=HEAP_MB)
        log.poll_acks(wait=True)
        log.send("t", 0, [b"after"])
        log.poll_acks(wait=True)
        assert list(log.read("t", 0, 0).values) == [b"before", b"0", b"1", b"2", b"3", b"4", b"after"]


def reaches(log: KafkaLog, end: int) -> bool:
    return log.high_watermark("t", 0) == end
