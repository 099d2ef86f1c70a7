"""Event times on the wire (`yyyy-MM-dd HH:mm:ss.fff`, UTC) to and from epoch milliseconds, column-wise.

Two rules for this file: no clock, and a text that is not a valid time is a value (`INVALID_TIME`), not an exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

INVALID_TIME = -(2**63)
"""The value that `parse_times_ms` puts where the text is not a valid time; no year 0001..9999 reaches it."""

MIN_TIME_MS = -62_135_596_800_000
"""0001-01-01 00:00:00.000 UTC."""

MAX_TIME_MS = 253_402_300_799_999
"""9999-12-31 23:59:59.999 UTC."""

_DAY_MS = 86_400_000
_WIDTH = 23  # of the full form
_FEW = 100
_MILLIS = {f"{millis:03d}": millis for millis in range(1000)}
_PLACEHOLDER = "x" * _WIDTH  # in place of a text of another shape; has no digit, so it is invalid
_SUFFIX = {19: ".000", 21: "00", 22: "0", 23: ""}  # Flink's writer may trim zeros of the fraction
_MARKS = ((4, "-"), (7, "-"), (10, " "), (13, ":"), (16, ":"), (19, "."))
_TIME_DIGITS = ((11, 36_000_000), (12, 3_600_000), (14, 600_000), (15, 60_000), (17, 10_000), (18, 1_000), (20, 100),
                (21, 10), (22, 1))  # fmt: skip


def parse_times_ms(texts: Sequence[str]) -> NDArray[np.int64]:
    """Epoch milliseconds of each text, `INVALID_TIME` where it is not `yyyy-MM-dd HH:mm:ss[.f{1,3}]` in UTC.

    Years 0001..9999, proleptic Gregorian calendar, no leap seconds, ASCII digits only.
    """
    if len(texts) <= _FEW:
        return np.array([_parse_one(text) for text in texts], dtype=np.int64)
    return _parse_column(texts)


def _parse_one(text: str) -> int:
    """Text for text, with what its second comes to remembered: the quicker way for a few."""
    if len(text) != _WIDTH:
        text = _padded(text)
    millis = _MILLIS.get(text[20:])
    second_ms = INVALID_TIME if millis is None else _second_ms(text[:20])
    return INVALID_TIME if millis is None or second_ms == INVALID_TIME else second_ms + millis


@lru_cache(maxsize=4096)
def _second_ms(beginning: str) -> int:
    return int(_parse_column([beginning + "000"])[0])


def _parse_column(texts: Sequence[str]) -> NDArray[np.int64]:
    if set(map(len, texts)) != {_WIDTH}:
        texts = [_padded(text) for text in texts]
    # 'replace' keeps one byte a character, so rows stay aligned; '?' is invalid in every position.
    cells = np.frombuffer("".join(texts).encode("ascii", "replace"), dtype=np.uint8).reshape(-1, _WIDTH)
    dates_ms = _dates_ms(np.ascontiguousarray(cells[:, :10]))
    valid = dates_ms != INVALID_TIME
    for column, mark in _MARKS[2:]:
        valid &= cells[:, column] == ord(mark)
    total_ms = np.zeros(len(cells), dtype=np.int64)
    digits: dict[int, NDArray[np.uint8]] = {}
    for column, weight_ms in _TIME_DIGITS:
        digit = cells[:, column] - np.uint8(48)  # bytes below '0' wrap to above 9
        valid &= digit <= 9
        digits[column] = digit
        total_ms += digit * np.int64(weight_ms)
    valid &= (digits[11] * np.uint8(10) + digits[12] < 24) & (digits[14] < 6) & (digits[17] < 6)
    return np.where(valid, total_ms + dates_ms, np.int64(INVALID_TIME))


def parse_time_ms(text: str) -> int:
    """One text, as `parse_times_ms`."""
    return int(parse_times_ms([text])[0])


def format_times_ms(times_ms: NDArray[np.int64]) -> list[str]:
    """The full form, always three digits of fraction; raises ValueError outside of the years 0001..9999."""
    cells = time_cells(times_ms)
    text = cells.tobytes().decode("ascii")
    return [text[start : start + _WIDTH] for start in range(0, len(text), _WIDTH)]


def time_cells(times_ms: NDArray[np.int64]) -> NDArray[np.uint8]:
    """As `format_times_ms`, as rows of ASCII."""
    count = len(times_ms)
    if not count:
        return np.empty((0, _WIDTH), dtype=np.uint8)
    if times_ms.min() < MIN_TIME_MS or times_ms.max() > MAX_TIME_MS:
        bad = int(np.argmax((times_ms < MIN_TIME_MS) | (times_ms > MAX_TIME_MS)))
        raise ValueError(f"row {bad}: {int(times_ms[bad])} ms is outside of the years 0001 to 9999")
    cells = np.empty((count, _WIDTH), dtype=np.uint8)
    days, of_day_ms = np.divmod(times_ms, _DAY_MS)
    _write_dates(cells, days)
    for column, mark in _MARKS:
        cells[:, column] = ord(mark)
    left = of_day_ms.astype(np.int32)
    for column, weight_ms in _TIME_DIGITS:
        digit, left = np.divmod(left, np.int32(weight_ms))
        cells[:, column] = digit + 48
    return cells


def format_time_ms(time_ms: int) -> str:
    """One time, as `format_times_ms`."""
    return format_times_ms(np.array([time_ms], dtype=np.int64))[0]


def _padded(text: str) -> str:
    """The full form of a text whose fraction was trimmed; the placeholder where the length fits no form."""
    suffix = _SUFFIX.get(len(text))
    return _PLACEHOLDER if suffix is None else text + suffix


def _dates_ms(cells: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Start of the day of each `yyyy-MM-dd` row; neighbours mostly share it, so equal rows are parsed once."""
    if (cells == cells[0]).all():
        return np.repeat(_distinct_dates_ms(cells[:1]), len(cells))
    distinct, inverse = np.unique(cells.view("S10").ravel(), return_inverse=True)
    return _distinct_dates_ms(distinct.view(np.uint8).reshape(-1, 10))[inverse]


def _distinct_dates_ms(cells: NDArray[np.uint8]) -> NDArray[np.int64]:
    digits = (cells - np.uint8(48)).astype(np.int64)
    numeric = (digits[:, [0, 1, 2, 3, 5, 6, 8, 9]] <= 9).all(axis=1)
    marks = (cells[:, 4] == ord("-")) & (cells[:, 7] == ord("-"))
    year = digits[:, :4] @ np.array([1000, 100, 10, 1])
    month = digits[:, 5] * 10 + digits[:, 6]
    day = digits[:, 8] * 10 + digits[:, 9]
    valid = numeric & marks & (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    months = np.where(valid, (year - 1970) * 12 + month - 1, 0)
    first_day = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    next_first = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    valid &= day <= next_first - first_day
    return np.where(valid, (first_day + day - 1) * _DAY_MS, np.int64(INVALID_TIME))


def _write_dates(cells: NDArray[np.uint8], days: NDArray[np.int64]) -> None:
    """Fill columns 0..9 (the marks are the caller's)."""
    dates = days.astype("datetime64[D]")
    month_index = dates.astype("datetime64[M]").astype(np.int64) + 1970 * 12
    year, month = np.divmod(month_index, 12)
    day = days - dates.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    for column, value, divisor in ((0, year, 1000), (1, year, 100), (2, year, 10), (3, year, 1), (5, month + 1, 10),
                                   (6, month + 1, 1), (8, day + 1, 10), (9, day + 1, 1)):  # fmt: skip
        cells[:, column] = value // divisor % 10 + 48


def put_times_ms(row: dict[str, Any], names: Sequence[str]) -> None:
    """Texts under these names become epoch milliseconds where they are times; all else stays as it is."""
    for name in names:
        if isinstance(text := row.get(name), str) and (time_ms := parse_time_ms(text)) != INVALID_TIME:
            row[name] = time_ms
