"""Columns of elements and groups of their rows: what the column-wise inserts share.

A column is a sequence or a numpy array; where an element is a tuple, a tuple of columns of equal length. A sequence
may have ``tolist()``, ``take(rows)``, and ``numbered()`` (a number for each row, from 0 as they first come, and the
distinct elements by number, which are texts; or None). These are used where they are quicker than row after row. So is
``numbered_rows()``, with the first row of each number in place of the elements. So is ``utf8()``: a buffer, and where
in it each text begins and ends. The buffer goes on for eight bytes at least behind them. A fourth
entry, True, says that each is known to be UTF-8.
A column of Decimals may have ``scaled()``: mantissas and exponents of ten as int64, or None.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wcrdt.distinct import numbered
from wcrdt.elements import element_of, identity, plain

Ints = NDArray[np.int64]
Indices = NDArray[np.intp]

_INT64_MAX = 2**63 - 1
_EXACT_FLOATS = 2**53
_RADIX = 1 << 16
_WORST: dict[str, tuple[Any, Any]] = {"<i8": (-(2**63), _INT64_MAX), "<f8": (-np.inf, np.inf)}
"""By type: below all numbers, and above."""


def height(column: Any) -> int:
    """Number of rows; raises ``ValueError`` where the columns of a tuple differ in length."""
    if not isinstance(column, tuple):
        return len(column)
    rows = height(column[0]) if column else 0
    for part in column[1:]:
        if height(part) != rows:
            rows = -1
            break
    if rows < 0 or not column:
        raise ValueError(f"the columns of an element must be equally long, got {list(map(height, column))} rows")
    return rows


def rows_of(column: Any) -> list[Any]:
    """The elements, one a row, with Python scalars for numpy ones."""
    if isinstance(column, tuple):
        height(column)
        return list(zip(*(rows_of(part) for part in column), strict=True))
    return column.tolist() if hasattr(column, "tolist") else list(column)


def take(column: Any, rows: Indices) -> Any:
    """The column of these rows, of the same structure."""
    if isinstance(column, tuple):
        return tuple(take(part, rows) for part in column)
    if isinstance(column, np.ndarray):
        return column[rows]
    if hasattr(column, "take"):
        return column.take(rows)
    return [column[row] for row in rows.tolist()]


class SelectedRows:
    """Rows of an array or of texts that are gathered where they are used: late materialization by a selection vector.

    Whatever reads a few of them gathers those alone; it is a column of elements as any other sequence is.
    """

    __slots__ = ("base", "index")

    def __init__(self, base: Any, index: Indices) -> None:
        self.base = base
        self.index = index

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, row: Any) -> Any:
        return SelectedRows(self.base, self.index[row]) if isinstance(row, slice) else self.base[self.index[row]]

    def take(self, rows: Indices) -> Any:
        """Some of them, gathered."""
        return take(self.base, self.index[rows])

    def tolist(self) -> list[Any]:
        return rows_of(take(self.base, self.index))


def gathered(column: Any) -> Any:
    """The same rows, gathered where they are selected."""
    if isinstance(column, tuple):
        return tuple(map(gathered, column))
    return take(column.base, column.index) if isinstance(column, SelectedRows) else column


def are_known_elements(column: Any) -> bool:
    """Whether each row is an int, a text, or a tuple of these, which is known without a look at them."""
    if isinstance(column, tuple):
        return len(column) > 0 and all(map(are_known_elements, column))
    base = column.base if isinstance(column, SelectedRows) else column
    if isinstance(base, np.ndarray):
        return base.ndim == 1 and base.dtype.kind == "i"
    utf8 = getattr(base, "utf8", None)
    return utf8 is not None and utf8()[3:] == (True,)


def int_column(column: Any) -> Ints | None:
    """The column as int64 if it is a numpy array of integers that fit; None: it goes row by row."""
    if not isinstance(column, np.ndarray) or column.ndim != 1 or column.dtype.kind not in "iu":
        return None
    if column.dtype.itemsize == 8 and column.dtype.kind == "u" and len(column) and int(column.max()) > _INT64_MAX:
        return None
    return column.astype(np.int64, copy=False)


def number_column(column: Any) -> NDArray[Any] | None:
    """The column as int64, or as float64 without NaN and minus zero; None: it goes row by row."""
    if isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind == "f":
        if column.dtype.itemsize > 8 or np.isnan(column).any():
            return None
        return column.astype(np.float64) + 0.0
    return int_column(column)


def bounds(column: NDArray[Any]) -> tuple[Any, Any]:
    """The least and the largest number of at least one row; those of a constant cost nothing."""
    if column.strides == (0,):
        one = column[0].item()
        return one, one
    return np.minimum.reduce(column).item(), np.maximum.reduce(column).item()


class Groups:
    """Consecutive runs of rows after arranging them by ``order`` (None: they are in order), at least one row each.

    Groups of small numbers (``of_codes``) are found by counting; their rows are arranged on demand.
    """

    __slots__ = ("_codes", "_order", "_present", "_sizes", "_starts", "rows")

    def __init__(self, order: Indices | None, starts: Indices | None, rows: int) -> None:
        """``starts`` None: they are found from the sizes."""
        self._order = order
        self._codes: Ints | None = None
        self._present: Indices | None = None
        self._sizes: Indices | None = None
        self._starts = starts
        self.rows = rows

    @classmethod
    def whole(cls, rows: int) -> Groups:
        """One group of all rows."""
        return cls(None, np.zeros(1, np.intp), rows)

    @classmethod
    def of_codes(cls, codes: Ints) -> tuple[Groups, Indices]:
        """The groups of rows with the same code, of codes from 0 on, at least one row; and the code of each group."""
        tally = np.bincount(codes)
        present = tally.nonzero()[0]
        sizes = tally[present]
        groups = cls(None, None, len(codes))
        groups._codes, groups._present, groups._sizes = codes, present, sizes
        return groups, present

    @property
    def starts(self) -> Indices:
        """The row at which each begins, after arranging."""
        if self._starts is None:
            assert self._sizes is not None, "groups of codes have sizes"
            self._starts = np.cumsum(self._sizes) - self._sizes
        return self._starts

    @property
    def order(self) -> Indices | None:
        """The rows, group by group; rows of a group are in any order."""
        if self._order is None and self._codes is not None:
            self._order = arranging(self._codes)
        return self._order

    def one_of_each(self) -> Indices:
        """A row of each group."""
        if self._codes is None or self._present is None:
            return self.starts if self.order is None else self.order[self.starts]
        rows = np.empty(int(self._present[-1]) + 1, np.intp)
        rows[self._codes] = np.arange(self.rows)
        return rows[self._present]

    def ordinals(self) -> Ints:
        """The group of each row."""
        groups = np.arange(len(self.starts))
        if self._codes is not None and self._present is not None:
            known = np.empty(int(self._present[-1]) + 1, np.int64)
            known[self._present] = groups
            return known[self._codes]
        arranged = np.repeat(groups, self.sizes())
        if self.order is None:
            return arranged
        found = np.empty(self.rows, np.int64)
        found[self.order] = arranged
        return found

    def totals(self, column: Ints) -> Ints:
        """The sum of each group, of rows that cannot leave 64 bits."""
        low, high = bounds(column)
        if low == high == 1:
            return self.sizes().astype(np.int64, copy=False)
        if self._codes is None or max(high, -low) * self.rows >= _EXACT_FLOATS:
            return np.add.reduceat(self.arranged(column), self.starts)
        return np.bincount(self._codes, column)[self._present].astype(np.int64)

    def arranged(self, column: NDArray[Any]) -> NDArray[Any]:
        return column if self.order is None else column[self.order]

    def sizes(self) -> Indices:
        """How many rows each has; not to be written."""
        if self._sizes is None:
            assert self._starts is not None, "groups have starts or sizes"
            self._sizes = np.diff(self._starts, append=self.rows)
        return self._sizes

    def sums(self, column: Ints) -> list[int]:
        """Exact sum of each group."""
        return np.add.reduceat(self.arranged(_summable(column)), self.starts).tolist()

    def gains_and_losses(self, column: Ints) -> tuple[list[int], list[int]]:
        """For each group the sum of its positive rows, and of its negative rows without their sign."""
        safe = _summable(column)
        gains = np.maximum(safe, 0)
        losses = gains - safe
        return (
            np.add.reduceat(self.arranged(gains), self.starts).tolist(),
            np.add.reduceat(self.arranged(losses), self.starts).tolist(),
        )

    def largest(self, column: NDArray[Any]) -> NDArray[Any]:
        return self._best(np.maximum, column, 0)

    def smallest(self, column: NDArray[Any]) -> NDArray[Any]:
        return self._best(np.minimum, column, 1)

    def _best(self, better: np.ufunc, column: NDArray[Any], which: int) -> NDArray[Any]:
        """The best row of each group. Of codes each row goes into its group's place, which needs no arranging."""
        worst = _WORST.get(column.dtype.str)
        if self._codes is None or self._present is None or worst is None:
            return better.reduceat(self.arranged(column), self.starts)
        found = np.full(int(self._present[-1]) + 1, worst[which], column.dtype)
        better.at(found, self._codes, column)
        return found[self._present]

    def members(self) -> list[Indices]:
        """Row numbers of each group; ascending if the rows were grouped stably."""
        order = np.arange(self.rows) if self.order is None else self.order
        return np.split(order, self.starts[1:])


def magnitude(column: NDArray[Any]) -> float:
    """The largest number without its sign, of at least one row: an int of ints, which no sign overflows."""
    low, high = bounds(column)
    return max(high, -low)


def _summable(column: Ints) -> NDArray[Any]:
    """The column itself if no sum of its rows can leave int64, else as Python ints."""
    if len(column) == 0:
        return column
    return column if magnitude(column) * len(column) <= _INT64_MAX else column.astype(object)


def group_by(keys: Any, *, stable: bool = True) -> tuple[list[Hashable], Groups]:
    """Identities of the distinct keys of a column, and the groups of rows in the same order; at least one row.

    Rows of a group stay in their order if ``stable``. Raises as ``plain`` does for a key that cannot be an element.
    """
    column = int_column(keys)
    if column is not None:
        groups = group_ints(column, stable)
        return groups.arranged(column)[groups.starts].tolist(), groups
    if isinstance(keys, tuple):
        return _group_tuple([_factor(part) for part in keys], stable)
    codes, labels = _factor(keys)
    groups = group_ints(codes, stable)
    return [labels[code] for code in groups.arranged(codes)[groups.starts].tolist()], groups


def group_ints(column: Ints, stable: bool) -> Groups:
    """The groups of equal rows, ascending; rows of a group stay in their order if ``stable``."""
    low = int(column.min())
    if int(column.max()) - low < _RADIX:
        order = arranging(column - low)
    else:
        order = np.argsort(column, kind="stable" if stable else None)
    arranged = column[order]
    changes = np.flatnonzero(arranged[1:] != arranged[:-1]) + 1
    return Groups(order, np.concatenate([np.zeros(1, np.intp), changes]), len(column))


def arranging(codes: Ints) -> Indices:
    """The rows in the order of codes from 0 on, equal ones in their own order where codes have 16 bits."""
    if int(codes.max()) < _RADIX:
        return np.argsort(codes.astype(np.uint16), kind="stable")  # numpy sorts 16 bits by radix
    return np.argsort(codes)


def _factor(keys: Any) -> tuple[Ints, Sequence[Hashable]]:
    """A small int from 0 for each row, and the identity of each int's key."""
    column = int_column(keys)
    if column is not None:
        low, high = int(column.min()), int(column.max())
        if high - low < 2**31:
            return column - low, range(low, high + 1)
        values, codes = numbered(column)
        return codes, values.tolist()
    if (own := getattr(keys, "numbered", None)) is not None and (known := own()) is not None:
        codes, names = known
        return codes, list(map(plain, names))
    found: dict[Hashable, int] = {}
    rows = rows_of(keys)
    if set(map(type, rows)) <= {str, int, bytes}:  # these are their own identities
        codes = np.fromiter((found.setdefault(row, len(found)) for row in rows), np.int64, len(rows))
        for name in found:
            plain(name)
    else:
        names = [identity(plain(row)) for row in rows]
        codes = np.fromiter((found.setdefault(name, len(found)) for name in names), np.int64, len(rows))
    return codes, list(found)


def _group_tuple(parts: list[tuple[Ints, Sequence[Hashable]]], stable: bool) -> tuple[list[Hashable], Groups]:
    combined, size = parts[0][0], len(parts[0][1])
    for codes, labels in parts[1:]:
        if size * len(labels) > _INT64_MAX:
            values, combined = numbered(combined)
            size = len(values)
        combined = combined * len(labels) + codes
        size *= len(labels)
    groups = group_ints(combined, stable)
    columns = [
        [element_of(labels[code]) for code in groups.arranged(codes)[groups.starts].tolist()] for codes, labels in parts
    ]
    return [identity(row) for row in zip(*columns, strict=True)], groups
