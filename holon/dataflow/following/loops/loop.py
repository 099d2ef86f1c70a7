"""A loop as it was followed: what it goes over, and what each of its turns notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from holon.dataflow.expressions import Apply, Decision, Expression, Leaf
from holon.dataflow.following.column_functions import Parting


class ItemOf(str):
    """A part of a path: the item of a turn of the loop at this depth; loops within it are one deeper."""

    __slots__ = ("depth",)
    depth: int

    @classmethod
    def at(cls, depth: int) -> ItemOf:
        """The same for all loops of that depth: of those only one goes on at a time."""
        made = cls(f" item {depth}")
        made.depth = depth
        return made


class PlaceOf(str):
    """A part of a path: the place of that item among those of its row."""

    __slots__ = ("depth",)
    depth: int

    @classmethod
    def at(cls, depth: int) -> PlaceOf:
        """As ``ItemOf.at``."""
        made = cls(f" place {depth}")
        made.depth = depth
        return made


class CarriedOf(str):
    """A part of a path: what a turn of the loop at this depth finds in a name that the one before has stored."""

    __slots__ = ("depth", "number")
    depth: int
    number: int

    @classmethod
    def at(cls, depth: int, number: int) -> CarriedOf:
        """``number`` counts the names of the loop."""
        made = cls(f" carried {depth} {number}")
        made.depth, made.number = depth, number
        return made


class Note(Protocol):
    """An effect of a way, or a loop of it."""

    @property
    def leaves(self) -> Sequence[Leaf]:
        """The values that it uses."""
        ...


class Yield(NamedTuple):
    """A value that a generator expression gives."""

    value: Leaf

    @property
    def leaves(self) -> Sequence[Leaf]:
        """Its value."""
        return (self.value,)


class Computed(NamedTuple):
    """Values that are not used: where one of them fails, the function does."""

    expressions: Sequence[Apply]

    @property
    def leaves(self) -> Sequence[Leaf]:
        """The values."""
        return list(map(Leaf, self.expressions))


class Carries(NamedTuple):
    """The values that a turn leaves in the names that it hands on."""

    values: Sequence[Leaf]

    @property
    def leaves(self) -> Sequence[Leaf]:
        """The values."""
        return self.values


@dataclass(frozen=True, slots=True, eq=False)
class Effects(Leaf):
    """The notes of one way, in order. ``raises``: the function may raise there.

    ``exit``: the number of the way by which a turn leaves its loop; None: another turn may come.
    """

    notes: tuple[Note, ...] = ()
    raises: bool = False
    exit: int | None = None


RAISES = Effects((), raises=True)
"""A way whose records are for the function itself."""


class WayRaises(Exception):
    """A row has a way on which the function may raise."""


def effects_of(notes: Sequence[Note], exit: int | None = None) -> Effects:
    """The leaf of a way, of which all that its notes use are the result."""
    return Effects(tuple(leaf for note in notes for leaf in note.leaves), notes=tuple(notes), exit=exit)


@dataclass(slots=True, eq=False)
class Loop:
    """``body`` for each item of ``iterable``; its leaves are ``Effects``.

    ``before``: what Python computes before the first turn, so a row of it that fails raises although it has no items.
    Where turns leave it, it is the same one on all ways of a function, and has its body once all turns were followed.
    """

    item: ItemOf
    iterable: Expression
    body: Decision
    before: tuple[Apply, ...]
    carried: tuple[Expression, ...] = ()
    """The values before the first turn of the names that turns hand on."""
    exits: list[Sequence[Parting]] = field(default_factory=list)
    """Of each way of a turn that leaves it, by which ways loops within the turn were left before."""
    ends: Apply | None = None
    """How it ends for each row, where a turn may leave it."""
    has_effects: bool = True
    """Whether more comes of a turn than names that it hands on, and values that it does not use."""

    @property
    def is_silent(self) -> bool:
        """Whether all that comes of it is how it ends."""
        return bool(self.exits) and not self.has_effects

    @property
    def expressions(self) -> Sequence[Expression]:
        """The list that it goes over, and the values that are computed before."""
        return self.iterable, *self.before, *self.carried

    @property
    def leaves(self) -> Sequence[Leaf]:
        """The same as leaves."""
        return list(map(Leaf, self.expressions))


def has_effects(body: Decision) -> bool:
    """Whether more comes of a turn than names that it hands on, and values that it does not use."""
    return not all(isinstance(one, Carries | Computed) or (type(one) is Loop and one.exits) for one in notes_in(body))


def notes_in(decision: Decision) -> Iterator[Any]:
    """All notes of all ways, and of loops on these."""
    if not isinstance(decision, Leaf):
        yield from notes_in(decision.then)
        yield from notes_in(decision.otherwise)
        return
    assert isinstance(decision, Effects)
    for note in decision.notes:
        yield note
        if isinstance(note, Loop):
            yield from notes_in(note.body)
