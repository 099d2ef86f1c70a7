"""A partition's records as readers give them: pieces as columns; and a tail, which keeps them until they are read."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

import msgspec
import numpy as np
from confluent_kafka import KafkaError
from numpy.typing import NDArray

from holon.columnar.payloads import BinaryColumn, Places
from holon.columnar.record_parts import RecordParts, joined_parts
from nodes.log.contract import FetchedRecords, TopicPartition

BUFFER_RECORDS = 50_000
BUFFER_BYTES = 32 << 20
ENOUGH_RECORDS = 4_000
"""Copying more than these costs as much as another turn of a node."""


class RecordRun(msgspec.Struct, frozen=True):
    """A run of records of one partition; ``headers`` and ``keys`` None: none has one.

    Values and headers are ``BinaryColumn``, or lists where there are few. ``size``: bytes of values, headers and keys.
    ``parts``: keys and headers by name, if requested; None: they are not, or no record has any.
    """

    offsets: Places
    timestamps_ms: Places
    values: Sequence[bytes]
    headers: Sequence[bytes] | None
    keys: list[bytes | None] | None
    size: int
    parts: RecordParts | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def cut(self, start: int, stop: int) -> RecordRun:
        """Rows from ``start`` to below ``stop``."""
        return RecordRun(
            self.offsets[start:stop],
            self.timestamps_ms[start:stop],
            self.values[start:stop],
            None if self.headers is None else self.headers[start:stop],
            None if self.keys is None else self.keys[start:stop],
            int(self.sizes()[start:stop].sum()),
            None if self.parts is None else self.parts.cut(start, stop),
        )

    def sizes(self) -> NDArray[np.int64]:
        """Bytes of each record: value, header and key."""
        sizes = _sizes(self.values)
        if self.headers is not None:
            sizes = sizes + _sizes(self.headers)
        if self.keys is not None:
            sizes = sizes + np.array([len(key or b"") for key in self.keys], np.int64)
        return sizes


def _sizes(values: Sequence[bytes]) -> NDArray[np.int64]:
    if isinstance(values, BinaryColumn):
        return values.ends - values.starts
    return np.fromiter(map(len, values), np.int64, len(values))


class Tail:
    """One partition that is followed. ``pieces`` are all up to ``fetched``, where the next one will come from."""

    __slots__ = (
        "attached",
        "buffered",
        "damaged",
        "end",
        "end_s",
        "fetched",
        "paused",
        "pieces",
        "problem",
        "records",
        "start",
        "used_s",
        "where",
    )

    def __init__(self, where: TopicPartition, offset: int) -> None:
        self.where = where
        self.start = offset
        self.fetched = offset
        self.pieces: deque[RecordRun] = deque()
        self.records = 0
        self.buffered = 0
        self.attached = self.paused = False
        self.problem: KafkaError | None = None
        self.damaged = 0
        self.end, self.end_s = -1, float("-inf")
        self.used_s = time.monotonic()

    def covers(self, offset: int) -> bool:
        """Whether reading on from there needs no jump."""
        return self.start <= offset <= self.fetched

    def has_some(self) -> bool:
        """Whether something has arrived that was not read."""
        return bool(self.pieces)

    def last_offset(self) -> int:
        """Of the last record that has arrived; there is one."""
        return int(self.pieces[-1].offsets[-1])

    def add_piece(self, piece: RecordRun) -> None:
        """Keep the records that have arrived, without those known already."""
        known = 0 if piece.offsets[0] >= self.fetched else int(np.searchsorted(piece.offsets, self.fetched))
        if known == len(piece):
            return
        piece = piece.cut(known, len(piece)) if known else piece
        self.damaged = 0
        self.pieces.append(piece)
        self.records += len(piece)
        self.buffered += piece.size
        self.fetched = int(piece.offsets[-1]) + 1

    def drop_before(self, offset: int) -> None:
        """The reader has gone on: it does not request records below the offset again."""
        while self.pieces and self.pieces[0].offsets[0] < offset:
            first = self.pieces[0]
            rows = int(np.searchsorted(first.offsets, offset))
            self._drop(rows, first.cut(0, rows).size)
        self.start = max(self.start, offset)

    def _drop(self, rows: int, size: int) -> None:
        """Of the first piece; ``size`` of these rows in bytes."""
        first = self.pieces[0]
        self.records -= rows
        self.buffered -= size
        if rows == len(first):
            self.pieces.popleft()
        else:
            self.pieces[0] = first.cut(rows, len(first))

    def is_full(self) -> bool:
        """Whether enough has arrived for now: a partition that nobody reads on must not fill the memory."""
        return self.records > BUFFER_RECORDS or self.buffered > BUFFER_BYTES


class TakenPieces:
    """Pieces that are given out together, up to a limit; values as ``BinaryColumn`` where ``columns``."""

    def __init__(self, max_records: int, max_bytes: int, columns: bool) -> None:
        self._columns = columns
        self._records_left = max_records
        self._bytes_left = max_bytes
        self._pieces: list[RecordRun] = []

    @property
    def offsets(self) -> list[RecordRun]:
        """True if there is something."""
        return self._pieces

    def fill(self, tail: Tail) -> bool:
        """Move records out of the tail; True if no more are to be taken."""
        while tail.pieces:
            if self._records_left <= 0:
                return True
            piece = tail.pieces[0]
            if self._enough_before(piece):
                return True
            if len(piece) <= self._records_left and piece.size <= self._bytes_left:
                self._take(tail, piece, piece.size)
                continue
            ends = np.cumsum(piece.sizes())
            fit = min(int(np.searchsorted(ends, self._bytes_left, side="right")), self._records_left, len(piece))
            if fit == 0:
                if self._pieces:
                    return True
                fit = 1  # at least one
            self._take(tail, piece.cut(0, fit) if fit < len(piece) else piece, int(ends[fit - 1]))
            if self._bytes_left <= 0:
                return True
        return self._records_left <= 0

    def _enough_before(self, piece: RecordRun) -> bool:
        """Whether to stop where the next piece lies elsewhere: putting much together costs more than reading again."""
        block = _buffer(piece.values)
        if not self._pieces or (block is not None and _buffer(self._pieces[-1].values) is block):
            return False
        return sum(map(len, self._pieces)) >= ENOUGH_RECORDS

    def _take(self, tail: Tail, piece: RecordRun, size: int) -> None:
        self._records_left -= len(piece)
        self._bytes_left -= size
        self._pieces.append(piece)
        tail._drop(len(piece), size)
        tail.start = int(piece.offsets[-1]) + 1

    def chunk(self, next_offset: int) -> FetchedRecords:
        """The columns."""
        pieces = self._pieces
        if len(pieces) == 1:
            only = pieces[0]
            bare = only.headers is None
            headers = [b""] * len(only) if only.headers is None else list(only.headers)
            values = BinaryColumn.of(only.values) if self._columns else list(only.values)
            return FetchedRecords(
                only.offsets, only.timestamps_ms, values, headers, only.keys, next_offset, bare, only.parts
            )
        nothing = np.empty(0, np.int64)
        keys = None
        if any(piece.keys is not None for piece in pieces):
            keys = [key for piece in pieces for key in piece.keys or [None] * len(piece)]
        bare = all(piece.headers is None for piece in pieces)
        if not bare:
            headers = [h for piece in pieces for h in (piece.headers or [b""] * len(piece))]
        else:
            headers = [b""] * sum(map(len, pieces))
        return FetchedRecords(
            np.concatenate([nothing, *(piece.offsets for piece in pieces)]),
            np.concatenate([nothing, *(piece.timestamps_ms for piece in pieces)]),
            _joined([piece.values for piece in pieces], self._columns),
            headers,
            keys,
            next_offset,
            bare,
            joined_parts([(len(piece), piece.parts) for piece in pieces]),
        )


def _joined(parts: Sequence[Sequence[bytes]], columns: bool) -> Sequence[bytes]:
    if not columns:
        return [value for part in parts for value in part]
    if all(isinstance(part, list) for part in parts):
        return BinaryColumn.of([value for part in parts for value in part])
    return BinaryColumn.joined([BinaryColumn.of(part) for part in parts])


def _buffer(values: Sequence[bytes]) -> object:
    return values.buffer if isinstance(values, BinaryColumn) else None
