"""Byte strings and texts as one buffer with places in it: made into Python objects only when one is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from holon.columnar.loops import installed

Places = NDArray[np.int64]

PAD_BYTES = 32
"""A buffer is so much longer than what it holds, so that compiled loops may load whole vectors."""
_PADDING = bytes(PAD_BYTES)
_MANY = 64
FEW = 16
_SLOTS = 4096
_SPARSE = 8
"""Rows that are a smaller part of their bytes in the buffer are copied one by one."""


class Spans:
    """Rows ``buffer[starts[i]:ends[i]]``; the buffer is shared, never written, and padded by ``PAD_BYTES``."""

    __slots__ = ("buffer", "ends", "starts")

    def __init__(self, buffer: NDArray[np.uint8], starts: Places, ends: Places) -> None:
        self.buffer = buffer
        self.starts = starts
        self.ends = ends

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """The rows of an index, a mask or a slice; copies no bytes."""
        return type(self)(self.buffer, self.starts[index], self.ends[index])

    @property
    def size(self) -> int:
        """Bytes of all rows."""
        if len(self.starts) < _MANY:  # a sum of NumPy costs as much as that of a hundred numbers
            return sum(self.ends.tolist()) - sum(self.starts.tolist())
        return int(self.ends.sum() - self.starts.sum())

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts, in one buffer; copies no bytes if they share one."""
        if len(parts) == 1:
            return parts[0]
        if parts and all(part.buffer is parts[0].buffer for part in parts):
            places = np.concatenate([part.starts for part in parts]), np.concatenate([part.ends for part in parts])
            return cls(parts[0].buffer, *places)
        buffers: list[NDArray[np.uint8]] = []
        starts, ends, at = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
        for part in parts:
            if len(part):
                low, high = int(part.starts.min()), int(part.ends.max())
                buffers.append(part.buffer[low:high])
                starts.append(part.starts + (at - low))
                ends.append(part.ends + (at - low))
                at += high - low
        buffers.append(np.zeros(PAD_BYTES, np.uint8))
        return cls(np.concatenate(buffers), np.concatenate(starts), np.concatenate(ends))

    def _bytes_at(self, row: int) -> bytes:
        return self.buffer[self.starts[row] : self.ends[row]].tobytes()

    def _all_bytes(self) -> list[bytes]:
        if len(self) < _MANY:
            return [self._bytes_at(row) for row in range(len(self))]
        low, high = int(self.starts.min()), int(self.ends.max())
        if high - low > _SPARSE * self.size:
            view = self.buffer.data
            return [bytes(view[a:b]) for a, b in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]
        data = self.buffer[low:high].tobytes()
        return [data[a:b] for a, b in zip((self.starts - low).tolist(), (self.ends - low).tolist(), strict=True)]


class BinaryColumn(Spans, Sequence[bytes]):
    """Records' values as columns; everything that takes a sequence of bytes takes it."""

    __slots__ = ()

    @classmethod
    def of(cls, values: Sequence[bytes]) -> BinaryColumn:
        """The same values in one buffer (as they are, if they are that already)."""
        if isinstance(values, BinaryColumn):
            return values
        ends = np.fromiter(accumulate(map(len, values)), np.int64, len(values))
        starts = np.zeros_like(ends)
        starts[1:] = ends[:-1]
        return cls(np.frombuffer(b"".join([*values, _PADDING]), np.uint8), starts, ends)

    @overload
    def __getitem__(self, row: int) -> bytes: ...
    @overload
    def __getitem__(self, row: slice) -> BinaryColumn: ...
    def __getitem__(self, row: int | slice) -> bytes | BinaryColumn:
        return self.take(row) if isinstance(row, slice) else self._bytes_at(row)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._all_bytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Payloads({list(self[:3])!r}{'...' if len(self) > 3 else ''}, {len(self)} rows)"


def size_of(values: Sequence[bytes]) -> int:
    """Bytes of all values."""
    return values.size if isinstance(values, BinaryColumn) else sum(map(len, values))


class Texts(Spans, Sequence[str]):
    """A column of texts (UTF-8).

    ``are_unicode``: whoever made it knows that each row is UTF-8 without lone surrogates; else nobody has looked.
    """

    __slots__ = ("_list", "_reads", "are_unicode")

    def __init__(self, buffer: NDArray[np.uint8], starts: Places, ends: Places, *, are_unicode: bool = False) -> None:
        super().__init__(buffer, starts, ends)
        self.are_unicode = are_unicode
        self._reads = 0
        self._list: list[str] | None = None

    @classmethod
    def of(cls, values: Sequence[str]) -> Texts:
        """The same texts in one buffer."""
        if isinstance(values, Texts):
            return values
        try:
            encoded, are_unicode = [value.encode() for value in values], True
        except UnicodeEncodeError:
            encoded, are_unicode = [value.encode("utf-8", "surrogatepass") for value in values], False
        column = BinaryColumn.of(encoded)
        return cls(column.buffer, column.starts, column.ends, are_unicode=are_unicode)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Texts:  # type: ignore[override]
        """The rows of an index, a mask or a slice; copies no bytes."""
        return Texts(self.buffer, self.starts[index], self.ends[index], are_unicode=self.are_unicode)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> Texts: ...
    def __getitem__(self, row: int | slice) -> str | Texts:
        if isinstance(row, slice):
            return self.take(row)
        self._reads += 1
        if self._reads > FEW:  # row after row: then all of them at once
            return self.tolist()[row]
        return self._bytes_at(row).decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and not isinstance(other, str) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Texts({list(self[:3])!r}{'...' if len(self) > 3 else ''}, {len(self)} rows)"

    def tolist(self) -> list[str]:
        """All of them as Python strings, which are made once."""
        if self._list is None:
            self._list = [value.decode("utf-8", "surrogatepass") for value in self._all_bytes()]
        return self._list

    def utf8(self) -> tuple[NDArray[np.uint8], Places, Places, bool]:
        """The buffer, where in it each text begins and ends, and ``are_unicode``."""
        return self.buffer, self.starts, self.ends, self.are_unicode

    def numbered(self) -> tuple[NDArray[np.int64], list[str]] | None:
        """A number from 0 for each row, and the distinct texts by number, as they first come; None without loops."""
        found = self.numbered_rows()
        return None if found is None else (found[0], self.take(found[1]).tolist())

    def numbered_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """A number from 0 for each row, and the first row of each number; None without loops."""
        loops = installed()
        if loops is None or len(self) < _MANY:
            return None
        starts, ends = np.ascontiguousarray(self.starts), np.ascontiguousarray(self.ends)
        numbers, firsts = np.empty(len(self), np.int64), np.empty(len(self), np.int64)
        slots, distinct, at = _SLOTS, -1, loops.address
        places = at(self.buffer), at(starts), at(ends), len(self)
        while distinct < 0:
            table = np.zeros(slots, np.int64)
            distinct = loops.number_spans(*places, at(table), slots, at(numbers), at(firsts), loops.secret)
            slots *= 8
        return numbers, firsts[:distinct]

    def epoch_ms(self) -> tuple[NDArray[np.int64], NDArray[np.intp]] | None:
        """ISO 8601 times as ms since 1970 UTC, and the rows of which that is not known; None without loops."""
        loops = installed()
        if loops is None or len(self) < FEW:
            return None
        starts, ends = np.ascontiguousarray(self.starts), np.ascontiguousarray(self.ends)
        times = np.empty(len(self), np.int64)
        odd = loops.iso_times(
            self.buffer.ctypes.data, starts.ctypes.data, ends.ctypes.data, len(self), times.ctypes.data
        )
        return times, np.flatnonzero(times == np.iinfo(np.int64).min) if odd else np.empty(0, np.intp)

    def replaced(self, rows: NDArray[np.intp], values: Sequence[str]) -> Texts:
        """With other texts at some rows; copies the buffer."""
        more = Texts.of(values)
        shift = len(self.buffer)
        starts, ends = self.starts.copy(), self.ends.copy()
        starts[rows], ends[rows] = more.starts + shift, more.ends + shift
        return Texts(np.concatenate([self.buffer, more.buffer]), starts, ends)

    def to_arrow(self) -> Any:
        """A pyarrow ``large_string`` array; needs the extra ``arrow``."""
        import pyarrow as pa

        lengths = self.ends - self.starts
        offsets = np.zeros(len(self) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        if len(self) and bool(np.all(self.starts[1:] == self.ends[:-1])):  # one after the other: nothing is copied
            data = self.buffer[int(self.starts[0]) : int(self.ends[-1])]
        else:
            place = np.arange(int(offsets[-1])) + np.repeat(self.starts - offsets[:-1], lengths)
            data = self.buffer[place]
        return pa.LargeStringArray.from_buffers(len(self), pa.py_buffer(offsets), pa.py_buffer(data))
