"""LZ4 frames as Kafka's writers make them, block by block to where they stay; all others by the codec's own reader.

Format: LZ4 frame 1.6.1 (github.com/lz4/lz4/doc).
"""

from __future__ import annotations

import functools
import struct

_HEAD = struct.Struct("<IBBB")
"""The frame's magic, flags, size of blocks, and a checksum of these two."""
_SIZE = struct.Struct("<I")
_PLAIN_FLAGS = 0x60
"""Version 1, blocks that are independent, no checksums, no size of the contents, no dictionary."""
_NOT_PACKED = 1 << 31
_END = bytes(4)


def inflate_frame(packed: memoryview, into: memoryview) -> int:
    """How many bytes of ``into`` the frame takes; raises ``cramjam.DecompressionError``, and as ``memoryview`` does.

    The codec's reader of frames makes each block in memory of its own and copies it in parts of some KB. So it takes
    three times as long; it reads whatever has other flags, checksums, or something behind its end.
    """
    import cramjam

    found = _independent_blocks(packed, into)
    return cramjam.lz4.decompress_into(packed, into) if found is None else found


def _independent_blocks(packed: memoryview, into: memoryview) -> int | None:
    """None where the codec's reader has to decide, also what is wrong."""
    import cramjam

    end = len(packed) - len(_END)
    if end < _HEAD.size or not (block_bytes := _block_bytes(bytes(packed[: _HEAD.size]))):
        return None
    unpack, inflate, at, filled = _SIZE.unpack_from, cramjam.lz4.decompress_block_into, _HEAD.size, 0
    while at < end:
        size = unpack(packed, at)[0]
        at += _SIZE.size
        behind = at + (size & ~_NOT_PACKED)
        if not size or behind > end or behind - at > block_bytes:
            return None
        room = into[filled : filled + block_bytes]
        if size & _NOT_PACKED:
            if len(room) < behind - at:
                return None
            room[: behind - at] = packed[at:behind]
            filled += behind - at
        else:
            try:
                filled += inflate(packed[at:behind], room)
            except cramjam.DecompressionError:
                return None
        at = behind
    return filled if at == end and packed[end:] == _END else None


@functools.lru_cache(maxsize=16)
def _block_bytes(head: bytes) -> int:
    """How many plain bytes a block has at most; 0 if the frame is another one."""
    import cramjam

    if head[4] != _PLAIN_FLAGS:
        return 0
    try:
        cramjam.lz4.decompress(head + _END)  # checks the rest of the head
    except cramjam.DecompressionError:
        return 0
    return 1 << (8 + 2 * (head[5] >> 4))
