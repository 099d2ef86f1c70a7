"""The compiled loop over ISO 8601 times, and its part that loops over records share.

It takes ``yyyy-MM-dd``, ``T`` or a blank, ``HH:mm:ss``, a fraction of any length or none, and ``Z``, ``+HH:mm``,
``-HH:mm`` or no zone. Python's ``fromisoformat`` and msgspec take all of these. Every other text is left to them.
"""
# Numba compiles this file; its arrays and scalars are plain numpy to a type checker.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import numba
import numpy as np

from holon.columnar.kernel import NO_TIME, date_ms
from holon.columnar.structs.kinds import LOCAL
from holon.columnar.vectors import byte_at, number_at, put_number

_OPTIONS = {"error_model": "numpy", "boundscheck": False}
compiled = numba.njit(**_OPTIONS)
inlined = numba.njit(forceinline=True, **_OPTIONS)


@compiled
def iso_times(buffer, starts, ends, count, times):
    """Read texts as ms since 1970, rounded down; a time without a zone is UTC. Returns how many are for Python.

    All arguments but the count are addresses: of bytes (``buffer``) or of int64. ``times`` gets ``NO_TIME`` in rows
    that are for Python.
    """
    odd = np.int64(0)
    for row in range(count):
        end = number_at(ends, row)
        done, seconds, micros, _, zone = time_at(buffer, number_at(starts, row), end)
        if done != end:
            put_number(times, row, NO_TIME)
            odd += 1
            continue
        offset = np.int64(0) if zone == LOCAL else zone
        put_number(times, row, (seconds - offset * 60) * 1000 + micros // 1000)
    return odd


@compiled
def iso_datetimes(buffer, starts, ends, count, micros, zones):
    """The same as microseconds by their own clocks, rounded down, and zones in minutes or ``LOCAL``.

    ``zones`` gets ``NO_TIME`` in rows that are for Python.
    """
    odd = np.int64(0)
    for row in range(count):
        end = number_at(ends, row)
        done, seconds, rest, _, zone = time_at(buffer, number_at(starts, row), end)
        odd += done != end
        put_number(micros, row, seconds * 1_000_000 + rest)
        put_number(zones, row, zone if done == end else NO_TIME)
    return odd


@compiled
def time_at(buffer, at, end):
    """A time that begins here: where it ends (-1: it is for others), and its parts.

    These are seconds since 1970 by its own clock, microseconds rounded down, whether the next digit is 5 or more, and
    its zone. The buffer has 32 bytes behind each text.
    """
    nothing = np.int64(-1), np.int64(0), np.int64(0), False, np.int64(0)
    if end - at < 19:
        return nothing
    day_ms = date_ms(buffer + at)
    between = byte_at(buffer + at + 10)
    clock = _clock(buffer + at + 11)
    if day_ms == NO_TIME or clock < 0 or (between != 84 and between != 32):
        return nothing
    at += 19
    micros, rises = np.int64(0), False
    if at < end and byte_at(buffer + at) == 46:
        first = at + 1
        at, micros, rises = _fraction(buffer, first, end)
        if at == first:
            return nothing
    at, zone = _zone(buffer, at, end)
    return at, day_ms // 1000 + clock, micros, rises, zone


@inlined
def _two_digits(address):
    """0 to 99; a large negative number if these are no digits."""
    tens, ones = byte_at(address) - 48, byte_at(address + 1) - 48
    return tens * 10 + ones if 0 <= tens <= 9 and 0 <= ones <= 9 else np.int64(-100_000)


@inlined
def _clock(address):
    """``HH:mm:ss`` as seconds, below 0 if it is none."""
    hour, minute, second = _two_digits(address), _two_digits(address + 3), _two_digits(address + 6)
    if byte_at(address + 2) != 58 or byte_at(address + 5) != 58 or hour > 23 or minute > 59 or second > 59:
        return np.int64(-1)
    return min(hour, minute, second, 0) + (hour * 60 + minute) * 60 + second


@inlined
def _fraction(buffer, at, end):
    """Where digits end, the first six of them as microseconds, and whether the seventh is 5 or more."""
    micros, place, rises = np.int64(0), np.int64(0), False
    while at < end:
        digit = byte_at(buffer + at) - 48
        if digit < 0 or digit > 9:
            break
        if place < 6:
            micros = micros * 10 + digit
        elif place == 6:
            rises = digit >= 5
        place += 1
        at += 1
    for _ in range(place, 6):
        micros *= 10
    return at, micros, rises


@inlined
def _zone(buffer, at, end):
    """Where a zone ends, and which it is."""
    if at >= end:
        return at, np.int64(LOCAL)
    sign = byte_at(buffer + at)
    if sign == 90:
        return at + 1, np.int64(0)
    if sign != 43 and sign != 45:
        return at, np.int64(LOCAL)
    hour, minute = _two_digits(buffer + at + 1), _two_digits(buffer + at + 4)
    if at + 6 > end or byte_at(buffer + at + 3) != 58 or hour > 23 or minute > 59 or hour < 0 or minute < 0:
        return np.int64(-1), np.int64(0)
    minutes = hour * 60 + minute
    return at + 6, (-minutes if sign == 45 else minutes)
