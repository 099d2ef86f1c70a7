"""An operator's part in an upgrade: what would be wrong with it, then the proposal, and waiting until it holds.

Two rules for this file. All that is refused is refused by name, before anything changes. The command only proposes: if
it is killed, the nodes go on without it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping

import msgspec

from holon.fingerprint.version import JobVersion
from nodes.checkpoints.store import CheckpointStore
from nodes.errors import RunFailed
from nodes.log.contract import Log, TopicPartition
from nodes.machine import messages as m
from nodes.machine.code_check import last_recorded
from nodes.machine.ownership import programs as p
from nodes.machine.ownership.ownership import Ownership
from nodes.transactions.clients.patience import Patience
from nodes.transactions.control_history import at_work, control_history, nodes_at_work
from nodes.transactions.job_start import KeyLayout, key_layout, started
from nodes.transactions.topics import FIRST_INCARNATION, TransactionTopics
from nodes.transactions.upgrades.programs import named_program, version_record
from nodes.transactions.upgrades.stored_values import tried
from transactional.describing import version_of
from transactional.operators import Operator, Program
from transactional.program_versions import OperatorOutline, ProgramVersion, misplaced

LISTEN_S = 2.0
"""So long heartbeats are awaited."""
_WAIT_S = 0.1
_SHOWN = 5


class VersionShown(msgspec.Struct):
    """A version of the program. ``number`` 0 is the one that the job began with; "" is not known."""

    number: int
    version: int
    code: str
    reference: str


class Upgrade(msgspec.Struct):
    """``since_epoch`` None: it does not hold. ``values`` of ``checkpoints`` were tried. ``problems``: why not."""

    job: str
    before: VersionShown
    after: VersionShown
    nodes: list[str]
    values: int
    checkpoints: int
    problems: list[str]
    dry_run: bool
    since_epoch: int | None = None
    took_s: float = 0.0


class Upgrader:
    """Of one job, to one program. Reads the log and the store; ``propose`` alone writes what counts.

    ``patience``: for room on the log.
    """

    def __init__(
        self, log: Log, store: CheckpointStore, program: Program, reference: str, patience: Patience | None = None
    ) -> None:
        self._patience = Patience() if patience is None else patience
        self._log = log
        self._store = store
        self._program = program
        self._topics = topics = TransactionTopics(program.name)
        begun = started(log, topics)
        if begun is None:
            raise RunFailed(f"job {program.name!r} has not begun on this log: start nodes with the program instead")
        self._layout = key_layout(program.name, begun)
        self._history = control_history(log, topics, begun.partitions)
        self._version = version_of(program)
        self._reference = reference

    def check(self, *, dry_run: bool) -> Upgrade:
        """All that is against it; nothing is written. Raises ``RunFailed`` where stored state cannot be read."""
        ownership = self._history.read()
        living = self._at_work(ownership)
        may_wait = not living and not dry_run and bool(ownership.members)
        if may_wait and self._patience.awaited_heartbeats(self._log, self._topics):
            living = self._at_work(ownership := self._history.read())
        found = tried(self._log, self._store, ownership, self._program, self._layout.sequencers)
        problems = [*self._running(ownership, living), *self._misplaced(ownership), *self._lost(ownership)]
        for each in found.problems:
            more = "" if each.count == 1 else f" (and {each.count - 1} more)"
            problems.append(f"the state of {each.operator} {each.key!r}{more}: {each.problem}")
        if not living:
            silent = ", ".join(sorted(ownership.members)[:_SHOWN])
            why = f"; each of {silent} has ended, or waits for room on the log" if silent else ""
            problems.append(f"no node of the job is at work: start its nodes, then upgrade them{why}")
        after = self._proposed(ownership)
        return Upgrade(
            self._program.name, _shown_before(ownership), _shown(named_program(after)), living, found.values,
            found.checkpoints, problems, dry_run,
        )  # fmt: skip

    def propose(self, checked: Upgrade, patience_s: float) -> Upgrade:
        """Returns when it holds. Raises ``RunFailed`` where it was refused, or does not hold in that time.

        ``LogFull``: there was no room for all patience, and nothing is proposed.
        """
        name = uuid.uuid4().hex
        named = named_program(self._proposed(self._history.read()))
        argument = p.argument(p.Proposal(name, named, self._version.encode()))
        record = m.encode(m.Command(FIRST_INCARNATION, p.PROGRAM, argument, name))
        self._patience.append(self._log, self._topics.control, record)
        begin_s = time.monotonic()
        while (problem := (ownership := self._history.read()).programs.outcome(name)) is None:
            if time.monotonic() - begin_s > patience_s:
                raise RunFailed(
                    f"job {checked.job!r}: the upgrade to {self._reference} does not hold after {patience_s:g} s: "
                    f"{_progress(ownership, checked.nodes)}. It goes on without this command"
                )
            self._log.wait({TopicPartition(self._topics.control, 0): self._history.offset}, _WAIT_S)
        if problem:
            raise RunFailed(f"job {checked.job!r} is not upgraded to {self._reference}: {problem}")
        checked.since_epoch = next(
            each.since for each in ownership.programs.holding if each.number == checked.after.number
        )
        checked.took_s = round(time.monotonic() - begin_s, 3)
        return checked

    # --- what is against it -------------------------------------------------------------------------------------------

    def _running(self, ownership: Ownership, living: list[str]) -> Iterator[str]:
        proposal = ownership.programs.proposal
        if proposal is not None:
            yield f"an upgrade to {proposal.program.reference} runs: {_progress(ownership, living)}"
        before = _shown_before(ownership)
        if before.code == self._version.code:
            yield f"{self._reference} is the version in force (number {before.number}, code {before.code})"

    def _misplaced(self, ownership: Ownership) -> Iterator[str]:
        known, operators = _operators(ownership, self._layout), self._program.operators
        groups = sorted({(each.partitions, each.colocate or "") for each in known.values()})
        for name in misplaced(self._proposed(ownership).operators, known):
            mine, before = _place(operators[name]), known.get(name)
            if before is not None:
                yield f"operator {name!r} has {mine}, and {_place(before)} in the job, where its keys live"
            else:
                places = "; ".join(_placed(partitions, colocate or None) for partitions, colocate in groups)
                yield f"operator {name!r} is new and has {mine}; the others have {places}, as a new one must"

    def _lost(self, ownership: Ownership) -> Iterator[str]:
        """Values that would be dropped in silence: types that differ where no ``upgrade`` says how."""
        stored = last_recorded(ownership.codes)
        upgraded = {name for name, each in self._program.operators.items() if each.upgrade is not None}
        for each in self._version.misfits(stored) if stored is not None else ():
            if each.place.partition(".")[0] not in upgraded and each.place.partition(".")[0] in self._program.operators:
                yield f"{each}; Operator(upgrade=...) says what becomes of stored values"

    # --- the job ------------------------------------------------------------------------------------------------------

    def _proposed(self, ownership: Ownership) -> ProgramVersion:
        number = ownership.programs.number + 1
        return ProgramVersion.of(self._program, number=number, code=self._version.code, reference=self._reference)

    def _at_work(self, ownership: Ownership) -> list[str]:
        """All members that are not leaving, if their heartbeats come soon enough."""
        members = at_work(ownership.members, ownership)
        return nodes_at_work(self._log, self._topics, lambda: ownership, LISTEN_S, lambda found: found == members)


def _operators(ownership: Ownership, layout: KeyLayout) -> Mapping[str, OperatorOutline]:
    """By name, of all versions so far; functions are those of upgrades alone."""
    found = {name: OperatorOutline(name, count, colocate, []) for name, count, colocate in layout.operators}
    for named in ownership.programs.holding:
        found |= {each.name: each for each in version_record(named).operators}
    return found


def _place(operator: Operator | OperatorOutline) -> str:
    return _placed(operator.partitions, operator.colocate)


def _placed(partitions: int, colocate: str | None) -> str:
    return f"{partitions} partitions" + ("" if colocate is None else f", colocate={colocate!r}")


def _progress(ownership: Ownership, living: list[str]) -> str:
    loaded = ownership.programs.loaded
    lacking = [each for each in living if each not in loaded]
    missing = f"; {', '.join(lacking[:_SHOWN])} {'has' if len(lacking) == 1 else 'have'} not" if lacking else ""
    return f"{len(loaded)} of {len(set(living).union(loaded))} nodes have loaded it{missing}"


def _shown(named: p.NamedProgram) -> VersionShown:
    return VersionShown(named.number, named.version, named.code, named.reference)


def _shown_before(ownership: Ownership) -> VersionShown:
    if ownership.programs.holding:
        return _shown(ownership.programs.holding[-1])
    stored: JobVersion | None = last_recorded(ownership.codes)
    return VersionShown(0, 1, "" if stored is None else stored.code, "")
