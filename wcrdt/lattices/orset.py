"""``ORSet``: a set with removal in which an add wins over a removal that did not see it.

Source: Bieniusa et al., "An optimized conflict-free replicated set" (2012), in the form of Almeida et al., "Delta state
replicated data types" (2018). Dots ``(actor, counter)`` name the adds, a causal context remembers which dots were seen,
so no tombstone of an element is kept. Dots are counted, not random: the same history gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import pairwise
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

from wcrdt.codec import element_from_wire, element_to_wire, index_from_wire, require, rows_from_wire
from wcrdt.elements import element_of, identity, ordered, plain, precedes
from wcrdt.lattice import Lattice, type_of_wire
from wcrdt.lattices.folding import require_same

T = TypeVar("T")
Dot = tuple[int, int]


class CausalContext:
    """The dots that were seen: for each actor 1..n, and a few beyond a gap."""

    __slots__ = ("beyond", "through")

    def __init__(self) -> None:
        self.through: dict[int, int] = {}
        self.beyond: set[Dot] = set()

    def __contains__(self, dot: Dot) -> bool:
        return dot[1] <= self.through.get(dot[0], 0) or dot in self.beyond

    def next_dot(self, actor: int) -> Dot:
        """A dot of the actor that was not seen; the actor must know its own history."""
        return actor, self.through.get(actor, 0) + 1

    def add(self, dots: Iterable[Dot]) -> bool:
        """See these dots; True if one is new."""
        changed = False
        for dot in dots:
            if dot not in self:
                changed = True
                self.beyond.add(dot)
                self._run_on(dot[0])
        return changed

    def join(self, other: CausalContext) -> bool:
        """See what the other saw; True if something is new."""
        changed = False
        for actor, counter in other.through.items():
            if counter > self.through.get(actor, 0):  # the form is canonical: the next dot of the run is new
                changed = True
                self.through[actor] = counter
                self.beyond = {dot for dot in self.beyond if dot[0] != actor or dot[1] > counter}
                self._run_on(actor)
        return self.add(sorted(other.beyond)) or changed

    def _run_on(self, actor: int) -> None:
        """Move what continues the actor's run into it: the canonical form has no dot right behind a run."""
        counter = self.through.get(actor, 0)
        while (actor, counter + 1) in self.beyond:
            counter += 1
            self.beyond.discard((actor, counter))
            self.through[actor] = counter

    def covers(self, other: CausalContext) -> bool:
        """True if every dot of the other was seen."""
        runs = all(counter <= self.through.get(actor, 0) for actor, counter in other.through.items())
        return runs and all(dot in self for dot in sorted(other.beyond))

    def is_canonical(self) -> bool:
        """True if no dot beyond the runs is covered by one or continues one."""
        return all(counter > self.through.get(actor, 0) + 1 for actor, counter in sorted(self.beyond))


class ORSet(Lattice[tuple[Literal["add", "remove"], T], tuple[T, ...]], Generic[T]):
    """Observed-remove set; ``insert(("add", x))``, ``insert(("remove", x))``, or the mutators ``add`` and ``remove``.

    The value is a tuple in the order of elements. A removal takes away the adds that this value has seen.
    """

    __slots__ = ("_at", "_context", "_dots")
    tag: ClassVar[str] = "orset"
    gathers: ClassVar[bool] = True

    def __init__(self) -> None:
        self._dots: dict[Hashable, frozenset[Dot]] = {}
        self._at: dict[Dot, Hashable] = {}  # the same, by dot: a small delta is merged without a walk over the set
        self._context = CausalContext()

    def bottom(self) -> Self:
        return type(self)()

    def check(self, element: tuple[Literal["add", "remove"], T]) -> None:
        if not isinstance(element, tuple) or len(element) != 2 or element[0] not in ("add", "remove"):
            raise TypeError(f'an ORSet takes ("add", x) or ("remove", x), not {element!r}')
        plain(element[1])

    def insert(self, element: tuple[Literal["add", "remove"], T], *, actor: int = 0) -> Self:
        self.check(element)
        verb, x = element
        return self.add(x, actor=actor) if verb == "add" else self.remove(x)

    def add(self, x: T, *, actor: int = 0) -> Self:
        """Add an element; the new dot replaces the dots of earlier adds that were seen."""
        key = identity(plain(x))
        dot = self._context.next_dot(actor)
        delta = self.bottom()
        delta._put(key, frozenset({dot}))
        delta._context.add([*sorted(self._dots.get(key, ())), dot])
        self._put(key, frozenset({dot}))
        self._context.add([dot])
        return delta

    def remove(self, x: T) -> Self:
        """Remove an element as far as it was seen; nothing if it is not in the set."""
        key = identity(plain(x))
        delta = self.bottom()
        delta._context.add(sorted(self._dots.get(key, ())))
        self._put(key, frozenset())
        return delta

    def _put(self, key: Hashable, dots: frozenset[Dot]) -> None:
        """Give the element exactly these dots; without any it is not in the set."""
        before = self._dots.pop(key, frozenset())
        for dot in sorted(before - dots):
            del self._at[dot]
        for dot in sorted(dots):
            self._at[dot] = key
        if dots:
            self._dots[key] = dots

    def merge(self, other: Self) -> bool:
        require_same(self, other)
        changed = False
        nothing: frozenset[Dot] = frozenset()
        for key in self._keys_to_compare(other):
            mine, theirs = self._dots.get(key, nothing), other._dots.get(key, nothing)
            kept = {dot for dot in mine - theirs if dot not in other._context}
            taken = {dot for dot in theirs - mine if dot not in self._context}
            joined = (mine & theirs) | kept | taken
            if joined != mine:
                changed = True
                self._put(key, joined)
        return self._context.join(other._context) or changed

    def _keys_to_compare(self, other: Self) -> list[Hashable]:
        """Elements that the other has, and those of mine of which it has seen a dot."""
        keys = dict.fromkeys(other._dots)
        if other._context.through:
            keys.update(dict.fromkeys(self._dots))
        else:
            seen = other._context.beyond
            keys.update(dict.fromkeys(self._at[dot] for dot in sorted(seen) if dot in self._at))
        return list(keys)

    def leq(self, other: Self) -> bool:
        if not other._context.covers(self._context):
            return False
        return all(dot in self._at or dot not in self._context for dot in other._at)

    @property
    def value(self) -> tuple[T, ...]:
        return tuple(map(element_of, ordered(self._dots)))

    def __len__(self) -> int:
        return len(self._dots)

    def __contains__(self, element: object) -> bool:
        return identity(plain(element)) in self._dots

    def to_wire(self) -> type_of_wire:
        entries = [[element_to_wire(element_of(key)), _dots_to_wire(self._dots[key])] for key in ordered(self._dots)]
        return [entries, _dots_to_wire(self._context.through.items()), _dots_to_wire(self._context.beyond)]

    def from_wire(self, wire: type_of_wire) -> Self:
        require(type(wire) is list and len(wire) == 3, "entries and a context were expected")
        fresh = self.bottom()
        runs = _dots_from(wire[1])
        fresh._context.through = dict(runs)
        require(len(fresh._context.through) == len(runs), "an actor is named twice")
        fresh._context.beyond = set(_dots_from(wire[2]))
        require(fresh._context.is_canonical(), "the context is not in its shortest form")
        elements: list[Any] = []
        for element, row in rows_from_wire(wire[0], 2):
            elements.append(element_from_wire(element))
            dots = _dots_from(row)
            require(bool(dots) and not any(dot in fresh._at for dot in dots), "an element has no dot of its own")
            require(all(dot in fresh._context for dot in dots), "a dot is not in the context")
            fresh._put(identity(elements[-1]), frozenset(dots))
        require(all(map(precedes, elements, elements[1:])), "elements must ascend, each once")
        return fresh


def _dots_to_wire(dots: Iterable[Dot]) -> type_of_wire:
    return [list(dot) for dot in sorted(dots)]


def _dots_from(wire: type_of_wire) -> list[Dot]:
    """Strictly ascending pairs ``(actor, counter >= 1)``."""
    dots = [(index_from_wire(actor), index_from_wire(counter)) for actor, counter in rows_from_wire(wire, 2)]
    require(all(a < b for a, b in pairwise(dots)), "dots must ascend")
    require(all(counter >= 1 for _, counter in dots), "a counter is below 1")
    return dots
