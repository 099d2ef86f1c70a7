"""Arrow's types as plain ones: arrays without dictionaries, runs, views, extensions, zones and nanoseconds.

Two rules for this file: the values are those that JSON of the same values gives; nothing depends on whether pandas or a
database of time zones is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holon.columnar.atoms.columns import TYPES, Kind
from holon.columnar.atoms.repetition import check_repetition

REFUSALS = (pa.ArrowException, OSError, EOFError, ValueError, KeyError, ArithmeticError, NotImplementedError)
"""Errors of Arrow and of pyarrow on bytes that are not their own, and on values that Python does not have.

Zones whose names are not UTF-8, types that Python does not know, dates beyond its years, keys that a map has twice.
"""
_BYTES: dict[Any, Any] = {
    pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view(),
}  # fmt: skip
_VIEWS: dict[Any, Any] = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
_VIEW_BYTES = 16
_UTC = "+00:00"
_NS_OF_US, _US_OF_MS, _MS_OF_S, _US_OF_DAY = 1000, 1000, 1000, 86_400_000_000
_INT64 = range(-(2**63), 2**63)

Reasons = Mapping[int, str]


class Adapted(NamedTuple):
    """An array of the type of its kind. ``beyond``: ints of more than 64 bits by their rows; ``unfit``: dead rows."""

    array: Any
    beyond: Mapping[int, int]
    unfit: Reasons


def value_type(of: Any) -> Any:
    """The type of the values: behind extensions, dictionaries and runs."""
    while True:
        if isinstance(of, pa.BaseExtensionType):
            of = pa.bool_() if of.extension_name == "arrow.bool8" else of.storage_type
        elif pa.types.is_dictionary(of) or pa.types.is_run_end_encoded(of):
            of = of.value_type
        else:
            return of


def is_text(of: Any) -> bool:
    """Whether it is one of the three types of texts."""
    return of in _BYTES


def is_read_as(of: Any, kind: Kind) -> bool:
    """Whether a column of a type is read as this kind; one of the null type is, and all of its rows are null."""
    of = value_type(of)
    if kind == "float":
        return pa.types.is_floating(of) or pa.types.is_integer(of) or pa.types.is_null(of)
    fits = {
        "int": pa.types.is_integer, "bool": pa.types.is_boolean, "time": pa.types.is_timestamp, "text": is_text,
    }[kind]  # fmt: skip
    return bool(fits(of) or pa.types.is_null(of))


def adapted(array: Any, kind: Kind) -> Adapted:
    """A column as an array of the type of its kind. Raises Arrow's errors where it is damaged."""
    if array.type == TYPES[kind]:
        return Adapted(array, {}, {})
    array = plain(checked(array))
    of = array.type
    if pa.types.is_null(of):
        return Adapted(array.cast(TYPES[kind]), {}, {})
    if kind == "text":
        return Adapted(array, {}, {})
    if kind == "time":
        return _in_ms(array)
    if kind == "int" and of == pa.uint64():
        numbers = numbers_of(array, np.uint64)
        large = np.flatnonzero(numbers > np.uint64(_INT64[-1]))
        beyond = {row: int(numbers[row]) for row in large.tolist() if array[row].is_valid}
        return Adapted(array.cast(pa.int64(), safe=False), beyond, {})
    return Adapted(array.cast(TYPES[kind], safe=False), {}, {})  # unsafe: ints become the nearest float


def python_values(array: Any) -> tuple[list[Any], Reasons]:
    """The values of a column, and the rows without one. Raises Arrow's errors where all of it is damaged."""
    array = plain(checked(array))
    try:
        if pa.types.is_time(array.type):
            array.validate(full=True)  # pyarrow takes times modulo a day
        return _listed(array), {}
    except REFUSALS:
        pass
    values: list[Any] = [None] * len(array)
    unfit: dict[int, str] = {}
    for row in range(len(array)):
        one = array.slice(row, 1)
        try:
            if pa.types.is_time(array.type):
                one.validate(full=True)
            values[row] = _listed(one)[0]
        except REFUSALS as error:
            unfit[row] = first_line(error)
    return values, unfit


def _listed(array: Any) -> list[Any]:
    """Python's values; pyarrow takes ten times as long where it has to look out for maps."""
    return array.to_pylist(maps_as_pydicts="strict") if _has_map(array.type) else array.to_pylist()


def _has_map(of: Any) -> bool:
    return pa.types.is_map(of) or any(_has_map(of.field(at).type) for at in range(of.num_fields))


def checked(array: Any) -> Any:
    """The array, of which every value may be read. Texts that are not UTF-8 are its rows' affair, unless in others."""
    of = array.type
    if of in _BYTES:
        array.view(_BYTES[of]).validate(full=True)
    elif not pa.types.is_primitive(of):
        array.validate(full=True)
    check_repetition(array)
    return array


def plain(array: Any) -> Any:
    """The same values in an array of a plain type; ``array`` has been checked."""
    of = array.type
    if isinstance(of, pa.BaseExtensionType):
        storage = plain(array.storage)
        return storage.cast(pa.bool_()) if of.extension_name == "arrow.bool8" else storage
    if pa.types.is_dictionary(of):
        return plain(array.dictionary).take(array.indices)
    if pa.types.is_run_end_encoded(of):
        rows = np.arange(array.offset, array.offset + len(array))
        return plain(array.values).take(pa.array(np.searchsorted(np.asarray(array.run_ends), rows, side="right")))
    if of in _VIEWS:
        return _without_null_views(array, pa.binary_view()).cast(pa.binary()).view(_VIEWS[of])
    if of in _BYTES:
        return array if of == pa.string() else array.view(_BYTES[of]).cast(pa.binary()).view(pa.string())
    if pa.types.is_timestamp(of):
        return _as_timestamps(array)
    if of == pa.duration("ns"):
        return _with_numbers(array, pa.duration("us"), _rounded(numbers_of(array), halves_up=False))
    if of == pa.time64("ns"):
        numbers = numbers_of(array)
        micros = np.where((numbers < 0) | (numbers >= _US_OF_DAY * _NS_OF_US), -1, _rounded(numbers) % _US_OF_DAY)
        return _with_numbers(array, pa.time64("us"), micros)
    return _with_plain_parts(array)


def _without_null_views(array: Any, of: Any) -> Any:
    """The same views, of nothing where rows are null: pyarrow's cast reads those, and no validation has."""
    if not array.null_count:
        return array.view(of)
    valid, views, *data = array.buffers()
    there = np.asarray(array.is_valid())
    places = np.frombuffer(views, np.dtype((np.void, _VIEW_BYTES)), len(array), array.offset * _VIEW_BYTES)
    whole = np.where(there, places, np.zeros(1, places.dtype))
    kept = pa.array(there).buffers()[1] if array.offset else valid
    return pa.Array.from_buffers(of, len(array), [kept, pa.py_buffer(whole.tobytes()), *data])


def first_line(error: BaseException) -> str:
    """An error as a reason."""
    text = str(error).splitlines()
    return text[0][:200] if text else type(error).__name__


def _as_timestamps(array: Any) -> Any:
    """Nanoseconds are rounded to microseconds as msgspec rounds the digits of a text; zones are UTC."""
    of = array.type
    zone = None if of.tz is None else _UTC
    if of.unit == "ns":
        return _with_numbers(array, pa.timestamp("us", zone), _rounded(numbers_of(array)))
    return array if of.tz == zone else array.view(pa.timestamp(of.unit, zone))


def _in_ms(array: Any) -> Adapted:
    """Timestamps as ms; parts of a ms are cut off, as ``timestamp_unit`` does."""
    numbers, unit = numbers_of(array), array.type.unit
    unfit: dict[int, str] = {}
    if unit == "s":
        limit = _INT64[-1] // _MS_OF_S
        for row in np.flatnonzero((numbers > limit) | (numbers < -limit)).tolist():
            if array[row].is_valid:
                unfit[row] = f"{numbers[row]} s are beyond 64 bits in ms"
        numbers = np.clip(numbers, -limit, limit) * _MS_OF_S
    elif unit == "us":
        numbers = numbers // _US_OF_MS
    return Adapted(_with_numbers(array, TYPES["time"], numbers), {}, unfit)


def _rounded(numbers: NDArray[np.int64], halves_up: bool = True) -> NDArray[np.int64]:
    """Nanoseconds as the nearest microseconds, halves up or away from zero: as msgspec reads times and durations."""
    rest, half = numbers % _NS_OF_US, _NS_OF_US // 2
    return numbers // _NS_OF_US + ((rest > half) | ((rest == half) & (halves_up | (numbers >= 0))))


def numbers_of(array: Any, dtype: Any = np.int64, words: int = 1) -> NDArray[Any]:
    """The first of so many words of each row, also where that is null."""
    if len(array) == 0:
        return np.empty(0, dtype)
    skip = array.offset * words * np.dtype(dtype).itemsize
    return np.frombuffer(array.buffers()[1], dtype, len(array) * words, skip)[::words]


def _with_numbers(array: Any, of: Any, numbers: NDArray[np.int64]) -> Any:
    """An array of a type of 64 bits, null where the other one is."""
    return pa.array(numbers, mask=np.asarray(array.is_null())).view(of)


def _with_plain_parts(array: Any) -> Any:
    """Lists, structs and maps of plain values. All others are as they are: Python reads them."""
    of, own = array.type, _own_buffers(array.type)
    if pa.types.is_union(of) and any(plain(array.field(at)).type != of.field(at).type for at in range(of.num_fields)):
        raise pa.ArrowNotImplementedError(f"a union of types that pyarrow cannot make plain within it: {of}")
    if own == 0:
        return array
    assert array.offset == 0, f"a column that was read has an offset: {of}"  # Arrow would apply it to parts as well
    if pa.types.is_map(of):
        parts = [array.keys, array.items]
    else:
        parts = [array.field(at) for at in range(of.num_fields)] if pa.types.is_struct(of) else [array.values]
    made = [plain(part) for part in parts]
    if all(part.type == one.type for part, one in zip(parts, made, strict=True)):
        return array
    whole, buffers = _of_parts(of, [one.type for one in made]), array.buffers()[:own]
    if pa.types.is_map(of):
        made = [pa.StructArray.from_arrays(made, fields=[whole.key_field, whole.item_field])]
    return pa.Array.from_buffers(whole, len(array), buffers, offset=0, children=made)


def _own_buffers(of: Any) -> int:
    """How many buffers belong to a type with parts, before those of its parts; 0 for others."""
    if pa.types.is_list_view(of) or pa.types.is_large_list_view(of):
        return 3
    if pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_map(of):
        return 2
    return 1 if pa.types.is_struct(of) or pa.types.is_fixed_size_list(of) else 0


def _of_parts(of: Any, parts: list[Any]) -> Any:
    """The same type of other parts."""
    if pa.types.is_struct(of):
        return pa.struct([pa.field(of.field(at).name, part) for at, part in enumerate(parts)])
    if pa.types.is_map(of):
        return pa.map_(pa.field("key", parts[0], nullable=False), pa.field("value", parts[1]))
    if pa.types.is_fixed_size_list(of):
        return pa.list_(parts[0], of.list_size)
    for is_such, made in (
        (pa.types.is_large_list, pa.large_list), (pa.types.is_list_view, pa.list_view),
        (pa.types.is_large_list_view, pa.large_list_view),
    ):  # fmt: skip
        if is_such(of):
            return made(parts[0])
    return pa.list_(parts[0])
