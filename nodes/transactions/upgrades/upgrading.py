"""A node's part in an upgrade: it loads the proposed program beside its loop, and says so.

When all nodes that live have it, one of them says that too, and each appends the version to the epochs topic, where the
first one wins. So any of these nodes may die at any time, and so may the command.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial

from holon.fingerprint.version import JobVersion
from nodes.checkpoints.saver import Saver
from nodes.log.contract import Log
from nodes.machine import messages as m
from nodes.machine.ownership import programs as p
from nodes.machine.ownership.claims import Claiming
from nodes.transactions.upgrades.programs import NodePrograms, named_program, version_record
from transactional.epochs.ledger import Ledger
from transactional.epochs.messages import NewProgram, to_bytes
from transactional.errors import ProgramMissing
from transactional.operators import Program

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadedProgram:
    """``program`` None: it cannot be here, and ``error`` says why."""

    id: str
    code: str
    program: Program | None
    error: str = ""


class Upgrading:
    """Of one node. ``turn`` gives what to append to the control topic; it appends to the epochs topic itself."""

    def __init__(
        self, claiming: Claiming, log: Log, epochs: str, programs: NodePrograms, loader: Saver[LoadedProgram]
    ) -> None:
        self._claiming = claiming
        self._log = log
        self._epochs = epochs
        self._programs = programs
        self._loader = loader
        self._begun = ""  # the id of the last proposal of which the program was loaded, or is
        self._ready = ""
        self._proposed = 0
        self._announced = 0

    def begins(self) -> None:
        """The control topic is read, and the ledger is not begun. Raises ``ProgramMissing``."""
        self._programs.begins(self._claiming.ownership.programs)

    def turn(self, ledger: Ledger, now_ms: int) -> list[bytes]:
        """With the control topic read to its end."""
        fold, written = self._claiming.ownership.programs, list[m.Command]()
        for loaded in self._loader.finished():
            written.append(self._loaded(loaded, ledger))
        proposal = fold.proposal
        if proposal is None:
            return [m.encode(each) for each in written]
        if self._begun != proposal.id:
            self._begun = proposal.id
            made = self._loader.save(partial(self._load, proposal))
            written += [] if made is None else [self._loaded(made, ledger)]
        if self._all_have_it(proposal, now_ms):
            self._ready = proposal.id
            written.append(self._command(p.PROGRAM_READY, proposal.id))
        number, newest = proposal.program.number, ledger.versions.newest
        if fold.ready and newest.number < number and self._proposed < number:
            self._proposed = number
            self._log.send(self._epochs, 0, [to_bytes(NewProgram(version_record(proposal.program)))])
        if newest.number == number and self._announced < number:
            self._announced = number
            named = named_program(newest, ledger.versions.since(number))
            logger.info("%s holds from epoch %d on", newest, named.since)
            written.append(self._command(p.PROGRAM_HOLDS, p.argument(p.Holding(named, proposal.described))))
        return [m.encode(each) for each in written]

    def _all_have_it(self, proposal: p.Proposal, now_ms: int) -> bool:
        """Whether no living node lacks it that stays. Nodes that are not known to have died count."""
        fold, claiming = self._claiming.ownership.programs, self._claiming
        if fold.ready or self._ready == proposal.id or claiming.node not in fold.loaded:
            return False
        living = set(claiming.member.live(now_ms)).union(claiming.ownership.members.keys() & {claiming.node})
        return living <= set(fold.loaded)

    def _load(self, proposal: p.Proposal) -> LoadedProgram:
        """Beside the node's loop."""
        code = proposal.program.code
        try:
            version = version_record(proposal.program)
            if code == self._programs.version.code:
                return LoadedProgram(proposal.id, code, self._programs.own)
            described = JobVersion.decode(proposal.described)
            return LoadedProgram(proposal.id, code, self._programs.load(version, described))
        except ProgramMissing as error:
            return LoadedProgram(proposal.id, code, None, str(error))

    def _loaded(self, loaded: LoadedProgram, ledger: Ledger) -> m.Command:
        if loaded.program is not None:
            self._programs.known.add(loaded.code, loaded.program)
        newest = ledger.versions.newest
        current = named_program(newest, ledger.versions.since(newest.number))
        loading = p.Loading(loaded.id, self._claiming.node, current, loaded.error)
        return self._command(p.PROGRAM_LOADED, p.argument(loading))

    def _command(self, name: str, argument: str) -> m.Command:
        return m.Command(self._claiming.incarnation, name, argument)
