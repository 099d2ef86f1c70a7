"""Arrow record batches: a record of the log holds one as an Arrow IPC stream; its columns are read in place.

An atom is a stream of one schema and one record batch; of any number of batches, also with dictionaries, where its
layout takes columns of other types. It is dead as a whole if it is not, or if a requested column is missing or of
a type that is not read. Of other columns only the lengths are checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holon.columnar.atoms.adapting import adapted_column, field_or_null
from holon.columnar.atoms.columns import TYPES, Column, Kind, Layout, Path, absent_column, joined, read_column
from holon.columnar.atoms.inflation import INFLATED_BYTES, inflated_bytes
from holon.columnar.atoms.types import REFUSALS, first_line
from holon.columnar.payloads import BinaryColumn
from holon.errors import DeserializationError

_MAX_SCHEMAS = 16
_ROWS, _ROWS_OF_BYTE = 1_000_000, 8
"""A record may have so many rows, or as many as bits: runs, nulls and compressed columns need few bytes."""
_FILE = b"ARROW1"
"""The first bytes of the other form of Arrow's batches."""


class _Where(NamedTuple):
    """The places of a column, from the batch inwards, and whether it has exactly the type of its kind."""

    places: list[int]
    exact: bool


class Batch(NamedTuple):
    """The requested columns of a batch of ``height`` rows."""

    height: int
    columns: list[Column]


@dataclass(slots=True)
class Atoms:
    """The events of a run of records.

    ``rows`` are the indexes of the records that the events are in, ``places`` their places there; ``bad`` are the
    records that are no atoms, with the reason. ``parts`` are the columns of each batch, by ``kinds``; ``inside`` are
    the layouts of those of rows.
    """

    kinds: Mapping[str, Kind]
    inside: Mapping[str, Layout]
    records: Sequence[bytes]
    rows: NDArray[np.intp]
    places: NDArray[np.int64]
    parts: list[list[Column]]
    bad: list[tuple[int, str]]

    def __len__(self) -> int:
        return len(self.rows)

    def columns(self) -> dict[str, Column]:
        """Those of all records together. Columns within a union have the rows of their alternative only."""
        return {
            name: joined(kind, [part[number] for part in self.parts], self.records, self.inside.get(name))
            for number, (name, kind) in enumerate(self.kinds.items())
        }


class AtomReader:
    """Reads atoms of any of these layouts, which have the same columns; of several that fit the first.

    Schemas that it has met make it faster, no more.
    """

    def __init__(self, *layouts: Layout) -> None:
        self.layouts = layouts
        self.kinds: dict[str, Kind] = {name: kind for name, (_, kind) in layouts[0].columns.items()}
        self._has_texts = not {"text", "texts", "rows"}.isdisjoint(self.kinds.values())
        self._schemas: dict[bytes, pa.Schema] = {}
        self._found: tuple[pa.Schema | None, tuple[Layout, list[_Where | None]]] = (None, (layouts[0], []))

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint; without it that would hold the schemas met so far."""
        return "; ".join(f"{sorted(layout.columns.items())} {layout.alternatives}" for layout in self.layouts)

    def read(self, payloads: Sequence[bytes]) -> Atoms:
        """Read a run of records; never raises for their contents."""
        records = BinaryColumn.of(payloads) if self._has_texts else payloads  # texts need one buffer
        found: list[tuple[int, list[Batch]]] = []
        bad: list[tuple[int, str]] = []
        for index in range(len(records)):
            try:
                found.append((index, self._batches_of(records, index)))
            except DeserializationError as error:
                bad.append((index, str(error)))
        heights = [sum(batch.height for batch in batches) for _, batches in found]
        rows = np.repeat(np.array([index for index, _ in found], np.intp), heights)
        places = np.concatenate([np.empty(0, np.int64), *(np.arange(height) for height in heights)])
        parts = [batch.columns for _, batches in found for batch in batches]
        return Atoms(self.kinds, self.layouts[0].inside, records, rows, places, parts, bad)

    def events_in(self, payload: bytes) -> int:
        """How many events a record holds; 1 if it is no atom, or not of these columns."""
        try:
            return sum(batch.height for batch in self._batches_of(BinaryColumn.of([payload]), 0))
        except DeserializationError:
            return 1

    def batch_of(self, data: Any) -> pa.RecordBatch:
        """The batch of a record (any buffer); raises ``DeserializationError``."""
        return self.batches_of(data)[0]

    def batches_of(self, data: Any) -> list[pa.RecordBatch]:
        """The batches of a record (any buffer), one where no other number fits; raises ``DeserializationError``."""
        try:
            return self._read(pa.py_buffer(data))
        except REFUSALS as error:
            if bytes(data[: len(_FILE)]) == _FILE:
                raise DeserializationError(
                    "an Arrow file, not a stream: write it with pyarrow.ipc.new_stream"
                ) from error
            raise DeserializationError(f"not an Arrow stream of one batch: {first_line(error)}") from error

    def _read(self, data: pa.Buffer) -> list[pa.RecordBatch]:
        source = pa.BufferReader(data)
        first = pa.ipc.read_message(source)
        if first.type != "schema":
            raise DeserializationError(f"an Arrow stream begins with its schema, not with a {first.type}")
        key = first.metadata.to_pybytes()
        schema = self._schemas.get(key)
        if schema is None:
            schema = pa.ipc.read_schema(first)
            if not schema.equals(pa.ipc.open_stream(data).schema):  # a stream is turned into the machine's byte order
                raise DeserializationError("an atom of the other byte order")
            if len(self._schemas) < _MAX_SCHEMAS:
                self._schemas[key] = schema
        second = _next(source)
        if second is not None:
            _check_inflation(inflated_bytes(second))
        if second is not None and second.type == "record batch":
            third = _next(source)
            if third is None:
                batch = _valid(pa.ipc.read_record_batch(second, schema))
                return [batch] if batch.num_rows <= _ROWS else _few_enough([batch], data.size)
            reason = f"an atom holds one batch; a {third.type} follows"
        else:
            other = "" if second is None else f", without a {second.type}"
            reason = f"an atom is one schema and one batch{other}"
        if self.layouts[0].refusal is None:
            raise DeserializationError(reason)
        _check_inflation(sum(inflated_bytes(message) for message in _messages(data)))
        return _few_enough([_valid(batch) for batch in pa.ipc.open_stream(data)], data.size)

    def _batches_of(self, records: Sequence[bytes], index: int) -> list[Batch]:
        return [self._columns_of(batch, records) for batch in self.batches_of(_bytes_at(records, index))]

    def _columns_of(self, batch: pa.RecordBatch, records: Sequence[bytes]) -> Batch:
        schema = batch.schema
        if self._found[0] is None or not (schema is self._found[0] or schema.equals(self._found[0])):
            self._found = schema, self._layout_of(schema)
        layout, places = self._found[1]
        tops: dict[int, Any] = {}
        name, nulls = "", layout.refusal is not None
        columns: list[Column] = []
        try:
            for at, (name, (path, kind)) in zip(places, layout.columns.items(), strict=True):
                if at is None:
                    default, inside = layout.defaults[name], layout.inside.get(name)
                    columns.append(absent_column(kind, default, batch.num_rows, inside))
                    continue
                array = _array(batch, tops, at.places, nulls) if path else batch.to_struct_array()
                read = read_column if at.exact else adapted_column
                columns.append(read(array, name, kind, layout, records))
        except REFUSALS as error:
            raise DeserializationError(f"column {name} cannot be read: {first_line(error)}") from error
        return Batch(batch.num_rows, columns)

    def _layout_of(self, schema: pa.Schema) -> tuple[Layout, list[_Where | None]]:
        """The first layout that fits, and where its columns are; None for those that may be missing, and are."""
        reasons: list[str] = []
        for layout in self.layouts:
            try:
                return layout, [
                    None if name in layout.defaults and _is_missing(schema, path)
                    else _places(schema, path, name, kind, layout)
                    for name, (path, kind) in layout.columns.items()
                ]  # fmt: skip
            except (DeserializationError, *REFUSALS) as error:  # names are anybody's bytes too
                reasons.append(str(error))
        raise DeserializationError("; ".join(reasons))


def _bytes_at(records: Sequence[bytes], index: int) -> Any:
    """A record where it lies."""
    if isinstance(records, BinaryColumn):
        return records.buffer[records.starts[index] : records.ends[index]]
    return records[index]


def _next(source: Any) -> Any:
    """The next message of a stream; None at its end."""
    try:
        return pa.ipc.read_message(source)
    except EOFError:
        return None


def _messages(data: pa.Buffer) -> Iterator[Any]:
    """All messages of a stream."""
    source = pa.BufferReader(data)
    while (message := _next(source)) is not None:
        yield message


def _check_inflation(size: int) -> None:
    """A few bytes may claim to be gigabytes, which would be allocated before the claim is looked at."""
    if size > INFLATED_BYTES:
        raise DeserializationError(f"compressed buffers of {size} bytes; {INFLATED_BYTES} may be")


def _few_enough(batches: list[pa.RecordBatch], size: int) -> list[pa.RecordBatch]:
    """The batches, unless they claim rows that their bytes cannot have: those of the null type need none."""
    rows = sum(batch.num_rows for batch in batches)
    if rows > max(_ROWS, _ROWS_OF_BYTE * size):
        raise DeserializationError(f"{size} bytes that claim to be {rows} rows")
    return batches


def _valid(batch: pa.RecordBatch) -> pa.RecordBatch:
    batch.validate()  # lengths below zero would end the process at the first slice
    return batch


def _places(schema: pa.Schema, path: Path, full: str, kind: Kind, layout: Layout) -> _Where:
    """Where the column is; types are checked before arrays, which not all of them can be made into."""
    places: list[int] = []
    fields: Any = schema
    for depth, name in enumerate(path, start=1):
        fits = True
        at = layout.alternatives.index(name) if _is_union(fields, layout) else fields.get_field_index(name)
        if at < 0:
            raise DeserializationError(f"no column {'.'.join(path[:depth])}, or more than one")
        places.append(at)
        fields = fields.field(at).type
        if depth == len(path) and layout.refusal is not None:
            reason = layout.refusal(full, fields)
            if reason is not None:
                raise DeserializationError(reason)
        elif depth < len(path):
            fits = pa.types.is_struct(fields) or _is_union(fields, layout)
        elif kind in ("struct", "union"):
            fits = pa.types.is_struct(fields) if kind == "struct" else _is_union(fields, layout)
        else:
            fits = fields == TYPES[kind]
        if not fits:
            expected = TYPES.get(kind, kind) if depth == len(path) else "struct"
            raise DeserializationError(f"column {'.'.join(path[:depth])} is {fields}, not {expected}")
    return _Where(places, layout.refusal is None or fields == TYPES.get(kind))


def _is_missing(schema: pa.Schema, path: Path) -> bool:
    """Whether there is no such column, or no struct that it would be in."""
    fields: Any = schema
    for depth, name in enumerate(path, start=1):
        found = fields.get_all_field_indices(name)
        if len(found) != 1 or depth == len(path):
            return not found
        fields = fields.field(found[0]).type
        if not pa.types.is_struct(fields):
            return False
    return False


def _is_union(type: Any, layout: Layout) -> bool:
    """Whether it is the union of the layout."""
    if not isinstance(type, pa.DenseUnionType):
        return False
    names = tuple(type.field(number).name for number in range(type.num_fields))
    return names == layout.alternatives and list(type.type_codes) == list(range(len(names)))


def _array(batch: pa.RecordBatch, tops: dict[int, Any], places: list[int], nulls: bool) -> Any:
    """The column there; ``tops`` keeps those of the batch itself. ``nulls``: it is null where a struct above it is."""
    array = tops.get(places[0])
    if array is None:
        array = tops[places[0]] = batch.column(places[0])
    for at in places[1:]:
        array = field_or_null(array, at) if nulls and array.buffers()[0] is not None else array.field(at)
    return array
