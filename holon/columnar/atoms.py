"""Arrow record batches: a record of the log holds one as an Arrow IPC stream; its columns are read in place.

An atom is a stream of one schema and one record batch. It is dead as a whole if it is not, or if a requested
column is missing or of another type. Of other columns only the lengths are checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holon.columnar.atom_columns import TYPES, Column, Kind, Layout, Path, joined, read_column
from holon.columnar.payloads import BinaryColumn
from holon.errors import DeserializationError

_MAX_SCHEMAS = 16
_REFUSALS = (pa.ArrowException, OSError, EOFError)
"""Arrow's errors on bytes that are not its own."""


@dataclass(slots=True)
class Atoms:
    """The events of a run of records.

    ``rows`` are the indexes of the records that the events are in, ``places`` their places there; ``bad`` are the
    records that are no atoms, with the reason. ``parts`` are the columns of each record, by ``kinds``.
    """

    kinds: Mapping[str, Kind]
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
            name: joined(kind, [part[number] for part in self.parts], self.records)
            for number, (name, kind) in enumerate(self.kinds.items())
        }


class AtomReader:
    """Reads atoms of any of these layouts, which have the same columns; of several that fit the first.

    Schemas that it has met make it faster, no more.
    """

    def __init__(self, *layouts: Layout) -> None:
        self.layouts = layouts
        self.kinds: dict[str, Kind] = {name: kind for name, (_, kind) in layouts[0].columns.items()}
        self._schemas: dict[bytes, pa.Schema] = {}
        self._found: tuple[pa.Schema | None, tuple[Layout, list[list[int]]]] = (None, (layouts[0], []))

    def read(self, payloads: Sequence[bytes]) -> Atoms:
        """Read a run of records; never raises for their contents."""
        records = BinaryColumn.of(payloads) if "text" in self.kinds.values() else payloads  # texts need one buffer
        found: list[tuple[int, int, list[Column]]] = []
        bad: list[tuple[int, str]] = []
        for index in range(len(records)):
            try:
                found.append((index, *self._columns_of(records, index)))
            except DeserializationError as error:
                bad.append((index, str(error)))
        heights = [height for _, height, _ in found]
        rows = np.repeat(np.array([index for index, _, _ in found], np.intp), heights)
        places = np.concatenate([np.empty(0, np.int64), *(np.arange(height) for height in heights)])
        return Atoms(self.kinds, records, rows, places, [columns for _, _, columns in found], bad)

    def events_in(self, payload: bytes) -> int:
        """How many events a record holds; 1 if it is no atom, or not of these columns."""
        try:
            return self._columns_of(BinaryColumn.of([payload]), 0)[0]
        except DeserializationError:
            return 1

    def batch_of(self, data: Any) -> pa.RecordBatch:
        """The batch of a record (any buffer); raises ``DeserializationError``."""
        try:
            return self._read(pa.py_buffer(data))
        except _REFUSALS as error:
            raise DeserializationError(f"not an Arrow stream of one batch: {_line(error)}") from error

    def _read(self, data: pa.Buffer) -> pa.RecordBatch:
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
        second = pa.ipc.read_message(source)
        if second.type != "record batch":
            raise DeserializationError(f"an atom is one schema and one batch, without a {second.type}")
        batch = pa.ipc.read_record_batch(second, schema)
        batch.validate()  # lengths below zero would end the process at the first slice
        try:
            more = pa.ipc.read_message(source)
        except EOFError:
            return batch
        raise DeserializationError(f"an atom holds one batch; a {more.type} follows")

    def _columns_of(self, records: Sequence[bytes], index: int) -> tuple[int, list[Column]]:
        batch = self.batch_of(_bytes_at(records, index))
        schema = batch.schema
        if self._found[0] is None or not (schema is self._found[0] or schema.equals(self._found[0])):
            self._found = schema, self._layout_of(schema)
        layout, places = self._found[1]
        tops: dict[int, Any] = {}
        try:
            return batch.num_rows, [
                read_column(_array(batch, tops, at), name, kind, layout, records)
                for at, (name, (_, kind)) in zip(places, layout.columns.items(), strict=True)
            ]
        except _REFUSALS as error:
            raise DeserializationError(f"damaged: {_line(error)}") from error

    def _layout_of(self, schema: pa.Schema) -> tuple[Layout, list[list[int]]]:
        """The first layout that fits, and where its columns are."""
        reasons: list[str] = []
        for layout in self.layouts:
            try:
                return layout, [_places(schema, path, kind, layout) for path, kind in layout.columns.values()]
            except (DeserializationError, UnicodeDecodeError) as error:  # names are anybody's bytes too
                reasons.append(str(error))
        raise DeserializationError("; ".join(reasons))


def _bytes_at(records: Sequence[bytes], index: int) -> Any:
    """A record where it lies."""
    if isinstance(records, BinaryColumn):
        return records.buffer[records.starts[index] : records.ends[index]]
    return records[index]


def _places(schema: pa.Schema, path: Path, kind: Kind, layout: Layout) -> list[int]:
    """Where the column is; types are checked before arrays, which not all of them can be made into."""
    places: list[int] = []
    fields: Any = schema
    for depth, name in enumerate(path, start=1):
        at = layout.alternatives.index(name) if _is_union(fields, layout) else fields.get_field_index(name)
        if at < 0:
            raise DeserializationError(f"no column {'.'.join(path[:depth])}, or more than one")
        places.append(at)
        fields = fields.field(at).type
        if depth < len(path):
            fits = pa.types.is_struct(fields) or _is_union(fields, layout)
        elif kind in ("struct", "union"):
            fits = pa.types.is_struct(fields) if kind == "struct" else _is_union(fields, layout)
        else:
            fits = fields == TYPES[kind]
        if not fits:
            expected = TYPES.get(kind, kind) if depth == len(path) else "struct"
            raise DeserializationError(f"column {'.'.join(path[:depth])} is {fields}, not {expected}")
    return places


def _is_union(type: Any, layout: Layout) -> bool:
    """Whether it is the union of the layout."""
    if not isinstance(type, pa.DenseUnionType):
        return False
    names = tuple(type.field(number).name for number in range(type.num_fields))
    return names == layout.alternatives and list(type.type_codes) == list(range(len(names)))


def _array(batch: pa.RecordBatch, tops: dict[int, Any], places: list[int]) -> Any:
    """The column there; ``tops`` keeps those of the batch itself."""
    array = tops.get(places[0])
    if array is None:
        array = tops[places[0]] = batch.column(places[0])
    for at in places[1:]:
        array = array.field(at)
    return array


def single(batch: pa.RecordBatch, place: int) -> bytes:
    """An atom of one event of a batch."""
    return write_atom(batch.slice(place, 1))


def write_atom(batch: pa.RecordBatch) -> bytes:
    """A batch as a record of the log."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _line(error: BaseException) -> str:
    text = str(error).splitlines()
    return text[0][:200] if text else type(error).__name__
