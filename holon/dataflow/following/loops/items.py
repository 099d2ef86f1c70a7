"""Rows of items: one for each turn of a loop, with the place of the row that each belongs to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from holon.dataflow.expressions import Fields, Indices, evaluate
from holon.dataflow.following.loops.carrying import Carried, carried_through
from holon.dataflow.following.loops.gathered import Gathered, Path
from holon.dataflow.following.loops.loop import CarriedOf, ItemOf, Loop, PlaceOf
from holon.dataflow.following.loops.sources import places_within, source_of
from holon.formats.batch import Column


class Items(Gathered):
    """The items of all rows of a loop, one behind the other. ``index``: the row of each."""

    def __init__(self, loop: Loop, rows: Fields, *, may_be_ragged: bool = False) -> None:
        """Raises what Python raises before the first item, for a row that is no list, and ``check_ends``."""
        for one in loop.before:
            evaluate(one, rows)
        self.depth, self._rows, self._loop = loop.item.depth, rows, loop
        self._source = source_of(loop.iterable, rows)
        self._through: Carried | None = None
        if not may_be_ragged:
            self.check_ends()
        lengths = self._source.lengths
        self.offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        super().__init__(rows, np.repeat(np.arange(len(rows)), lengths))

    def check_ends(self, rows: Indices | None = None) -> None:
        """Raise what Python raises behind the last item of a row; ``rows``: of these."""
        self._source.check_ends(rows)

    def field(self, path: Path) -> Column:
        """The column of a field of the items, or of their rows."""
        first = path[0] if path else None
        if isinstance(first, CarriedOf) and first.depth == self.depth:
            return self.carried().before[first.number]
        if isinstance(first, PlaceOf) and first.depth == self.depth:
            return places_within(self._source.lengths)
        return self._source.of_items(path[1:]) if self._is_own(path) else super().field(path)

    def carried(self) -> Carried:
        """The values of names that turns hand on."""
        if self._through is None:
            self._through = carried_through(self._loop, self, self._rows, self.offsets)
        return self._through

    def column_at(self, path: Path) -> Column | None:
        """As ``field``, if it takes no objects."""
        if not self._is_own(path):
            return super().column_at(path)
        return self._source.of_items(path[1:]) if self._source.has_columns_at(path[1:]) else None

    def names_within(self, path: Path) -> Sequence[str]:
        """The names of columns within a field."""
        return self._source.names_within(path[1:]) if self._is_own(path) else super().names_within(path)

    def _is_own(self, path: Path) -> bool:
        return bool(path) and isinstance(path[0], ItemOf) and path[0].depth == self.depth
