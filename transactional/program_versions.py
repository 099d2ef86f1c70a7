"""The versions of a job's program: which of them holds in which epoch, and which requests are judged by which.

Two rules for this file. Which version holds is a function of the epochs topic. A version is described by what requests
are judged by, so that a node can judge those of versions whose code it does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from transactional.errors import ProgramMissing
from transactional.operators import Limits, Operator, Program

_NUMBER = msgspec.Meta(ge=0)


class OperatorOutline(msgspec.Struct, array_like=True, frozen=True):
    """An operator without its code."""

    name: str
    partitions: Annotated[int, msgspec.Meta(ge=1)]
    colocate: str | None
    functions: list[str]


class ProgramVersion(msgspec.Struct, array_like=True, frozen=True):
    """Number ``number`` of a job's programs; 0: the one that it began with.

    ``code`` is the digest of its code and types; ``version`` is what it declares; ``reference`` names it on nodes.
    """

    number: Annotated[int, _NUMBER]
    name: str
    code: str
    version: Annotated[int, msgspec.Meta(ge=1)]
    reference: str
    operators: Annotated[list[OperatorOutline], msgspec.Meta(min_length=1)]
    limits: Limits

    @classmethod
    def of(cls, program: Program, *, number: int = 0, code: str = "", reference: str = "") -> ProgramVersion:
        """As the program is now."""
        operators = [
            OperatorOutline(name, each.partitions, each.colocate, sorted(each.functions))
            for name, each in sorted(program.operators.items())
        ]
        return cls(number, program.name, code, program.version, reference, operators, program.limits)

    @property
    def outline(self) -> Program:
        """A program that judges requests as this one does, and runs none."""
        operators = []
        for each in self.operators:
            operators.append(operator := Operator(each.name, partitions=each.partitions, colocate=each.colocate))
            operator.functions = dict.fromkeys(each.functions, _not_here)
        return Program(self.name, operators, limits=self.limits, version=self.version)

    def __str__(self) -> str:
        return f"{self.reference or self.name} (version {self.version}, code {self.code or 'unknown'})"


async def _not_here(*_: Any) -> None:
    raise AssertionError("an outline runs nothing")


class ProgramSince(msgspec.Struct, array_like=True, frozen=True):
    """A version with the first epoch in which it holds.

    ``starts``: by sequencer, the offset from which requests are judged by it; None: that is not known yet.
    """

    since: Annotated[int, _NUMBER]
    starts: list[int | None]
    program: ProgramVersion


class KnownPrograms:
    """The programs that a node has, by their code. ``load`` gives others, and raises ``ProgramMissing``.

    ``first``: the version that the job began with, None: the node's ``own``.
    """

    def __init__(
        self,
        own: Program,
        *,
        code: str = "",
        first: ProgramVersion | None = None,
        load: Callable[[ProgramVersion], Program] | None = None,
    ) -> None:
        self.own = own
        self.code = code
        self.first = first
        self._load = load
        self._programs = {code: own}

    @classmethod
    def of(cls, program: Program | KnownPrograms) -> KnownPrograms:
        """Of a node that has only one, too."""
        return program if isinstance(program, KnownPrograms) else cls(program)

    def add(self, code: str, program: Program) -> None:
        """Another one that was loaded."""
        self._programs[code] = program

    def has(self, code: str) -> bool:
        """Whether it is there, without loading it."""
        return code in self._programs

    def program(self, version: ProgramVersion) -> Program:
        """Raises ``ProgramMissing``."""
        found = self._programs.get(version.code)
        if found is None:
            if self._load is None:
                raise ProgramMissing(f"program {version} of job {version.name!r} is not at this node")
            found = self._programs[version.code] = self._load(version)
        return found


class VersionHistory:
    """The versions of one job, as far as the epochs topic is read. ``kept``: as ``records`` gives them."""

    def __init__(self, sequencers: int, programs: KnownPrograms, kept: Sequence[ProgramSince] = ()) -> None:
        self._sequencers = sequencers
        self.programs = programs
        first = programs.first or ProgramVersion.of(programs.own, code=programs.code)
        self._kept = list(kept) or [ProgramSince(0, [0] * sequencers, first)]
        self._outlines = {each.program.number: each.program.outline for each in self._kept}

    @property
    def newest(self) -> ProgramVersion:
        return self._kept[-1].program

    @property
    def is_first(self) -> bool:
        """Whether there is no other version than the one that the job began with."""
        return len(self._kept) == 1

    @property
    def is_own(self) -> bool:
        """Whether the job has had no other program than the node's own."""
        return len(self._kept) == 1 and self.newest.code == self.programs.code

    def operators(self) -> dict[str, Operator]:
        """Of all versions: an operator is in one group of keys in each of them."""
        found = dict(self.programs.own.operators)
        for outline in self._outlines.values():
            found = {**outline.operators, **found}
        return found

    def number(self, epoch: int) -> int:
        """Of the version that holds in this epoch."""
        return self.at(epoch).number

    def at(self, epoch: int) -> ProgramVersion:
        """The version that holds in this epoch."""
        kept = self._kept
        if len(kept) == 1:
            return kept[0].program
        return next(each.program for each in reversed(kept) if each.since <= epoch)

    def since(self, number: int) -> int:
        """The first epoch in which this version holds, or in which it would if no later one held there."""
        return next(each.since for each in self._kept if each.program.number == number)

    def program(self, epoch: int) -> Program:
        """The program of this epoch; raises ``ProgramMissing``."""
        return self.programs.program(self.at(epoch))

    def outline(self, epoch: int) -> Program:
        """The program of this epoch without its code, which this node may not have."""
        return self._outlines[self.at(epoch).number]

    # --- the fold -----------------------------------------------------------------------------------------------------

    def add(self, since: int, next_cut: Sequence[int], cut_to: Sequence[int], program: ProgramVersion) -> bool:
        """The first of its number wins: False where this one is void. ``next_cut``, ``cut_to``: by sequencer.

        One whose operators have keys elsewhere than they do in the versions before is void too.
        """
        if program.number != self.newest.number + 1 or program.name != self.newest.name:
            return False
        if misplaced(program.operators, self.operators()):
            return False
        starts = [cut_to[each] if next_cut[each] == since else None for each in range(self._sequencers)]
        self._kept.append(ProgramSince(since, starts, program))
        self._outlines[program.number] = program.outline
        return True

    def cut(self, sequencer: int, next_epoch: int, to_offset: int) -> None:
        """The sequencer goes on with this epoch at this offset."""
        for at, each in enumerate(self._kept):
            if each.since == next_epoch and each.starts[sequencer] is None:
                starts = list(each.starts)
                starts[sequencer] = to_offset
                self._kept[at] = msgspec.structs.replace(each, starts=starts)

    def records(self) -> list[ProgramSince]:
        """As ``kept``; none where there is only the first."""
        return [] if self.is_first else list(self._kept)

    # --- requests -----------------------------------------------------------------------------------------------------

    def judging(self, sequencer: int) -> int:
        """Number of the newest version that is known to judge requests of this sequencer."""
        newest = self._kept[-1]  # nearly always: each turn of a sequencer calls this
        if newest.starts[sequencer] is not None:
            return newest.program.number
        return next(each.program.number for each in reversed(self._kept) if each.starts[sequencer] is not None)

    def begins(self, sequencer: int, after: int) -> int:
        """The first offset that is judged by a version above this number, and is known to be."""
        starts = (each.starts[sequencer] for each in self._kept if each.program.number > after)
        return min(start for start in starts if start is not None)

    def judge(self, sequencer: int, offset: int) -> Program:
        """The outline of the version by which the request at this offset is judged, as far as that is known."""
        for each in reversed(self._kept):
            start = each.starts[sequencer]
            if start is not None and start <= offset:
                return self._outlines[each.program.number]
        raise AssertionError(f"no version judges offset {offset} of request partition {sequencer}")

    def outlines(self) -> Iterator[Program]:
        """Of all versions, the newest first."""
        return (self._outlines[each.program.number] for each in reversed(self._kept))


def misplaced(
    operators: Sequence[OperatorOutline], known: Mapping[str, Operator] | Mapping[str, OperatorOutline]
) -> list[str]:
    """Operators of a version whose keys would live elsewhere than in those that are ``known``, or in a new group."""
    groups = {(each.partitions, each.colocate) for each in known.values()}
    found: list[str] = []
    for each in operators:
        before, now = known.get(each.name), (each.partitions, each.colocate)
        if now not in groups or (before is not None and now != (before.partitions, before.colocate)):
            found.append(each.name)
    return found
