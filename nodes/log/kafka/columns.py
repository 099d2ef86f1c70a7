"""What a batch of librdkafka's messages becomes: pieces of one partition as columns, and events.

``kafka_native`` takes messages from the library, compiled loops fill the table of their fields; here runs of the same
partition become pieces, and a tail keeps the pieces until they are read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import Payloads, Places
from nodes.log.contract import Chunk, TopicPartition
from nodes.log.kafka_tail import BUFFER_BYTES, BUFFER_RECORDS, Tail

ENOUGH_RECORDS = 4_000
"""Copying more than these costs as much as another turn of a node."""


@dataclass(slots=True, frozen=True)
class Piece:
    """A run of records of one partition; ``headers`` and ``keys`` None: none has one.

    Values and headers are ``Payloads``, or lists where there are few. ``size``: bytes of values, headers and keys.
    """

    offsets: Places
    timestamps_ms: Places
    values: Sequence[bytes]
    headers: Sequence[bytes] | None
    keys: list[bytes | None] | None
    size: int

    def __len__(self) -> int:
        return len(self.offsets)

    def cut(self, start: int, stop: int) -> Piece:
        """Rows from ``start`` to below ``stop``."""
        return Piece(
            self.offsets[start:stop],
            self.timestamps_ms[start:stop],
            self.values[start:stop],
            None if self.headers is None else self.headers[start:stop],
            None if self.keys is None else self.keys[start:stop],
            int(self.sizes()[start:stop].sum()),
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
    if isinstance(values, Payloads):
        return values.ends - values.starts
    return np.fromiter(map(len, values), np.int64, len(values))


class ColumnTail(Tail):
    """A tail that keeps pieces instead of messages."""

    __slots__ = ("pieces", "records")

    def __init__(self, where: TopicPartition, offset: int) -> None:
        super().__init__(where, offset)
        self.pieces: deque[Piece] = deque()
        self.records = 0

    def has_some(self) -> bool:
        return bool(self.pieces)

    def last_offset(self) -> int:
        return int(self.pieces[-1].offsets[-1])

    def add_piece(self, piece: Piece) -> None:
        """What has arrived, without what is known already."""
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
        return self.records > BUFFER_RECORDS or self.buffered > BUFFER_BYTES

    def new_taken(self, max_records: int, max_bytes: int) -> ColumnTaken:
        return ColumnTaken(max_records, max_bytes)


class ColumnTaken:
    """Pieces that are given out together, up to a limit."""

    def __init__(self, max_records: int, max_bytes: int) -> None:
        self._records_left = max_records
        self._bytes_left = max_bytes
        self._pieces: list[Piece] = []

    @property
    def offsets(self) -> list[Piece]:
        """True if there is something."""
        return self._pieces

    def fill(self, tail: ColumnTail) -> bool:
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

    def _enough_before(self, piece: Piece) -> bool:
        """Whether to stop where the next piece lies elsewhere: putting much together costs more than reading again."""
        block = _buffer(piece.values)
        if not self._pieces or (block is not None and _buffer(self._pieces[-1].values) is block):
            return False
        return sum(map(len, self._pieces)) >= ENOUGH_RECORDS

    def _take(self, tail: ColumnTail, piece: Piece, size: int) -> None:
        self._records_left -= len(piece)
        self._bytes_left -= size
        self._pieces.append(piece)
        tail._drop(len(piece), size)
        tail.start = int(piece.offsets[-1]) + 1

    def chunk(self, next_offset: int) -> Chunk:
        """The columns."""
        pieces = self._pieces
        if len(pieces) == 1:
            only = pieces[0]
            bare = only.headers is None
            headers = [b""] * len(only) if only.headers is None else list(only.headers)
            values = Payloads.of(only.values)
            return Chunk(only.offsets, only.timestamps_ms, values, headers, only.keys, next_offset, bare)
        nothing = np.empty(0, np.int64)
        keys = None
        if any(piece.keys is not None for piece in pieces):
            keys = [key for piece in pieces for key in piece.keys or [None] * len(piece)]
        bare = all(piece.headers is None for piece in pieces)
        if not bare:
            headers = [h for piece in pieces for h in (piece.headers or [b""] * len(piece))]
        else:
            headers = [b""] * sum(map(len, pieces))
        return Chunk(
            np.concatenate([nothing, *(piece.offsets for piece in pieces)]),
            np.concatenate([nothing, *(piece.timestamps_ms for piece in pieces)]),
            _joined([piece.values for piece in pieces]),
            headers,
            keys,
            next_offset,
            bare,
        )


def _joined(parts: Sequence[Sequence[bytes]]) -> Payloads:
    if all(isinstance(part, list) for part in parts):
        return Payloads.of([value for part in parts for value in part])
    return Payloads.joined([Payloads.of(part) for part in parts])


def _buffer(values: Sequence[bytes]) -> object:
    return values.buffer if isinstance(values, Payloads) else None
