"""Texts that are taken apart at blanks, as ``split()`` does: places in a buffer, so no list and no text is made."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from holon.columnar.casing import gathered
from holon.columnar.payloads import Texts
from holon.columnar.structs.lazy import ObjectColumn

Places = NDArray[np.int64]

_BLANK = np.array([chr(one).isspace() and one < 0x80 for one in range(256)], np.bool_)
_WIDE_BLANKS = [chr(one).encode() for one in range(0x80, 0x3001) if chr(one).isspace()]
"""Blanks of more than one byte: a text that may have one is Python's."""


class Words(ObjectColumn):
    """Lists of the words of texts: row ``i`` has ``number[i]`` of them, from ``first[i]`` on."""

    __slots__ = ("_first", "_number", "_words")

    def __init__(self, words: Texts, first: Places, number: Places) -> None:
        super().__init__()
        self._words, self._first, self._number = words, first, number

    @classmethod
    def of(cls, texts: Texts) -> Self | None:
        """None where Python takes them apart."""
        if not len(texts):
            return None
        dense = gathered(texts)
        if _may_have_wide_blanks(dense.buffer):
            return None
        inside = ~_BLANK[dense.buffer]
        cut = np.zeros(len(inside) + 1, np.bool_)
        cut[dense.starts], cut[dense.ends] = True, True
        begins, ends = inside.copy(), inside.copy()
        begins[1:] &= ~inside[:-1] | cut[1:-1]
        ends[:-1] &= ~inside[1:] | cut[1:-1]
        starts = np.flatnonzero(begins)
        words = Texts(dense.buffer, starts, np.flatnonzero(ends) + 1, are_unicode=texts.are_unicode)
        first = np.searchsorted(starts, dense.starts)
        return cls(words, first, np.searchsorted(starts, dense.ends) - first)

    def flat(self) -> tuple[Texts, Places]:
        """All words as one column, and offsets: those of row i are from ``offsets[i]`` to ``offsets[i+1]``."""
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(self._number)])
        index = np.arange(offsets[-1]) + np.repeat(self._first - offsets[:-1], self._number)
        return self._words.take(index), offsets

    def lengths(self) -> Places:
        """How many words each text has."""
        return self._number

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """The rows of an index, a mask or a slice."""
        return type(self)(self._words, self._first[index], self._number[index])

    def _made(self) -> list[Any]:
        words, offsets = self.flat()
        texts, ends = words.tolist(), offsets.tolist()
        return [texts[start:end] for start, end in pairwise(ends)]

    def _row(self, row: int) -> Any:
        start = int(self._first[row])
        return self._words.take(slice(start, start + int(self._number[row]))).tolist()

    def __len__(self) -> int:
        return len(self._first)


def _may_have_wide_blanks(buffer: NDArray[np.uint8]) -> bool:
    if int(buffer.max(initial=0)) < min(blank[0] for blank in _WIDE_BLANKS):
        return False
    data = buffer.tobytes()
    return any(blank in data for blank in _WIDE_BLANKS)
