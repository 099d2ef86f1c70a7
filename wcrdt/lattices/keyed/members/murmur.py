"""Hashes of columns as DataSketches hashes single elements: MurmurHash3 (x64, 128 bits, seed 9001), first 63 bits.

Source: Austin Appleby's MurmurHash3_x64_128 (public domain).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wcrdt.lattices.columns import Ints
from wcrdt.lattices.keyed.spans import WORD_BYTES, KeySpans, masked_words

Words = NDArray[np.uint64]

_SEED = np.uint64(9001)
_C1, _C2 = np.uint64(0x87C3_7B91_1142_53D5), np.uint64(0x4CF5_AD43_2745_937F)
_ADD1, _ADD2, _FIVE = np.uint64(0x52DC_E729), np.uint64(0x3849_5AB5), np.uint64(5)
_FINAL1, _FINAL2 = np.uint64(0xFF51_AFD7_ED55_8CCD), np.uint64(0xC4CE_B9FE_1A85_EC53)
_SHIFT = np.uint64(33)
_BLOCK_BYTES = 2 * WORD_BYTES


def hashes_of_ints(numbers: Ints) -> Ints:
    """By row, from 0 to 2^63 - 1."""
    h1, h2 = np.full(len(numbers), _SEED), np.full(len(numbers), _SEED)
    return _finished(h1 ^ _mixed1(numbers.view(np.uint64)), h2, np.full(len(numbers), WORD_BYTES, np.int64))


def hashes_of_texts(spans: KeySpans) -> Ints:
    """By row, from 0 to 2^63 - 1, of the bytes."""
    h1, h2 = np.full(spans.rows, _SEED), np.full(spans.rows, _SEED)
    at, left = spans.starts, spans.lengths
    rows: Any = np.flatnonzero(left >= _BLOCK_BYTES)
    while len(rows):
        begins = at[rows]
        h1[rows], h2[rows] = _block(h1[rows], h2[rows], spans.buffer, begins)
        at, left = at.copy(), left.copy()
        at[rows], left[rows] = begins + _BLOCK_BYTES, left[rows] - _BLOCK_BYTES
        rows = rows[left[rows] >= _BLOCK_BYTES]
    h1 ^= _mixed1(masked_words(spans.buffer, at, left))
    h2 ^= _mixed2(masked_words(spans.buffer, at + WORD_BYTES, left - WORD_BYTES))
    return _finished(h1, h2, spans.lengths)


def _block(h1: Words, h2: Words, buffer: Any, begins: Ints) -> tuple[Words, Words]:
    whole = np.full(len(begins), WORD_BYTES, np.int64)
    h1 = (_turned(h1 ^ _mixed1(masked_words(buffer, begins, whole)), 27) + h2) * _FIVE + _ADD1
    h2 = (_turned(h2 ^ _mixed2(masked_words(buffer, begins + WORD_BYTES, whole)), 31) + h1) * _FIVE + _ADD2
    return h1, h2


def _finished(h1: Words, h2: Words, lengths: Ints) -> Ints:
    h1, h2 = h1 ^ lengths.view(np.uint64), h2 ^ lengths.view(np.uint64)
    h1 = h1 + h2
    h2 = h2 + h1
    return ((_final(h1) + _final(h2)) >> np.uint64(1)).view(np.int64)


def _mixed1(words: Words) -> Words:
    return _turned(words * _C1, 31) * _C2


def _mixed2(words: Words) -> Words:
    return _turned(words * _C2, 33) * _C1


def _turned(words: Words, bits: int) -> Words:
    return words << np.uint64(bits) | words >> np.uint64(64 - bits)


def _final(words: Words) -> Words:
    words = (words ^ words >> _SHIFT) * _FINAL1
    words = (words ^ words >> _SHIFT) * _FINAL2
    return words ^ words >> _SHIFT
