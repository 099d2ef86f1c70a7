"""Datetimes and Decimals of Arrow as numbers, of which objects are made when they are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holon.columnar.atoms.columns import Column, Kind
from holon.columnar.atoms.types import checked, numbers_of, plain, python_values, value_type
from holon.columnar.structs.kinds import LOCAL

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)
_FIRST_US, _LAST_US = ((at.replace(tzinfo=UTC) - _EPOCH) // _MICRO for at in (datetime.min, datetime.max))
_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_WORDS: dict[int, tuple[Any, int]] = {32: (np.int32, 1), 64: (np.int64, 1), 128: (np.int64, 2), 256: (np.int64, 4)}
"""By the bits of a decimal: words of which the first has the digits, and how many there are."""
_MAX_DIGITS, _MAX_SCALE = 18, 76
"""So many fit in 64 bits; a power of ten beyond those of the widest decimals is damage, and may be no Decimal."""


def lazy_column(array: Any, kind: Kind) -> Column:
    """A column of ``datetime`` or ``decimal``; values of other types than Arrow has for these are objects already.

    Raises Arrow's errors where it is damaged.
    """
    of = value_type(array.type)
    if kind == "datetime" and pa.types.is_timestamp(of):
        return _moments(plain(checked(array)))
    if kind == "decimal" and pa.types.is_decimal(of) and of.precision <= _MAX_DIGITS and abs(of.scale) <= _MAX_SCALE:
        return _decimals(plain(checked(array)))
    return _objects(array, datetime if kind == "datetime" else Decimal)


def _moments(array: Any) -> Column:
    """Microseconds since 1970, and the zone of each: UTC or none."""
    factor, count = _US[array.type.unit], len(array)
    numbers, valid = numbers_of(array), _valid(array)
    first, last = -(-_FIRST_US // factor), _LAST_US // factor
    wrong = (numbers < first) | (numbers > last)
    rows = np.flatnonzero(wrong if valid is None else wrong & valid).tolist()
    micros = np.clip(numbers, first, last) * factor
    zones = np.full(count, LOCAL if array.type.tz is None else 0, np.int64)
    unfit = dict.fromkeys(rows, "beyond the years 1 to 9999, which a datetime holds")
    return Column(count, micros, valid=valid, scales=zones, unfit=unfit)


def _decimals(array: Any) -> Column:
    """Digits as a whole number, and the power of ten that it is multiplied by."""
    words, many = _WORDS[array.type.bit_width]
    digits = numbers_of(array, words, many).astype(np.int64)
    return Column(len(array), digits, valid=_valid(array), scales=np.full(len(array), -array.type.scale, np.int64))


def _objects(array: Any, of: type) -> Column:
    """Texts, ints and floats as msgspec makes objects of them: one at each row."""
    values, unfit = python_values(array)
    found: dict[int, Any] = {}
    unfit = {row: f"wrong: {why}" for row, why in unfit.items()}
    for row, value in enumerate(values):
        try:
            found[row] = None if value is None else msgspec.convert(value, of)
        except msgspec.ValidationError as error:
            unfit[row] = f"wrong: {error}"
    valid = np.array([value is not None or row in unfit for row, value in enumerate(values)], np.bool_)
    nothing = np.zeros(len(array), np.int64)
    beyond = {row: value for row, value in found.items() if value is not None}
    return Column(len(array), nothing, valid=valid, scales=nothing, unfit=unfit, beyond=beyond)


def _valid(array: Any) -> NDArray[np.bool_] | None:
    return np.asarray(array.is_valid()) if array.null_count else None
