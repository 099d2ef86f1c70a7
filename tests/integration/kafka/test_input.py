"""Topics that change under a job on a real broker: gaps, deleted records, partitions added, topics deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from nodes.fleet.processes import Fleet
from nodes.machine.config import JobRun
from nodes.streams.jobs import JobMismatch, JobTopics, declare_end
from tests.integration import jobs_mixed
from tests.integration.fleet_support import Command, run_command
from tests.integration.jobs_mixed import INPUT, OUTPUT, Event
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.kafka_patience import await_decided
from tests.integration.kafka_stage import KafkaStage
from tests.integration.processes import until
from tests.shares import share_of

PLENTY_S = 60.0


DRAWN = pytest.mark.parametrize(
    "stage", share_of(["plain", "own"], 2, __name__), indirect=True
)  # the latter falls back to "columns"


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KafkaStage]:
    """Its parameter is one of its readers."""
    stage = KafkaStage(tmp_path, session_bootstrap())
    stage.read_by(getattr(request, "param", "plain"))
    yield stage
    stage.log.close()


@pytest.fixture(scope="module")
def admin() -> AdminClient:
    return AdminClient({"bootstrap.servers": session_bootstrap()})


def feed_in_transactions(stage: KafkaStage, first: int, last: int) -> None:
    """Committed events, with aborted ones between them; the last thing in every partition is a control record."""
    writer = Producer({"bootstrap.servers": session_bootstrap(), "transactional.id": stage.prefix})
    writer.init_transactions(PLENTY_S)
    for begin in range(first, last, 50):
        for keep in (False, True):
            writer.begin_transaction()
            for partition, rows in jobs_mixed.payloads(begin, begin + 50, stage.partitions).items():
                for row in rows:
                    writer.produce(stage.prefix + INPUT, row, partition=partition)
                if keep:
                    stage.events[partition] += [msgspec.json.decode(row, type=Event) for row in rows]
            assert writer.flush(PLENTY_S) == 0
            (writer.commit_transaction if keep else writer.abort_transaction)(PLENTY_S)
    await_decided(stage.log, INPUT)  # a bounded run ends where it finds what is


def stopped_by(fleet: Fleet) -> set[int]:
    """Exit codes of the nodes, all of which end."""
    until(lambda: not fleet.running(), "all nodes have ended")
    return {member.process.returncode for member in fleet.members}


def delete(admin: AdminClient, stage: KafkaStage, topic: str) -> None:
    name = stage.prefix + topic
    admin.delete_topics([name])[name].result(PLENTY_S)
    until(lambda: topic not in stage.log.topics(), "the topic is gone")


def at_work(stage: KafkaStage, fleet: Fleet) -> JobRun:
    run = stage.open()
    monitor = stage.monitor(run)
    stage.feed(1000)
    stage.until(monitor, lambda: sum(monitor.taken()) == 1000, "all is in checkpoints", fleet)
    return run


@pytest.mark.long
@DRAWN
def test_gaps_in_the_input_and_control_records_at_its_end_are_passed_over(stage: KafkaStage) -> None:
    """Committed and aborted transactions: each committed record once, the run ends, and its account holds."""
    feed_in_transactions(stage, 0, 400)
    with run_command(stage, "--nodes", "2", "--bounded") as command:
        result = command.json()
    assert (result["ending"], result["accepted"], result["taken"]) == ("done", 400, 400)
    assert result["conserved"]
    assert sum(stage.log.end_offset(INPUT, partition) for partition in range(stage.partitions)) > 800
    stage.assert_exact()


@pytest.mark.long
@DRAWN
def test_records_that_are_deleted_before_they_were_read_end_the_job_by_name(stage: KafkaStage) -> None:
    with stage.fleet(2) as fleet:
        at_work(stage, fleet)
    stage.feed(1000)
    stage.log.delete_before(INPUT, 2, stage.log.end_offset(INPUT, 2) - 10)
    with run_command(stage, "--nodes", "1", "--bounded") as command:
        code, _, err = command.finish()
    assert code == 1
    assert f"input {INPUT}[2] no longer holds offset" in err
    assert "keep them longer" in err and "--reset" in err


@pytest.mark.long
def test_partitions_that_are_added_to_the_input_stop_the_job_with_advice(stage: KafkaStage, admin: AdminClient) -> None:
    with stage.fleet(2) as fleet:
        run = at_work(stage, fleet)
        name = stage.prefix + INPUT
        admin.create_partitions([NewPartitions(name, stage.partitions + 1)])[name].result(PLENTY_S)
        assert stopped_by(fleet) == {1}
    with run_command(stage) as command:
        message = command.json(exit_code=1)["error"]["message"]
    assert f"was started on {stage.partitions} partitions" in message and "--reset" in message
    assert "outputs that exist" in message
    for output in JobTopics.of(run).outputs.values():
        delete(admin, stage, output)
    stage.partitions += 1
    stage.feed(100)
    with run_command(stage, "--reset", "--bounded") as command:
        result = command.json()
    assert (result["incarnation"], result["accepted"]) == (run.incarnation + 1, 1100)


@pytest.mark.long
@pytest.mark.parametrize("which", share_of([INPUT, OUTPUT, "_holon.mixed.control"], 3, __name__))
def test_a_topic_that_is_deleted_under_a_job_stops_it_and_is_not_made_anew(
    stage: KafkaStage, admin: AdminClient, which: str
) -> None:
    with stage.fleet(2) as fleet:
        run = at_work(stage, fleet)
        delete(admin, stage, which)
        assert stopped_by(fleet) <= {1, 2}
    if which == INPUT:
        with run_command(stage) as command:
            assert f"no topic '{INPUT}'" in command.json(exit_code=2)["error"]["message"]
        return
    with pytest.raises(JobMismatch, match=f"'?{which}'? is gone from the log"):
        stage.open()
    assert which not in stage.log.topics()
    if which == OUTPUT:
        with run_command(stage, "--reset", "--bounded") as command:
            assert command.json()["incarnation"] == run.incarnation + 1
        stage.assert_exact()


@pytest.mark.long
def test_a_topic_that_comes_back_with_fewer_partitions_is_refused(stage: KafkaStage, admin: AdminClient) -> None:
    with stage.fleet(1) as fleet:
        declare_end(stage.log, at_work(stage, fleet))
    delete(admin, stage, INPUT)
    stage.log.create_topic(INPUT, stage.partitions - 1)
    with run_command(stage) as command:
        message = command.json(exit_code=1)["error"]["message"]
    assert f"which now has {stage.partitions - 1}" in message


def test_commands_name_a_broker_that_is_not_there_within_seconds(stage: KafkaStage) -> None:
    with Command("log", "ls", "--json", "-D", "log.kind=kafka", "-D", "log.bootstrap=127.0.0.1:1") as command:
        message = command.json(exit_code=4)["error"]["message"]
    assert "127.0.0.1:1" in message and "no answer within 5 s" in message
