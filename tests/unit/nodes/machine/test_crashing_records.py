"""Records that end the process: when input is tried apart, whom the log accuses, and what becomes of the record."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from holon import Context, Job, Json, Source
from holon.errors import UserFunctionError
from holon.formats.input_run import Input
from holon.job import DEAD, MAIN
from holon.tracks.failed_records import FailedRun, FunctionCrashed, parted
from holon.tracks.record_track import RecordTrack
from nodes.machine import messages as m
from nodes.machine.config import JobRun, NodeConfig
from nodes.machine.crashing_records import Apart, DiedAtRecord, Trials
from nodes.machine.effects import WriteControl
from nodes.machine.ownership.ownership import Ownership
from nodes.machine.runner import Runner
from nodes.machine.workload import Workload
from tests.unit.checkpoint_names import named
from wcrdt.replica.replica import Replica

CODE = "code"


class Event(msgspec.Struct):
    id: int
    ts: int = 0


def run_of(*ids: int, first: int = 10) -> Input:
    offsets = np.arange(first, first + len(ids), dtype=np.int64)
    return Input(offsets, np.zeros(len(ids), np.int64), [json.dumps({"id": n}).encode() for n in ids], first + len(ids))


def process(event: Event, ctx: Context) -> None:
    ctx.emit(event.id)


def job_of(on_error: str) -> Job[Event]:
    return Job("j", Source("in", Json(Event), timestamp=lambda e: e.ts), process, output="out", on_error=on_error)  # type: ignore[arg-type]


def owning(apart: Apart | None, on_error: str = "dead-letter") -> tuple[Workload, Runner]:
    """Of partition 0, which two owners have left without a word."""
    job = job_of(on_error)
    run = JobRun(job, 0, 1, (10,), dict.fromkeys(job.outputs, 1))
    ownership = Ownership(1)
    ownership.apply(m.JobStarted(0, "", 1))
    for version, node in enumerate(("first", "second", "me"), 1):
        ownership.apply(m.Hello(0, node))
        ownership.apply(m.Claim(0, node, 0, version))
    work = Workload(NodeConfig(node="me"), run, Replica(1, job.program.shapes(), 0), ownership, Trials(CODE, apart))
    runner = work.fresh(0, 3)
    runner.restore(None, 0)
    runner.begin({}, {})
    return work, runner


def kills(*ids: int, known: bool = True) -> Apart:
    """Ends the process at the first record with one of these ids, that is not set aside."""

    def apart(step: Callable[[], object]) -> DiedAtRecord | None:
        feed, (run,) = step.func, step.args  # type: ignore[attr-defined]
        track: RecordTrack = feed.__self__.records
        for offset, payload in zip(run.offsets.tolist(), run.payloads, strict=True):
            if json.loads(payload)["id"] in ids and offset not in track.crashed:
                return DiedAtRecord(offset if known else None, "ends its process (SIGSEGV)")
        return None

    return apart


def accused(work: Workload) -> list[m.ControlMessage]:
    """Its records since the last call, which come back."""
    said = [m.decode_control(each.value) for each in work.effects if isinstance(each, WriteControl)]
    work.effects.clear()
    for each in said:
        work.ownership.apply(each)
    return said


@pytest.mark.parametrize("known", [True, False])
def test_whose_record_ends_the_process_waits_for_the_verdict_and_sets_it_aside(known: bool) -> None:
    work, runner = owning(kills(2, 4, known=known))
    whole = run_of(0, 1, 2, 3, 4, 5)
    expected = [(2, 12), (4, 14)]
    for _, offset in expected:
        rest = whole.cut(runner.task.next_offset - 10, len(whole))
        work.accusing.feed(runner, rest)
        assert runner.task.next_offset == offset and work.accusing.waits(runner)
        (verdict,) = accused(work)
        assert verdict == m.Crashed(0, "me", 0, offset, CODE, "ends its process (SIGSEGV)")
        assert not work.accusing.waits(runner)
    work.accusing.feed(runner, whole.cut(runner.task.next_offset - 10, len(whole)))
    outputs = {name: run.values for (name, _), run in runner.task.take_outputs().items()}
    assert sorted(map(json.loads, outputs[MAIN])) == [0, 1, 3, 5]
    letters = [json.loads(value) for value in outputs[DEAD]]
    assert [each["offset"] for each in letters] == [12, 14]
    assert letters[0]["reason"] == "the processing function ends its process (SIGSEGV)"
    assert (runner.task.counts.accepted, runner.task.counts.dead, runner.task.next_offset) == (4, 2, 16)


def test_under_fail_the_job_ends_and_names_the_record() -> None:
    work, runner = owning(kills(2), "fail")
    with pytest.raises(UserFunctionError, match=r"ends its process \(SIGSEGV\) on partition 0 at offset 12"):
        work.accusing.feed(runner, run_of(0, 1, 2, 3))
    assert not accused(work)


def test_only_two_deaths_in_a_row_without_a_checkpoint_that_gets_on_are_suspicious() -> None:
    tried: list[object] = []
    work, runner = owning(lambda step: tried.append(step))
    assert work.ownership.deaths(0) == 2
    assert Ownership.restored(work.ownership.snapshot()).deaths(0) == 2
    work.ownership.apply(named(m.CheckpointSaved(0, "me", 0, 3, "one", 12, 0, 0)))
    assert work.ownership.deaths(0) == 0
    work.accusing.feed(runner, run_of(0, 1))
    assert not tried and runner.task.next_offset == 12
    work.ownership.apply(m.Release(0, "me", 0, 3))
    work.ownership.apply(m.Claim(0, "other", 0, 4))
    assert work.ownership.deaths(0) == 0, "it was given up with a word"


def test_the_first_verdict_of_a_record_counts_and_none_behind_a_checkpoint() -> None:
    ownership = owning(None)[0].ownership
    ownership.apply(named(m.CheckpointSaved(0, "me", 0, 3, "one", 12, 0, 0)))
    for offset, code, how in ((11, CODE, "late"), (12, CODE, "first"), (12, CODE, "second"), (13, "other", "other's")):
        ownership.apply(m.Crashed(0, "me", 0, offset, code, how))
    assert ownership.crashed(0, CODE) == {12: "first"}
    assert Ownership.restored(ownership.snapshot()).crashed(0, CODE) == {12: "first"}


@pytest.mark.parametrize("bad", [[], [0], [2], [4], [0, 1], [1, 3], [0, 1, 2, 3, 4]])
def test_a_run_is_parted_at_its_bad_records(bad: list[int]) -> None:
    whole = run_of(*range(5))
    parts = parted(whole, {10 + row: "how" for row in bad})
    runs = [each.run if isinstance(each, FailedRun) else each for each in parts]
    assert [int(offset) for run in runs for offset in run.offsets] == [*range(10, 15)]
    assert runs[-1].next_offset == whole.next_offset and all(len(run) for run in runs)
    failed = [each for each in parts if isinstance(each, FailedRun)]
    assert [int(each.run.offsets[0]) - 10 for each in failed] == bad
    assert all(isinstance(each.error, FunctionCrashed) for each in failed)
