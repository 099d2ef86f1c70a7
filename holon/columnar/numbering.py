"""The compiled loop that numbers rows of bytes: equal rows get one number, in the order in which they first come."""
# Numba compiles this file; its arrays and scalars are plain numpy to a type checker.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import numba
import numpy as np

from holon.columnar.vectors import high_product, load_word, number_at, put_number

_OPTIONS = {"error_model": "numpy", "boundscheck": False}
compiled = numba.njit(**_OPTIONS)
inlined = numba.njit(forceinline=True, **_OPTIONS)


@compiled
def number_spans(buffer, starts, ends, count, table, slots, numbers, firsts, secret):
    """Number each row from 0; returns how many differ, -1 if these are more than half of ``slots``.

    All arguments but ``count``, ``slots`` and ``secret`` are addresses: of bytes (``buffer``) or of int64. ``table``:
    zeros, as many as ``slots``, a power of two. ``numbers`` gets the number of each row, ``firsts`` the first row of
    each number. ``secret``: any odd number; who does not know it cannot choose rows that collide.
    """
    distinct = np.int64(0)
    for row in range(count):
        start = number_at(starts, row)
        length = number_at(ends, row) - start
        slot = _hash(buffer + start, length, secret) & (slots - 1)
        while True:
            number = number_at(table, slot) - 1
            if number < 0:
                if 2 * distinct >= slots:
                    return np.int64(-1)
                number = distinct
                distinct += 1
                put_number(table, slot, distinct)
                put_number(firsts, number, row)
                break
            first = number_at(firsts, number)
            other = number_at(starts, first)
            if number_at(ends, first) - other == length and same(buffer + start, buffer + other, length):
                break
            slot = (slot + 1) & (slots - 1)
        put_number(numbers, row, number)
    return distinct


@inlined
def _hash(at, length, secret):
    """Words are multiplied one after the other, and both halves of each product go on."""
    found = np.uint64(length) ^ np.uint64(secret)
    while length > 0:
        word = load_word(at)
        if length < 8:
            word &= (np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)
        mixed = found ^ word
        found = high_product(mixed, np.uint64(secret)) ^ (mixed * np.uint64(secret))
        at += 8
        length -= 8
    return np.int64((found ^ (found >> np.uint64(32))) & np.uint64(2**62 - 1))


@inlined
def same(one, other, length):
    """Whether these bytes at two addresses are equal; up to seven behind them are read, too."""
    while length >= 8:
        if load_word(one) != load_word(other):
            return False
        one += 8
        other += 8
        length -= 8
    return length == 0 or ((load_word(one) ^ load_word(other)) << np.uint64(8 * (8 - length))) == 0
