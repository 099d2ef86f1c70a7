"""A column of datetimes as numbers: microseconds by their own clocks, and zones. Objects are made on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Self, overload

import numpy as np
from numpy.typing import NDArray

from holon.columnar.loops import installed
from holon.columnar.payloads import Texts
from holon.columnar.structs.kinds import LOCAL

Numbers = NDArray[np.int64]

_MICROS_OF_SECOND = 1_000_000
_MICROS_OF_MINUTE = 60 * _MICROS_OF_SECOND
_EXACT = 2**53
FEW = 16
_SPARSE = 4


def are_floats(ints: Numbers) -> bool:
    """Whether a division of floats begins with the ints themselves: every int up to 2**53 is a float."""
    return bool((np.abs(ints) <= _EXACT).all())


class Datetimes(Sequence[datetime]):
    """Rows ``1970-01-01 + micros[i]`` in the zone ``zones[i]``."""

    __slots__ = ("_micros", "_zones")

    def __init__(self, micros: Numbers, zones: Numbers) -> None:
        self._micros, self._zones = micros, zones

    def epoch_ms(self) -> Numbers:
        """Milliseconds since 1970 UTC, rounded down; without a zone it is UTC."""
        offsets = np.where(self._zones == LOCAL, 0, self._zones) * _MICROS_OF_MINUTE
        return (self._micros - offsets) // 1000

    def timestamps(self) -> NDArray[np.float64] | None:
        """``timestamp()`` of each; None where that depends on the machine's zone, or floats are too coarse."""
        if bool(np.any(self._zones == LOCAL)):
            return None
        micros = self._micros - self._zones * _MICROS_OF_MINUTE
        return micros / _MICROS_OF_SECOND if are_floats(micros) else None

    def clock(self, unit: int, most: int) -> Numbers:
        """A part of the time by its own clock: how many units of so many microseconds, from 0 to below ``most``."""
        return self._micros // unit % most

    def numbers(self) -> tuple[Numbers, Numbers]:
        """Microseconds by their own clocks since 1970, and zones."""
        return self._micros, self._zones

    @property
    def are_local(self) -> bool:
        """Whether no row has a zone."""
        return bool((self._zones == LOCAL).all())

    def utc_micros(self) -> Numbers | None:
        """Microseconds since 1970 UTC, or by their own clocks where no row has a zone; None where some rows have."""
        local = self._zones == LOCAL
        if not local.any():
            return self._micros - self._zones * _MICROS_OF_MINUTE
        return self._micros if bool(local.all()) else None

    def numbered_units(self, unit: int) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
        """The first row of each unit of so many microseconds of their clocks, and the number of its unit for each row.

        None where zones differ, or units are more than a quarter of the rows.
        """
        if not len(self._micros) or bool((self._zones != self._zones[0]).any()):
            return None
        units = self._micros // unit
        units -= units.min()
        span = int(units.max()) + 1
        if span > _SPARSE * len(units):
            _, firsts, numbers = np.unique(units, return_index=True, return_inverse=True)
        else:
            first = np.full(span, -1)
            first[units[::-1]] = np.arange(len(units))[::-1]
            there = first >= 0
            firsts, numbers = first[there], (np.cumsum(there) - 1)[units]
        return (firsts, numbers) if len(firsts) * 4 <= len(units) else None

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """The rows of an index, a mask or a slice."""
        return type(self)(self._micros[index], self._zones[index])

    def tolist(self) -> list[datetime]:
        """All of them."""
        begins = {zone: _begin(zone) for zone in np.unique(self._zones).tolist()}
        rows = zip(self._micros.tolist(), self._zones.tolist(), strict=True)
        return [begins[zone] + timedelta(microseconds=micros) for micros, zone in rows]

    @overload
    def __getitem__(self, row: int) -> datetime: ...
    @overload
    def __getitem__(self, row: slice) -> Datetimes: ...
    def __getitem__(self, row: int | slice) -> datetime | Datetimes:
        if isinstance(row, slice):
            return self.take(row)
        return _begin(int(self._zones[row])) + timedelta(microseconds=int(self._micros[row]))

    def __len__(self) -> int:
        return len(self._micros)

    def __iter__(self) -> Iterator[datetime]:
        return iter(self.tolist())


def datetimes_of(texts: Texts) -> tuple[Datetimes, NDArray[np.intp]] | None:
    """ISO 8601 times as ``datetime.fromisoformat`` reads them, and the rows that are for Python; None without loops."""
    loops = installed()
    if loops is None or len(texts) < FEW:
        return None
    starts, ends = np.ascontiguousarray(texts.starts), np.ascontiguousarray(texts.ends)
    micros, zones = np.empty(len(texts), np.int64), np.empty(len(texts), np.int64)
    places = texts.buffer.ctypes.data, starts.ctypes.data, ends.ctypes.data, len(texts)
    odd = loops.iso_datetimes(*places, micros.ctypes.data, zones.ctypes.data)
    if not odd:
        return Datetimes(micros, zones), np.empty(0, np.intp)
    left = zones == np.iinfo(np.int64).min
    micros[left] = zones[left] = 0
    return Datetimes(micros, zones), np.flatnonzero(left)


def _begin(zone: int) -> datetime:
    """1970 by a clock of this zone."""
    tz = None if zone == LOCAL else UTC if zone == 0 else timezone(timedelta(minutes=zone))
    return datetime(1970, 1, 1, tzinfo=tz)
