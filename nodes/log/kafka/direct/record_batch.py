"""Kafka's record batches (magic 2), written from columns by the compiled loops.

Format: kafka.apache.org/documentation/#recordbatch. Timestamps are of the batch: all its records have the same.
"""

from __future__ import annotations

import ctypes
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import PAD_BYTES
from nodes.compiled.loading import Compiled
from nodes.log.codecs.crc32c_tables import tables
from nodes.log.codecs.lz4_layout import TABLE_BYTES, frame_room
from nodes.log.kafka.append import HEADER, RECORD_OVERHEAD_BYTES
from nodes.log.kafka.record_columns import FEW, RecordColumns

_HEAD = struct.Struct(">qiib")
"""First offset, bytes that follow, epoch of the leader, magic."""
_SUM = struct.Struct(">I")
_BODY = struct.Struct(">hiqqqhii")
"""Attributes, last number, first and last time, producer and its epoch, sequence number, how many."""
_SUMMED = _HEAD.size + _SUM.size
HEAD_BYTES = _SUMMED + _BODY.size
_MAGIC, _NO_EPOCH, _LZ4 = 2, -1, 3
_BEFORE_LENGTH = 12
_FEW_BYTES = 16 << 10
_NO_KEY, _NO_HEADERS, _ONE_HEADER = b"\1", b"\0", b"\2"
SEQUENCES = 1 << 31
"""After the last one comes 0."""


@dataclass(frozen=True, slots=True)
class Producer:
    """Whom the brokers take records of once only: an idempotent producer."""

    id: int
    epoch: int


@dataclass(slots=True)
class UnsentRecords:
    """Records that were handed over together and have not left as a whole. ``row``: the first that has not."""

    records: RecordColumns
    done: Callable[[int], None]
    since_s: float
    row: int = 0


@dataclass(slots=True, eq=False)
class Batch:
    """Records that go out together. ``callbacks``: a callback, and how many of the batch's records it acknowledges.

    ``size``: bytes as they were handed over; ``in_flight``: whether it is on its way; ``first_offset``: where it lies.
    """

    data: bytes
    count: int
    size: int
    since_s: float
    callbacks: list[tuple[Callable[[int], None], int]] = field(default_factory=list)
    in_flight: bool = False
    first_offset: int | None = None


class BatchWriter:
    """Writes batches of at most ``batch_bytes``; a single record may be larger. Belongs to one thread."""

    def __init__(self, loops: Compiled, batch_bytes: int, compressed: bool) -> None:
        self._loops = loops
        self._room = batch_bytes - HEAD_BYTES
        self._compressed = compressed
        self._tables = tables()
        self._tables_at = self._tables.ctypes.data
        self._name = np.frombuffer(HEADER.encode() + bytes(PAD_BYTES), np.uint8)
        self._places = np.zeros(TABLE_BYTES, np.uint8)
        self._used = np.zeros(1, np.int64)
        self._plain = np.empty(0, np.uint8)
        self._packed = np.empty(0, np.uint8)

    def write(self, pieces: deque[UnsentRecords], producer: Producer, sequence: int, now_ms: int) -> Batch:
        """Take as much from the pieces as fits into a batch: at least one record."""
        if _are_few(pieces, min(self._room, _FEW_BYTES)):
            return self._write_few(pieces, producer, sequence, now_ms)
        since_s, size, count, at, callbacks = pieces[0].since_s, 0, 0, HEAD_BYTES, []
        self._make_room(self._room)
        while pieces:
            piece = pieces[0]
            end, used = self._fill(piece, piece.records.count, count, at, HEAD_BYTES + self._room - at)
            if end == piece.row and count == 0:
                end, used = self._alone(piece, at)
            size += piece.records.size_of(piece.row, end)
            count, at, piece.row = count + end - piece.row, at + used, end
            if end < piece.records.count:
                break
            callbacks.append((piece.done, count))
            pieces.popleft()
        data = self._finished(at, count, producer, sequence, now_ms)
        return Batch(data, count, size, since_s, callbacks)

    def _write_few(self, pieces: deque[UnsentRecords], producer: Producer, sequence: int, now_ms: int) -> Batch:
        """All of them, in Python. Not compressed: of so little that saves nobody anything."""
        since_s, size, count, callbacks = pieces[0].since_s, 0, 0, []
        data = bytearray(HEAD_BYTES)
        for piece in pieces:
            for value, header, key in piece.records.rows():
                data += _record(count, value, header, key)
                count += 1
            size += piece.records.size
            callbacks.append((piece.done, count))
        pieces.clear()
        _put_head(data, len(data), 0, count, producer, sequence, now_ms)
        _SUM.pack_into(data, _HEAD.size, self._sum(ctypes.addressof(ctypes.c_char.from_buffer(data)), len(data)))
        return Batch(bytes(data), count, size, since_s, callbacks)

    def _alone(self, piece: UnsentRecords, at: int) -> tuple[int, int]:
        """One record that is larger than a batch should be."""
        room = piece.records.size_of(piece.row, piece.row + 1) + RECORD_OVERHEAD_BYTES
        self._make_room(room)
        return self._fill(piece, piece.row + 1, 0, at, room)

    def _make_room(self, room: int) -> None:
        if len(self._plain) < HEAD_BYTES + room + PAD_BYTES:
            self._plain = np.empty(HEAD_BYTES + room + PAD_BYTES, np.uint8)
            self._packed = np.empty(HEAD_BYTES + frame_room(room), np.uint8)

    def _fill(self, piece: UnsentRecords, until: int, number: int, at: int, room: int) -> tuple[int, int]:
        """Write its records from place ``at`` on, the first with this number; up to which row, and how many bytes."""
        end = self._loops.write_records(
            piece.records.table.ctypes.data, piece.row, until, number, self._name.ctypes.data, len(HEADER),
            self._plain.ctypes.data + at, room, self._used.ctypes.data,
        )  # fmt: skip
        return end, int(self._used[0])

    def _finished(self, end: int, count: int, producer: Producer, sequence: int, now_ms: int) -> bytes:
        buffer, attributes = self._plain, 0
        if self._compressed:
            packed = HEAD_BYTES + self._loops.lz4_frame(
                self._plain.ctypes.data + HEAD_BYTES, end - HEAD_BYTES, self._packed.ctypes.data + HEAD_BYTES,
                self._places.ctypes.data,
            )  # fmt: skip
            if packed < end:
                buffer, end, attributes = self._packed, packed, _LZ4
        return self._headed(buffer[:end], attributes, count, producer, sequence, now_ms)

    def _headed(
        self, buffer: NDArray[np.uint8], attributes: int, count: int, producer: Producer, sequence: int, now_ms: int
    ) -> bytes:
        """The batch with its head, which is written into the room before the records."""
        head, end = memoryview(buffer), len(buffer)  # pyright: ignore[reportArgumentType]  # numpy's arrays are buffers
        _put_head(head, end, attributes, count, producer, sequence, now_ms)
        _SUM.pack_into(head, _HEAD.size, self._sum(buffer.ctypes.data, end))
        return buffer.tobytes()

    def _sum(self, address: int, end: int) -> int:
        """Of a batch of ``end`` bytes."""
        return self._loops.crc32c(address + _SUMMED, end - _SUMMED, self._tables_at)


def _put_head(
    head: bytearray | memoryview, end: int, attributes: int, count: int, producer: Producer, sequence: int, now_ms: int
) -> None:
    """Write the head of a batch, all of it but the checksum."""
    _HEAD.pack_into(head, 0, 0, end - _BEFORE_LENGTH, _NO_EPOCH, _MAGIC)
    _BODY.pack_into(head, _SUMMED, attributes, count - 1, now_ms, now_ms, producer.id, producer.epoch, sequence, count)


def _are_few(pieces: deque[UnsentRecords], most_bytes: int) -> bool:
    count = size = 0
    for piece in pieces:
        count += piece.records.count
        if not piece.records.is_few or piece.row or count > FEW:
            return False
        size += piece.records.size + piece.records.count * RECORD_OVERHEAD_BYTES
    return size <= most_bytes


def _record(number: int, value: bytes, header: bytes, key: bytes | None) -> bytes:
    body = b"".join(
        (
            b"\0\0",  # no attributes, the time of the batch
            _varint(number),
            _NO_KEY if key is None else _varint(len(key)) + key,
            _varint(len(value)),
            value,
            _ONE_HEADER + _NAMED + _varint(len(header)) + header if header else _NO_HEADERS,
        )
    )
    return _varint(len(body)) + body


def _varint(number: int) -> bytes:
    """Not negative, as Kafka writes signed numbers: doubled, seven bits a byte."""
    number <<= 1
    if number < 128:
        return bytes((number,))
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


_NAMED = _varint(len(HEADER)) + HEADER.encode()
