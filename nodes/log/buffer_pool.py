"""Memory that is used again: large buffers are lent, and come back when the last array over them has gone.

Memory that the system has given once need not be zeroed and mapped again.
"""

from __future__ import annotations

import threading
import weakref

import numpy as np
from numpy.typing import NDArray

Buffer = NDArray[np.uint8]


class BufferPool:
    """Buffers of ``size_bytes``, of which up to ``most`` are kept. Safe to use, and to let go of, from any thread."""

    def __init__(self, size_bytes: int, most: int) -> None:
        self._size_bytes = size_bytes
        self._most = most
        self._lock = threading.Lock()
        self._spare: list[memoryview] = []
        self._lent: dict[int, tuple[weakref.ref[Buffer], memoryview]] = {}

    @property
    def held(self) -> int:
        """How many there are, lent or kept."""
        return len(self._lent) + len(self._spare)

    def lend(self) -> Buffer:
        """One; what stands in it is whatever stood there."""
        with self._lock:
            memory = self._spare.pop() if self._spare else np.empty(self._size_bytes, np.uint8).data
        # All views of this array keep it, and not only what is beneath it, because that is no array.
        buffer = np.frombuffer(memory, np.uint8)
        number = id(memory)

        def back(_: weakref.ref[Buffer]) -> None:  # may interrupt whoever holds the lock, so it takes none
            _, free = self._lent.pop(number)
            if len(self._spare) < self._most:
                self._spare.append(free)

        self._lent[number] = weakref.ref(buffer, back), memory
        return buffer
