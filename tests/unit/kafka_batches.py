"""Record batches as Kafka writes them (magic 2), made by hand for tests."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from nodes.log.codecs.crc32c_tables import tables

_TABLE = tables().tolist()


def crc32c(data: bytes) -> int:
    """By the table, byte for byte."""
    found = 0xFFFFFFFF
    for byte in data:
        found = _TABLE[(found ^ byte) & 0xFF] ^ (found >> 8)
    return found ^ 0xFFFFFFFF


def varint(number: int) -> bytes:
    """Zigzag."""
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


@dataclass(frozen=True)
class Row:
    """One record."""

    offset: int
    stamp_ms: int
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[bytes, bytes | None]] = ()


TRANSACTIONAL, CONTROL = 16, 32
"""Attributes."""


def marker(offset: int, producer: int, *, commits: bool) -> bytes:
    """The control batch that ends a producer's transaction."""
    row = Row(offset, 0, struct.pack(">hi", 0, 0), struct.pack(">hh", 0, int(commits)))
    return batch([row], base=offset, last=offset, flags=TRANSACTIONAL | CONTROL, producer=producer)


def batch(
    rows: Sequence[Row],
    *,
    base: int,
    last: int,
    epoch: int = 3,
    flags: int = 0,
    max_ms: int = 0,
    producer: int = -1,
) -> bytes:
    """A whole batch with the offsets ``base`` to ``last``; ``flags`` are its attributes."""
    first_ms = rows[0].stamp_ms if rows else 0
    records = b""
    for row in rows:
        body = b"\0" + varint(row.stamp_ms - first_ms) + varint(row.offset - base) + _sized(row.key)
        body += _sized(row.value) + varint(len(row.headers))
        body += b"".join(_sized(name) + _sized(value) for name, value in row.headers)
        records += varint(len(body)) + body
    checked = struct.pack(">hiqqqhii", flags, last - base, first_ms, max_ms, producer, -1, -1, len(rows)) + records
    behind = struct.pack(">ibI", epoch, 2, crc32c(checked)) + checked
    return struct.pack(">qi", base, len(behind)) + behind
