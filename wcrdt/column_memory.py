"""Where long columns lie: in memory, unless the runtime has installed another place for those that find no room there.

Two rules for this file. A column holds the same numbers wherever it lies, so no result depends on its place. A short
column is always in memory, and costs nothing here.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

LEAST_BYTES = 1 << 14
"""Of a long column: four pages of a file. Shorter ones are not worth their pages."""


class ColumnMemory(Protocol):
    """Gives long columns their places. No caller waits for it, and it never fails: without a place there is memory."""

    def filled(self, rows: int, fill: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
        """A new column that may be written, as ``numpy.full``."""
        ...

    def kept(self, column: NDArray[Any]) -> NDArray[Any]:
        """A column that owns its memory, from now on counted; or, where there is no room for it, its copy elsewhere."""
        ...


_MEMORY: list[ColumnMemory | None] = [None]
_LEAST = [LEAST_BYTES]


def install_column_memory(memory: ColumnMemory | None, least_bytes: int = LEAST_BYTES) -> None:
    """Columns of so many bytes that are made from now on in this process lie there (None: in memory)."""
    _MEMORY[0], _LEAST[0] = memory, least_bytes


def may_stay(size_bytes: int) -> bool:
    """Whether so much that can be made again is worth keeping in memory: it is short, or columns lie there too."""
    return _MEMORY[0] is None or size_bytes < _LEAST[0]


def filled(rows: int, fill: Any, dtype: Any) -> NDArray[Any]:
    """A new column of so many rows, each of them ``fill``."""
    memory, kind = _MEMORY[0], np.dtype(dtype)
    if memory is None or rows * kind.itemsize < _LEAST[0]:
        return np.full(rows, fill, kind)
    return memory.filled(rows, fill, kind)


def kept(column: NDArray[Any]) -> NDArray[Any]:
    """The same numbers for longer: the column itself, or a copy where it is long. A view stays what it is."""
    memory = _MEMORY[0]
    if memory is None or column.nbytes < _LEAST[0] or column.base is not None:
        return column
    return memory.kept(column)


def kept_bytes(data: bytes) -> bytes | memoryview:
    """The same bytes for longer: themselves, or a copy where long columns lie."""
    if _MEMORY[0] is None or len(data) < _LEAST[0]:
        return data
    column = filled(len(data), 0, np.uint8)
    column[:] = np.frombuffer(data, np.uint8)
    return column.data


def copied(column: NDArray[Any]) -> NDArray[Any]:
    """An independent column of the same numbers."""
    if _MEMORY[0] is None or column.nbytes < _LEAST[0]:
        return column.copy()
    fresh = filled(len(column), 0, column.dtype)
    fresh[:] = column
    return fresh
