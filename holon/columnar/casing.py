"""``lower`` and ``upper`` of columns of texts: by a table of bytes where a text is ASCII, else by Python."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import PAD_BYTES, Texts

_NOT_ASCII = 0x80
_SPARSE = 4
"""Bytes of the buffer for each byte of texts, from which on the bytes of texts are gathered."""


def _table(method: Callable[[str], str]) -> NDArray[np.uint8]:
    found = np.arange(256, dtype=np.uint8)
    found[:_NOT_ASCII] = np.frombuffer("".join(method(chr(one)) for one in range(_NOT_ASCII)).encode(), np.uint8)
    return found


_TABLES: dict[Callable[[str], str], NDArray[np.uint8]] = {str.lower: _table(str.lower), str.upper: _table(str.upper)}


def cased(texts: Texts, method: Callable[[str], str]) -> Texts:
    """The texts by ``str.lower`` or ``str.upper``; copies their bytes."""
    if not len(texts):
        return texts
    dense = gathered(texts)
    made = Texts(_TABLES[method][dense.buffer], dense.starts, dense.ends, are_unicode=texts.are_unicode)
    rows = not_ascii(dense)
    return made.replaced(rows, list(map(method, dense.take(rows)))) if len(rows) else made


def gathered(texts: Texts) -> Texts:
    """The same texts in a buffer that has little else, a copy; there is one text at least."""
    low, high = int(texts.starts.min()), int(texts.ends.max())
    lengths = texts.ends - texts.starts
    size = int(lengths.sum())
    if high - low <= _SPARSE * size + PAD_BYTES:
        buffer, shift = texts.buffer[low:high], -low
        starts, ends = texts.starts + shift, texts.ends + shift
    else:
        ends = np.cumsum(lengths)
        starts = ends - lengths
        buffer = texts.buffer[np.arange(size) + np.repeat(texts.starts - starts, lengths)]
    buffer = np.concatenate([buffer, np.zeros(PAD_BYTES, np.uint8)])
    return Texts(buffer, starts, ends, are_unicode=texts.are_unicode)


def not_ascii(texts: Texts) -> NDArray[np.intp]:
    """The rows with other characters than ASCII ones."""
    if not int(texts.buffer.max(initial=0)) & _NOT_ASCII:
        return np.empty(0, np.intp)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(texts.buffer >= _NOT_ASCII)])
    return np.flatnonzero(before[texts.ends] > before[texts.starts])
