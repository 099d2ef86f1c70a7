"""The profile of a job: its speed, the stages of its time, columns and slow records, and advice."""

from __future__ import annotations

import time

import msgspec
import numpy as np

from holon.columnar.loops import installed
from holon.columnar.payloads import BinaryColumn
from holon.dataflow.record_functions.followed import followed_sources, with_column_forms
from holon.formats.formats import ColumnsRead, takes_columns
from holon.formats.json_columns import FEW, JsonColumns
from holon.input_layout import InputLayout
from holon.job import Job
from nodes.profiling import stages
from nodes.profiling.records import ProfiledRecords
from nodes.profiling.sampling import Sampler
from nodes.profiling.task_runs import TaskRuns

EXAMPLES, SHOWN_BYTES = 3, 200
SLOW_SHARE, LARGE_SHARE = 0.01, 0.25


class StageCost(msgspec.Struct):
    """``us_per_event``: microseconds of processor time."""

    stage: str
    share: float
    us_per_event: float


class ColumnRead(msgspec.Struct):
    """A column of the job's format; ``compiled``: the loop reads it, else msgspec makes it of its bytes."""

    name: str
    kind: str
    compiled: bool


class FunctionRead(msgspec.Struct):
    """Whether ``process`` is followed, so that records of a topic go by columns; ``reason``: why not, or None."""

    topic: str
    by_columns: bool
    reason: str | None


class SlowRecord(msgspec.Struct):
    """The beginning of a record that msgspec has read as a whole; ``reason``: why it is a dead letter, or None.

    ``topic``: where the job reads several.
    """

    partition: int
    offset: int
    record: str
    reason: str | None
    topic: str | msgspec.UnsetType = msgspec.UNSET


class Profile(msgspec.Struct):
    """``records`` is how many there are, ``rounds`` how often they were processed; ``slow_records`` of one round.

    ``slow_records`` is None where the job's format is not compiled at all. ``dead_by_schema`` and ``undecided_schemas``
    as in ``Replayed``.
    """

    job: str
    records: int
    events: int
    rounds: int
    events_per_cpu_s: float
    us_per_event: float
    outputs: int
    samples: int
    stages: list[StageCost]
    columns: list[ColumnRead]
    slow_records: int | None
    slow_examples: list[SlowRecord]
    advice: list[str]
    process: list[FunctionRead] = []
    dead_by_schema: int = 0
    undecided_schemas: int = 0


def profiled(job: Job, records: ProfiledRecords, batch: int, least_s: float) -> tuple[Profile, Sampler]:
    """Process the records again and again, for at least so much processor time. The first round warms up.

    Raises ``UserFunctionError`` where the job's function fails.
    """
    ways = [FunctionRead(one.topic, one.form is not None, one.why_not or None) for one in followed_sources(job)]
    job = with_column_forms(job)
    runs = TaskRuns(job, records, batch)
    runs.run()
    rounds, outputs = 0, runs.outputs
    began_s = time.process_time()
    with Sampler() as sampler:
        while not rounds or time.process_time() - began_s < least_s:
            runs.run()
            rounds += 1
    used_s = (time.process_time() - began_s) / rounds
    us = used_s / max(1, runs.events) * 1e6
    costs = [StageCost(stage, round(share, 4), round(us * share, 4)) for stage, share in
             stages.shares(sampler.stacks).items()]  # fmt: skip
    columns, slow, examples = _columns(job), *_slow(job, records, batch)
    profile = Profile(
        job.name,
        records=sum(len(run) for _, run in records.runs(batch)),
        events=runs.events,
        rounds=rounds,
        events_per_cpu_s=round(runs.events / used_s, 1),
        us_per_event=round(us, 4),
        outputs=outputs,
        samples=sampler.stacks.total(),
        stages=costs,
        columns=columns,
        slow_records=slow,
        slow_examples=examples,
        advice=[],
        process=ways,
    )
    profile.advice = _advice(job, profile)
    return profile, sampler


def _columns(job: Job) -> list[ColumnRead]:
    """The columns of formats that can be compiled; of several topics with their topic."""
    found: list[ColumnRead] = []
    for source in job.sources_read:
        rows = source.format.columns_read() if isinstance(source.format, ColumnsRead) else []
        before = "" if len(job.sources) == 1 else f"{source.topic}:"
        found += [ColumnRead(f"{before}{name}", kind, compiled) for name, kind, compiled in rows]
    return found


def _slow(job: Job, records: ProfiledRecords, batch: int) -> tuple[int | None, list[SlowRecord]]:
    """How many records the loop leaves to msgspec, and the first of them."""
    loops, layout = installed(), InputLayout(job.sources_read, records.partitions)
    forms = [partition.source.format for partition in layout]
    readers = [form.reader(loops) if isinstance(form, JsonColumns) and loops else None for form in forms]
    if not any(readers):
        return None, []
    slow, examples = 0, list[SlowRecord]()
    for partition, run in records.runs(batch):
        reader, form, place = readers[partition], forms[partition], layout[partition].place
        if reader is None:
            continue
        taken = reader.read(BinaryColumn.of(run.payloads))[1] if len(run) >= FEW else np.zeros(len(run), np.bool_)
        left = np.flatnonzero(~taken)
        slow += len(left)
        for row in left[: EXAMPLES - len(examples)].tolist():
            payload = run.payloads[row]
            bad = form.decode([payload]).bad
            shown = payload[:SHOWN_BYTES].decode(errors="backslashreplace")
            topic = msgspec.UNSET if len(job.sources) == 1 else place.topic
            reason = bad[0][1] if bad else None
            examples.append(SlowRecord(place.partition, int(run.offsets[row]), shown, reason, topic))
    return slow, examples


def _advice(job: Job, profile: Profile) -> list[str]:
    """The changes that would make the job quicker."""
    formats, shares = (
        [source.format for source in job.sources_read],
        {cost.stage: cost.share for cost in profile.stages},
    )
    found: list[str] = []
    if installed() is None and any(map(takes_columns, formats)):
        found.append("the compiled loops are missing: pip install 'holon[fast]'")
    for one in profile.process:
        if one.reason is not None:
            found.append(
                f"each record of {one.topic} becomes an object, since {one.reason}: process goes by columns without "
                f"loops and other libraries, with fields, operators, if, try, methods of texts and times, items of "
                f"dicts, math, re and Decimal; process_batch takes columns itself"
            )
    by_msgspec = [column.name for column in profile.columns if not column.compiled]
    if by_msgspec and shares.get(stages.DECODE, 0.0) > LARGE_SHARE:
        found.append(
            f"msgspec makes {', '.join(by_msgspec)} record by record: leave out of the Struct what the job does not use"
        )
    if profile.slow_records and profile.slow_records > SLOW_SHARE * profile.records:
        found.append(
            f"{profile.slow_records:,} of {profile.records:,} records are read by msgspec as a whole: they are "
            f"damaged, or have repeated names, numbers of more than 19 digits, or values beyond their type's bounds"
        )
    if shares.get(stages.RECORDS, 0.0) + shares.get(stages.INSERT, 0.0) > 0.5 and job.program.record_function:
        found.append("most time goes to single inserts: process_batch with insert_many groups them first")
    if shares.get(stages.FUNCTION, 0.0) > 0.5:
        found.append("most time is the job's own code: the flame graph (--flamegraph) names its functions")
    return found
