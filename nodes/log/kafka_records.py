"""Records to be sent, as the compiled loops read them: the addresses of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from holon.columnar.payloads import Payloads


class Records:
    """A batch as the compiled loop reads it: keeps alive what ``table`` has the addresses of."""

    def __init__(
        self, values: Sequence[bytes], headers: Sequence[bytes] | None, keys: Sequence[bytes | None] | None
    ) -> None:
        self.count = len(values)
        columns = [*_arrays(values), *_arrays(headers), *_arrays(keys)]
        self._kept = columns
        self.table = np.array([0 if one is None else one.ctypes.data for one in columns], np.int64)

    @property
    def size(self) -> int:
        """Bytes of all."""
        return self.size_of(0, self.count)

    def size_of(self, first: int, end: int) -> int:
        """Bytes of values, headers and keys of these rows."""
        size = 0
        for _, starts, ends in (self._kept[0:3], self._kept[3:6], self._kept[6:9]):
            if starts is not None:
                there = starts[first:end] >= 0
                size += int((ends[first:end] - starts[first:end])[there].sum())
        return size


def _arrays(column: Sequence[bytes | None] | None) -> tuple[Any, Any, Any]:
    """Buffer, starts and ends; the start of None is -1."""
    if column is None:
        return None, None, None
    if isinstance(column, Payloads):
        return column.buffer, np.ascontiguousarray(column.starts), np.ascontiguousarray(column.ends)
    found = Payloads.of([value or b"" for value in column])
    for row, value in enumerate(column):
        if value is None:
            found.starts[row] = -1
    return found.buffer, found.starts, found.ends
