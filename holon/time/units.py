"""Units of event times: what ``Source(timestamp=)`` may give, and how it becomes ms since 1970 UTC.

Two rules for this file: the same value gives the same time from a row and from a column; no time depends on the
machine's zone.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

TimeUnit = Literal["s", "ms", "us", "ns", "datetime", "iso"]
UNITS: tuple[str, ...] = get_args(TimeUnit)

MAX_TS_MS = 2**53
"""Event times at or beyond this (year 287396) are refused; also keeps arithmetic far from overflow."""
USUAL_MS = range(946_684_800_000, 4_102_444_800_000)
"""From 2000 to 2100: a time outside of it among the first records was probably given in another unit."""

_EXPONENTS = {"s": 3, "ms": 0, "us": -3, "ns": -6}
"""Ten to this power makes milliseconds of it."""
_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


class NoTime(ValueError):
    """A value is no event time of the declared unit; the text names what it is."""


def to_ms(value: Any, unit: str | None) -> int:
    """An event time in ms; without a unit only integers, which are ms.

    Numbers of other units are rounded down where they are integers, to the nearest ms (half to even) where they are
    floats. A datetime without a zone is UTC. Raises ``NoTime``.
    """
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        value = value.item()
    if unit in (None, *_EXPONENTS):
        return _from_number(value, unit)
    if unit == "iso":
        if not isinstance(value, str):
            raise NoTime(f"got {_shown(value)}, not a text (timestamp_unit='iso')")
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise NoTime(f"{error} (timestamp_unit='iso')") from None
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            raise NoTime("NaT")
        return int(value.astype("datetime64[ms]").astype(np.int64))
    if not isinstance(value, datetime):
        raise NoTime(f"got {_shown(value)}, not a datetime (timestamp_unit='datetime')")
    zoned = value.replace(tzinfo=UTC) if value.utcoffset() is None else value
    return (zoned - _EPOCH) // _MS


def column_to_ms(column: NDArray[Any], unit: str | None) -> tuple[NDArray[np.int64], NDArray[np.bool_]] | None:
    """Times of a column of integers, floats or numpy datetimes, and which rows have none; None: read one by one.

    A number beyond all times becomes ``MAX_TS_MS``, which is refused as out of range.
    """
    kind = column.dtype.kind
    if kind == "M":
        none = np.isnat(column)
        return np.where(none, np.int64(0), column.astype("datetime64[ms]").astype(np.int64)), none
    if kind == "i" and unit in (None, "ms"):
        return column.astype(np.int64, copy=False), np.zeros(len(column), np.bool_)
    if kind == "i" and unit in _EXPONENTS:
        exponent, whole = _EXPONENTS[unit], column.astype(np.int64, copy=False)
        if exponent < 0:
            return whole // 10**-exponent, np.zeros(len(column), np.bool_)
        return np.clip(whole, -MAX_TS_MS, MAX_TS_MS) * 10**exponent, np.zeros(len(column), np.bool_)
    if kind == "f" and unit in _EXPONENTS:
        numbers = _scaled(column.astype(np.float64, copy=False), _EXPONENTS[unit])
        none = ~np.isfinite(numbers)
        return np.rint(np.clip(np.where(none, 0.0, numbers), -MAX_TS_MS, MAX_TS_MS)).astype(np.int64), none
    return None


def likely_unit(ts_ms: int, unit: str | None) -> str | None:
    """The unit in which the same number is a time between 2000 and 2100; None if there is none."""
    declared = _EXPONENTS.get(unit or "ms")
    if declared is None:
        return None
    for name, exponent in _EXPONENTS.items():
        shift = exponent - declared
        if shift and (ts_ms * 10**shift if shift > 0 else ts_ms // 10**-shift) in USUAL_MS:
            return name
    return None


def unit_hint(ts_ms: int, unit: str | None) -> str:
    """The unit to declare, if the number is a usual time in it; begins with a semicolon."""
    likely = likely_unit(ts_ms, unit)
    if likely is None:
        return ""
    return f'; as {_NAMES[likely]} it would be a usual time: declare Source(timestamp_unit="{likely}")'


def unusual_time(ts_ms: int, unit: str | None) -> str:
    """A warning about an event time before 2000 or after 2100, with the unit that it was read in."""
    read_in = _NAMES.get(unit or "ms", unit)
    return (
        f"event time {ts_ms} ms, read in {read_in}, is {in_words(ts_ms)}, {_side(ts_ms)}{unit_hint(ts_ms, unit)}"
        f"{'' if likely_unit(ts_ms, unit) else '; is timestamp= (and timestamp_unit=) right?'}"
    )


def in_words(ts_ms: int) -> str:
    """An event time for people, in UTC."""
    try:
        return (_EPOCH + timedelta(milliseconds=ts_ms)).isoformat(timespec="seconds")
    except OverflowError:
        return "beyond the calendar"


def _side(ts_ms: int) -> str:
    return "before 2000" if ts_ms < USUAL_MS.start else "after 2100"


def _from_number(value: Any, unit: str | None) -> int:
    exponent = _EXPONENTS[unit or "ms"]
    if isinstance(value, float) and unit is not None:
        number = float(_scaled(value, exponent))
        if not math.isfinite(number):
            raise NoTime(f"got {value!r}")
        return round(number)
    if not isinstance(value, int) or isinstance(value, bool):
        also = "an int or a float" if unit else "an int"
        rest = f"timestamp_unit={unit!r}" if unit else "ms since 1970 UTC; timestamp_unit= declares other times"
        raise NoTime(f"got {_shown(value)}, not {also} ({rest})")
    return value * 10**exponent if exponent >= 0 else value // 10**-exponent


def _scaled(number: Any, exponent: int) -> Any:
    """The same operation for a float and for a column of them."""
    return number * 10.0**exponent if exponent >= 0 else number / 10.0**-exponent


def _shown(value: Any) -> str:
    return f"{value!r:.200}"
