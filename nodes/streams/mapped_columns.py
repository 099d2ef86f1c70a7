"""Long columns of keyed state in files that are mapped into memory, once memory has as many as it is to have.

Three rules for this file. A file has no name from its first moment on, so that the system removes it with its process,
however that ends. Nothing of a run depends on a file: without room on the disk a column lies in memory. A forked child
has the columns as they are, and what it writes to them is its own.

The system writes pages that are not used to the file and lets go of them, as soon as memory is needed. It does so for
pages of files alone, since a node has no swap. Deviation from spills of transactions, which are rows of LMDB: columns
are read and written by place, in the same arrays as in memory (docs/design/dataflow.md, "State beyond memory").
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodes.errors import RunFailed
from nodes.metrics.process_memory import COLUMNS_FILE
from nodes.settings.settings import Settings

MAP_FIXED, MAP_NORESERVE = 0x10, 0x4000
"""Of Linux; the module ``mmap`` has neither."""
FILE_BYTES = 64 << 20
"""Of a file that columns share; a longer column has one of its own."""
_PAGE = mmap.PAGESIZE


class MappedColumns:
    """The long columns of one process: up to ``budget_bytes`` in memory, more in files of ``folder``.

    ``report`` gets a line when the disk has no room. Raises ``RunFailed`` if there can be no files in the folder.
    """

    def __init__(
        self, folder: str, budget_bytes: int, report: Callable[[str], None], file_bytes: int = FILE_BYTES
    ) -> None:
        self.folder = folder
        self.file_bytes = file_bytes
        self.budget_bytes = budget_bytes
        self._report = report
        self._lock = threading.Lock()
        self._memory_bytes = self._file_bytes = 0
        self._gone: deque[tuple[bool, int]] = deque()  # in files, bytes: of columns that nobody has any more
        self._open: MappedFile | None = None
        self._is_full = False
        self._until_next_try = 0
        self._files: weakref.WeakSet[MappedFile] = weakref.WeakSet()
        _ALL.add(self)
        try:
            os.makedirs(folder, exist_ok=True)
            MappedFile(folder, _PAGE)
        except (OSError, ValueError) as error:
            raise RunFailed(
                f"state cannot be spilled to {folder}: {error}; set node.state_path to a folder on a local disk, "
                f"or node.state_memory_mb to 0"
            ) from error

    def sizes(self) -> tuple[int, int]:
        """(bytes in memory, bytes in files) of the long columns that there are."""
        with self._lock:
            self._settle()
            return self._memory_bytes, self._file_bytes

    def filled(self, rows: int, fill: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
        """As ``ColumnMemory.filled``."""
        size = rows * dtype.itemsize
        with self._lock:
            column = self._beyond_budget(rows, size, dtype)
            if column is None:
                return self._counted(np.full(rows, fill, dtype))
            if fill != 0:
                column[:] = fill
            return column

    def kept(self, column: NDArray[Any]) -> NDArray[Any]:
        """As ``ColumnMemory.kept``."""
        with self._lock:
            copy = self._beyond_budget(len(column), column.nbytes, column.dtype)
            if copy is None:
                return self._counted(column)
            copy[:] = column
            return copy

    def _beyond_budget(self, rows: int, size: int, dtype: np.dtype[Any]) -> NDArray[Any] | None:
        """A column of zeros in a file; None: it is to lie in memory."""
        self._settle()
        return self.in_file(rows, size, dtype) if self._memory_bytes + size > self.budget_bytes else None

    def _counted(self, column: NDArray[Any]) -> NDArray[Any]:
        self._memory_bytes += column.nbytes
        _at_end(column, self._gone.append, (False, column.nbytes))
        return column

    def in_file(self, rows: int, size: int, dtype: np.dtype[Any]) -> NDArray[Any] | None:
        """A column of zeros; None: the disk has no room. It is not asked again for the next bytes of a whole file."""
        whole = -(-size // _PAGE) * _PAGE
        if self._open is None or self._open.left < whole:
            if self._until_next_try > 0:
                self._until_next_try -= whole
                return None
            try:
                self._open = MappedFile(self.folder, max(whole, self.file_bytes))
            except (OSError, ValueError) as error:
                self._until_next_try = self.file_bytes
                self._says_full(error)
                return None
            self._is_full = False
            self._files.add(self._open)
        file = self._open
        start = file.take(whole)
        column: NDArray[Any] = np.frombuffer(file.memory, dtype, rows, start)
        self._file_bytes += whole
        _at_end(column, self._left_file, file, start, whole)
        return column

    def _left_file(self, file: MappedFile, start: int, size: int) -> None:
        file.free(start, size)
        self._gone.append((True, size))

    def _settle(self) -> None:
        """Count what has gone. A column may go at any moment, also while another one is being counted."""
        while self._gone:
            in_file, size = self._gone.popleft()
            if in_file:
                self._file_bytes -= size
            else:
                self._memory_bytes -= size

    def part_from_parent(self) -> None:
        """In a child of this process: go on with columns that it does not share."""
        self._lock = threading.Lock()  # a thread that is not here may have held it
        for file in list(self._files):
            file.part_from_parent()

    def _says_full(self, error: Exception) -> None:
        if not self._is_full:
            self._is_full = True
            self._report(
                f"state cannot be spilled to {self.folder}: {error}; it stays in memory, beyond node.state_memory_mb; "
                f"free space there, or set node.state_path to another disk"
            )


class MappedFile:
    """A file without a name. The disk has room for it before it is used: a page without room would end the node."""

    def __init__(self, folder: str, size: int) -> None:
        self._file, path = tempfile.mkstemp(prefix=COLUMNS_FILE, dir=folder)
        weakref.finalize(self, os.close, self._file).atexit = False
        os.unlink(path)
        os.posix_fallocate(self._file, 0, size)
        self.memory = mmap.mmap(self._file, size)
        self.left = size

    def part_from_parent(self) -> None:
        """See the file as it is, and write to pages of this process alone. Without that the child must not go on."""
        address = int(np.frombuffer(self.memory, np.uint8).ctypes.data)
        protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE
        if _map(address, len(self.memory), protection, flags, self._file, 0) != address:
            os._exit(1)

    def take(self, size: int) -> int:
        """The start of so many bytes that nobody has had, of whole pages."""
        start = len(self.memory) - self.left
        self.left -= size
        return start

    def free(self, start: int, size: int) -> None:
        """Give these pages back to the disk; where it cannot take them, the file's end gives them."""
        with suppress(OSError):
            self.memory.madvise(mmap.MADV_REMOVE, start, size)


def _part_from_parent() -> None:
    for columns in list(_ALL):
        columns.part_from_parent()


_ALL: weakref.WeakSet[MappedColumns] = weakref.WeakSet()
_map = ctypes.CDLL(None, use_errno=True).mmap
_map.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_map.restype = ctypes.c_void_p
# Crashing records are tried in a fork, which works with the state and must not change it here.
os.register_at_fork(after_in_child=_part_from_parent)


def _at_end(column: NDArray[Any], then: Callable[..., object], *arguments: Any) -> None:
    """Call this once nobody has the column any more, nor a view of it; not when the process ends."""
    weakref.finalize(column, then, *arguments).atexit = False


def mapped_columns(settings: Settings, report: Callable[[str], None]) -> MappedColumns | None:
    """As in the settings; None: columns stay in memory. Raises ``RunFailed`` if there can be no files in the folder."""
    if settings.node.state_memory_mb == 0:
        return None
    return MappedColumns(settings.spill_folder(), settings.node.state_memory_mb << 20, report)
