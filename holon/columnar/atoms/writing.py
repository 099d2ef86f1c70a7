"""Atoms as they are written: a batch, and one row of a record's batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from holon.columnar.atoms.types import REFUSALS, checked
from holon.errors import DeserializationError


def single(batches: Sequence[pa.RecordBatch], place: int) -> bytes:
    """An atom of one event, at its place in all batches. Columns that are damaged are left out: nobody reads them."""
    for batch in batches:
        if place < batch.num_rows:
            one = batch.slice(place, 1)
            break
        place -= batch.num_rows
    else:
        raise DeserializationError(f"an atom of {sum(batch.num_rows for batch in batches)} events has no such place")
    found = [(at, column) for at in range(one.num_columns) if (column := _whole(one, at)) is not None]
    fields = [one.schema.field(at) for at, _ in found]
    schema = one.schema if len(fields) == one.num_columns else pa.schema(fields)
    return write_atom(pa.RecordBatch.from_arrays([column for _, column in found], schema=schema))


def _whole(batch: pa.RecordBatch, at: int) -> Any:
    """A column that Arrow may write, None for others: it believes offsets. Texts need not be UTF-8."""
    try:
        return _without_other_values(checked(batch.column(at)))
    except REFUSALS:
        return None


def _without_other_values(column: Any) -> Any:
    """A column of one row, whose dictionary has the value of that row only."""
    if not isinstance(column, pa.DictionaryArray) or len(column.dictionary) <= 1:
        return column
    at = column.indices[0].as_py()
    try:
        values = column.dictionary.take(pa.array([] if at is None else [at], pa.int64()))
    except pa.ArrowNotImplementedError:
        return column
    indices = pa.array([None if at is None else 0], column.indices.type)
    return pa.DictionaryArray.from_arrays(indices, values, ordered=column.type.ordered)


def write_atom(batch: pa.RecordBatch) -> bytes:
    """A batch as a record of the log."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()
