"""The columns of an atom: types, lengths, places and texts are checked before anything is believed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holon.columnar.loops import Loops
from holon.columnar.payloads import BinaryColumn, Texts
from holon.errors import DeserializationError

Kind = Literal[
    "kinds",
    "union",
    "int",
    "float",
    "bool",
    "time",
    "text",
    "struct",
    "datetime",
    "decimal",
    "object",
    "ints",
    "floats",
    "bools",
    "texts",
    "rows",
]
"""Of a struct only its validity is read. A time is ``timestamp[ms]`` without a zone, as epoch ms. Datetimes, and
decimals, are two numbers each; ints and the like are lists of such. Rows are lists, or maps, of items that have columns
of their own, by a layout. Objects are Python's, of any type; with the path () they are the rows, as dicts.

A dense union has, for each event, the number of its alternative, and its place in that one's columns. ``kinds`` is a
column of int8 that has the number only; the columns of all alternatives have a place for each event.
"""
Path = tuple[str, ...]
Valid = NDArray[np.bool_] | None
"""Which rows are not null; None: all."""

TYPES: dict[Kind, pa.DataType] = {
    "kinds": pa.int8(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "time": pa.timestamp("ms"),
    "text": pa.string(),
}  # fmt: skip
_DTYPES: dict[Kind, Any] = {
    "int": np.int64, "float": np.float64, "time": np.int64, "datetime": np.int64, "decimal": np.int64,
}  # fmt: skip
SCALED: tuple[Kind, ...] = ("datetime", "decimal")
ITEMS: dict[Kind, Kind] = {"ints": "int", "floats": "float", "bools": "bool", "texts": "text"}


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a record batch that are read: names, their paths through structs and unions, and what they are.

    ``alternatives`` are those of its union, in their order. Columns have exactly the types of their kinds, unless there
    is a ``refusal``: then it returns why a column of a type cannot be read, and others become the type of their kind.
    Columns of ``defaults`` may be missing: of objects each is ``ABSENT`` then, of other kinds the default. ``inside``
    are the layouts of columns of rows: their paths begin at an item, those of maps with ``"key"`` or ``"value"``.
    """

    columns: Mapping[str, tuple[Path, Kind]]
    alternatives: tuple[str, ...] = ()
    refusal: Callable[[str, Any], str | None] | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    inside: Mapping[str, Layout] = field(default_factory=dict)


@dataclass(slots=True)
class Column:
    """``texts`` have one buffer for all rows; else ``numbers`` (none for a struct). ``height``: how many rows.

    ``unfit``: rows without a value, and why; ``beyond``: objects of rows that the numbers do not hold, as ints of more
    than 64 bits. ``scales``: zones of datetimes (their numbers are microseconds), exponents of decimals. ``items`` are
    those of all lists of a column, and ``spans`` where in these each list begins and ends; ``inside`` are the columns
    of items where these have several.
    For a union ``numbers`` are the alternatives, and ``places`` those in their columns; ``heights`` are those of the
    alternatives. Before unions are ``joined``, both can be anything.
    """

    height: int
    numbers: NDArray[Any] | None = None
    texts: Texts | None = None
    valid: Valid = None
    places: NDArray[Any] | None = None
    heights: NDArray[np.int64] | None = None
    objects: list[Any] | None = None
    unfit: Mapping[int, str] | None = None
    beyond: Mapping[int, Any] | None = None
    scales: NDArray[np.int64] | None = None
    items: Column | None = None
    spans: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    inside: Mapping[str, Column] | None = None


ABSENT: Any = object()
"""The object of each row of a column that a batch does not have."""


def absent_column(kind: Kind, default: Any, count: int, inside: Layout | None = None) -> Column:
    """A column that is not there: the same in each row. ``inside``: its layout, if it is one of rows."""
    if kind == "object":
        return Column(count, objects=[ABSENT] * count)
    valid = np.zeros(count, np.bool_) if default is None else None
    if kind == "struct":
        return Column(count, valid=valid)
    nothing = np.zeros(count, np.int64)
    if kind == "rows":
        assert inside is not None
        return Column(count, valid=valid, spans=(nothing, nothing), inside=absent_columns(inside, 0))
    if kind in ITEMS:
        return Column(count, valid=valid, items=absent_column(ITEMS[kind], None, 0), spans=(nothing, nothing))
    if kind == "text":
        return Column(count, texts=Texts.of([default or ""] * count), valid=valid)
    dtype = np.bool_ if kind == "bool" else _DTYPES[kind]
    scales = np.zeros(count, np.int64) if kind in SCALED else None
    return Column(count, np.full(count, 0 if default is None else default, dtype), valid=valid, scales=scales)


def absent_columns(layout: Layout, count: int) -> dict[str, Column]:
    """All columns of a layout, which are null in each of so many rows."""
    return {
        name: absent_column(kind, None, count, layout.inside.get(name)) for name, (_, kind) in layout.columns.items()
    }


def read_column(array: Any, name: str, kind: Kind, layout: Layout, records: Sequence[bytes]) -> Column:
    """One column of one atom; raises ``DeserializationError``."""
    buffers, count, skip = array.buffers(), len(array), array.offset
    if kind == "union":
        return _union(array, name)
    valid = _bits(buffers[0], skip, count, name)
    if kind == "struct":
        return Column(count, valid=valid)
    if kind == "text":
        assert isinstance(records, BinaryColumn)
        return _texts(buffers, skip, count, valid, name, records)
    if kind == "bool":
        bits = _bits(buffers[1], skip, count, name)
        return Column(count, np.zeros(count, np.bool_) if bits is None else bits, valid=valid)
    if kind == "kinds":
        kinds = _numbers(buffers[1], np.int8, skip, count, name)
        kinds = kinds if valid is None else np.where(valid, kinds, np.int8(-1))
        heights = np.full(len(layout.alternatives), count, np.int64)
        return Column(count, kinds, places=np.arange(count, dtype=np.int32), heights=heights)
    return Column(count, _numbers(buffers[1], _DTYPES[kind], skip, count, name), valid=valid)


def spread(loops: Loops, union: Column, table: Sequence[int]) -> bool:
    """Write columns of all events, as ``holon.columnar.spreading`` does; False where an event is dead: then none is."""
    assert union.numbers is not None and union.places is not None and union.heights is not None
    rows, kinds = np.array(table, np.int64), len(union.heights)
    where = (address_of(array) for array in (union.numbers, union.places))
    count = union.height
    return not loops.spread(*where, count, address_of(union.heights), kinds, address_of(rows), len(rows) // (kinds + 1))


def address_of(array: NDArray[Any]) -> int:
    """Where the numbers of an array are."""
    return array.__array_interface__["data"][0]


def _union(array: Any, name: str) -> Column:
    buffers, count, skip = array.buffers(), len(array), array.offset
    kinds = _numbers(buffers[1], np.int8, skip, count, name)
    places = _numbers(buffers[2], np.int32, skip, count, name)
    heights = np.array([len(array.field(number)) for number in range(array.type.num_fields)], np.int64)
    return Column(count, kinds, places=places, heights=heights)


def _placed(union: Column) -> Column:
    """With the place -1 where an event is none of the alternatives, or beyond their columns."""
    kinds, places, heights = union.numbers, union.places, union.heights
    assert kinds is not None and places is not None and heights is not None
    limits = heights.astype(np.uint32)
    known = kinds.view(np.uint8) < len(limits)
    known &= places.view(np.uint32) < limits[kinds if known.all() else np.where(known, kinds, 0)]
    if known.all():
        return union
    return Column(union.height, kinds, places=np.where(known, places, np.int32(-1)), heights=heights)


def _numbers(buffer: pa.Buffer | None, dtype: Any, skip: int, count: int, name: str) -> NDArray[Any]:
    size = np.dtype(dtype).itemsize
    if count == 0:
        return np.empty(0, dtype)
    if buffer is None or buffer.size < (skip + count) * size:
        raise DeserializationError(f"column {name} is shorter than its batch")
    return np.frombuffer(buffer, dtype, count, skip * size)


def _bits(buffer: pa.Buffer | None, skip: int, count: int, name: str) -> Valid:
    if buffer is None or count == 0:
        return None
    if buffer.size * 8 < skip + count:
        raise DeserializationError(f"column {name} is shorter than its batch")
    packed = np.frombuffer(buffer, np.uint8, (skip + count + 7) // 8)
    return np.unpackbits(packed, bitorder="little", count=skip + count)[skip:].view(np.bool_)


def _texts(buffers: Sequence[Any], skip: int, count: int, valid: Valid, name: str, records: BinaryColumn) -> Column:
    """Places in the records' own buffer, where Arrow has not copied the data out of it."""
    if count == 0:
        return Column(0, texts=Texts(records.buffer, np.empty(0, np.int64), np.empty(0, np.int64)), valid=valid)
    offsets = _numbers(buffers[1], np.int32, skip, count + 1, name).astype(np.int64)
    data = np.empty(0, np.uint8) if buffers[2] is None else np.frombuffer(buffers[2], np.uint8)
    first, last = int(offsets[0]), int(offsets[-1])
    if first < 0 or last > len(data) or bool((offsets[1:] < offsets[:-1]).any()):
        raise DeserializationError(f"column {name} has texts beyond its end")
    at = data.ctypes.data - records.buffer.ctypes.data
    if at >= 0 and at + len(data) <= len(records.buffer):
        texts = Texts(records.buffer, offsets[:-1] + at, offsets[1:] + at)
    else:
        whole = BinaryColumn.of([data.tobytes()])
        texts = Texts(whole.buffer, offsets[:-1], offsets[1:])
    unfit = None
    texts.are_unicode = last == first or int(data[first:last].max()) <= 0x7F
    if not texts.are_unicode:
        right = _utf8(data, offsets, valid)
        wrong = np.flatnonzero(~right if valid is None else valid & ~right).tolist()
        valid, unfit = right, dict.fromkeys(wrong, "not UTF-8")
    return Column(count, texts=texts, valid=valid, unfit=unfit)


def _utf8(data: NDArray[np.uint8], offsets: NDArray[np.int64], valid: Valid) -> NDArray[np.bool_]:
    """Valid rows whose text is UTF-8."""
    right = np.ones(len(offsets) - 1, np.bool_) if valid is None else valid.copy()
    for row in np.flatnonzero(right).tolist():
        try:
            data[offsets[row] : offsets[row + 1]].tobytes().decode("utf-8")
        except UnicodeDecodeError:
            right[row] = False
    return right


def joined(kind: Kind, parts: list[Column], records: Sequence[bytes], inside: Layout | None = None) -> Column:
    """The columns of several atoms as one. ``inside``: their layout, if they are of rows."""
    if kind in ("kinds", "union"):
        parts = [_placed(part) for part in parts]
    if len(parts) == 1:
        return parts[0]
    height = sum(part.height for part in parts)
    if kind in ("kinds", "union"):
        return _joined_unions(parts, height)
    if inside is None:
        found = _joined_values(kind, parts, height, records)
    else:
        found = _joined_rows(parts, height, records, inside)
    if any(part.unfit or part.beyond for part in parts):
        found.unfit = _shifted(parts, [part.unfit for part in parts])
        found.beyond = _shifted(parts, [part.beyond for part in parts])
    return found


def _joined_values(kind: Kind, parts: list[Column], height: int, records: Sequence[bytes]) -> Column:
    if kind == "object":
        return Column(height, objects=[each for part in parts for each in part.objects or ()])
    valid = _joined_valid(parts)
    if kind == "struct":
        return Column(height, valid=valid)
    if kind in ITEMS:
        return _joined_lists(kind, parts, height, valid, records)
    if kind == "text":
        assert isinstance(records, BinaryColumn)
        texts = _joined_texts([part.texts for part in parts if part.texts is not None], records)
        return Column(height, texts=texts, valid=valid)
    dtype = np.bool_ if kind == "bool" else _DTYPES[kind]
    scales = None
    if kind in SCALED:
        scales = np.concatenate([np.empty(0, np.int64), *(part.scales for part in parts if part.scales is not None)])
    return Column(height, np.concatenate([np.empty(0, dtype), *_arrays(parts)]), valid=valid, scales=scales)


def _joined_valid(parts: list[Column]) -> Valid:
    if all(part.valid is None for part in parts):
        return None
    return np.concatenate([np.ones(part.height, np.bool_) if part.valid is None else part.valid for part in parts])


def _joined_lists(kind: Kind, parts: list[Column], height: int, valid: Valid, records: Sequence[bytes]) -> Column:
    items = [part.items for part in parts if part.items is not None]
    spans = _joined_spans(parts, [each.height for each in items])
    return Column(height, valid=valid, items=joined(ITEMS[kind], items, records), spans=spans)


def _joined_rows(parts: list[Column], height: int, records: Sequence[bytes], layout: Layout) -> Column:
    """Lists of items that have several columns."""
    items = [part.inside for part in parts if part.inside is not None]
    spans = _joined_spans(parts, [next(iter(each.values())).height for each in items])
    inside = {
        name: joined(kind, [each[name] for each in items], records, layout.inside.get(name))
        for name, (_, kind) in layout.columns.items()
    }
    return Column(height, valid=_joined_valid(parts), spans=spans, inside=inside)


def _joined_spans(parts: list[Column], heights: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places of the lists of all parts among the items of all, of which each part has so many."""
    before = np.cumsum([0, *heights])
    spans = [part.spans for part in parts if part.spans is not None]
    starts, ends = (
        np.concatenate([np.empty(0, np.int64), *(each[side] + at for each, at in zip(spans, before, strict=False))])
        for side in (0, 1)
    )
    return starts, ends


def _shifted(parts: list[Column], rows: list[Mapping[int, Any] | None]) -> dict[int, Any]:
    """The entries of all parts, by the rows of all."""
    found: dict[int, Any] = {}
    at = 0
    for part, its in zip(parts, rows, strict=True):
        found.update((row + at, known) for row, known in (its or {}).items())
        at += part.height
    return found


def _joined_unions(parts: list[Column], height: int) -> Column:
    """The columns of each alternative are put one behind the other, so places move on."""
    before: Any = np.zeros(0, np.int64)
    places: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    for part in parts:
        assert part.places is not None and part.heights is not None and part.numbers is not None
        if len(before) == 0:
            before = np.zeros_like(part.heights)
            places.append(part.places.astype(np.int64))
        elif part.height:
            unknown = part.places < 0
            if unknown.any():
                places.append(np.where(unknown, -1, part.places + before[np.where(unknown, 0, part.numbers)]))
            else:
                places.append(part.places + before[part.numbers])
        before = before + part.heights
    kinds = np.concatenate([np.empty(0, np.int8), *_arrays(parts)])
    return Column(height, kinds, places=np.concatenate(places), heights=before)


def _arrays(parts: Iterable[Column]) -> Iterator[NDArray[Any]]:
    return (part.numbers for part in parts if part.numbers is not None)


def _joined_texts(parts: list[Texts], records: BinaryColumn) -> Texts:
    nothing = np.empty(0, np.int64)
    if any(part.buffer is not records.buffer for part in parts):
        whole = BinaryColumn.joined([BinaryColumn(part.buffer, part.starts, part.ends) for part in parts])
        return Texts(whole.buffer, whole.starts, whole.ends)
    starts, ends = ([nothing, *(getattr(part, side) for part in parts)] for side in ("starts", "ends"))
    known = all(part.are_unicode for part in parts)
    return Texts(records.buffer, np.concatenate(starts), np.concatenate(ends), are_unicode=known)
