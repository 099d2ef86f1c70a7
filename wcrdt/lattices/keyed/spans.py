"""Texts and byte strings as one buffer with places in it: hashed, compared and sorted eight bytes at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wcrdt.column_memory import copied, kept, may_stay
from wcrdt.lattices.columns import Indices, Ints
from wcrdt.lattices.keyed.int_index import IndexLoops, loops, with_room

Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]

WORD_BYTES = 8
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(WORD_BYTES)] + [2**64 - 1], np.uint64)
_SORTED_WORDS = 4
"""Longer ones are sorted as Python's byte strings, and copied byte by byte."""


class KeySpans(NamedTuple):
    """Rows ``buffer[starts[i]:ends[i]]``. Behind the last row the buffer goes on for eight bytes at least.

    ``are_texts``: whoever made it knows that each row is UTF-8.
    """

    buffer: Bytes
    starts: Ints
    ends: Ints
    are_texts: bool = False

    @classmethod
    def of(cls, values: Sequence[bytes]) -> KeySpans:
        """The same rows in a buffer of their own."""
        bounds = np.zeros(len(values) + 1, np.int64)
        bounds[1:] = np.fromiter(accumulate(map(len, values)), np.int64, len(values))
        return cls(np.frombuffer(b"".join([*values, bytes(WORD_BYTES)]), np.uint8), bounds[:-1], bounds[1:])

    @property
    def rows(self) -> int:
        return len(self.starts)

    @property
    def lengths(self) -> Ints:
        return self.ends - self.starts

    @property
    def nbytes(self) -> int:
        """Memory of its arrays."""
        return self.buffer.nbytes + 2 * self.starts.nbytes

    def take(self, rows: Indices) -> KeySpans:
        return KeySpans(self.buffer, self.starts[rows], self.ends[rows], self.are_texts)

    def held(self) -> KeySpans:
        """The same rows for longer: where long columns do not lie in memory, copies of them."""
        buffer = self.buffer if may_stay(self.buffer.nbytes) else copied(self.buffer)
        return self._replace(buffer=buffer, starts=kept(self.starts), ends=kept(self.ends))

    def tolist(self) -> list[bytes]:
        if not len(self.starts):
            return []
        low = int(self.starts.min())
        data = self.buffer[low : int(self.ends.max())].tobytes()
        return [data[a:b] for a, b in zip((self.starts - low).tolist(), (self.ends - low).tolist(), strict=True)]

    def surroundings_are_ascii(self) -> bool:
        """Whether there is ASCII alone from the first row to the last, and between rows; there is a row."""
        return int(self.buffer[int(self.starts.min()) : int(self.ends.max())].max(initial=0)) < 0x80

    def joined(self) -> bytes:
        """All rows, one behind the other."""
        if (self.starts[1:] == self.ends[:-1]).all():
            return self.buffer[self.starts[0] : self.ends[-1]].tobytes() if len(self.starts) else b""
        lengths = self.lengths
        longest = int(lengths.max())
        if longest <= _SORTED_WORDS * WORD_BYTES:
            offsets = np.arange(0, longest, WORD_BYTES)
            at = np.minimum(self.starts[:, None] + offsets, len(self.buffer) - WORD_BYTES)
            padded = _words(self.buffer)[at].view(np.uint8).reshape(len(lengths), -1)
            return padded[np.arange(padded.shape[1]) < lengths[:, None]].tobytes()
        first = np.cumsum(lengths) - lengths
        return self.buffer[np.arange(int(lengths.sum())) + np.repeat(self.starts - first, lengths)].tobytes()


def _words(buffer: Bytes) -> Words:
    """The eight bytes from each place on."""
    return np.ndarray((len(buffer) - WORD_BYTES + 1,), "<u8", buffer, strides=(1,))


def masked_words(buffer: Bytes, at: Ints, sizes: Ints) -> Words:
    """The first ``sizes`` bytes from each place on, at most eight, as a number; 0 for none."""
    at = np.where(sizes > 0, at, 0)
    return _words(buffer)[at] & _MASKS[np.clip(sizes, 0, WORD_BYTES)]


def _lying_together(spans: KeySpans) -> KeySpans:
    """The same rows with places that compiled loops can read."""
    starts, ends = np.ascontiguousarray(spans.starts, np.int64), np.ascontiguousarray(spans.ends, np.int64)
    return KeySpans(spans.buffer, starts, ends, spans.are_texts)


def _addresses(compiled: IndexLoops, spans: KeySpans) -> tuple[int, int, int]:
    at = compiled.address
    return at(spans.buffer), at(spans.starts), at(spans.ends)


def hashes(spans: KeySpans, factor: np.uint64) -> Ints:
    """A number for each row, which equal rows share. ``factor`` is odd."""
    if (compiled := loops()) is not None:
        spans, numbers = _lying_together(spans), np.empty(spans.rows, np.int64)
        compiled.hash_spans(*_addresses(compiled, spans), spans.rows, int(factor), compiled.address(numbers))
        return numbers
    words, rest = _words(spans.buffer), spans.lengths
    mixed = rest.view(np.uint64) * factor
    rows: Any = slice(None)
    at = spans.starts
    while len(rest) and int(rest.max()) > 0:
        if int(rest.min()) <= 0:
            left = np.flatnonzero(rest > 0)
            rows = left if isinstance(rows, slice) else rows[left]
            at, rest = at[left], rest[left]
        found = (mixed[rows] ^ (words[at] & _MASKS[np.minimum(rest, WORD_BYTES)])) * factor
        mixed[rows] = found ^ (found >> np.uint64(32))
        at, rest = at + WORD_BYTES, rest - WORD_BYTES
    return mixed.view(np.int64)


def equal(one: KeySpans, other: KeySpans) -> NDArray[np.bool_]:
    """Whether the rows are the same, row by row."""
    if (compiled := loops()) is not None:
        one, other, answers = _lying_together(one), _lying_together(other), np.empty(one.rows, np.bool_)
        compiled.equal_spans(
            *_addresses(compiled, one), *_addresses(compiled, other), one.rows, compiled.address(answers)
        )
        return answers
    same = one.lengths == other.lengths
    rows = np.flatnonzero(same)
    mine, theirs, rest = one.starts[rows], other.starts[rows], one.lengths[rows]
    left, right = _words(one.buffer), _words(other.buffer)
    while len(rows) and int(rest.max()) > 0:
        if int(rest.min()) <= 0:
            longer = np.flatnonzero(rest > 0)
            rows, mine, theirs, rest = rows[longer], mine[longer], theirs[longer], rest[longer]
        differ = ((left[mine] ^ right[theirs]) & _MASKS[np.minimum(rest, WORD_BYTES)]) != 0
        if differ.any():
            same[rows[differ]] = False
        mine, theirs, rest = mine + WORD_BYTES, theirs + WORD_BYTES, rest - WORD_BYTES
    return same


def sort_columns(spans: KeySpans) -> list[Any]:
    """Columns to sort by, the first one first: their order is that of the rows' bytes."""
    lengths = spans.lengths
    longest = int(lengths.max()) if len(lengths) else 0
    if longest > _SORTED_WORDS * WORD_BYTES:
        rows = spans.tolist()
        rank = np.empty(len(rows), np.int64)
        place = {row: number for number, row in enumerate(sorted(set(rows)))}
        rank[:] = [place[row] for row in rows]
        return [rank]
    columns: list[Any] = []
    for offset in range(0, longest, WORD_BYTES):
        columns.append(masked_words(spans.buffer, spans.starts + offset, lengths - offset).byteswap())
    return [*columns, lengths]  # where one row is another one with zero bytes behind it, the length decides


class SpanStore:
    """Rows that are added and never removed, in one growing buffer."""

    __slots__ = ("_buffer", "_ends", "count")

    def __init__(self) -> None:
        self._buffer: Bytes = np.zeros(WORD_BYTES, np.uint8)
        self._ends: NDArray[Any] = np.zeros(1, np.uint32)  # behind the end of each row, from row -1 on
        self.count = 0

    @property
    def size_bytes(self) -> int:
        return self._buffer.nbytes + self._ends.nbytes

    def add(self, spans: KeySpans) -> None:
        data = np.frombuffer(spans.joined(), np.uint8)
        begin = int(self._ends[self.count])
        count, end = self.count + spans.rows, begin + len(data)
        if end >= 1 << 32 and self._ends.dtype == np.uint32:
            self._ends = self._ends.astype(np.int64)
        self._ends = with_room(self._ends, count + 1)
        self._ends[self.count + 1 : count + 1] = begin + np.cumsum(spans.lengths)
        self._buffer = with_room(self._buffer, end + WORD_BYTES)
        self._buffer[begin:end] = data
        self.count = count

    def take(self, rows: Any) -> KeySpans:
        """The rows of an index or a slice; copies no bytes."""
        ends = self._ends[1 : self.count + 1]
        starts = self._ends[: self.count]
        return KeySpans(self._buffer, starts[rows].astype(np.int64), ends[rows].astype(np.int64))
