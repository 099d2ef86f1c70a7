"""Records to be sent, as the compiled loops read them: the addresses of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np

from holon.columnar.payloads import BinaryColumn

FEW = 16
"""Up to so many, given as a list, no arrays are made: these would cost more than what is in them."""


class RecordColumns:
    """A batch as the compiled loop reads it: keeps alive what ``table`` has the addresses of."""

    def __init__(
        self, values: Sequence[bytes], headers: Sequence[bytes] | None, keys: Sequence[bytes | None] | None
    ) -> None:
        self.count = len(values)
        self.is_few = self.count <= FEW and not isinstance(values, BinaryColumn)
        if self.is_few:  # copied: they may leave later, and the lists are the caller's
            values, headers, keys = tuple(values), headers and tuple(headers), keys and tuple(keys)
        self._values, self._headers, self._keys = values, headers, keys
        if not self.is_few:
            self.table  # noqa: B018  # made now, for the same reason

    @cached_property
    def _columns(self) -> list[Any]:
        return [*_arrays(self._values), *_arrays(self._headers), *_arrays(self._keys)]

    @cached_property
    def table(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Addresses of the columns; 0 where there is none."""
        return np.array([0 if one is None else one.ctypes.data for one in self._columns], np.int64)

    def rows(self, first: int = 0, end: int | None = None) -> Iterator[tuple[bytes, bytes, bytes | None]]:
        """Values, headers and keys, one record after the other."""
        headers = repeat(b"") if self._headers is None else self._headers[first:end]
        keys = repeat(None) if self._keys is None else self._keys[first:end]
        return zip(self._values[first:end], headers, keys, strict=False)

    @property
    def columns(self) -> tuple[Sequence[bytes], Sequence[bytes] | None, Sequence[bytes | None] | None]:
        """Values, headers and keys, as they were handed over."""
        return self._values, self._headers, self._keys

    @cached_property
    def size(self) -> int:
        """Bytes of all."""
        return self.size_of(0, self.count)

    def size_of(self, first: int, end: int) -> int:
        """Bytes of values, headers and keys of these rows."""
        if self.is_few:
            return sum(len(value) + len(header) + len(key or b"") for value, header, key in self.rows(first, end))
        size, columns = 0, self._columns
        for _, starts, ends in (columns[0:3], columns[3:6], columns[6:9]):
            if starts is not None:
                there = starts[first:end] >= 0
                size += int((ends[first:end] - starts[first:end])[there].sum())
        return size


def _arrays(column: Sequence[bytes | None] | None) -> tuple[Any, Any, Any]:
    """Buffer, starts and ends; the start of None is -1."""
    if column is None:
        return None, None, None
    if isinstance(column, BinaryColumn):
        return column.buffer, np.ascontiguousarray(column.starts), np.ascontiguousarray(column.ends)
    found = BinaryColumn.of([value or b"" for value in column])
    for row, value in enumerate(column):
        if value is None:
            found.starts[row] = -1
    return found.buffer, found.starts, found.ends
