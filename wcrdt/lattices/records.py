"""Products of lattices: ``RecordOf`` with names, ``PairOf`` without; joined part by part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

from wcrdt.codec import require
from wcrdt.lattice import E, Lattice, V, hands_over, type_of_wire
from wcrdt.lattices.columns import Groups, height, rows_of
from wcrdt.lattices.folding import Folding, require_combining, require_same

AE = TypeVar("AE")
AV = TypeVar("AV")
BE = TypeVar("BE")
BV = TypeVar("BV")


class Product(Folding[E, V]):
    """Parts in a fixed order; an element is a tuple with one part's element each. A partial is a tuple of partials."""

    __slots__ = ("_parts", "_shape", "combines", "compact", "gathers")

    def __init__(self, parts: tuple[Lattice[Any, Any], ...]) -> None:
        self._parts = parts
        self._shape: type_of_wire = None  # made once, and handed on to products of the same shape
        self.compact = all(part.compact for part in parts)  # type: ignore[misc]  # narrower than the class's default
        self.gathers = all(part.gathers for part in parts)  # type: ignore[misc]
        self.combines = all(part.combines for part in parts)  # type: ignore[misc]

    @property
    def parts(self) -> tuple[Lattice[Any, Any], ...]:
        """The parts in their order; not to be written."""
        return self._parts

    def bottom(self) -> Self:
        return self._with(tuple(part.bottom() for part in self._parts))

    def _with(self, parts: tuple[Lattice[Any, Any], ...]) -> Self:
        """The same product around other parts."""
        fresh = type(self).__new__(type(self))
        fresh._parts, fresh._shape = parts, self.shape()
        fresh.compact, fresh.gathers, fresh.combines = self.compact, self.gathers, self.combines  # type: ignore[misc]
        return fresh

    def shape(self) -> type_of_wire:
        if self._shape is None:
            self._shape = [list(described) for described in self._described()]
        return self._shape

    def _described(self) -> Iterable[tuple[type_of_wire, ...]]:
        return ((part.tag, part.shape()) for part in self._parts)

    @property
    def hands_over(self) -> bool:  # type: ignore[override]
        return all(map(hands_over, self._parts))

    @property
    def folds(self) -> bool:
        return all(isinstance(part, Folding) and part.folds for part in self._parts)

    def _split(self, element: Any, what: str = "parts") -> tuple[Any, ...]:
        if not isinstance(element, tuple) or len(element) != len(self._parts):
            raise TypeError(f"expected a tuple of {len(self._parts)} {what}, got {element!r}")
        return element

    def fold(self, element: Any) -> tuple[Any, ...]:
        element = self._split(element)
        return tuple(part.fold(e) for part, e in zip(self._parts, element, strict=True))  # type: ignore[attr-defined]

    def fold_groups(self, column: Any, groups: Groups) -> list[Any] | None:
        if not isinstance(column, tuple):
            return None
        columns = self._split(column, "columns")
        folded = []
        for part, part_column in zip(self._parts, columns, strict=True):
            partials = part.fold_groups(part_column, groups)  # type: ignore[attr-defined]
            if partials is None:
                return None
            folded.append(partials)
        return list(zip(*folded, strict=True))

    def absorb(self, partial: tuple[Any, ...], actor: int) -> bool:
        changed = False
        for part, one in zip(self._parts, partial, strict=True):
            changed |= part.absorb(one, actor)  # type: ignore[attr-defined]
        return changed

    def own(self, actor: int) -> Self:
        return self._with(tuple(part.own(actor) if isinstance(part, Folding) else part.copy() for part in self._parts))

    def check(self, element: Any) -> None:
        for part, e in zip(self._parts, self._split(element), strict=True):
            part.check(e)

    def insert(self, element: Any, *, actor: int = 0) -> Self:
        if self.folds:
            return super().insert(element, actor=actor)
        self.check(element)
        return self._with(tuple(part.insert(e, actor=actor) for part, e in zip(self._parts, element, strict=True)))

    def check_many(self, elements: Any) -> None:
        for part, column in zip(self._parts, self._columns(elements), strict=True):
            part.check_many(column)

    def _columns(self, elements: Any) -> tuple[Any, ...]:
        """One column for each part, from these or from rows of tuples."""
        if not isinstance(elements, tuple):
            rows = [self._split(row) for row in rows_of(elements)]
            return tuple(map(list, zip(*rows, strict=True))) if rows else ([],) * len(self._parts)
        height(elements)
        return self._split(elements, "columns")

    def insert_many(self, elements: Any, *, actor: int = 0) -> Self:
        if self.folds:
            return super().insert_many(elements, actor=actor)
        self.check_many(elements)
        columns = self._columns(elements)
        return self._with(tuple(p.insert_many(c, actor=actor) for p, c in zip(self._parts, columns, strict=True)))

    def merge(self, other: Self) -> bool:
        require_same(self, other)
        changed = False
        for mine, theirs in zip(self._parts, other._parts, strict=True):
            changed |= mine.merge(theirs)
        return changed

    def combine(self, other: Self) -> None:
        require_combining(self, other)
        for mine, theirs in zip(self._parts, other._parts, strict=True):
            mine.combine(theirs)

    def leq(self, other: Self) -> bool:
        return all(mine.leq(theirs) for mine, theirs in zip(self._parts, other._parts, strict=True))

    def to_wire(self) -> type_of_wire:
        return [part.to_wire() for part in self._parts]

    def former_wire(self) -> type_of_wire:
        return [part.former_wire() for part in self._parts]

    def from_wire(self, wire: type_of_wire) -> Self:
        require(type(wire) is list and len(wire) == len(self._parts), f"{len(self._parts)} parts were expected")
        return self._with(tuple(part.from_wire(one) for part, one in zip(self._parts, wire, strict=True)))


class RecordOf(Product[tuple[Any, ...], dict[str, Any]]):
    """Named parts: ``RecordOf(bids=GCounter(), highest=Max()).insert((1, price))``; the value is a dict.

    Elements and columns follow the order in which the parts are declared; ``record["bids"]`` is the part itself.
    """

    __slots__ = ("_names",)
    tag: ClassVar[str] = "record"

    def __init__(self, parts: Mapping[str, Lattice[Any, Any]] | None = None, /, **named: Lattice[Any, Any]) -> None:
        declared = {**(parts or {}), **named}
        if not declared:
            raise ValueError("a record needs at least one part: RecordOf(count=GCounter())")
        super().__init__(tuple(part.bottom() for part in declared.values()))
        self._names = tuple(declared)

    def _with(self, parts: tuple[Lattice[Any, Any], ...]) -> Self:
        fresh = super()._with(parts)
        fresh._names = self._names
        return fresh

    def _described(self) -> Iterable[tuple[type_of_wire, ...]]:
        return ((name, part.tag, part.shape()) for name, part in zip(self._names, self._parts, strict=True))

    def __getitem__(self, name: str) -> Lattice[Any, Any]:
        if name not in self._names:
            raise KeyError(f"no part {name!r} in a record of {', '.join(self._names)}")
        return self._parts[self._names.index(name)]

    @property
    def value(self) -> dict[str, Any]:
        return {name: part.value for name, part in zip(self._names, self._parts, strict=True)}


class PairOf(Product[tuple[AE, BE], tuple[AV, BV]], Generic[AE, AV, BE, BV]):
    """Two parts; the value is a tuple."""

    __slots__ = ()
    tag: ClassVar[str] = "pair"

    def __init__(self, first: Lattice[AE, AV], second: Lattice[BE, BV]) -> None:
        super().__init__((first.bottom(), second.bottom()))

    @property
    def value(self) -> tuple[AV, BV]:
        first, second = self._parts
        return (first.value, second.value)
