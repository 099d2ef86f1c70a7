"""The stored form of a run of records: one LMDB entry for each block of at most about 64 KiB.

Blocks rather than single records: one allocation, one checksum and one decoder call for some hundred records
(measured in docs/design/embedded-log.md). Nothing here knows LMDB.

Layout (big-endian): magic ``HLB1`` | flags u32 | records u32 | body bytes u32 | first offset i64 | log timestamp i64,
ms | crc32 u32 | body. The body is MessagePack ``[values, headers or nil, keys or nil]``, or with a
fourth element where a value is nil or a record has headers with names: these, a map or nil for each. The checksum
covers header and body. A block is self-describing, so that it is found in a file whose tree is lost.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from holon.columnar.payloads import BinaryColumn
from nodes.log.checks import check_batch, check_records
from nodes.log.contract import Record

MAGIC = b"HLB1"
BLOCK_BYTES = 64 << 10
BLOCK_RECORDS = 4096
ANCHOR = 1
"""Flag of an entry without records that only remembers where the log ends after all was deleted."""

_FIELDS = struct.Struct(">4sIIIqq")
_CRC = struct.Struct(">I")
HEADER_BYTES = _FIELDS.size + _CRC.size
_Body = tuple[list[bytes], list[bytes] | None, list[bytes | None] | None]
_Special = tuple[list[bytes | None], list[bytes] | None, list[bytes | None] | None, list[dict[str, bytes] | None]]
_FOUR = 0x94  # the first byte of a MessagePack array of four
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Body).decode
_decode_special = msgspec.msgpack.Decoder(_Special).decode


class BadBlock(ValueError):
    """The stored bytes are not a block that was written here (torn, overwritten, other format)."""


class Body(NamedTuple):
    """A block that does not know its offset and time yet: all the work that needs no lock."""

    records: int
    data: bytes
    crc: int


class Head(NamedTuple):
    """The fixed front of a block."""

    first: int
    records: int
    timestamp_ms: int
    anchor: bool

    @property
    def end(self) -> int:
        """The offset after this entry; an anchor has the offset of the last deleted record."""
        return self.first + (1 if self.anchor else self.records)


class Block(NamedTuple):
    """A decoded block."""

    head: Head
    values: Sequence[bytes]
    headers: list[bytes] | None
    keys: list[bytes | None] | None
    size: int
    """Stored bytes."""
    special: list[Record] | None = None
    """All of its records, if one of them is null or has headers with names."""


def encode_bodies(
    values: Sequence[bytes],
    headers: Sequence[bytes] | None,
    keys: Sequence[bytes | None] | None,
    *,
    max_record_bytes: int,
    where: str,
) -> list[Body]:
    """Cut a batch into blocks and encode them. Raises what ``check_batch`` does."""
    sizes = check_batch(values, headers, keys, max_record_bytes, where)
    count = len(values)
    values = list(values) if isinstance(values, BinaryColumn) else values
    headers = list(headers) if headers is not None and any(headers) else None
    keys = keys if keys is not None and any(key is not None for key in keys) else None
    if count == 1:
        return [_body(values, headers, keys)]
    bodies = []
    start, ends = 0, np.cumsum(sizes)
    while start < count:
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + BLOCK_BYTES, side="right"))
        stop = min(max(stop, start + 1), start + BLOCK_RECORDS, count)
        bodies.append(_body(values[start:stop], headers and headers[start:stop], keys and keys[start:stop]))
        start = stop
    return bodies


def encode_records(records: Sequence[Record], *, max_record_bytes: int, where: str) -> list[Body]:
    """As ``encode_bodies``, for few records."""
    ends = np.cumsum(check_records(records, max_record_bytes, where))
    bodies: list[Body] = []
    start = 0
    while start < len(records):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + BLOCK_BYTES, side="right")), start + 1)
        stop = min(stop, start + BLOCK_RECORDS)
        bodies.append(_special_body(records[start:stop]))
        start = stop
    return bodies


def seal(body: Body, first: int, timestamp_ms: int, flags: int = 0) -> bytes:
    """The stored bytes of a block, now that its place is known."""
    front = _FIELDS.pack(MAGIC, flags, body.records, len(body.data), first, timestamp_ms)
    return front + _CRC.pack(zlib.crc32(front, body.crc)) + body.data


def anchor(last_offset: int, timestamp_ms: int) -> bytes:
    """The entry that keeps the end of an emptied partition, stored under its last offset."""
    return seal(_body([], None, None), last_offset, timestamp_ms, ANCHOR)


def read_head(data: bytes | memoryview) -> Head:
    """The head of a block; its checksum is not verified."""
    if len(data) <= HEADER_BYTES:
        raise BadBlock(f"a block of {len(data)} bytes is shorter than its header")
    magic, flags, count, _, first, timestamp_ms = _FIELDS.unpack_from(data)
    if magic != MAGIC:
        raise BadBlock(f"a block starts with {magic!r} instead of {MAGIC!r}")
    return Head(first, count, timestamp_ms, bool(flags & ANCHOR))


def check(data: memoryview, body_crc: int | None = None) -> Head:
    """The front of a block; raises ``BadBlock`` if one bit of the block is wrong. ``body_crc``: if it is known."""
    head = read_head(data)
    (crc,) = _CRC.unpack_from(data, _FIELDS.size)
    body_crc = zlib.crc32(data[HEADER_BYTES:]) if body_crc is None else body_crc
    if zlib.crc32(data[: _FIELDS.size], body_crc) != crc:
        raise BadBlock(f"the checksum of the block at offset {head.first} does not match")
    return head


def decode(data: memoryview) -> Block:
    """The records of a block; raises ``BadBlock`` if one bit of it is wrong."""
    head = check(data)
    special = None
    try:
        if data[HEADER_BYTES] == _FOUR:
            stored, headers, keys, named = _decode_special(data[HEADER_BYTES:])
            columns = zip(stored, keys or [None] * len(stored), named, strict=True)
            special = [Record(value, key, its or {}) for value, key, its in columns]
            values = [value or b"" for value in stored]
        else:
            values, headers, keys = _decode(data[HEADER_BYTES:])
    except (msgspec.DecodeError, ValueError) as error:
        raise BadBlock(f"the block at offset {head.first} does not decode: {error}") from error
    if len(values) != head.records:
        raise BadBlock(f"the block at offset {head.first} holds {len(values)} records instead of {head.records}")
    return Block(head, values, headers, keys, len(data), special)


def stored_bytes(data: memoryview) -> int:
    """Length of a block by its own header."""
    return HEADER_BYTES + _FIELDS.unpack_from(data)[3]


def tail_body(block: Block, skip: int) -> Body:
    """The rest of a block when its first ``skip`` records are deleted."""
    if block.special is not None:
        return _special_body(block.special[skip:])
    return _body(block.values[skip:], block.headers and block.headers[skip:], block.keys and block.keys[skip:])


def _body(values: Sequence[bytes], headers: Sequence[bytes] | None, keys: Sequence[bytes | None] | None) -> Body:
    data = _encode((values, headers, keys))
    return Body(len(values), data, zlib.crc32(data))


def _special_body(records: Sequence[Record]) -> Body:
    keys = [record.key for record in records]
    named: list[Mapping[str, bytes] | None] = [record.headers or None for record in records]
    data = _encode(([record.value for record in records], None, keys, named))
    return Body(len(records), data, zlib.crc32(data))
