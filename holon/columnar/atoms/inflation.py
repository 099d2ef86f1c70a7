"""Bytes that the compressed buffers of an Arrow message inflate to, read from the message before anything inflates.

The format is that of Arrow's specification, "Serialization and Interprocess Communication": the metadata is a
flatbuffer of ``Message.fbs``, and eight bytes in front of each compressed buffer have its plain length.
"""

from __future__ import annotations

import struct
from typing import Any

from holon.errors import DeserializationError

INFLATED_BYTES = 64 << 20
"""The most that the buffers of one record may inflate to, as for the compressed batches of Kafka."""
_DICTIONARY, _RECORDS = 2, 3
_HEADER_TYPE, _HEADER = 1, 2
_DATA_OF_DICTIONARY = 1
_BUFFERS, _COMPRESSION = 2, 3
"""Fields of ``Message``, of ``DictionaryBatch`` and of ``RecordBatch``, by number."""
_BUFFER = struct.Struct("<qq")


def inflated_bytes(message: Any) -> int:
    """Plain bytes of the compressed buffers of a ``pyarrow.ipc.Message``; raises ``DeserializationError``."""
    try:
        return _inflated_bytes(memoryview(message.metadata).cast("B"), message.body)
    except (struct.error, IndexError) as error:
        raise DeserializationError(f"an Arrow message with places outside of it: {error}") from error


def _inflated_bytes(metadata: memoryview, body: Any) -> int:
    top = _behind(metadata, 0)
    kind = metadata[_field(metadata, top, _HEADER_TYPE)]
    if kind not in (_DICTIONARY, _RECORDS):
        return 0
    table = _behind(metadata, _field(metadata, top, _HEADER))
    if kind == _DICTIONARY:
        table = _behind(metadata, _field(metadata, table, _DATA_OF_DICTIONARY))
    buffers = _field(metadata, table, _BUFFERS)
    if not buffers or not _field(metadata, table, _COMPRESSION):
        return 0
    vector = _behind(metadata, buffers)
    count = _number(metadata, vector)
    places = _BUFFER.iter_unpack(metadata[vector + 4 : vector + 4 + _BUFFER.size * count])
    plain = memoryview(body)
    lengths = [struct.unpack_from("<q", plain, offset)[0] for offset, length in places if length]
    return sum(max(length, 0) for length in lengths)  # -1: this buffer is not compressed


def _number(data: memoryview, at: int) -> int:
    return struct.unpack_from("<I", data, at)[0]


def _behind(data: memoryview, at: int) -> int:
    """The place that an offset there leads to."""
    return at + _number(data, at)


def _field(data: memoryview, table: int, number: int) -> int:
    """The place of a table's field, 0 where the table has its default."""
    layout = table - struct.unpack_from("<i", data, table)[0]
    size, at = struct.unpack_from("<H", data, layout)[0], 4 + 2 * number
    offset = struct.unpack_from("<H", data, layout + at)[0] if at < size else 0
    return table + offset if offset else 0
