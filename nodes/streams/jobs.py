"""Jobs on a log: the topics of a job, its incarnations, and the end of a bounded input."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl
from uuid import uuid4

import msgspec

from holon.dataflow.flow import Flow
from holon.dataflow.record_functions.followed import with_column_forms
from holon.input_layout import InputLayout
from holon.job import Job
from holon.source import LIVE_MAX_FUTURE_SKEW_MS
from nodes.errors import UnknownName, nearest
from nodes.log.contract import Log, UnknownTopic
from nodes.machine import messages as m
from nodes.machine.code_check import ACCEPT, JobMismatch, check_state, check_unknown, is_recorded, last_recorded
from nodes.machine.config import ContinuedIncarnation, JobRun, contributed_states, other_partitions
from nodes.machine.control_state import NO_INCARNATION
from nodes.machine.ownership.commands import CODE, RETRY, VERSION
from nodes.machine.ownership.ownership import Ownership
from nodes.runtime.heartbeat_topics import HEARTBEAT_RETENTION_MS
from nodes.runtime.user_modules import import_user_module
from nodes.streams.control_history import JobControlHistory, control_topic, heartbeat_topic
from nodes.streams.upstream import upstream_incarnations

INTERNAL = "_holon."
"""Names of internal topics of streaming jobs begin so."""
TOPIC_POLL_TIMEOUT_S, TOPIC_POLL_INTERVAL_S = 1.0, 0.1


@dataclass(frozen=True, slots=True)
class JobTopics:
    """Names of everything that a run reads and writes. ``layout``: where the partitions of the input are."""

    layout: InputLayout
    control: str
    control_checkpoints: str
    heartbeats: str
    broadcast: str
    outputs: dict[str, str]
    shards: str | None = None
    """Of the contributions of sharded states; None: the job has none."""

    @property
    def group_heartbeats(self) -> str:
        """The topic of heartbeats within a group of a large fleet; it is there once there was one."""
        return f"{self.heartbeats}.groups"

    @property
    def deltas(self) -> tuple[str, ...]:
        """The topics by which contributions go from node to node."""
        return (self.broadcast,) if self.shards is None else (self.broadcast, self.shards)

    @classmethod
    def of(cls, run: JobRun) -> JobTopics:
        job = run.job
        return cls(
            run.layout,
            job.control_topic,
            control_topic(job).checkpoints,
            heartbeat_topic(job),
            job.broadcast_topic(run.incarnation),
            {name: output.topic for name, output in job.outputs.items()},
            job.shards_topic(run.incarnation) if run.apart else None,
        )


class Description(msgspec.Struct):
    """What JobStarted records beside the fingerprint, so that all nodes begin alike."""

    job: str
    code: str
    start_offsets: list[int]
    output_partitions: dict[str, int]
    live_guard_ms: int | msgspec.UnsetType | None = msgspec.UNSET
    """The skew guard of a source that declares "live". A release that knew no such source has left it out."""
    topic_partitions: list[int] | msgspec.UnsetType = msgspec.UNSET
    """Of each source's topic; left out where the job has one source."""


def live_guard_ms(bounded: bool) -> int | None:
    """The record of an incarnation's start: each node that replays it has to set the same records aside."""
    return None if bounded else LIVE_MAX_FUTURE_SKEW_MS


def read_ownership(log: Log, job: Job) -> Ownership | None:
    """The control topic folded to its end; None if the job never ran on this log."""
    return JobControlHistory(log, job).ownership if job.control_topic in log.topics() else None


def open_job(
    log: Log, job: Job, *, reset: bool = False, accept_code: bool = False, bounded: bool = False, command_id: str = ""
) -> JobRun:
    """Start the job on this log, or resume it where it was; safe when several processes do it at once.

    ``reset`` starts the next incarnation with empty state. ``accept_code`` resumes with changed code as long as the
    declared states, source and outputs are the same. An incarnation that is started ``bounded`` has no skew guard but
    a declared one. ``command_id``: of the command that accepts it, "": a new one. Raises ``JobMismatch`` with what
    differs, ``UnknownTopic`` if the input does not exist.
    """
    return open_history(log, job, reset=reset, accept_code=accept_code, bounded=bounded, command_id=command_id)[0]


def open_history(
    log: Log, job: Job, *, reset: bool = False, accept_code: bool = False, bounded: bool = False, command_id: str = ""
) -> tuple[JobRun, JobControlHistory]:
    """As ``open_job``; also gives the control topic as it was read for that, so that a node need not read it again."""
    layout = input_layout(log, job)
    partitions = layout.partitions
    _check_control(log, job)
    log.create_topic(job.control_topic, 1)
    log.create_topic(control_topic(job).checkpoints, 1)
    log.create_topic(heartbeat_topic(job), 1, retention_ms=HEARTBEAT_RETENTION_MS)
    history = JobControlHistory(log, job)
    incarnation = history.ownership.incarnation
    if incarnation == NO_INCARNATION or reset:
        described = _described(log, job, layout, bounded)
        start = m.JobStarted(incarnation + 1, job.fingerprint(), partitions, described)
        # Before the record: a reader that finds an incarnation on the log finds its topics, or they were deleted.
        create_topics(log, job, start.incarnation, partitions)
        log.append(job.control_topic, 0, [m.encode(start)])
        history.read()
    assert history.ownership.started is not None
    run = _checked(job, history.ownership, layout, accept_code)
    if not is_recorded(job.program.version, history.ownership.codes):
        log.append(job.control_topic, 0, [_command(run, CODE, job.program.version.encode(), command_id)])
        history.read()
    _check_topics(log, run)
    return run, history


def with_policy(job: Job, on_error: Literal["fail", "dead-letter"] | None) -> Job:
    """The job with another policy for records that make its function fail; None: as it is.

    The policy may change on an existing state: up to its end, what a job gives that stops at a failure is what it gives
    when it goes on.
    """
    return job if on_error in (None, job.on_error) else dataclasses.replace(job, on_error=on_error)


def failure_key(log: Log, job: Job) -> str:
    """Which failures concern this code: another code, policy or a retry since then is worth another try."""
    return JobControlHistory(log, job).failure_key(job)


def request_retry(log: Log, run: JobRun) -> None:
    """Let nodes that start from now on try again where the function failed, with the same code."""
    log.append(run.job.control_topic, 0, [_command(run, RETRY)])


def declare_end(log: Log, run: JobRun, offsets: list[int] | None = None, *, reached: bool = False) -> list[int]:
    """Declare the end of the input: it ends at ``offsets`` (default: where the topic ends now). The first one wins.

    Offsets that are given may still be to come, unless they were ``reached``.
    """
    reached = reached or offsets is None
    ends = [log.end_offset(*place) for place in run.layout.places()] if offsets is None else offsets
    values = [m.encode(m.EndOfInput(run.incarnation, p, end, reached)) for p, end in enumerate(ends)]
    log.append(run.job.control_topic, 0, values)
    return ends


def request_stop(log: Log, run: JobRun, command_id: str | None = None) -> None:
    """Request that all present nodes drain, save and leave; once for each ``command_id`` (default: a new one)."""
    log.append(run.job.control_topic, 0, [_command(run, "stop", command_id=command_id)])


def _command(run: JobRun, name: str, argument: str = "", command_id: str | None = None) -> bytes:
    """As a record that counts once, however often it is read."""
    return m.encode(m.Command(run.incarnation, name, argument, command_id or uuid4().hex))


def _described(log: Log, job: Job, layout: InputLayout, bounded: bool) -> dict[str, str]:
    ends = {"latest": log.end_offset, "earliest": log.start_offset}
    offsets = [ends[partition.source.start](*partition.place) for partition in layout]
    sizes, guard = _output_sizes(job, layout.partitions), live_guard_ms(bounded)
    described = Description(job.describe(), job.program.code_hash(), offsets, sizes, guard)
    if len(layout.sources) > 1:
        described.topic_partitions = list(layout.counts)
    upstream = upstream_incarnations(log, *job.topics)
    upstream.pop(job.name, None)  # it reads nothing of its own
    return {
        "run": msgspec.json.encode(described).decode(),
        VERSION: job.program.version.encode(),
        m.UPSTREAM: msgspec.json.encode(upstream).decode(),
    }


def input_layout(log: Log, job: Job) -> InputLayout:
    """The partitions that the input has now. Raises ``UnknownTopic``, with how to make it."""
    topics = log.topics()
    for topic in job.topics:
        if topic not in topics:
            inputs = [name for name in topics if not name.startswith(INTERNAL)]
            raise UnknownTopic(
                f"the input of job {job.name!r}: no topic {topic!r} in this log{nearest(topic, inputs)}; "
                f"make it: holon log append FILE --topic {topic} --create [--partitions P]"
            )
    return InputLayout(job.sources, [topics[topic] for topic in job.topics])


def _checked(job: Job, ownership: Ownership, layout: InputLayout, accept_code: bool) -> JobRun:
    started = ownership.started
    assert started is not None
    described = msgspec.json.decode(started.description["run"], type=Description)
    several = [] if described.topic_partitions is msgspec.UNSET else described.topic_partitions
    was = several or [started.partitions]
    if _declared_topics(described.job) == job.topics:  # else the declarations differ, which is found below
        for topic, before, now in zip(job.topics, was, layout.counts, strict=True):
            if before != now:
                raise JobMismatch(other_partitions(job, topic, before, now))
    if VERSION not in started.description:
        described.job = _as_described_now(described.job, job)
    if described.live_guard_ms is msgspec.UNSET and job.sources[0].max_future_skew_ms == "live":
        described.job = described.job.replace(" skew None idle ", " skew live idle ", 1)
    if _but_policy(described.job) != _but_policy(job.describe()):
        raise JobMismatch(
            f"job {job.name!r} has state of another declaration on this log: {_difference(described.job, job)}; use "
            f"the same declaration, another job name, or --reset to start its next incarnation from empty state"
        )
    _check_code(job, ownership, accept_code)
    upstream, continued = (started.description.get(name) for name in (m.UPSTREAM, m.CONTINUES))
    return JobRun(
        with_column_forms(job),
        started.incarnation,
        started.partitions,
        tuple(described.start_offsets),
        dict(described.output_partitions),
        None if upstream is None else msgspec.json.decode(upstream, type=dict[str, int]),
        None if continued is None else msgspec.json.decode(continued, type=ContinuedIncarnation),
        None if described.live_guard_ms is msgspec.UNSET else described.live_guard_ms,
        tuple(several),
    )


def _declared_topics(described: str) -> list[str]:
    """Those of the sources, in their order."""
    return re.findall(r"^(?:\d+\. )?source (\S+) ", described, re.MULTILINE)


def _check_code(job: Job, ownership: Ownership, accept_code: bool) -> None:
    mine, advice = job.program.version, "--reset to start again from empty state"
    if is_recorded(mine, ownership.codes):
        return
    stored = last_recorded(ownership.codes)
    if stored is None:
        check_unknown(job.name, accept_code, advice)
        return
    check_state(job.name, mine, stored, accept_code, advice)
    if not accept_code:
        raise JobMismatch(
            f"job {job.name!r} has state made by other code on this log: results of both would mix; other is "
            f"{mine.changed_since(stored)}; use the same code, {ACCEPT} to go on with this one, or {advice}"
        )


def _as_described_now(before: str, job: Job) -> str:
    """A declaration that a release without versions has written down."""
    for decl in job.program.locals().values():
        before = before.replace(decl.describe_with_initial(), decl.describe())
    return before


def _difference(before: str, job: Job) -> str:
    old, new = _but_policy(before), _but_policy(job.describe())
    gone = [line for line in old if line not in new]
    come = [line for line in new if line not in old]
    return f"was {'; '.join(gone) or 'without'} | is {'; '.join(come) or 'without'}"


def _but_policy(described: str) -> list[str]:
    """The lines of a declaration; ``on_error`` is no part of what state depends on (see ``with_policy``)."""
    return [re.sub(r" on_error \S+$", "", line) for line in described.splitlines()]


def _output_sizes(job: Job, partitions: int) -> dict[str, int]:
    return {name: output.partitions or partitions for name, output in job.outputs.items()}


def create_topics(log: Log, job: Job, incarnation: int, partitions: int) -> None:
    """Those that an incarnation writes to; outputs may be there already."""
    log.create_topic(job.broadcast_topic(incarnation), partitions)
    if contributed_states(job):
        log.create_topic(job.shards_topic(incarnation), partitions)
    for name, size in _output_sizes(job, partitions).items():
        log.create_topic(job.outputs[name].topic, size)


def _check_control(log: Log, job: Job) -> None:
    """A job whose control topic was deleted must not begin as if it had never run: its old outputs are still there."""
    topics = log.topics()
    left = job.broadcast_topic(0)
    if job.control_topic not in topics and any(log.end_offset(left, p) for p in range(topics.get(left, 0))):
        raise JobMismatch(
            f"job {job.name!r}: its control topic {job.control_topic!r} is gone from the log, while {left!r} is there: "
            f"the job's state is lost, and its results would be given again; run it under another name, or delete all "
            f"topics of the job, those of its outputs too"
        )


def _check_topics(log: Log, run: JobRun) -> None:
    """All topics of the incarnation are there, with their partitions; one that was deleted is not made anew."""
    wanted = topics_of(run)
    deadline = time.monotonic() + max(TOPIC_POLL_TIMEOUT_S, log.topic_spread_s)
    while (problem := changed_topic(run, wanted, log.topics())) is not None:
        if time.monotonic() > deadline:
            raise JobMismatch(problem)
        time.sleep(TOPIC_POLL_INTERVAL_S)  # another broker may not know a topic that was made just now


def topics_of(run: JobRun) -> dict[str, int]:
    """Every topic that a run needs, with its number of partitions."""
    topics = JobTopics.of(run)
    wanted = topics.layout.topics | {topics.control: 1, topics.heartbeats: 1, topics.broadcast: run.partitions}
    wanted[control_topic(run.job).checkpoints] = 1
    wanted |= {} if topics.shards is None else {topics.shards: run.partitions}
    return wanted | {topic: run.output_partitions[name] for name, topic in topics.outputs.items()}


def changed_topic(run: JobRun, wanted: Mapping[str, int], there: Mapping[str, int]) -> str | None:
    """The message about the first topic that is not as the run needs it; None if all are."""
    for topic, partitions in wanted.items():
        found = there.get(topic)
        if found is None:
            return (
                f"job {run.job.name!r}: topic {topic!r} is gone from the log, and what it held with it; bring it back, "
                f"or start again with --reset"
            )
        if found != partitions and topic in run.job.topics:
            return other_partitions(run.job, topic, partitions, found)
        if found != partitions:
            return f"job {run.job.name!r}: topic {topic!r} has {found} partitions, not {partitions}; use --reset"
    return None


def load_job(reference: str) -> Job:
    """``MODULE:JOB``: a ``Job``, a ``Flow``, or a function that gives one. Raises ``UnknownName``.

    ``MODULE:FUNCTION?name=1&other=2`` passes integer arguments to the function.
    """
    found = _load(reference)
    return found.job if isinstance(found, Flow) else found


def load_flow(reference: str) -> Flow:
    """As ``load_job``; raises ``UnknownName`` for a job that was not written as a flow."""
    found = _load(reference)
    if not isinstance(found, Flow):
        raise UnknownName("flow", f"{reference} (a Job, which has no steps)")
    return found


def _load(reference: str) -> Job | Flow:
    path, _, query = reference.partition("?")
    arguments = {key: int(value) for key, value in parse_qsl(query, strict_parsing=bool(query))}
    module_name, colon, name = path.partition(":")
    if not colon or not module_name or not name:
        raise UnknownName("job", f"{reference} (expected MODULE:JOB)")
    module = import_user_module(module_name)
    found: Any = getattr(module, name, None)
    if callable(found) and not isinstance(found, Job):
        found = found(**arguments)
    if not isinstance(found, Job | Flow):
        jobs = [key for key, value in vars(module).items() if isinstance(value, Job | Flow) or _gives_job(value)]
        raise UnknownName(f"job in {module_name}", name, jobs)
    return found


def _gives_job(value: object) -> bool:
    """True for a function whose annotation names a job as its result."""
    given = getattr(value, "__annotations__", {}).get("return", "") if callable(value) else ""
    return str(given).partition("[")[0].rpartition(".")[2] in ("Job", "Flow") or given in (Job, Flow)


__all__ = [
    "Description",
    "JobControlHistory",
    "JobMismatch",
    "JobTopics",
    "UnknownTopic",
    "declare_end",
    "failure_key",
    "heartbeat_topic",
    "load_job",
    "open_history",
    "open_job",
    "read_ownership",
    "request_retry",
    "request_stop",
    "with_policy",
]
