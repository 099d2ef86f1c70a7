"""A pool of large buffers: a buffer returns to the pool when the last array over it has gone.

A pooled buffer need not be zeroed and mapped again by the system. Buffers are mappings of their own. Once a
larger block was freed, glibc would take them from its heap, where they leave gaps: a fifth of a node's memory.
"""

from __future__ import annotations

import mmap
import threading
import weakref

import numpy as np
from numpy.typing import NDArray

Buffer = NDArray[np.uint8]


class BufferPool:
    """Buffers of ``size_bytes``, of which up to ``most`` are kept. Safe to use, and to let go of, from any thread.

    ``at_rest``: with ``release_idle`` so many are kept of those that nobody needs; None: as many as ``most``.
    """

    def __init__(self, size_bytes: int, most: int, at_rest: int | None = None) -> None:
        self._size_bytes = size_bytes
        self._most = most
        self._at_rest = most if at_rest is None else at_rest
        self._least = 0  # how many were spare all the time since ``release_idle``
        self._lock = threading.Lock()
        self._spare: list[memoryview] = []
        self._in_use: dict[int, tuple[weakref.ref[Buffer], memoryview]] = {}

    @property
    def held(self) -> int:
        """Number of buffers, in use or in the pool."""
        return len(self._in_use) + len(self._spare)

    def acquire(self) -> Buffer:
        """A buffer from the pool, not zeroed: it may hold bytes of its last use."""
        with self._lock:
            memory = self._spare.pop() if self._spare else _mapped(self._size_bytes)
            self._least = min(self._least, len(self._spare))
        # All views of this array keep it, and not only what is beneath it, because that is no array.
        buffer = np.frombuffer(memory, np.uint8)
        number = id(memory)

        def back(_: weakref.ref[Buffer]) -> None:  # may interrupt the thread that holds the lock, so it takes none
            _, free = self._in_use.pop(number)
            if len(self._spare) < self._most:
                self._spare.append(free)

        self._in_use[number] = weakref.ref(buffer, back), memory
        return buffer

    def release_idle(self) -> None:
        """Give back to the system those that nobody has needed since the last call, but for ``at_rest``."""
        with self._lock:
            del self._spare[: max(0, min(self._least, len(self._spare)) - self._at_rest)]
            self._least = len(self._spare)


def _mapped(size_bytes: int) -> memoryview:
    """Memory of no file, which goes back to the system with the last view of it."""
    memory = mmap.mmap(-1, size_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)  # as NumPy does for large arrays
    return memoryview(memory)
