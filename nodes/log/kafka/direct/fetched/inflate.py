"""Compressed record batches made plain, by the codecs of cramjam; so that one compiled walk reads all of them."""

from __future__ import annotations

import functools
import struct
import threading
from collections.abc import Callable

import numpy as np

from nodes.log.kafka.direct.fetched.aborted_transactions import Checksum
from nodes.log.kafka.direct.fetched.batch_format import BEFORE_LENGTH, CODEC, MAGIC, SUMMED_FROM
from nodes.log.kafka.direct.fetched.lz4_frames import inflate_frame
from nodes.log.kafka.direct.read_batches_table import HEAD_BYTES

_LENGTH, _FLAGS = struct.Struct(">i"), struct.Struct(">h")
_HEAD = struct.Struct(">iiBIh")
"""Bytes that follow, the leader's epoch, magic, checksum, flags."""
_LENGTH_AT, _MAGIC_AT = 8, 16
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEAD_BYTES = 16
INFLATED_BYTES = 64 << 20
"""A batch with more plain records than this is left to confluent-kafka, before it takes memory here."""
RUN_BYTES = 8 << 20
"""So many plain bytes are made at once, of batches that follow each other: a walk and an array for each cost more."""
_room = threading.local()
Codec = Callable[[memoryview, memoryview], int]
"""Inflates the former into the latter; gives how many bytes it takes."""


def is_compressed(data: memoryview, at: int, end: int) -> bool:
    """Whether a batch of magic 2 begins there, as far as its head says, whose records are compressed."""
    return end - at >= HEAD_BYTES and data[at + _MAGIC_AT] == MAGIC and bool(data[at + SUMMED_FROM + 1] & CODEC)


def inflated(
    data: memoryview, at: int, end: int, checksum: Checksum, room: memoryview | None = None
) -> tuple[int, memoryview]:
    """Whole compressed batches from a place on, one after the other with plain records, and the place behind them.

    Their checksums are not made anew. The bytes lie in ``room``, or in this thread's, until the next call. The batches
    end before one that cannot be inflated, does not fit there, is not compressed, or is damaged. This thread's room has
    ``INFLATED_BYTES`` for records.
    """
    room, filled, (codecs, errors) = _scratch() if room is None else room, 0, _codecs()
    while end - at >= HEAD_BYTES and filled < RUN_BYTES:
        length, _, magic, crc, flags = _HEAD.unpack_from(data, at + _LENGTH_AT)
        behind, codec = at + BEFORE_LENGTH + length, codecs.get(flags & CODEC)
        if magic != MAGIC or codec is None or not at + HEAD_BYTES <= behind <= end:
            break
        if checksum(at + SUMMED_FROM, behind) != crc:
            break
        try:
            size = codec(data[at + HEAD_BYTES : behind], room[filled + HEAD_BYTES :])
        except errors:
            break  # also where it does not fit
        room[filled : filled + HEAD_BYTES] = data[at : at + HEAD_BYTES]
        _LENGTH.pack_into(room, filled + _LENGTH_AT, HEAD_BYTES - BEFORE_LENGTH + size)
        _FLAGS.pack_into(room, filled + SUMMED_FROM, flags & ~CODEC)
        at, filled = behind, filled + HEAD_BYTES + size
    return at, room[:filled]


@functools.cache
def _codecs() -> tuple[dict[int, Codec], tuple[type[Exception], ...]]:
    """By a batch's flags, and the errors that they raise; none where cramjam is missing."""
    try:
        import cramjam
    except ImportError:
        return {}, ()
    codecs: dict[int, Codec] = {
        1: cramjam.gzip.decompress_into,
        2: _snappy,
        3: inflate_frame,
        4: cramjam.zstd.decompress_into,
    }
    return codecs, (cramjam.DecompressionError, struct.error)


def _scratch() -> memoryview:
    """This thread's room for plain records: the system gives only the pages that are written to."""
    if not hasattr(_room, "records"):
        _room.records = np.empty(HEAD_BYTES + INFLATED_BYTES, np.uint8).data
    return _room.records


def _snappy(packed: memoryview, into: memoryview) -> int:
    """As Java's clients write it, in blocks behind a head, or as one block; gives how many bytes it takes."""
    import cramjam

    if bytes(packed[: len(_XERIAL)]) != _XERIAL:
        return cramjam.snappy.decompress_raw_into(packed, into)
    at, filled = _XERIAL_HEAD_BYTES, 0
    while at < len(packed):
        size = _LENGTH.unpack_from(packed, at)[0]
        at += _LENGTH.size
        if not 0 <= size <= len(packed) - at:
            raise struct.error("a block that breaks off")
        filled += cramjam.snappy.decompress_raw_into(packed[at : at + size], into[filled:])
        at += size
    return filled
