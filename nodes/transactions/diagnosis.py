"""The error for a node that joined a transactional job with this program, without joining it."""

from __future__ import annotations

import msgspec

from nodes.log.contract import Log
from nodes.machine.code_check import JobMismatch, is_recorded, last_recorded
from nodes.transactions.control_history import control_history
from nodes.transactions.job_start import KeyLayout, check_layout, has_held, started
from nodes.transactions.topics import TransactionTopics
from nodes.transactions.upgrades.programs import never_held, version_record
from transactional.describing import code_of, untyped, version_of
from transactional.operators import Program


class MisfitRow(msgspec.Struct):
    """A field or type that differs; ``decodes``: stored values can be read, and lose or change something."""

    place: str
    stored: str
    code: str
    effect: str
    decodes: bool


class Diagnosis(msgspec.Struct):
    """``ok``: a node joins without --accept-code, unless ``members`` with other code are at work.

    ``code``: ``new`` (the job has not begun), ``same``, ``held``, ``other`` or ``unknown`` (of another release). From
    one that is ``held`` the job has gone on by an upgrade. ``untyped``: operators whose state has no type to compare;
    ``unknown``: what the code uses that cannot be compared.
    """

    ok: bool
    job: str
    code: str
    changed: str
    misfits: list[MisfitRow]
    members: list[str]
    untyped: list[str]
    unknown: list[str]
    problem: str | None
    in_force: str | None = None
    """The newest version, as ``MODULE:PROGRAM``; None: there was no upgrade."""


def diagnose(log: Log, program: Program, reference: str, sequencers: int | None = None) -> Diagnosis:
    """``sequencers`` None: as many as the job has. Reads the log, and writes nothing."""
    topics, version = TransactionTopics(program.name), version_of(program)
    found = Diagnosis(
        True, program.name, "new", "", [], [], untyped(program), list(code_of(program).unknown), problem=None
    )
    begun = started(log, topics) if topics.control in log.topics() else None
    if begun is None:
        return found
    try:
        mine = KeyLayout.of(program, sequencers or begun.partitions - program.partitions)
        check_layout(program.name, begun, mine, lambda: has_held(log, topics, begun, version))
    except JobMismatch as error:
        found.ok, found.problem = False, str(error)
    ownership = control_history(log, topics, begun.partitions).read()
    found.members = sorted(ownership.members)
    stored = last_recorded(ownership.codes)
    if stored is None:
        found.ok, found.code = False, "unknown"
        found.problem = found.problem or "the job was begun by another release, which recorded no types of its state"
        return found
    holding = ownership.programs.holding
    has_been = any(each.code == version.code for each in holding)
    is_same = holding[-1].code == version.code if has_been else is_recorded(version, ownership.codes)
    found.code = "same" if is_same else "held" if has_been else "other"
    found.changed = "" if is_same else version.changed_since(stored)
    if holding:
        newest = version_record(holding[-1])
        found.in_force = newest.reference
        if not has_been:
            found.ok, found.problem = False, found.problem or never_held(newest, reference, version.code)
    if found.code == "other":
        found.misfits = [
            MisfitRow(each.place, each.stored, each.code, each.effect, each.decodes) for each in version.misfits(stored)
        ]
        found.ok &= not found.misfits
    return found
