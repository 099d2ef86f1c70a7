"""Records and pairs of leaves, and which lattices have leaves at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from wcrdt.codec import require
from wcrdt.lattice import type_of_wire
from wcrdt.lattices.columns import Groups, Indices
from wcrdt.lattices.counters import GCounter, PNCounter
from wcrdt.lattices.exact_sums.sums import Average, Sum
from wcrdt.lattices.extremes import Max, Min
from wcrdt.lattices.histogram import Histogram
from wcrdt.lattices.keyed.arguments import ArgumentLeaf
from wcrdt.lattices.keyed.extremes import ExtremeLeaf
from wcrdt.lattices.keyed.keys import Unfit
from wcrdt.lattices.keyed.leaves import AnyLattice, Leaf, Mask
from wcrdt.lattices.keyed.limbs import AverageOfFloatsLeaf, SumLeaf
from wcrdt.lattices.keyed.members.sets import SetLeaf
from wcrdt.lattices.keyed.members.sketches import SketchLeaf
from wcrdt.lattices.keyed.ranking import RankingLeaf
from wcrdt.lattices.keyed.tallies import CountLeaf, HistogramLeaf, TallyLeaf
from wcrdt.lattices.max_by import MaxBy, MinBy
from wcrdt.lattices.records import PairOf, Product, RecordOf
from wcrdt.lattices.sets import CountDistinct, GSet
from wcrdt.lattices.theta import ThetaSketch
from wcrdt.lattices.topk import TopK

_KINDS: dict[type, type[Leaf]] = {
    GCounter: CountLeaf,
    PNCounter: TallyLeaf,
    Sum: SumLeaf,
    Average: AverageOfFloatsLeaf,
    Histogram: HistogramLeaf,
    MaxBy: ArgumentLeaf,
    MinBy: ArgumentLeaf,
    TopK: RankingLeaf,
    GSet: SetLeaf,
    CountDistinct: SetLeaf,
    ThetaSketch: SketchLeaf,
    Max: ExtremeLeaf,
    Min: ExtremeLeaf,
}
"""Lattices that are made of maps, which this file cannot know, name their leaf themselves, in ``leaf``."""


def leaf_of(inner: AnyLattice) -> Leaf | None:
    """An empty leaf for values of this shape; None where they are no columns (a subclass may do what it wants)."""
    if type(inner) is RecordOf or type(inner) is PairOf:
        parts = [leaf_of(part) for part in inner._parts]
        known = [part for part in parts if part is not None]
        return RecordLeaf(inner, known) if len(known) == len(parts) else None
    kind = _KINDS.get(type(inner)) or vars(type(inner)).get("leaf")
    return None if kind is None else kind(inner)


class RecordLeaf(Leaf):
    """A leaf for each part."""

    __slots__ = ("_parts",)

    inner: Product[Any, Any]

    def __init__(self, inner: AnyLattice, parts: list[Leaf]) -> None:
        super().__init__(inner)
        self._parts = parts

    def empty(self) -> Self:
        return self._with([part.empty() for part in self._parts])

    def _with(self, parts: list[Leaf]) -> Self:
        return type(self)(self.inner, parts)

    def fold(self, column: Any, groups: Groups) -> list[Any]:
        if not isinstance(column, tuple):
            rows = column.tolist() if hasattr(column, "tolist") else list(column)
            if set(map(type, rows)) != {tuple} or set(map(len, rows)) != {len(self._parts)}:
                raise Unfit
            column = tuple(map(list, zip(*rows, strict=True)))
        if len(column) != len(self._parts):
            raise Unfit
        return [part.fold(each, groups) for part, each in zip(self._parts, column, strict=True)]

    def prepare(self, rows: Indices, folded: list[Any], actor: int, height: int) -> tuple[Any, Mask]:
        found = [part.prepare(rows, each, actor, height) for part, each in zip(self._parts, folded, strict=True)]
        changed = found[0][1]
        for _, rose in found[1:]:
            changed = changed | rose
        return [prepared for prepared, _ in found], changed

    def prepare_join(self, rows: Indices, other: Self, height: int) -> tuple[Any, bool]:
        found = [
            mine.prepare_join(rows, theirs, height) for mine, theirs in zip(self._parts, other._parts, strict=True)
        ]
        return [prepared for prepared, _ in found], any(changed for _, changed in found)

    def of_one_actor(self, height: int) -> Self:
        return self._with([part.of_one_actor(height) for part in self._parts])

    def prepare_combine(self, rows: Indices, other: Self, height: int) -> list[Any]:
        pairs = zip(self._parts, other._parts, strict=True)
        return [mine.prepare_combine(rows, theirs, height) for mine, theirs in pairs]

    def commit(self, prepared: list[Any]) -> None:
        for part, each in zip(self._parts, prepared, strict=True):
            part.commit(each)

    def leq(self, rows: Indices, other: Self) -> bool:
        return all(mine.leq(rows, theirs) for mine, theirs in zip(self._parts, other._parts, strict=True))

    def own(self, rows: Indices, actor: int) -> Self:
        return self._with([part.own(rows, actor) for part in self._parts])

    def taken(self, rows: Indices) -> Self:
        return self._with([part.taken(rows) for part in self._parts])

    def brought(self, prepared: list[Any], rows: Indices, actor: int) -> Self:
        return self._with([part.brought(each, rows, actor) for part, each in zip(self._parts, prepared, strict=True)])

    def copy(self, rows: int) -> Self:
        return self._with([part.copy(rows) for part in self._parts])

    def spread(self, rows: Indices, height: int) -> Self:
        return self._with([part.spread(rows, height) for part in self._parts])

    def part(self, name: str) -> Leaf:
        """That of a part of a ``RecordOf``."""
        assert isinstance(self.inner, RecordOf), "pairs have no names"
        return self._parts[self.inner._names.index(name)]

    def values(self, rows: Indices) -> list[Any]:
        columns = [part.values(rows) for part in self._parts]
        if isinstance(self.inner, RecordOf):
            names = self.inner._names
            return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return list(zip(*columns, strict=True))

    def columns(self, rows: Indices) -> Any:
        columns = [part.columns(rows) for part in self._parts]
        return (
            dict(zip(self.inner._names, columns, strict=True)) if isinstance(self.inner, RecordOf) else tuple(columns)
        )

    def to_wire(self, rows: Indices) -> type_of_wire:
        return [part.to_wire(rows) for part in self._parts]

    def from_wire(self, wire: type_of_wire, height: int) -> Self:
        require(type(wire) is list and len(wire) == len(self._parts), f"{len(self._parts)} parts were expected")
        return self._with([part.from_wire(each, height) for part, each in zip(self._parts, wire, strict=True)])

    def lattices(self, rows: Indices) -> list[AnyLattice]:
        columns = [part.lattices(rows) for part in self._parts]
        return [self.inner._with(row) for row in zip(*columns, strict=True)]

    def of_lattices(self, lattices: Sequence[Any]) -> Self:
        columns = zip(*(each._parts for each in lattices), strict=True)
        return self._with([part.of_lattices(column) for part, column in zip(self._parts, columns, strict=True)])

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self._parts)
