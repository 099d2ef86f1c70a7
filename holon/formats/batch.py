"""A batch: a run of decoded events of one partition, as columns where the format gives columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import Spans, Texts
from holon.columnar.structs.columns import KINDS, Lists, column_of
from holon.columnar.structs.lazy import LazyColumn, ObjectColumn, row_type

E = TypeVar("E")

Column = Any  # a numpy array, texts or a list, one entry a row
Columns = Mapping[str, Column]


class Batch(msgspec.Struct, Generic[E], frozen=True):
    """``len(batch)`` rows; ``offsets`` and ``ts_ms`` (event time, ms) are int64 columns of that length.

    ``columns`` is empty where the format gives events, ``events`` is empty where it gives columns. Several rows have
    one offset where a record is an atom: ``places`` (int64; None: one event a record) distinguishes these.
    """

    offsets: NDArray[np.int64]
    ts_ms: NDArray[np.int64]
    columns: Columns
    events: Sequence[E]
    places: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, column: str) -> Column:
        """A column by name; raises ``KeyError`` with the names that there are."""
        try:
            return self.columns[column]
        except KeyError:
            raise KeyError(f"no column {column!r}; there are {', '.join(self.columns) or 'events only'}") from None

    def lengths(self, column: str) -> NDArray[np.int64]:
        """How many items each list, text or dict of a column has; 0 where it is None.

        Raises ``KeyError`` for an unknown column, ``TypeError`` where a row has no length.
        """
        rows = self[column]
        known = rows.lengths() if isinstance(rows, Lists) else None
        if known is not None:
            return known
        return np.fromiter((0 if row is None else len(row) for row in rows), np.int64, len(self))

    def filled(self, column: str, value: Any) -> Column:
        """A column with ``value`` in place of None: an array of ints, floats or bools, ``Texts``, else a list.

        It is a list, too, where an int is beyond 64 bits. All rows have the type of ``value``, however the batch was
        read. Raises ``KeyError`` for an unknown column, ``TypeError`` where a row has another type.
        """
        rows = self[column]
        if isinstance(rows, np.ndarray | Texts) and row_type(rows) is type(value):
            return rows
        found = rows.filled(value) if isinstance(rows, LazyColumn) else None
        if found is not None:
            return found
        objects = [value if row is None else row for row in (rows.tolist() if isinstance(rows, np.ndarray) else rows)]
        wrong = next((row for row in objects if type(row) is not type(value)), None)
        if wrong is not None:
            raise TypeError(f"column {column!r}: {value!r} cannot replace None, since {wrong!r} has another type")
        try:
            return column_of(KINDS.get(type(value), "list"), objects)
        except OverflowError:
            return objects

    def place(self, row: int) -> int:
        """The place of a row in its record: 0 unless that is an atom."""
        return 0 if self.places is None else int(self.places[row])

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Batch[E]:
        """The rows of a mask, or of an index in its order."""
        if rows.dtype == np.bool_ and bool(rows.all()):
            return self
        index: NDArray[np.intp] = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.intp, copy=False)
        events = [self.events[i] for i in index.tolist()] if self.events else self.events
        places = None if self.places is None else self.places[index]
        return Batch(self.offsets[index], self.ts_ms[index], take_columns(self.columns, index), events, places)


def take_columns(columns: Columns, index: NDArray[np.intp]) -> dict[str, Column]:
    """Rows of every column: arrays and texts by fancy index, lists element by element."""
    positions: list[int] = []
    taken: dict[str, Column] = {}
    for name, column in columns.items():
        if isinstance(column, np.ndarray):
            taken[name] = column[index]
        elif isinstance(column, Spans | ObjectColumn | Lists):
            taken[name] = column.take(index)
        else:
            positions = positions or index.tolist()
            taken[name] = [column[i] for i in positions]
    return taken
