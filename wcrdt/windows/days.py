"""Calendar days of a time zone: their borders in event time, also where a day has 23 or 25 hours."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

DAY_MS = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_FIRST_DAY, _LAST_DAY = date(1, 1, 3).toordinal() - _EPOCH_DAY, date(9999, 12, 29).toordinal() - _EPOCH_DAY
"""The calendar's days of which ``datetime`` knows the offset in every zone; days beyond have that of the nearest."""
_MILLISECOND = timedelta(milliseconds=1)


class ZoneDays:
    """The days of a zone, by their number since 1970-01-01. A time on a border belongs to the later day.

    Args: ``zone`` is a name of the IANA database, as ``"Europe/Berlin"``. Raises ``ValueError`` for an unknown one.
    """

    __slots__ = ("_zone", "digest", "zone")

    def __init__(self, zone: str) -> None:
        try:
            self._zone = ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(
                f"there is no time zone {zone!r} on this machine; names are those of the IANA database, as "
                f'"Europe/Berlin", which the system or the Python package tzdata brings'
            ) from error
        self.zone = zone
        self.digest = _digest(zone)
        """Of its borders between 1970 and 2100: machines with other rules for the zone must not share a job."""

    def start_ms(self, day: int) -> int:
        """When a day begins. Midnight that comes twice is the first one; skipped midnight is when the clock jumps."""
        known = min(max(day, _FIRST_DAY), _LAST_DAY)
        return _start_ms(self._zone, known) + (day - known) * DAY_MS

    def day_of(self, ts_ms: int) -> int:
        """The number of the day that a time is in."""
        day = ts_ms // DAY_MS
        while self.start_ms(day) > ts_ms:
            day -= 1
        while self.start_ms(day + 1) <= ts_ms:
            day += 1
        return day

    def days_of(self, ts_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of the day that each time is in."""
        if len(ts_ms) == 0:
            return np.empty(0, np.int64)
        first, last = self.day_of(int(ts_ms.min())), self.day_of(int(ts_ms.max()))
        if last - first > len(ts_ms):
            return np.array([self.day_of(each) for each in ts_ms.tolist()], np.int64)
        borders = np.array([self.start_ms(day) for day in range(first + 1, last + 1)], np.int64)
        return first + np.searchsorted(borders, ts_ms, side="right")


@cache
def _digest(zone: str) -> str:
    starts = [_start_ms(ZoneInfo(zone), day) for day in range(365 * 130)]
    return hashlib.sha256(np.array(starts, "<i8").tobytes()).hexdigest()[:12]


def _start_ms(zone: ZoneInfo, day: int) -> int:
    midnight = datetime.combine(date.fromordinal(day + _EPOCH_DAY), time.min, zone)
    return (midnight - _EPOCH) // _MILLISECOND
