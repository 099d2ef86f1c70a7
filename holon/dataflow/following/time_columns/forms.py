"""``datetime.strptime`` of columns: texts of one length, whose form has fields of fixed widths, are read as numbers.

That is a subset of what Python reads: two digits for a day, ASCII, and literals as they are. All others are Python's.
"""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import Texts
from holon.columnar.structs.kinds import LOCAL
from holon.columnar.structs.lazy import LazyColumn
from holon.columnar.structs.times import Datetimes
from holon.dataflow.following.column_functions import ColumnFunction, as_list
from holon.dataflow.following.time_columns.made import DAY, SECOND, times_column
from holon.formats.batch import Column

Numbers = NDArray[np.int64]
Letters = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""A buffer, and where in it each text begins."""
_WIDTHS = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2, "b": 3}
_BOUNDS = {"Y": (1, 9999), "m": (1, 12), "d": (1, 31), "H": (0, 23), "M": (0, 59), "S": (0, 59)}
_MICROS = {"H": 3600 * SECOND, "M": 60 * SECOND, "S": SECOND}
_DIGITS_OF_MICROS, _ZONE_WIDTHS = range(1, 7), (1, 5, 6)


class Strptime(ColumnFunction):
    """``datetime.strptime`` with this form."""

    def __init__(self, form: str) -> None:
        self._form = form
        self.key = (form,)

    def __call__(self, *values: Any) -> Any:
        (text,) = values
        return datetime.strptime(text, self._form)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Numbers where all texts are of the form; else Python reads each different text once."""
        (texts,) = given
        if isinstance(texts, Texts) and self._parts is not None:
            found = _read(self._parts, texts)
            if found is not None:
                return found
        known: dict[Any, datetime] = {}
        made = []
        for text in as_list(texts):
            time = known.get(text)
            if time is None:
                time = known[text] = self(text)
            made.append(time)
        return made

    @cached_property
    def _parts(self) -> list[str] | None:
        """Letters of fields, and literals of one letter behind a blank; None where Python reads all."""
        parts, letters = list[str](), iter(self._form)
        for letter in letters:
            if letter != "%":
                parts.append(f" {letter}")
                continue
            field = next(letters, "")
            if field not in ("f", "z", *_WIDTHS) or field in parts:
                return None
            parts.append(field)
        is_late = "z" in parts and parts[-1] != "z"
        if "f" in parts and _goes_on(parts[parts.index("f") + 1 :]):
            return None
        day = {"Y", "m", "d"} <= set(parts) or {"Y", "b", "d"} <= set(parts)
        both = {"m", "b"} <= set(parts) or {"f", "z"} <= set(parts)
        return parts if day and not is_late and not both and self._form.isascii() else None


def _goes_on(parts: Sequence[str]) -> bool:
    """Whether digits may follow: then it does not show where a fraction ends."""
    return bool(parts) and (parts[0][0] != " " or parts[0][1].isdigit())


def _read(parts: Sequence[str], texts: Texts) -> LazyColumn | None:
    """None where a text is not of the form, or has another length than the first."""
    lengths = texts.ends - texts.starts
    if not len(lengths) or bool((lengths != lengths[0]).any()):
        return None
    rest = int(lengths[0]) - sum(_WIDTHS.get(part, 0 if part in "fz" else 1) for part in parts)
    if not (rest in _DIGITS_OF_MICROS if "f" in parts else rest in _ZONE_WIDTHS if "z" in parts else rest == 0):
        return None
    starts, values = texts.starts, dict[str, Numbers]()
    for part in parts:
        width = _WIDTHS.get(part, rest if part in "fz" else 1)
        found = _value(part, width, (texts.buffer, starts))
        if found is None:
            return None
        values[part] = found
        starts = starts + width
    days = _days(values["Y"], values["m"] if "m" in values else values["b"], values["d"])
    if days is None:
        return None
    micros = days * DAY + values.get("f", 0)
    for part, unit in _MICROS.items():
        micros += values.get(part, 0) * unit
    return times_column(Datetimes(micros, values.get("z", np.full(len(texts), LOCAL))))


def _value(part: str, width: int, at: Letters) -> Numbers | None:
    """The values of one part, None where a row has none that is sure."""
    if part[0] == " ":
        buffer, starts = at
        return starts if bool((buffer[starts] == ord(part[1])).all()) else None
    if part == "b":
        return _month(at)
    if part == "z":
        return _zone(width, at)
    found = _number(at, 0, width)
    if found is None or part == "f":
        return None if found is None else found * 10 ** (6 - width)
    least, most = _BOUNDS[part]
    return found if least <= int(found.min()) and int(found.max()) <= most else None


def _number(at: Letters, first: int, width: int) -> Numbers | None:
    """The number of so many digits."""
    buffer, starts = at
    found = np.zeros(len(starts), np.int64)
    for place in range(first, first + width):
        digits = buffer[starts + place] - np.uint8(ord("0"))  # others wrap
        if int(digits.max()) > 9:
            return None
        found = found * 10 + digits
    return found


def _month(at: Letters) -> Numbers | None:
    """By the names that the process has for months now, where these are three ASCII letters."""
    buffer, starts = at
    names = list(calendar.month_abbr)[1:]
    if len(set(names)) < 12 or not all(len(name) == 3 and name.isascii() and name.isalpha() for name in names):
        return None
    found = sum(buffer[starts + place].astype(np.int64) << 8 * place for place in range(3))
    codes = np.array([sum(ord(letter) << 8 * place for place, letter in enumerate(name)) for name in names])
    order = np.argsort(codes)
    places = order[np.minimum(np.searchsorted(codes[order], found), 11)]
    return places + 1 if bool((codes[places] == found).all()) else None


def _zone(width: int, at: Letters) -> Numbers | None:
    """``Z``, ``+HHMM`` or ``+HH:MM``, in minutes."""
    buffer, starts = at
    signs = buffer[starts]
    if width == 1:
        return np.zeros(len(starts), np.int64) if bool((signs == ord("Z")).all()) else None
    if not bool(((signs == ord("+")) | (signs == ord("-"))).all()):
        return None
    if width == 6 and not bool((buffer[starts + 3] == ord(":")).all()):
        return None
    hours, minutes = _number(at, 1, 2), _number(at, width - 2, 2)
    if hours is None or minutes is None or int(hours.max()) > 23 or int(minutes.max()) > 59:
        return None
    found = hours * 60 + minutes
    return np.where(signs == ord("-"), -found, found)


def _days(years: Numbers, months: Numbers, days: Numbers) -> Numbers | None:
    """Days since 1970; None where a month has fewer days."""
    firsts = ((years - 1970) * 12 + months - 1).astype("datetime64[M]")
    lengths = (firsts + 1).astype("datetime64[D]") - firsts.astype("datetime64[D]")
    if bool((days > lengths.astype(np.int64)).any()):
        return None
    return firsts.astype("datetime64[D]").astype(np.int64) + days - 1
