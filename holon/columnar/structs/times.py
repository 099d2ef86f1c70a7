"""A column of datetimes as numbers: microseconds by their own clocks, and zones. Objects are made on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Self, overload

import numpy as np
from numpy.typing import NDArray

from holon.columnar.structs.kinds import LOCAL

Numbers = NDArray[np.int64]

_MICROS_OF_MINUTE = 60_000_000


class Datetimes(Sequence[datetime]):
    """Rows ``1970-01-01 + micros[i]`` in the zone ``zones[i]``."""

    __slots__ = ("_micros", "_zones")

    def __init__(self, micros: Numbers, zones: Numbers) -> None:
        self._micros, self._zones = micros, zones

    def epoch_ms(self) -> Numbers:
        """Milliseconds since 1970 UTC, rounded down; without a zone it is UTC."""
        offsets = np.where(self._zones == LOCAL, 0, self._zones) * _MICROS_OF_MINUTE
        return (self._micros - offsets) // 1000

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


def _begin(zone: int) -> datetime:
    """1970 by a clock of this zone."""
    tz = None if zone == LOCAL else UTC if zone == 0 else timezone(timedelta(minutes=zone))
    return datetime(1970, 1, 1, tzinfo=tz)
