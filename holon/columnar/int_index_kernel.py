"""The compiled loops that look up integers in an index and enter them there (``wcrdt.lattices.keyed.int_index``).

Two rules for this file: its tables are those that NumPy makes and reads; an integer has the place that it has there.
"""
# Numba compiles this file; its scalars are plain numbers to a type checker.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import numpy as np

from holon.columnar.kernel import compiled, inlined
from holon.columnar.vectors import number_at, place_at, put_number, put_place

_NONE = 0x8000_0000
"""Places from here on, read without their sign, are none."""


@compiled
def find_ints(keys, count, stored, table, slots, low, bits, factor, places):
    """Write the place of each of ``count`` keys, -1 where it is not there; returns 0.

    All arguments but the counts, ``low`` and ``factor`` are addresses: of int64, or of int32 (``table``). Where
    ``bits`` is 0 each integer has the slot of its distance from ``low``; else ``bits`` number the slots.
    """
    mask = slots - 1
    for row in range(count):
        key = number_at(keys, row)
        found = np.int64(-1)
        if bits == 0:
            distance = np.uint64(key) - np.uint64(low)
            if distance < np.uint64(slots):
                place = place_at(table, np.int64(distance))
                if place < _NONE:
                    found = place
        else:
            slot = _slot(key, bits, factor)
            place = place_at(table, slot)
            while place < _NONE:
                if number_at(stored, place) == key:
                    found = place
                    break
                slot = (slot + 1) & mask
                place = place_at(table, slot)
        put_number(places, row, found)
    return np.int64(0)


@compiled
def enter_ints(stored, begin, end, table, slots, low, bits, factor):
    """Enter the places from ``begin`` to ``end``; returns 1 where integers that lie close have no slot of their own.

    Arguments as of ``find_ints``. One that is there already is stored as the next higher one that is free.
    """
    mask = slots - 1
    for place in range(begin, end):
        key = number_at(stored, place)
        if bits == 0:
            distance = np.uint64(key) - np.uint64(low)
            if distance >= np.uint64(slots) or place_at(table, np.int64(distance)) < _NONE:
                return np.int64(1)
            put_place(table, np.int64(distance), place)
            continue
        slot = _slot(key, bits, factor)
        other = place_at(table, slot)
        while other < _NONE:
            if number_at(stored, other) == key:
                key += 1
                put_number(stored, place, key)
                slot = _slot(key, bits, factor)
            else:
                slot = (slot + 1) & mask
            other = place_at(table, slot)
        put_place(table, slot, place)
    return np.int64(0)


@inlined
def _slot(key, bits, factor):
    mixed = np.uint64(key) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(factor)
    return np.int64(mixed >> np.uint64(64 - bits))
