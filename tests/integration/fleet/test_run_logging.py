"""Messages of commands and their nodes on standard error: in the requested level and format."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodes.streams.jobs import declare_end
from tests.integration.fleet_support import Command, Stage, run_command
from tests.integration.jobs_mixed import Event
from tests.integration.processes import PLENTY_S, until

POISONED = "tests.integration.jobs_odd:poisoned"
AS_JSON = ("-D", "logging.format=json")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path, partitions=2)
    yield stage
    stage.log.close()


def objects(err: str) -> list[dict[str, Any]]:
    """Every line is one JSON object."""
    return [json.loads(line) for line in err.splitlines()]


@pytest.mark.long
def test_level_and_format_reach_the_nodes_and_every_line_is_an_object(stage: Stage) -> None:
    stage.feed(100)
    run = stage.open()
    monitor = stage.monitor(run)
    with run_command(stage, "--nodes", "2", "--log-level", "info", *AS_JSON) as command:
        stage.until(monitor, lambda: len(monitor.metrics_ports()) == 2, "both nodes serve metrics")
        declare_end(stage.log, run)  # not before: one that starts late finds a job that is done
        code, out, err = command.finish()
    assert code == 0 and json.loads(out)["ending"] == "done"
    lines = objects(err)
    serving = {line["node"] for line in lines if line["logger"] == "nodes.metrics.node" and line["level"] == "info"}
    assert serving == {0, 1}
    with run_command(stage, "--bounded", "--reset", "--log-level", "warning", *AS_JSON) as command:
        code, _, err = command.finish()
    assert code == 0 and {line["level"] for line in objects(err) if line["logger"] != "holon"} == {"warning"}


@pytest.mark.long
def test_a_failure_shows_the_users_frames_once_and_all_frames_with_debug(stage: Stage) -> None:
    stage.feed(100)
    at = stage.log.end_offset("in", 1)
    stage.log.append("in", 1, [msgspec.json.encode(Event(ts=0, id=-1, amount=0, poison="raise"))])
    with run_command(stage, "--nodes", "2", "--bounded", job=POISONED) as command:
        code, _, err = command.finish()
    assert code == 1 and f"partition 1 at offset {at} of topic 'in'" in err
    assert err.count(f'record at offset {at}: {{"ts":0,') == err.count("Traceback (most recent call last):") == 1
    assert "jobs_odd.py" in err and "tracks/record_loop.py" not in err

    arguments = ("--bounded", "--retry", "--log-level", "debug", *AS_JSON)
    with run_command(stage, *arguments, job=POISONED) as command:
        code, _, err = command.finish()
    assert code == 1
    (met,) = [line for line in objects(err) if line["level"] == "debug" and "tracks/record_loop.py" in line["event"]]
    assert met["node"] == 0 and "jobs_odd.py" in met["event"]
    assert objects(err)[-1]["level"] == "error" and "cannot stand event -1" in objects(err)[-1]["event"]


@pytest.mark.long
def test_a_transactional_function_that_fails_is_shown_by_its_node_with_operator_key_and_request(stage: Stage) -> None:
    with Command(*AS_JSON, "txn", "run", "tests.integration.txn_odd:program", "--nodes", "1", stage=stage) as command:
        until(lambda: "odd-txn-epochs" in stage.log.topics(), "the job's topics are there")
        patient = ("--id", "order 17", "--timeout", f"{PLENTY_S:.0f}")
        with Command("txn", "call", "odd", "k", "broken", '["nothing"]', *patient, stage=stage) as call:
            code, _, err = call.finish()
        assert code == 1 and "KeyError('nothing')" in err
        assert command.process.stderr is not None
        lines = (json.loads(text) for text in command.process.stderr)
        shown = next(line["event"] for line in lines if line["logger"] == "nodes.transactions.process")
        command.signal(signal.SIGTERM)
        assert command.finish()[0] == 0
    assert "function broken of operator odd, key 'k', raised KeyError('nothing')" in shown
    assert "request 'order 17' (odd 'k' broken)" in shown and 'VALUES[item]["count"]' in shown
    assert "execution/execution.py" not in shown


def test_transactional_nodes_get_what_stands_before_the_command_too(stage: Stage) -> None:
    command = Command(
        "--log-level", "info", *AS_JSON, "txn", "run", "examples.bank:program", "--nodes", "1", stage=stage
    )
    with command:
        assert command.process.stderr is not None
        lines = (json.loads(text) for text in command.process.stderr)
        line = next(line for line in lines if line["logger"] == "nodes.metrics.node")
        assert (line["level"], line["node"]) == ("info", 0), line
        command.signal(signal.SIGTERM)
        assert command.finish()[0] == 0
