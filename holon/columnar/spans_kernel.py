"""The compiled loops that hash and compare rows of bytes (``wcrdt.lattices.keyed.spans``).

One rule for this file: numbers and answers are those that NumPy gives there.
"""
# Numba compiles this file; its scalars are plain numbers to a type checker.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import numpy as np

from holon.columnar.kernel import compiled
from holon.columnar.numbering import same
from holon.columnar.vectors import load_word, number_at, put_byte, put_number


@compiled
def hash_spans(buffer, starts, ends, count, factor, numbers):
    """Write a number for each of ``count`` rows, which equal rows share; returns 0.

    All arguments but the count and ``factor`` are addresses: of bytes (``buffer``) or of int64.
    """
    for row in range(count):
        at = number_at(starts, row)
        length = number_at(ends, row) - at
        at += buffer
        mixed = np.uint64(length) * np.uint64(factor)
        while length > 0:
            word = load_word(at)
            if length < 8:
                word &= (np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)
            mixed = (mixed ^ word) * np.uint64(factor)
            mixed ^= mixed >> np.uint64(32)
            at += 8
            length -= 8
        put_number(numbers, row, np.int64(mixed))
    return np.int64(0)


@compiled
def equal_spans(buffer, starts, ends, others, other_starts, other_ends, count, answers):
    """Write for each of ``count`` rows whether it is the same in both buffers, as a byte; returns 0.

    All arguments but the count are addresses: of bytes (``buffer``, ``others``, ``answers``) or of int64.
    """
    for row in range(count):
        one, other = number_at(starts, row), number_at(other_starts, row)
        length = number_at(ends, row) - one
        equal = number_at(other_ends, row) - other == length and same(buffer + one, others + other, length)
        put_byte(answers + row, np.int64(equal))
    return np.int64(0)
