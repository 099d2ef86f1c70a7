"""Sizes of LZ4 as it is written here."""

BLOCK_BYTES = 1 << 16
TABLE_SHIFT = 51
TABLE_BYTES = 2 << (64 - TABLE_SHIFT)


def frame_room(size: int) -> int:
    """Bytes that a frame of so many bytes takes at most, with what vectors write too much."""
    return size + size // 250 + 32 * (size // BLOCK_BYTES + 2)
