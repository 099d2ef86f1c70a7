"""`holon run` where the job's code, its declaration or its records are wrong: one clear error, nothing lost."""

from __future__ import annotations

import base64
import json
import re
import signal
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodes.machine import messages as m
from nodes.results.reader import OutputReader
from tests.integration.fleet_support import (
    NOBODY_IS_SUSPECTED,
    SLOWLY_SUSPECTED,
    UNTRIMMED,
    Command,
    Stage,
    run_command,
)
from tests.integration.jobs_mixed import INPUT, Event
from tests.integration.jobs_waiting import GATE
from tests.integration.processes import PLENTY_S, until

POISONED = "tests.integration.jobs_odd:poisoned"
LOCKED = "tests.integration.jobs_odd:locked"
SMALL = "tests.integration.jobs_odd:small"
GUARDED = "tests.integration.jobs_odd:guarded"
TRUSTING = ("-D", NOBODY_IS_SUSPECTED)
"""Where the failures are counted: who takes the partition of one that is only slow meets the failure as well."""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path, UNTRIMMED, partitions=2)
    yield stage
    stage.log.close()


def poison(stage: Stage, kind: str, partition: int = 1) -> bytes:
    """Put one record that the job's function cannot stand; returns it."""
    row = msgspec.json.encode(Event(ts=0, id=-1, amount=0, poison=kind))
    stage.log.append(INPUT, partition, [row])
    return row


def control_messages(stage: Stage, job: str) -> list[m.ControlMessage]:
    topic = f"_holon.{job}.control"
    if topic not in stage.log.topics():
        return []
    return [m.decode_control(value) for value in stage.log.read(topic, 0, 0, max_records=100_000).values]


def greeted(stage: Stage, job: str) -> set[str]:
    """The nodes that have joined it."""
    return {message.node for message in control_messages(stage, job) if isinstance(message, m.Hello)}


def read(stage: Stage, topic: str) -> list[Any]:
    return [output.value for output in OutputReader(stage.log, topic, decode=json.loads).read_available()]


@pytest.mark.long
def test_a_record_that_the_function_cannot_stand_stops_the_job_and_can_be_set_aside(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fail: all nodes leave, none dies, the error says where; started again it says so at once; dead-letter goes on."""
    gate = tmp_path / "gate"
    monkeypatch.setenv(GATE, str(gate))
    stage.feed(100)
    at = stage.log.end_offset(INPUT, 1)
    raw = [poison(stage, "raise"), poison(stage, "exit")]
    stage.feed(100)
    patient = ("-D", f"node.function_timeout_ms={1000 * int(PLENTY_S)}", *TRUSTING)
    with run_command(stage, "--nodes", "2", "--bounded", *patient, job=POISONED) as command:
        until(lambda: len(greeted(stage, "poisoned")) == 2, "both nodes have joined")
        gate.touch()
        code, out, err = command.finish()
    result = json.loads(out)
    assert code == 1 and result["ending"] == "failed" and result["conserved"]
    assert f"partition 1 at offset {at}" in err and "ValueError: cannot stand event -1" in err
    assert 'File "' in err and "jobs_odd.py" in err
    assert result["restarts"] == 0 and "killed by" not in err
    messages = control_messages(stage, "poisoned")
    assert sum(isinstance(message, m.Failed) for message in messages) == 1
    hellos = greeted(stage, "poisoned")
    assert len(hellos) == 2 and {x.node for x in messages if isinstance(x, m.Goodbye)} == hellos

    with run_command(stage, "--nodes", "2", "--bounded", job=POISONED) as command:
        again = command.json(exit_code=1)
    assert "has failed with this code before" in again["error"]["message"]
    assert "cannot stand event -1" in again["error"]["message"]

    with run_command(stage, "--nodes", "2", "--bounded", "--on-error", "dead-letter", job=POISONED) as command:
        result = command.json()
    assert (result["ending"], result["accepted"], result["dead"]) == ("done", 200, 2)
    letters = read(stage, "poisoned.dead")
    assert [base64.b64decode(letter["payload"]) for letter in letters] == raw
    assert [(letter["partition"], letter["offset"]) for letter in letters] == [(1, at), (1, at + 1)]
    assert "ValueError: cannot stand event -1" in letters[0]["reason"]
    assert "SystemExit" in letters[1]["reason"]
    assert Counter(x["id"] for x in read(stage, "t")) == Counter(range(200))


@pytest.mark.long
def test_a_function_that_never_returns_fails_the_job_and_shows_where_it_stands(stage: Stage) -> None:
    stage.feed(50)
    at = stage.log.end_offset(INPUT, 1)
    poison(stage, "hang")
    arguments = ("--nodes", "2", "--bounded", "-D", "node.function_timeout_ms=2000", *TRUSTING)
    with run_command(stage, *arguments, job=POISONED) as command:
        code, out, err = command.finish()
    assert code == 1 and json.loads(out)["ending"] == "failed"
    assert "has not returned for 2000 ms (node.function_timeout_ms)" in err and f"partition 1 at offset {at}" in err
    assert "time.sleep(0.01)" in err and "record_loop.py" not in err
    assert sum(isinstance(message, m.Failed) for message in control_messages(stage, "poisoned")) == 1


def test_state_that_no_checkpoint_can_hold_is_one_error_at_the_first_record(stage: Stage) -> None:
    """It names state and job, no node is started again, and no policy sets the record aside."""
    stage.feed(50)
    arguments = ("--nodes", "2", "--bounded", "--on-error", "dead-letter", *TRUSTING)
    with run_command(stage, *arguments, job=LOCKED) as command:
        code, out, _ = command.finish()
    result = json.loads(out)
    assert code == 1 and result["ending"] == "failed" and result["restarts"] == 0
    assert "job 'locked'" in result["error"] and "Local 'doors' cannot be checkpointed" in result["error"]
    assert "value['front'] is a lock" in result["error"] and "at offset 0" in result["error"]
    failures = [x for x in control_messages(stage, "locked") if isinstance(x, m.Failed)]
    assert 1 <= len(failures) <= 2, "at most one for each partition"


def test_a_slow_function_does_not_hang(stage: Stage) -> None:
    """Ten records of 0.3 s in one batch."""
    for _ in range(10):
        poison(stage, "slow")
    with run_command(stage, "--bounded", "-D", "node.function_timeout_ms=2000", job=POISONED) as command:
        assert command.json()["accepted"] == 10


@pytest.mark.long
def test_a_retry_tries_again_with_the_same_code(stage: Stage) -> None:
    poison(stage, "exit")
    with run_command(stage, "--bounded", job=POISONED) as command:
        command.json(exit_code=1)
    with run_command(stage, "--bounded", "--retry", job=POISONED) as command:
        assert command.json(exit_code=1)["ending"] == "failed"
    failures = [x for x in control_messages(stage, "poisoned") if isinstance(x, m.Failed)]
    assert len(failures) == 2 and failures[0].code_hash != failures[1].code_hash


@pytest.mark.long
def test_a_function_that_ends_the_process_does_not_go_round_for_ever(stage: Stage) -> None:
    stage.feed(50)
    at = stage.log.end_offset(INPUT, 1)
    poison(stage, "end the process")
    stage.feed(50)
    with run_command(stage, "--nodes", "1", "--bounded", job=POISONED) as command:
        code, _, err = command.finish()
    assert code == 1
    assert "does the job's code end the process?" in err
    assert f"ends its process (exit code 0) on partition 1 at offset {at}" in err
    arguments = ("--nodes", "1", "--bounded", "--on-error", "dead-letter")
    with run_command(stage, *arguments, job=POISONED) as command:
        result = command.json()
    assert (result["accepted"], result["dead"], result["conserved"]) == (100, 1, True)
    assert Counter(x["id"] for x in read(stage, "t")) == Counter(range(100))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["end the process", "hold"])
def test_a_record_that_ends_the_process_goes_to_the_dead_letters_and_all_others_go_on(stage: Stage, kind: str) -> None:
    stage.feed(50)
    at = stage.log.end_offset(INPUT, 1)
    row = poison(stage, kind)
    stage.feed(50)
    arguments = ("--nodes", "2", "--bounded", "--on-error", "dead-letter", "-D", "node.function_timeout_ms=1000")
    with run_command(stage, *arguments, job=POISONED) as command:
        code, out, err = command.finish()
    assert code == 0, err
    result = json.loads(out)
    assert (result["accepted"], result["dead"], result["conserved"]) == (100, 1, True)
    assert Counter(x["id"] for x in read(stage, "t")) == Counter(range(100))
    (letter,) = read(stage, "poisoned.dead")
    assert (letter["partition"], letter["offset"], base64.b64decode(letter["payload"])) == (1, at, row)
    if kind == "hold":
        assert "has ended: killed by SIGPROF" in err  # by a node's own CPU time, however little of it there is
        how = "(does not give the interpreter's lock back|makes no progress for [0-9]+ s)"
    else:
        how = re.escape("ends its process (exit code 0)")
    assert re.fullmatch(f"the processing function {how}", letter["reason"])
    verdicts = [each.offset for each in control_messages(stage, "poisoned") if isinstance(each, m.Crashed)]
    assert verdicts and set(verdicts) == {at}, "two owners may say it"


@pytest.mark.long
def test_records_that_end_the_process_do_not_use_up_the_restarts_of_the_only_node(stage: Stage) -> None:
    """Each costs two lives, within a minute; the next one comes when a checkpoint has passed the one before."""
    stage.feed(50)
    arguments = ("--nodes", "1", "--on-error", "dead-letter")
    with run_command(stage, *arguments, job=POISONED) as command:
        for number in range(2):
            at = stage.log.end_offset(INPUT, 1)
            poison(stage, "end the process")
            stage.feed(50)
            until(partial(passed, stage, at), f"a checkpoint has passed record {number} that ends the process")
        monitor = stage.monitor(stage.open(POISONED))
        stage.until(monitor, lambda: sum(monitor.taken()) == 152, "all is checkpointed")
        command.signal(signal.SIGTERM)
        result = command.json()
    assert (result["ending"], result["accepted"], result["dead"]) == ("stopped", 150, 2)
    assert result["restarts"] > 3
    assert Counter(x["id"] for x in read(stage, "t")) == Counter(range(150))


def passed(stage: Stage, offset: int) -> bool:
    """Whether a checkpoint of partition 1 has."""
    saved = [each for each in control_messages(stage, "poisoned") if isinstance(each, m.CheckpointSaved)]
    return any(each.partition == 1 and each.offset > offset for each in saved)


@pytest.mark.long
def test_a_function_that_takes_all_memory_fails_at_its_record_and_other_nodes_go_on(stage: Stage) -> None:
    """Under a limit: the failure is named, or set aside, and what the function took is free again."""
    stage.feed(50)
    at = stage.log.end_offset(INPUT, 1)
    poison(stage, "leak")
    stage.feed(50)
    limited = 'ulimit -v 3000000; exec "$@"'
    with run_command(stage, "--nodes", "2", "--bounded", *TRUSTING, job=POISONED, shell=limited) as command:
        code, out, err = command.finish()
    assert code == 1 and json.loads(out)["ending"] == "failed"
    assert f"partition 1 at offset {at}" in err and "MemoryError" in err
    assert sum(isinstance(message, m.Failed) for message in control_messages(stage, "poisoned")) == 1
    arguments = ("--nodes", "2", "--bounded", "--on-error", "dead-letter", "-D", SLOWLY_SUSPECTED)
    with run_command(stage, *arguments, job=POISONED, shell=limited) as command:
        result = command.json()
    assert (result["accepted"], result["dead"], result["conserved"]) == (100, 1, True)
    assert result["restarts"] <= 1
    assert Counter(x["id"] for x in read(stage, "t")) == Counter(range(100))


def test_a_function_that_forks_leaves_the_node_alone(stage: Stage) -> None:
    stage.feed(20)
    poison(stage, "fork")
    stage.feed(20)
    with run_command(stage, "--bounded", job=POISONED) as command:
        result = command.json()
    assert (result["accepted"], result["outputs"], result["repeats_dropped"]) == (41, 41, 0)


@pytest.mark.long
def test_state_is_not_shared_with_other_code_or_another_declaration(stage: Stage) -> None:
    """Refused with what differs; --accept-code goes on, --reset starts the next incarnation."""
    stage.feed(60)
    with run_command(stage, job=SMALL) as command:
        monitor = stage.monitor(stage.open(SMALL))
        stage.until(monitor, lambda: sum(monitor.taken()) == 60, "all is checkpointed")
        command.signal(signal.SIGTERM)
        assert command.json()["outputs"] == 60
    with run_command(stage, "--bounded", job=f"{SMALL}?delay_ms=5") as command:
        message = command.json(exit_code=1)["error"]["message"]
    assert "another declaration" in message and "bounded 0" in message and "bounded 5" in message
    with run_command(stage, "--bounded", job=f"{SMALL}?changed=1") as command:
        message = command.json(exit_code=1)["error"]["message"]
    assert "other code" in message and "--accept-code" in message and "--reset" in message
    stage.feed(40)
    with run_command(stage, "--bounded", "--accept-code", job=f"{SMALL}?changed=1") as command:
        assert command.json()["outputs"] == 100
    assert sorted(value["id"] for value in read(stage, "t") if "new" in value) == list(range(60, 100))
    with run_command(stage, "--bounded", "--reset", job=f"{SMALL}?changed=1") as command:
        result = command.json()
    assert (result["incarnation"], result["outputs"]) == (1, 100)
    assert sorted(value["id"] for value in read(stage, "t") if "new" in value) == list(range(100))


def test_an_input_of_dead_letters_alone_is_an_error_that_names_the_first(stage: Stage) -> None:
    for partition in range(2):
        stage.log.append(INPUT, partition, [msgspec.json.encode({"ts": "soon"})] * 3)
    with run_command(stage, "--nodes", "1", "--bounded", job=SMALL) as command:
        code, out, err = command.finish()
    result = json.loads(out)
    assert (code, result["ending"], result["dead"], result["taken"]) == (1, "done", 6, 6)
    assert result["first_dead"].startswith(f"{INPUT}[0] offset 0: ") and result["first_dead"] in err
    assert "all 6 records are dead letters" in err and "holon dlq list" in err


def test_event_times_in_another_unit_are_a_warning_of_the_node(stage: Stage) -> None:
    stage.log.append(INPUT, 1, [msgspec.json.encode(Event(ts=1_750_000_000, id=n, amount=0)) for n in range(3)])
    with run_command(stage, "--nodes", "1", "--bounded", job=SMALL) as command:
        code, _, err = command.finish()
    assert code == 0
    assert err.count(f"{INPUT}[1] offset 0: event time 1750000000 ms, read in milliseconds") == 1
    assert 'declare Source(timestamp_unit="s")' in err


@pytest.mark.long
def test_bad_records_are_counted_and_kept(stage: Stage) -> None:
    """Not JSON, of another shape, far in the future, late, filtered: each counts once, and the job goes on."""
    now_ms = 1_700_000_000_000
    good = [msgspec.json.encode(Event(ts=now_ms + n * 100, id=n, amount=n % 2)) for n in range(100)]
    stage.log.append(INPUT, 0, good[:50])
    stage.log.append(INPUT, 1, good[50:])
    bad = [b"not json", b'{"ts": "soon"}', b"\xff\xfe", b"", msgspec.json.encode(Event(ts=10**13, id=1, amount=0))]
    stage.log.append(INPUT, 0, bad)
    late = msgspec.json.encode(Event(ts=now_ms, id=7, amount=0))
    stage.log.append(INPUT, 1, [late])
    with run_command(stage, "--nodes", "2", "--bounded", job=GUARDED) as command:
        result = command.json()
    assert {name: result[name] for name in ("accepted", "filtered", "late", "dead", "taken", "conserved")} == {
        "accepted": 50, "filtered": 50, "late": 1, "dead": 5, "taken": 106, "conserved": True,
    }  # fmt: skip
    letters = {base64.b64decode(letter["payload"]): letter["reason"] for letter in read(stage, "guarded.dead")}
    assert set(letters) == set(bad)
    assert "the skew guard allows 60000 ms" in letters[bad[4]]
    assert [base64.b64decode(x["payload"]) for x in read(stage, "guarded.late")] == [late]


def test_an_input_that_does_not_exist_is_named(stage: Stage) -> None:
    with run_command(stage, job="tests.integration.jobs_odd:undeclared") as command:
        message = command.json(exit_code=2)["error"]["message"]
    assert "no topic 'inn'" in message and "nearest: in" in message and "holon log append FILE --topic inn" in message


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("tests.integration.jobs_odd:smal", "nearest: small"),
        ("tests.integration.jobs_od:small", "nearest: tests.integration.jobs_odd"),
        ("jobs_odd", "expected MODULE:JOB"),
        ("tests.integration.jobs_broken:job", "ZeroDivisionError"),
    ],
)
def test_a_job_that_cannot_be_had_is_a_usage_error(stage: Stage, reference: str, words: str) -> None:
    with run_command(stage, job=reference) as command:
        assert words in command.json(exit_code=2)["error"]["message"]


def test_no_log_is_not_made_by_accident(tmp_path: Path) -> None:
    with Command("run", SMALL, "--json", "--log-dir", str(tmp_path / "none")) as command:
        assert "holon log append FILE" in command.json(exit_code=4)["error"]["message"]
    assert not (tmp_path / "none").exists()
