"""Columns of other types than their kinds have, and lists, maps and what is in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holon.columnar.atoms.columns import (
    ITEMS,
    SCALED,
    TYPES,
    Column,
    Kind,
    Layout,
    Path,
    Valid,
    absent_column,
    absent_columns,
    read_column,
)
from holon.columnar.atoms.lazy import lazy_column
from holon.columnar.atoms.repetition import list_spans
from holon.columnar.atoms.types import adapted, checked, plain, python_values

KEY, VALUE = "key", "value"
"""The fields of an item of a map."""

Places = NDArray[np.int64]


def adapted_column(array: Any, name: str, kind: Kind, layout: Layout, records: Sequence[bytes]) -> Column:
    """As ``read_column``, of an array of another type than its kind has."""
    if kind == "object":
        values, unfit = python_values(array)
        return Column(len(array), objects=values, unfit=unfit)
    if kind == "struct":
        return read_column(checked(array), name, kind, layout, records)
    if kind in SCALED:
        return lazy_column(array, kind)
    if kind == "rows":
        return _rows_column(plain(checked(array)), layout.inside[name], records)
    if kind in ITEMS:
        return _list_column(plain(checked(array)), name, kind, layout, records)
    if kind == "text" and isinstance(array, pa.DictionaryArray) and len(array.dictionary):
        return _texts_by_dictionary(checked(array), name, layout, records)
    array, beyond, unfit = adapted(array, kind)
    found = read_column(array, name, kind, layout, records)
    return replace(found, beyond=beyond, unfit={**(found.unfit or {}), **unfit})


def _list_column(array: Any, name: str, kind: Kind, layout: Layout, records: Sequence[bytes]) -> Column:
    """Lists of any type: the items of all, and where each list has its own."""
    if pa.types.is_null(array.type):
        return absent_column(kind, None, len(array))
    valid, spans = _lists(array)
    items = array.values
    read = read_column if items.type == TYPES[ITEMS[kind]] else adapted_column
    return Column(len(array), valid=valid, items=read(items, name, ITEMS[kind], layout, records), spans=spans)


def _rows_column(array: Any, layout: Layout, records: Sequence[bytes]) -> Column:
    """Lists or maps, whose items have the columns of a layout."""
    if pa.types.is_null(array.type):
        return absent_column("rows", None, len(array), layout)
    valid, spans = _lists(array)
    unfit = None
    if pa.types.is_map(array.type):
        unfit = dict.fromkeys(_rows_with_duplicate_keys(array.keys, *spans), "a map with duplicate keys")
        items = pa.StructArray.from_arrays([array.keys, array.items], names=[KEY, VALUE])
    else:
        items = array.values
    return Column(len(array), valid=valid, spans=spans, unfit=unfit, inside=_columns_in(items, layout, records))


def _lists(array: Any) -> tuple[Valid, tuple[Places, Places]]:
    """The rows that are lists, and where in ``values`` each begins and ends."""
    starts, ends = list_spans(array)
    if not array.null_count:
        return None, (starts, ends)
    valid = np.asarray(array.is_valid())
    return valid, (np.where(valid, starts, 0), np.where(valid, ends, 0))  # there are any places where a view is null


def _columns_in(items: Any, layout: Layout, records: Sequence[bytes]) -> Mapping[str, Column]:
    """The columns of an array of items, which has been made plain."""
    if pa.types.is_null(items.type):
        return absent_columns(layout, len(items))
    found: dict[str, Column] = {}
    for name, (path, kind) in layout.columns.items():
        array, is_missing = _inside(items, path)
        if array is None:
            default = layout.defaults.get(name) if is_missing else None
            found[name] = absent_column(kind, default, len(items), layout.inside.get(name))
        elif kind == "struct":
            found[name] = read_column(array, name, kind, layout, records)
        else:
            read = read_column if array.type == TYPES.get(kind) else adapted_column
            found[name] = read(array, name, kind, layout, records)
    return found


def _inside(array: Any, path: Path) -> tuple[Any, bool]:
    """The array at a path of fields, null where a struct above it is; without one, whether its field is missing."""
    for name in path:
        if pa.types.is_null(array.type):
            return None, False
        at = array.type.get_field_index(name)
        if at < 0:
            return None, True
        array = field_or_null(array, at) if array.buffers()[0] is not None else array.field(at)
    return (None, False) if pa.types.is_null(array.type) else (array, False)


def field_or_null(array: Any, at: int) -> Any:
    """A field of structs, null where these are. Arrow cannot mark that in runs and unions, and writes a wrong count."""
    of = array.type.field(at).type
    if pa.types.is_null(of):
        return array.field(at)
    if not (pa.types.is_run_end_encoded(of) or pa.types.is_union(of)):
        return array.flatten()[at]
    rows = pa.array(np.arange(len(array)), mask=~np.asarray(array.is_valid()))
    return plain(checked(array.field(at))).take(rows)


def _rows_with_duplicate_keys(keys: Any, starts: Places, ends: Places) -> list[int]:
    """The rows of a map that have a key more than once; ``keys`` are those of all rows."""
    lengths = ends - starts
    if int(lengths.max(initial=0)) < 2:
        return []
    encoded = keys.dictionary_encode()
    numbers = np.asarray(encoded.indices.fill_null(-1)).astype(np.int64) + 1
    before = np.cumsum(lengths) - lengths
    rows = np.repeat(np.arange(len(lengths)), lengths)
    items = np.arange(len(rows)) + np.repeat(starts - before, lengths)
    pairs = np.sort(rows * (len(encoded.dictionary) + 1) + numbers[items])
    twice = pairs[1:][pairs[1:] == pairs[:-1]]
    return np.unique(twice // (len(encoded.dictionary) + 1)).tolist()


def _texts_by_dictionary(array: Any, name: str, layout: Layout, records: Sequence[bytes]) -> Column:
    """Each row is the place of its text in the dictionary, which is not copied."""
    texts = array.dictionary
    read = read_column if texts.type == TYPES["text"] else adapted_column
    known = read(texts, name, "text", layout, records)
    assert known.texts is not None
    indices = np.asarray(array.indices.fill_null(0)).astype(np.intp)
    valid = None
    if array.indices.null_count or known.valid is not None:
        valid = np.asarray(array.indices.is_valid())
        valid = valid if known.valid is None else valid & known.valid[indices]
    return Column(len(array), texts=known.texts.take(indices), valid=valid)
