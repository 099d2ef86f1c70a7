"""A fleet of real node processes on a real Kafka broker, one of them killed: every result exactly once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.fleet_support import PARTITIONS, Command, owners, run_command
from tests.integration.jobs_mixed import INPUT
from tests.integration.kafka_broker import session_bootstrap
from tests.integration.kafka_stage import KafkaStage
from tests.integration.processes import until


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaStage]:
    stage = KafkaStage(tmp_path_factory.mktemp("kafka"), session_bootstrap())
    yield stage
    stage.log.close()


@pytest.mark.long
def test_a_killed_node_costs_nothing_and_the_job_resumes_on_the_command_line(stage: KafkaStage) -> None:
    """Two nodes; one is killed at work, the other takes over; all stop, and `holon run` goes on to the end."""
    run = stage.open()
    with stage.fleet(2) as fleet:
        monitor = stage.monitor(run)
        with stage.feeding():
            stage.until(monitor, lambda: set(owners(monitor)) == {0, 1}, "both own partitions", fleet)
            stage.until(monitor, lambda: monitor.consumed > 300, "both work", fleet)
            fleet.kill(0)
            killed_at = monitor.consumed
            stage.until(monitor, lambda: set(owners(monitor)) == {1}, "the other owns all", fleet)
            stage.until(monitor, lambda: monitor.consumed > killed_at + 300, "it works on", fleet)
        fleet.request_stop()
        until(lambda: not fleet.running(), "the other leaves")
    assert max(map(monitor.ownership.version, range(PARTITIONS))) > 1, "it was taken over"
    with run_command(stage, "--nodes", "1", "--bounded") as command:
        result = command.json()
    assert result["ending"] == "done" and result["conserved"] and result["accepted"] == stage.fed
    stage.assert_exact()
    with Command("read", "t", "-n", "3", "--json", stage=stage) as read:
        assert read.json()["records"] == 3
    with Command("log", "ls", "--json", stage=stage) as listed:
        rows = [row for row in listed.json()["partitions"] if row["topic"] == INPUT]
    assert [row["end_offset"] for row in rows] == [len(stage.events[partition]) for partition in range(PARTITIONS)]
    assert {row["bytes"] for row in rows} == {None}
