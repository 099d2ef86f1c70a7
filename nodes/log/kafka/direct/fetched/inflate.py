"""Compressed record batches made plain, by the codecs of cramjam; so that one compiled walk reads all of them."""

from __future__ import annotations

import struct
import threading

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import PAD_BYTES
from nodes.log.kafka.direct.read_batches_table import HEAD_BYTES

_CODEC = 7
_LENGTH, _FLAGS = struct.Struct(">i"), struct.Struct(">h")
_LENGTH_AT, _FLAGS_AT = 8, 21
_BEFORE_LENGTH = 12
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEAD_BYTES = 16
INFLATED_BYTES = 64 << 20
"""A batch with more plain records than this is left to confluent-kafka, before it takes memory here."""
_room = threading.local()


def inflated(batch: memoryview) -> NDArray[np.uint8] | None:
    """The same batch with plain records, padded; its checksum is not made anew. None where that cannot be done.

    None also where the records take more than ``INFLATED_BYTES``.

    ``batch``: whole, of magic 2, with a checksum that was right.
    """
    try:
        import cramjam
    except ImportError:
        return None
    flags = _FLAGS.unpack_from(batch, _FLAGS_AT)[0]
    packed = batch[HEAD_BYTES:]
    into = _scratch()
    try:
        match flags & _CODEC:
            case 1:
                size = cramjam.gzip.decompress_into(packed, into)
            case 2:
                size = _snappy(packed, into)
            case 3:
                size = cramjam.lz4.decompress_into(packed, into)
            case 4:
                size = cramjam.zstd.decompress_into(packed, into)
            case _:
                return None
    except (cramjam.DecompressionError, struct.error):
        return None
    found = np.empty(HEAD_BYTES + size + PAD_BYTES, np.uint8)
    found[:HEAD_BYTES] = batch[:HEAD_BYTES]
    found[HEAD_BYTES : HEAD_BYTES + size] = np.frombuffer(into, np.uint8, size)
    head = found.data
    _LENGTH.pack_into(head, _LENGTH_AT, HEAD_BYTES - _BEFORE_LENGTH + size)
    _FLAGS.pack_into(head, _FLAGS_AT, flags & ~_CODEC)
    return found


def _scratch() -> memoryview:
    """This thread's room for plain records: the system gives only the pages that are written to."""
    if not hasattr(_room, "records"):
        _room.records = np.empty(INFLATED_BYTES, np.uint8).data
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
