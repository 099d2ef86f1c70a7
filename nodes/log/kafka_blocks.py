"""Where the bytes of messages go: large blocks that are used again, a partition's records one after the other.

What is read together then lies in one block and need not be put together, and a block that nobody holds any more is
memory that the system has given out already.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import PAD_BYTES
from nodes.log.lending import Buffer, Lending

BLOCK_BYTES = 8 << 20
BLOCK_RECORDS = 20_000
"""As many as a node takes at once, so that one block is what it takes where there is a backlog."""
SMALL_BYTES = 64 << 10
"""Less than this has a buffer of its own: a partition with little traffic must not hold a block."""
_SPARE = 8

Where = tuple[str, int]
"""Topic, as the broker names it, and partition."""


@dataclass(slots=True)
class _Open:
    buffer: Buffer
    used: int = 0
    records: int = 0


class Blocks:
    """Buffers to gather into. Belongs to one thread; what is given out may be let go of in any."""

    def __init__(self) -> None:
        self._open: dict[Where, _Open] = {}
        self._memory = Lending(BLOCK_BYTES, _SPARE)

    def fits(self, where: Where, sizes: NDArray[np.int64]) -> int:
        """How many of the next records, at least one, go together where ``place`` puts the first of them."""
        block = self._open.get(where)
        if block is not None and block.records < BLOCK_RECORDS:
            room = len(block.buffer) - PAD_BYTES - block.used
            fit = min(int(np.searchsorted(np.cumsum(sizes), room, side="right")), BLOCK_RECORDS - block.records)
            if fit > 0:
                return fit
        self._open.pop(where, None)
        room = BLOCK_BYTES - PAD_BYTES
        return max(1, min(int(np.searchsorted(np.cumsum(sizes), room, side="right")), BLOCK_RECORDS))

    def place(self, where: Where, count: int, size: int) -> tuple[Buffer, int]:
        """A padded buffer and where in it so many bytes may be written."""
        block = self._open.get(where)
        if block is None or len(block.buffer) - PAD_BYTES - block.used < size:
            if size < SMALL_BYTES or size > BLOCK_BYTES - PAD_BYTES:
                return np.empty(size + PAD_BYTES, np.uint8), 0
            block = self._open[where] = _Open(self._memory.lend())
        at = block.used
        block.used += size
        block.records += count
        return block.buffer, at
