"""A transactional job is begun once on a log; later nodes and clients check that it is the same one."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgspec

from holon.fingerprint.version import FORMAT, JobVersion
from nodes.log.contract import Log
from nodes.machine import messages as m
from nodes.machine.code_check import JobMismatch
from nodes.machine.ownership.commands import VERSION
from nodes.transactions.control_history import control_history
from nodes.transactions.topics import FIRST_INCARNATION, TransactionTopics, control_topic
from transactional.describing import version_of
from transactional.operators import Program

ANSWER_KEY_BYTES = 32


class KeyLayout(msgspec.Struct):
    """Where keys are: it must not change while a job exists. ``format``: so that older releases refuse the job."""

    operators: list[tuple[str, int, str | None]]
    sequencers: int
    format: int = 1

    @classmethod
    def of(cls, program: Program, sequencers: int) -> KeyLayout:
        found = [(each.name, each.partitions, each.colocate) for _, each in sorted(program.operators.items())]
        return cls(found, sequencers, FORMAT)


def begin(
    log: Log,
    topics: TransactionTopics,
    program: Program,
    sequencers: int,
    version: JobVersion | None = None,
    new_key: Callable[[int], bytes] = secrets.token_bytes,
) -> bytes:
    """Start the job, or check that keys are where they were; gives its answer key. Raises ``JobMismatch``.

    ``version``: the program's, if it is known; whether that fits is checked when a node joins (``CodeRule``).
    ``new_key``: a secret of so many bytes.
    """
    mine = KeyLayout.of(program, sequencers)
    begun = started(log, topics)
    if begun is None:
        version = version_of(program) if version is None else version
        units = sequencers + program.partitions
        described = {VERSION: version.encode(), m.ANSWER_KEY: new_key(ANSWER_KEY_BYTES).hex()}
        start = m.JobStarted(FIRST_INCARNATION, fingerprint(mine), units, described)
        log.append(topics.control, 0, [m.encode(start)])
        begun = started(log, topics)
    check_layout(program.name, begun, mine, lambda: has_held(log, topics, begun, version or version_of(program)))
    return answer_key(program.name, begun)


def answer_key(job: str, begun: m.JobStarted | None) -> bytes:
    """With which nodes of the job prove answers of external calls; empty: an older release has begun the job.

    It is on the control topic, which clients need not read. Raises ``JobMismatch`` where it is none.
    """
    text = "" if begun is None else begun.description.get(m.ANSWER_KEY, "")
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b"?"
    if len(found) not in (0, ANSWER_KEY_BYTES):
        raise JobMismatch(f"job {job!r} was begun with an answer key that is none: give the program another name")
    return found


def has_held(log: Log, topics: TransactionTopics, begun: m.JobStarted | None, version: JobVersion) -> bool:
    """Whether this version of the program holds since an upgrade, or did: that has checked its operators."""
    if begun is None:
        return False
    programs = control_history(log, topics, begun.partitions).read().programs
    return any(each.code == version.code for each in programs.holding)


def check_layout(job: str, begun: m.JobStarted | None, mine: KeyLayout, has_held: Callable[[], bool]) -> None:
    """Raises ``JobMismatch`` with what differs. ``has_held``: whether an upgrade has checked that; asked if needed."""
    found = None if begun is None else _layout(begun.fingerprint)
    if found is None:
        text = "" if begun is None else begun.fingerprint
        raise JobMismatch(f"job {job!r} was started as {text!r} by another release, which this one cannot read")
    was, now = _lines(found), _lines(mine)
    if was != now and not (found.sequencers == mine.sequencers and has_held()):
        gone, come = [each for each in was if each not in now], [each for each in now if each not in was]
        advice = (
            "a job keeps its operators and their partitions; give the program another name to start anew"
            if gone
            else "holon txn upgrade adds operators to a job whose nodes are at work"
        )
        before, after = "; ".join(gone) or "less", "; ".join(come) or "less"
        raise JobMismatch(f"job {job!r} was started with {before}, and has {after} now: {advice}")


def key_layout(job: str, begun: m.JobStarted | None) -> KeyLayout:
    """The keys as the job began. Raises ``JobMismatch`` where another release has begun it, or nobody yet."""
    found = None if begun is None else _layout(begun.fingerprint)
    if found is None:
        text = "no node has begun it yet" if begun is None else "another release has begun it in a way that is unknown"
        raise JobMismatch(f"job {job!r}: {text}")
    return found


def fingerprint(layout: KeyLayout) -> str:
    """As JobStarted has it."""
    return msgspec.json.encode(layout).decode()


def _layout(text: str) -> KeyLayout | None:
    try:
        return msgspec.json.decode(text, type=KeyLayout)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _lines(layout: KeyLayout) -> list[str]:
    lines = [
        f"operator {name!r} of {partitions} partitions" + (f", colocate={colocate!r}" if colocate is not None else "")
        for name, partitions, colocate in layout.operators
    ]
    return [*lines, f"{layout.sequencers} sequencers"]


def started(log: Log, topics: TransactionTopics) -> m.JobStarted | None:
    """How the job was started: the first such record counts, whatever precedes it. None: it was not.

    Raises ``JobMismatch`` where a newer release has written before that.
    """
    begun = control_topic(topics).missed(log)
    if begun is not None:
        return begun.state.started
    offset, end = 0, log.end_offset(topics.control, 0)
    while offset < end:
        chunk = log.read(topics.control, 0, offset)
        for at, value in zip(chunk.offsets.tolist(), chunk.values, strict=True):
            try:
                message = m.decode_control(value)
            except m.BadMessage as error:
                if error.reason is m.BadReason.NEWER_VERSION:
                    text = f"job {topics.job!r}: a newer Holon has written {topics.control}[0] at offset {at}: {error}"
                    raise JobMismatch(text) from None
                continue  # every node passes it over
            if isinstance(message, m.JobStarted) and message.incarnation == FIRST_INCARNATION:
                return message
        offset = max(chunk.next_offset, offset + 1)
    return None
