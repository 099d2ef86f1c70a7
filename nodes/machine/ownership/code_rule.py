"""Which nodes may work on a transactional job together: those whose code is one that the job goes on with.

Two rules for this file. The control topic's order decides, so that of two nodes with different code one leaves,
whatever each has seen of the other. While no other node is there, changed code has no effect here.
"""

from __future__ import annotations

from collections.abc import Sequence

from holon.fingerprint.version import JobVersion
from nodes.machine.code_check import ACCEPT, JobMismatch, check_state, check_unknown, is_recorded, last_recorded
from nodes.machine.ownership.commands import CODE, CODE_BESIDE
from nodes.machine.ownership.ownership import Ownership

ANEW = "give the program another name to start anew"


class CodeRule:
    """Of one node. ``accept``: the operator has confirmed this code for the job's state, and beside other code."""

    def __init__(self, job: str, version: JobVersion, *, accept: bool = False) -> None:
        self.job = job
        self.version = version
        self.accept = accept
        self._awaited = False  # what this node has declared is not on the log yet
        self._declared = False
        self._known: tuple[list[str], bool] | None = None

    def holds(self, ownership: Ownership) -> bool:
        """Whether this node's code is one that the job goes on with: with one of before it has the newer ones too."""
        if self._known is None or self._known[0] is not ownership.codes:
            holding = any(each.code == self.version.code for each in ownership.programs.holding)
            self._known = ownership.codes, holding or is_recorded(self.version, ownership.codes)
        return self._known[1]

    def check_state(self, ownership: Ownership) -> None:
        """Raises ``JobMismatch`` where stored state does not fit."""
        stored = last_recorded(ownership.codes)
        if stored is None:
            check_unknown(self.job, self.accept, f"or {ANEW}")
        else:
            check_state(self.job, self.version, stored, self.accept, ANEW)

    @property
    def awaits(self) -> bool:
        """Whether this node has declared its code, and has not read that back."""
        return self._awaited

    def accepted(self, version: str | None) -> None:
        """A declaration was read; None: all that there were."""
        self._awaited &= version not in (None, self.version.encode())

    def declare(self, ownership: Ownership, living: Sequence[str]) -> tuple[str, str]:
        """Name and argument of the command that makes this code one of the job's; ``living`` nodes have other code.

        Raises ``JobMismatch`` where it must not be.
        """
        if self._declared:  # another one did so since
            self.check_member(ownership)
        stored = last_recorded(ownership.codes)
        alike = stored is not None and stored.states == self.version.states
        if living and not (self.accept and alike):
            advice = (
                f"{ACCEPT} lets this one work beside them, if all answers are the same"
                if alike
                else f"types of state differ too, so that even {ACCEPT} cannot let it work beside them"
            )
            raise JobMismatch(
                f"job {self.job!r}: {', '.join(living)} work with other code: other is {self._changed(ownership)}. "
                f"Nodes with different code would disagree; stop those first (state stays); {advice}"
            )
        self._declared = self._awaited = True
        return CODE_BESIDE if living else CODE, self.version.encode()

    def check_member(self, ownership: Ownership) -> None:
        """Raises ``JobMismatch`` where the job has gone on with other code than this node's."""
        if not self.holds(ownership):
            raise JobMismatch(
                f"job {self.job!r} has gone on with other code since this node began: other is "
                f"{self._changed(ownership)}; this node leaves. Start it again with the code of the others"
            )

    def _changed(self, ownership: Ownership) -> str:
        stored = last_recorded(ownership.codes)
        return "not known" if stored is None else self.version.changed_since(stored)
