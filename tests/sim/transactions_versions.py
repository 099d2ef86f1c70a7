"""The versions of a simulated job's program, and who proposes which."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from nodes.log.contract import Log
from tests.sim.transactions_life import EPOCHS
from transactional import Program
from transactional.epochs.messages import NewProgram, to_bytes
from transactional.program_versions import KnownPrograms, ProgramVersion


class Versions:
    """The job begins with the first of these programs."""

    def __init__(self, programs: Sequence[Program], seed: int) -> None:
        self.all = list(programs)
        self.draw = Random(seed)
        self._proposed = 0

    def known(self, own: int = 0) -> KnownPrograms:
        """All of them, at a node that was started with this one."""
        known = KnownPrograms(self.all[own], code=str(own), first=ProgramVersion.of(self.all[0], code="0"))
        for number, program in enumerate(self.all):
            known.add(str(number), program)
        return known

    def drawn(self) -> KnownPrograms:
        """All of them, at a node that was started with any."""
        return self.known(self.draw.randrange(len(self.all)))

    def maybe_propose(self, log: Log, odds: float) -> None:
        """Somebody proposes one, where there are several."""
        if len(self.all) > 1 and self.draw.random() < odds:
            log.append(EPOCHS, 0, [self.proposal()])

    def proposal(self) -> bytes:
        """The record of the next version, or of one whose number is known; it may be an old one."""
        which = self.draw.randrange(len(self.all))
        number = self._proposed + 1 - (self.draw.random() < 0.3)
        self._proposed = max(self._proposed, number)
        return to_bytes(NewProgram(ProgramVersion.of(self.all[which], number=number, code=str(which))))
