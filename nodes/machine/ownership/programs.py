"""Upgrades of a transactional job's program on the control topic: one is proposed after the other.

Two rules for this file. A version is text here: its meaning is that of the epochs topic, where it begins to hold. The
outcome of an upgrade follows from the order of the records alone.
"""

from __future__ import annotations

import msgspec

PROGRAM = "program"
"""Name of a ``Command``: an operator proposes a version; its argument is a ``Proposal``."""
PROGRAM_LOADED = "program loaded"
"""A node has it, or cannot have it: a ``Loading``."""
PROGRAM_READY = "program ready"
"""All nodes that live have it: the id of the proposal. From here on it is too late to refuse it."""
PROGRAM_HOLDS = "program holds"
"""By the epochs topic it holds: a ``Holding``."""
COMMANDS = frozenset({PROGRAM, PROGRAM_LOADED, PROGRAM_READY, PROGRAM_HOLDS})
KEPT_OUTCOMES = 16


class NamedProgram(msgspec.Struct, frozen=True):
    """A version of the program, for people and for nodes that load it. ``code`` is the digest that they compare."""

    number: int
    code: str
    version: int
    reference: str
    record: str
    """As the epochs topic has it."""
    since: int = 0
    """The first epoch in which it holds."""


class Proposal(msgspec.Struct, frozen=True):
    """``id`` is the operator's; ``described`` is the version of code and types (``JobVersion``)."""

    id: str
    program: NamedProgram
    described: str


class Loading(msgspec.Struct, frozen=True):
    """``error`` empty: the node has it. ``current``: the version that holds before, as this node has it."""

    id: str
    node: str
    current: NamedProgram
    error: str = ""


class Holding(msgspec.Struct, frozen=True):
    """A version, and the description of its code and types."""

    program: NamedProgram
    described: str


class ProgramState(msgspec.Struct, array_like=True, frozen=True):
    """The fold as a value. ``outcomes``: of upgrades that are over, by id: "" or why it was refused."""

    holding: list[NamedProgram] = []
    proposal: Proposal | None = None
    loaded: list[str] = []
    ready: bool = False
    outcomes: list[tuple[str, str]] = []


class ProgramFold:
    """``holding``: the versions so far, by number, with the one that holds as the last; none: there was no upgrade.

    ``proposal`` runs; ``loaded`` are the nodes that have it.
    """

    def __init__(self, state: ProgramState | None = None) -> None:
        state = ProgramState() if state is None else state
        self.holding = list(state.holding)
        self.proposal = state.proposal
        self.loaded = list(state.loaded)
        self.ready = state.ready
        self._outcomes = dict(state.outcomes)

    def state(self) -> ProgramState:
        """As a value, which later records do not change."""
        outcomes = list(self._outcomes.items())
        return ProgramState(list(self.holding), self.proposal, list(self.loaded), self.ready, outcomes)

    @property
    def number(self) -> int:
        """Of the version that holds."""
        return self.holding[-1].number if self.holding else 0

    def outcome(self, upgrade: str) -> str | None:
        """Of the upgrade with this id: "" if it holds, else why not; None: it is not over, or was never proposed."""
        return self._outcomes.get(upgrade)

    def take(self, name: str, argument: str) -> list[str]:
        """One of the ``COMMANDS``; gives the description of the version that holds from here on, if one does."""
        try:
            if name == PROGRAM:
                self._propose(msgspec.json.decode(argument, type=Proposal))
            elif name == PROGRAM_LOADED:
                self._loaded(msgspec.json.decode(argument, type=Loading))
            elif name == PROGRAM_READY:
                self.ready |= self.proposal is not None and argument == self.proposal.id
            else:
                return self._holds(msgspec.json.decode(argument, type=Holding))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            pass  # every node passes it over
        return []

    def _propose(self, proposal: Proposal) -> None:
        if proposal.id in self._outcomes:
            return
        if self.proposal is not None:
            self._over(proposal.id, f"an upgrade to {self.proposal.program.reference} was proposed before it")
        elif proposal.program.number != self.number + 1:
            self._over(proposal.id, "another upgrade was made since it was checked")
        else:
            self.proposal, self.loaded, self.ready = proposal, [], False

    def _loaded(self, loading: Loading) -> None:
        proposal = self.proposal
        if proposal is None or loading.id != proposal.id:
            return
        if not self.holding:
            self.holding = [loading.current]
        if loading.error and not self.ready:
            self._over(proposal.id, f"node {loading.node}: {loading.error}")
            self.proposal = None
        elif not loading.error and loading.node not in self.loaded:
            self.loaded.append(loading.node)

    def _holds(self, holding: Holding) -> list[str]:
        if holding.program.number != self.number + 1 or not self.holding:
            return []
        self.holding.append(holding.program)
        proposal = self.proposal
        if proposal is not None and proposal.program.number == holding.program.number:
            same = proposal.program.code == holding.program.code
            self._over(proposal.id, "" if same else f"{holding.program.reference} holds in its place")
            self.proposal = None
        return [holding.described]

    def _over(self, upgrade: str, problem: str) -> None:
        self._outcomes[upgrade] = problem
        while len(self._outcomes) > KEPT_OUTCOMES:
            del self._outcomes[next(iter(self._outcomes))]


def argument(value: Proposal | Loading | Holding) -> str:
    """Of its command."""
    return msgspec.json.encode(value).decode()
