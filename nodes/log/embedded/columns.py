"""Stored blocks to columns of bytes: copied once, from the map into a buffer that is used again, and never objects.

Values of a block are found without the decoder: MessagePack has the length of each value in front of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import PAD_BYTES, BinaryColumn
from nodes.compiled import loading as compiled
from nodes.log.buffer_pool import Buffer, BufferPool
from nodes.log.embedded import block

BUFFER_BYTES = (8 << 20) + (64 << 10)
"""Room for the largest result of a read, unless its caller requests more."""
SMALL_BYTES = 64 << 10
"""Below this objects cost nothing that counts, and a reader with little to read must not hold a buffer."""
LARGE_RECORD_BYTES = 4 << 10
"""Records of so many bytes are found in Python where there is no compiled loop."""
PIECE_BYTES = 128
"""Bytes that the compiled checksum takes at once."""
_SPARE = 3
_FIELDS = 3  # of a block in the table for the loop
_ARRAY, _ARRAY_16, _ARRAY_32 = 0x90, 0xDC, 0xDD
_BINS = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_NOTHING_ELSE = b"\xc0\xc0"


class Gatherer:
    """Blocks that are read together, in one buffer. Safe to use from several threads."""

    def __init__(self, *, small_bytes: int = SMALL_BYTES) -> None:
        self._small_bytes = small_bytes
        self._loops = compiled.loops()
        self._memory = BufferPool(BUFFER_BYTES, _SPARE)

    def gather(self, stored: Sequence[tuple[block.Head, memoryview]]) -> list[block.Block]:
        """The result of ``decode`` for each, with ``BinaryColumn`` where there is much, without headers and keys.

        Raises ``BadBlock``.
        """
        return self._gathered(stored) or [block.decode(data) for _, data in stored]

    def _gathered(self, stored: Sequence[tuple[block.Head, memoryview]]) -> list[block.Block] | None:
        sizes = [len(data) for _, data in stored]
        records, total = sum(head.records for head, _ in stored), sum(sizes)
        if total < self._small_bytes or (self._loops is None and total < records * LARGE_RECORD_BYTES):
            return None
        size = total + PAD_BYTES
        buffer = self._memory.acquire() if size <= BUFFER_BYTES else np.empty(size, np.uint8)
        room, ends = buffer.data, np.cumsum(sizes)
        table = np.empty((len(stored), _FIELDS), np.int64)
        for number, (head, data) in enumerate(stored):
            end = int(ends[number])
            at = end - len(data)
            block.check(room[at:end], self._copy(data, room[at:end]))
            table[number] = at + block.HEADER_BYTES, end, head.records
        places = self._places(buffer, table, records)
        if places is None:
            return None
        blocks, row = [], 0
        for head, data in stored:
            rows = places[:, row : row + head.records]
            blocks.append(block.Block(head, BinaryColumn(buffer, rows[0], rows[1]), None, None, len(data)))
            row += head.records
        return blocks

    def _copy(self, data: memoryview, room: memoryview) -> int:
        """Copy a block; the checksum of its body."""
        front = block.HEADER_BYTES
        pieces = (len(data) - front) // PIECE_BYTES
        if self._loops is not None and pieces:
            addresses = [np.frombuffer(one, np.uint8).__array_interface__["data"][0] + front for one in (data, room)]
            remainder = np.empty(2, np.int64)
            if self._loops.copy_folding(*addresses, pieces, 0xFFFFFFFF, remainder.ctypes.data):
                done = front + pieces * PIECE_BYTES
                room[:front], room[done:] = data[:front], data[done:]
                return zlib.crc32(room[done:], zlib.crc32(remainder.data, 0xFFFFFFFF))
        room[:] = data
        return zlib.crc32(room[front:])  # over the copy, which is in the cache now

    def _places(self, buffer: Buffer, table: NDArray[np.int64], records: int) -> NDArray[np.int64] | None:
        """Starts and ends of all values; None if a block holds more than values."""
        if self._loops is None:
            found = [places_of(buffer.data, *row) for row in table.tolist()]
            if None in found:
                return None
            return np.array([place for places in found for place in places or ()], np.int64).reshape(-1, 2).T.copy()
        places = np.empty((2, records), np.int64)
        done = self._loops.unpack(buffer.ctypes.data, table.ctypes.data, len(table), places.ctypes.data, records)
        return places if done == records else None


def places_of(room: memoryview, at: int, end: int, records: int) -> list[tuple[int, int]] | None:
    """Where the values of a body ``[values, nil, nil]`` are; None if it is another one."""
    if room[at] != _ARRAY | 3:
        return None
    count, at = _count(room, at + 1)
    if count != records:
        return None
    places: list[tuple[int, int]] = []
    for _ in range(count):
        width = _BINS.get(room[at])
        if width is None:
            return None
        start = at + 1 + width
        at = start + int.from_bytes(room[at + 1 : start], "big")
        if at > end - 2:
            return None
        places.append((start, at))
    return places if bytes(room[at:end]) == _NOTHING_ELSE else None


def _count(room: memoryview, at: int) -> tuple[int, int]:
    """Length of the array there, and where its first value is; -1 if it is none."""
    first = room[at]
    if first & 0xF0 == _ARRAY:
        return first & 0x0F, at + 1
    width = {_ARRAY_16: 2, _ARRAY_32: 4}.get(first)
    if width is None:
        return -1, at
    return int.from_bytes(room[at + 1 : at + 1 + width], "big"), at + 1 + width
