"""How many bytes the values of an array are, each as often as a row has it.

Views, dictionaries and runs have a value once, however many rows are made of it. So a record of a megabyte may claim
terabytes, which would be allocated before anybody looks at them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holon.columnar.atoms.inflation import INFLATED_BYTES

Sizes = NDArray[np.float64]

REPEATS = 64
"""Values may be as many times the bytes of their array, or ``INFLATED_BYTES``."""
_VALUE_BYTES, _VIEW_BYTES = 8, 16
_types = pa.types


def check_repetition(array: Any) -> None:
    """Raise Arrow's error if the values are too many for the bytes that they are made of. ``array`` is valid."""
    if not _repeats(array.type):
        return
    size, most = float(sizes_of(array).sum()), max(INFLATED_BYTES, REPEATS * array.get_total_buffer_size())
    if size > most:
        raise pa.ArrowInvalid(f"values of {size:.0f} bytes, made of {array.get_total_buffer_size()}; {most} may be")


def _repeats(of: Any) -> bool:
    """Whether a value may be there for several rows, unless it is a number, or a text by a dictionary."""
    if isinstance(of, pa.BaseExtensionType):
        return _repeats(of.storage_type)
    if _types.is_dictionary(of):
        return _is_large(of.value_type)
    if _types.is_run_end_encoded(of):
        return _is_large(of.value_type) or _is_text(of.value_type)
    if _is_list_view(of) or _types.is_union(of) or of in (pa.string_view(), pa.binary_view()):
        return True
    return any(_repeats(of.field(at).type) for at in range(of.num_fields))


def _is_large(of: Any) -> bool:
    return of.num_fields > 0 or _types.is_dictionary(of) or isinstance(of, pa.BaseExtensionType) or _repeats(of)


def _is_list_view(of: Any) -> bool:
    return _types.is_list_view(of) or _types.is_large_list_view(of)


def _is_text(of: Any) -> bool:
    return _types.is_string(of) or _types.is_binary(of) or _types.is_large_string(of) or _types.is_large_binary(of)


def sizes_of(array: Any) -> Sizes:
    """Bytes of each row."""
    of, count = array.type, len(array)
    if isinstance(of, pa.BaseExtensionType):
        return sizes_of(array.storage)
    if _types.is_dictionary(of):
        known = sizes_of(array.dictionary)
        return known[np.asarray(array.indices.fill_null(0)).astype(np.intp)] if len(known) else np.zeros(count)
    if _types.is_run_end_encoded(of):
        rows = np.arange(array.offset, array.offset + count)
        return sizes_of(array.values)[np.searchsorted(np.asarray(array.run_ends), rows, side="right")]
    if _types.is_union(of):
        return _sizes_of_union(array)
    if _types.is_struct(of):
        return sum((sizes_of(array.field(at)) for at in range(of.num_fields)), np.full(count, float(_VALUE_BYTES)))
    if _types.is_nested(of):
        return _sizes_of_lists(array)
    if of in (pa.string_view(), pa.binary_view()):
        views = np.frombuffer(array.buffers()[1], np.int32)[: (array.offset + count) * _VIEW_BYTES // 4]
        return np.where(np.asarray(array.is_valid()), views[array.offset * 4 :: 4], 0).astype(np.float64) + _VALUE_BYTES
    if _is_text(of):
        large = _types.is_large_string(of) or _types.is_large_binary(of)
        offsets = np.frombuffer(array.buffers()[1] or b"", np.int64 if large else np.int32)
        return np.diff(offsets[array.offset : array.offset + count + 1]) + float(_VALUE_BYTES) if count else np.zeros(0)
    return np.full(count, float(_VALUE_BYTES))


def _sizes_of_lists(array: Any) -> Sizes:
    parts = [array.keys, array.items] if _types.is_map(array.type) else [array.values]
    starts, ends = list_spans(array)
    there = np.asarray(array.is_valid())
    found = np.full(len(array), float(_VALUE_BYTES))
    for part in parts:
        before = np.concatenate([[0.0], np.cumsum(sizes_of(part))])
        found[there] += before[ends[there]] - before[starts[there]]
    return found


def _sizes_of_union(array: Any) -> Sizes:
    found = np.full(len(array), float(_VALUE_BYTES))
    codes = np.asarray(array.type_codes)
    for at, code in enumerate(array.type.type_codes):
        rows = np.flatnonzero(codes == code)
        sizes = sizes_of(array.field(at))
        found[rows] += sizes[np.asarray(array.offsets)[rows] if array.type.mode == "dense" else rows]
    return found


def list_spans(array: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where in its ``values`` each list begins and ends; anywhere where it is null."""
    of, count = array.type, len(array)
    if _types.is_fixed_size_list(of):
        starts = (np.arange(count, dtype=np.int64) + array.offset) * of.list_size
        return starts, starts + of.list_size
    offsets = np.asarray(array.offsets).astype(np.int64)
    if _is_list_view(of):
        return offsets, offsets + np.asarray(array.sizes)
    return offsets[:count], offsets[1 : count + 1]
