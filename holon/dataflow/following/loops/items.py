"""Rows of items: one for each turn of a loop, with the place of the row that each belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon.columnar.structs.columns import Lists
from holon.dataflow.expressions import Field, Fields, evaluate
from holon.dataflow.following.column_functions import as_list, packed
from holon.dataflow.following.loops.carrying import Carried, carried_through
from holon.dataflow.following.loops.gathered import Gathered, Path
from holon.dataflow.following.loops.loop import CarriedOf, ItemOf, Loop
from holon.formats.batch import Column


class Items(Gathered):
    """The items of all rows of a loop, one behind the other. ``index``: the row of each."""

    def __init__(self, loop: Loop, rows: Fields) -> None:
        """Raises what Python raises before the first item, or for a row that is no list."""
        for one in loop.before:
            evaluate(one, rows)
        self._item, self._iterable, self._rows = loop.item, loop.iterable, rows
        self._own: dict[Path, Column] = {}
        self._loop = loop
        self._through: Carried | None = None
        lengths = self._lengths()
        self.offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        super().__init__(rows, np.repeat(np.arange(len(rows)), lengths))

    def field(self, path: Path) -> Column:
        """The column of a field of the items, or of their rows."""
        if path and isinstance(path[0], CarriedOf) and path[0].depth == self._item.depth:
            return self.carried().before[path[0].number]
        return self._of_items(path[1:]) if self._is_own(path) else super().field(path)

    def carried(self) -> Carried:
        """The values of names that turns hand on."""
        if self._through is None:
            self._through = carried_through(self._loop, self, self._rows, self.offsets)
        return self._through

    def column_at(self, path: Path) -> Column | None:
        """As ``field``, if it takes no objects."""
        if not self._is_own(path):
            return super().column_at(path)
        return self._of_items(path[1:]) if self._columns_at(path[1:]) is not None else None

    def names_within(self, path: Path) -> Sequence[str]:
        """The names of columns within a field."""
        if not self._is_own(path) or not isinstance(self._iterable, Field):
            return super().names_within(path)
        return self._rows.names_within((*self._iterable.path, *path[1:]))

    def _is_own(self, path: Path) -> bool:
        return bool(path) and isinstance(path[0], ItemOf) and path[0].depth == self._item.depth

    def _columns_at(self, rest: Path) -> Lists | None:
        """The lists of a field of the items."""
        if not isinstance(self._iterable, Field):
            return None
        found = self._rows.column_at((*self._iterable.path, *rest))
        return found if isinstance(found, Lists) else None

    def _lengths(self) -> NDArray[np.int64]:
        if isinstance(self._iterable, Field):
            for name in self._rows.names_within(self._iterable.path):
                found = self._columns_at(tuple(name.split(".")))
                lengths = None if found is None else found.lengths()
                if lengths is not None:
                    return lengths
        items, offsets = flat(evaluate(self._iterable, self._rows))
        self._own[()] = items
        return np.diff(offsets)

    def _of_items(self, rest: Path) -> Column:
        if rest in self._own:
            return self._own[rest]
        lists = self._columns_at(rest)
        if lists is not None and lists.lengths() is not None:
            made = lists.flat()[0]
        elif rest:
            made = list(map(attrgetter(rest[-1]), as_list(self._of_items(rest[:-1]))))
        else:
            made = flat(evaluate(self._iterable, self._rows))[0]
        self._own[rest] = made
        return made


def flat(column: Any) -> tuple[Column, NDArray[np.int64]]:
    """The items of all lists as one column, and offsets, as of ``Lists``. Raises for what is no list."""
    quick = getattr(column, "flat", None)
    if quick is not None and column.lengths() is not None:
        return quick()
    rows = as_list(column)
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    items = list(chain.from_iterable(rows))
    return packed(items) if items else [], np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
