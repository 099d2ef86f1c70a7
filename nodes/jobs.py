"""Jobs on a log: the topics of a job, its incarnations, and the end of a bounded input."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from holon.job import Job
from nodes.errors import RunFailed, UnknownName
from nodes.log.contract import Log, UnknownTopic
from nodes.machine import messages as m
from nodes.machine.config import JobRun
from nodes.machine.ownership import NO_INCARNATION, Ownership

HEARTBEAT_RETENTION_MS = 60_000


@dataclass(frozen=True, slots=True)
class Topics:
    """Names of everything that a run reads and writes."""

    source: str
    control: str
    heartbeats: str
    broadcast: str
    outputs: dict[str, str]

    @classmethod
    def of(cls, run: JobRun) -> Topics:
        job = run.job
        return cls(
            job.source.topic,
            job.control_topic,
            heartbeat_topic(job),
            job.broadcast_topic(run.incarnation),
            {name: output.topic for name, output in job.outputs.items()},
        )


class JobMismatch(RunFailed):
    """The state on the log belongs to another job, code or setting."""


class Description(msgspec.Struct):
    """What JobStarted records beside the fingerprint, so that all nodes begin alike."""

    job: str
    code: str
    start_offsets: list[int]
    output_partitions: dict[str, int]


def heartbeat_topic(job: Job) -> str:
    """Liveness is no part of the fold over the control topic, so heartbeats need not be kept with it."""
    return f"_holon.{job.name}.heartbeats"


def read_ownership(log: Log, job: Job) -> Ownership | None:
    """The control topic folded to its end; None if the job never ran on this log."""
    if job.control_topic not in log.topics():
        return None
    ownership = Ownership(1)
    offset = log.start_offset(job.control_topic, 0)
    while True:
        chunk = log.read(job.control_topic, 0, offset)
        for value in chunk.values:
            try:
                ownership.apply(m.decode_control(value))
            except m.BadMessage as error:
                if error.reason is m.BadReason.NEWER_VERSION:
                    raise JobMismatch(f"job {job.name!r}: its control topic was written by a newer Holon") from error
        if chunk.next_offset == offset:
            return ownership
        offset = chunk.next_offset


def open_job(log: Log, job: Job, *, reset: bool = False, accept_code: bool = False) -> JobRun:
    """Start the job on this log, or resume it where it was; safe when several processes do it at once.

    ``reset`` starts the next incarnation with empty state. ``accept_code`` resumes with changed code as long as the
    declared states, source and outputs are the same. Raises ``JobMismatch`` with what differs, ``UnknownTopic`` if the
    input does not exist.
    """
    partitions = log.partitions(job.source.topic)
    log.create_topic(job.control_topic, 1)
    log.create_topic(heartbeat_topic(job), 1, retention_ms=HEARTBEAT_RETENTION_MS)
    ownership = read_ownership(log, job)
    assert ownership is not None
    if ownership.incarnation == NO_INCARNATION or reset:
        start = m.JobStarted(ownership.incarnation + 1, job.fingerprint(), partitions, _described(log, job, partitions))
        log.append(job.control_topic, 0, [m.encode(start)])
    started = _newest_start(log, job)
    run = _checked(job, started, partitions, accept_code)
    _create_topics(log, run)
    return run


def declare_end(log: Log, run: JobRun, offsets: list[int] | None = None) -> list[int]:
    """Say that the input is complete: it ends at ``offsets`` (default: where the topic ends now). First word wins."""
    topic = run.job.source.topic
    ends = [log.end_offset(topic, p) for p in range(run.partitions)] if offsets is None else offsets
    values = [m.encode(m.EndOfInput(run.incarnation, p, end)) for p, end in enumerate(ends)]
    log.append(run.job.control_topic, 0, values)
    return ends


def ask_stop(log: Log, run: JobRun) -> None:
    """Ask all present nodes to drain, save and leave."""
    log.append(run.job.control_topic, 0, [m.encode(m.Command(run.incarnation, "stop"))])


def _described(log: Log, job: Job, partitions: int) -> dict[str, str]:
    topic, latest = job.source.topic, job.source.start == "latest"
    offsets = [(log.end_offset if latest else log.start_offset)(topic, p) for p in range(partitions)]
    sizes = {name: output.partitions or partitions for name, output in job.outputs.items()}
    described = Description(job.describe(), job.program.code_hash(), offsets, sizes)
    return {"run": msgspec.json.encode(described).decode()}


def _newest_start(log: Log, job: Job) -> m.JobStarted:
    """The first JobStarted of the highest incarnation."""
    newest: m.JobStarted | None = None
    offset = log.start_offset(job.control_topic, 0)
    while True:
        chunk = log.read(job.control_topic, 0, offset)
        for value in chunk.values:
            try:
                message = m.decode_control(value)
            except m.BadMessage:
                continue
            if isinstance(message, m.JobStarted) and (newest is None or message.incarnation > newest.incarnation):
                newest = message
        if chunk.next_offset == offset:
            assert newest is not None
            return newest
        offset = chunk.next_offset


def _checked(job: Job, started: m.JobStarted, partitions: int, accept_code: bool) -> JobRun:
    described = msgspec.json.decode(started.description["run"], type=Description)
    if started.partitions != partitions:
        raise JobMismatch(
            f"job {job.name!r} was started on {started.partitions} partitions of {job.source.topic!r}, which now has "
            f"{partitions}: its state cannot follow; start again with --reset"
        )
    if described.job != job.describe():
        raise JobMismatch(
            f"job {job.name!r} has state of another declaration on this log: {_difference(described.job, job)}; use "
            f"the same declaration, another job name, or --reset to start its next incarnation from empty state"
        )
    if described.code != job.program.code_hash() and not accept_code:
        raise JobMismatch(
            f"job {job.name!r} has state made by other code on this log: results of both would mix; use the same code, "
            f"--accept-code to go on with this one, or --reset to start again from empty state"
        )
    return JobRun(
        job, started.incarnation, partitions, tuple(described.start_offsets), dict(described.output_partitions)
    )


def _difference(before: str, job: Job) -> str:
    old, new = before.splitlines(), job.describe().splitlines()
    gone = [line for line in old if line not in new]
    come = [line for line in new if line not in old]
    return f"was {'; '.join(gone) or 'without'} | is {'; '.join(come) or 'without'}"


def _create_topics(log: Log, run: JobRun) -> None:
    log.create_topic(run.job.broadcast_topic(run.incarnation), run.partitions)
    for name, output in run.job.outputs.items():
        log.create_topic(output.topic, run.output_partitions[name])


def load_job(reference: str) -> Job:
    """``MODULE:JOB``: a ``Job``, or a function that gives one. Raises ``UnknownName``.

    ``MODULE:FUNCTION?name=1&other=2`` passes integer arguments to the function.
    """
    path, _, query = reference.partition("?")
    arguments = {key: int(value) for key, value in parse_qsl(query, strict_parsing=bool(query))}
    module_name, colon, name = path.partition(":")
    if not colon or not module_name or not name:
        raise UnknownName("job", f"{reference} (expected MODULE:JOB)")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        raise UnknownName("module", module_name, _modules_near(module_name)) from error
    found: Any = getattr(module, name, None)
    if callable(found) and not isinstance(found, Job):
        found = found(**arguments)
    if not isinstance(found, Job):
        jobs = [key for key, value in vars(module).items() if isinstance(value, Job)]
        raise UnknownName(f"job in {module_name}", name, jobs)
    return found


def _modules_near(name: str) -> list[str]:
    """Modules beside the one that was asked for."""
    parent = name.rpartition(".")[0]
    try:
        spec = importlib.util.find_spec(parent) if parent else None
    except ModuleNotFoundError:
        return []
    paths = None if spec is None else spec.submodule_search_locations
    if parent and not paths:
        return []
    prefix = f"{parent}." if parent else ""
    return [prefix + module.name for module in pkgutil.iter_modules(paths)]


__all__ = [
    "Description",
    "JobMismatch",
    "Topics",
    "UnknownTopic",
    "ask_stop",
    "declare_end",
    "heartbeat_topic",
    "load_job",
    "open_job",
    "read_ownership",
]
