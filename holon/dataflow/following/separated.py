"""Texts that are taken apart at a separator: places in their buffer, so no list and no text is made."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import Texts
from holon.columnar.structs.lazy import ObjectColumn
from holon.dataflow.following.column_functions import ColumnFunction, as_list
from holon.dataflow.following.loops.words import Words
from holon.formats.batch import Column

Places = NDArray[np.int64]
_FARTHEST = 64
"""Bytes of the buffer to be looked at, for each byte of texts."""


class Separated(ObjectColumn):
    """Lists of the parts of texts: ``found`` are the places of separators, of which a text has those in its range.

    ``most``: how many separators count, the first ones or (``from_end``) the last; None: all.
    """

    __slots__ = ("_ends", "_first", "_found", "_number", "_texts", "_width", "method", "separator")

    def __init__(self, texts: Texts, method: str, separator: str, given: tuple[Places, Places, Places, Places]) -> None:
        super().__init__()
        self._texts, self.method, self.separator = texts, method, separator
        self._found, self._first, self._number, self._ends = given
        self._width = len(separator.encode())

    @classmethod
    def of(cls, texts: Texts, method: str, separator: str) -> Self | None:
        """None where Python takes them apart."""
        wanted, count = separator.encode("utf-8", "surrogatepass"), len(texts)
        if not wanted or not separator.isascii() or wanted[:1] in wanted[1:] or not count:
            return None
        begin, end = int(texts.starts.min()), int(texts.ends.max())
        if end - begin > _FARTHEST * (int((texts.ends - texts.starts).sum()) + count):
            return None
        window = texts.buffer[begin:end]
        found = np.flatnonzero(window[: len(window) - len(wanted) + 1] == wanted[0])
        for place in range(1, len(wanted)):
            found = found[window[found + place] == wanted[place]]
        found = found + begin
        first = np.searchsorted(found, texts.starts)
        number = np.searchsorted(found, texts.ends - (len(wanted) - 1)) - first
        return cls(texts, method, separator, (found, first, np.maximum(number, 0), texts.ends))

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """The rows of an index, a mask or a slice."""
        given = self._found, self._first[index], self._number[index], self._ends[index]
        return type(self)(self._texts.take(index), self.method, self.separator, given)

    def lengths(self) -> Places:
        """How many parts each text has."""
        return self._number + 1

    def flat(self) -> tuple[Texts, Places]:
        """All parts as one column, and offsets: those of row i are from ``offsets[i]`` to ``offsets[i+1]``."""
        lengths = self.lengths()
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        rows = np.repeat(np.arange(len(lengths)), lengths)
        places = np.arange(offsets[-1]) - offsets[rows]
        return self.take(rows)._between(places - 1, places), offsets

    def item(self, place: int) -> Texts | None:
        """The part of each text at a place; None where a text has none there."""
        places = self._number + 1 + place if place < 0 else np.full(len(self), place)
        if bool(((places < 0) | (places > self._number)).any()):
            return None
        return self._between(places - 1, places)

    def _between(self, left: Places, right: Places) -> Texts:
        """The texts between two separators by their number, or from the begin or to the end of the text."""
        found = self._found if len(self._found) else np.zeros(1, np.int64)
        last = len(found) - 1
        starts = np.where(left < 0, self._texts.starts, found[np.clip(self._first + left, 0, last)] + self._width)
        ends = np.where(right >= self._number, self._ends, found[np.clip(self._first + right, 0, last)])
        return Texts(self._texts.buffer, starts, ends, are_unicode=self._texts.are_unicode)

    def parted(self, from_end: bool) -> tuple[Texts, Texts, Texts]:
        """The three texts of ``partition`` (``from_end``: of ``rpartition``)."""
        has = self._number > 0
        cut = self._number - 1 if from_end else np.zeros(len(self), np.int64)
        before, after = self._between(np.full(len(self), -1), cut), self._between(cut, self._number)
        nothing = self._ends if not from_end else self._texts.starts
        if from_end:  # without a separator all is in the last part
            before.ends = np.where(has, before.ends, nothing)
            after.starts = np.where(has, after.starts, nothing)
        else:
            after.starts = np.where(has, after.starts, nothing)
        middle = Texts(before.buffer, before.ends, np.where(has, before.ends + self._width, before.ends))
        middle.are_unicode = True
        return before, middle, after

    def _made(self) -> list[Any]:
        return [getattr(text, self.method)(self.separator) for text in self._texts.tolist()]

    def _row(self, row: int) -> Any:
        return getattr(self._texts[row], self.method)(self.separator)

    def __len__(self) -> int:
        return len(self._texts)


class Split(ColumnFunction):
    """``split``, ``rsplit``, ``partition`` or ``rpartition`` of texts."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.key = (method,)

    def __call__(self, *values: Any) -> Any:
        text, *given = values
        return getattr(text, self.method)(*given)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Places, where each is a text and the separator a constant one, or ``split`` has none."""
        texts, *others = given
        if isinstance(texts, Texts) and not others and self.method == "split":
            return Words.of(texts)
        if not isinstance(texts, Texts) or len(others) != 1 or not fixed[1] or type(others[0]) is not str:
            return None
        return Separated.of(texts, self.method, others[0])


class Item(ColumnFunction):
    """The item at a constant place."""

    def __init__(self, place: int) -> None:
        self.place = place
        self._of = itemgetter(place)
        self.key = (place,)

    def __call__(self, *values: Any) -> Any:
        return self._of(*values)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Places, where the column has those of its parts."""
        (column,) = given
        if isinstance(column, tuple):  # a pair has a column of each part
            return column[self.place]
        if isinstance(column, Separated):
            if column.method.endswith("partition"):
                found: Any = column.parted(column.method == "rpartition")[self.place]
            else:
                found = column.item(self.place)
            if found is not None:
                return found
        return list(map(self._of, as_list(column)))


class Unpacked(ColumnFunction):
    """A sequence of exactly so many items, as it is. Raises ``ValueError`` for others, as Python does."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.key = (number,)

    def __call__(self, *values: Any) -> Any:
        (value,) = values
        number = self._number
        if len(value) == number:
            return value
        if len(value) > number:
            raise ValueError(f"too many values to unpack (expected {number})")
        raise ValueError(f"not enough values to unpack (expected {number}, got {len(value)})")

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """The same column, where all are so long."""
        (column,) = given
        if isinstance(column, Separated) and bool((column.lengths() == self._number).all()):
            return column
        return None
