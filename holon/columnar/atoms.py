"""Atoms of Arrow: a record of the log holds a batch of events as an Arrow IPC stream; its columns are read in place.

An atom is a stream of one schema and one record batch. It is dead as a whole if it is not, or if a column that is asked
for is missing or of another type. Of other columns only the lengths are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holon.columnar.payloads import Payloads, Texts
from holon.errors import DecodeFailure

Kind = Literal["int8", "int", "float", "bool", "time", "text", "struct"]
"""Of a struct only its validity is read. A time is ``timestamp[ms]`` without a zone: its column holds epoch ms."""
Path = tuple[str, ...]
Valid = NDArray[np.bool_] | None
"""Which rows are not null; None: all."""

TYPES: dict[Kind, pa.DataType] = {
    "int8": pa.int8(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "time": pa.timestamp("ms"),
    "text": pa.string(),
}  # fmt: skip
_DTYPES: dict[Kind, Any] = {"int8": np.int8, "int": np.int64, "float": np.float64, "time": np.int64}
_MAX_SCHEMAS = 16
_REFUSALS = (pa.ArrowException, OSError, EOFError)
"""What Arrow says to bytes that are not its own."""


@dataclass(slots=True)
class Column:
    """``texts`` have one buffer for all rows; else ``numbers`` (none for a struct)."""

    numbers: NDArray[Any] | None
    texts: Texts | None
    valid: Valid


@dataclass(slots=True)
class Atoms:
    """The events of a run of records.

    ``rows`` are the indexes of the records that the events are in, ``places`` their places there; ``bad`` are the
    records that are no atoms, with the reason.
    """

    rows: NDArray[np.intp]
    places: NDArray[np.int64]
    columns: dict[Path, Column]
    bad: list[tuple[int, str]]

    def __len__(self) -> int:
        return len(self.rows)


class AtomReader:
    """Reads these columns, named by their path through structs. Schemas that it has met make it faster, no more."""

    def __init__(self, wanted: Mapping[Path, Kind]) -> None:
        self.wanted = dict(wanted)
        self._schemas: dict[bytes, pa.Schema] = {}
        self._places: tuple[pa.Schema | None, dict[Path, list[int]]] = (None, {})

    def read(self, payloads: Sequence[bytes]) -> Atoms:
        """Read a run of records; never raises for their contents."""
        records = Payloads.of(payloads) if "text" in self.wanted.values() else payloads  # texts need one buffer
        found: list[tuple[int, int, list[Column]]] = []
        bad: list[tuple[int, str]] = []
        for index in range(len(records)):
            try:
                found.append((index, *self._columns_of(records, index)))
            except DecodeFailure as error:
                bad.append((index, str(error)))
        heights = [height for _, height, _ in found]
        rows = np.repeat(np.array([index for index, _, _ in found], np.intp), heights)
        places = np.concatenate([np.empty(0, np.int64), *(np.arange(height) for height in heights)])
        columns = {
            path: _joined(self.wanted[path], [columns[number] for _, _, columns in found], heights, records)
            for number, path in enumerate(self.wanted)
        }
        return Atoms(rows, places, columns, bad)

    def events_in(self, payload: bytes) -> int:
        """How many events a record holds; 1 if it is no atom, or not of these columns."""
        try:
            return self._columns_of(Payloads.of([payload]), 0)[0]
        except DecodeFailure:
            return 1

    def batch_of(self, data: Any) -> pa.RecordBatch:
        """The batch of a record (any buffer); raises ``DecodeFailure``."""
        try:
            return self._read(pa.py_buffer(data))
        except _REFUSALS as error:
            raise DecodeFailure(f"not an Arrow stream of one batch: {_line(error)}") from error

    def _read(self, data: pa.Buffer) -> pa.RecordBatch:
        source = pa.BufferReader(data)
        first = pa.ipc.read_message(source)
        if first.type != "schema":
            raise DecodeFailure(f"an Arrow stream begins with its schema, not with a {first.type}")
        key = first.metadata.to_pybytes()
        schema = self._schemas.get(key)
        if schema is None:
            schema = pa.ipc.read_schema(first)
            if not schema.equals(pa.ipc.open_stream(data).schema):  # a stream is turned into the machine's byte order
                raise DecodeFailure("an atom of the other byte order")
            if len(self._schemas) < _MAX_SCHEMAS:
                self._schemas[key] = schema
        second = pa.ipc.read_message(source)
        if second.type != "record batch":
            raise DecodeFailure(f"an atom is one schema and one batch, without a {second.type}")
        batch = pa.ipc.read_record_batch(second, schema)
        batch.validate()  # lengths below zero would end the process at the first slice
        try:
            more = pa.ipc.read_message(source)
        except EOFError:
            return batch
        raise DecodeFailure(f"an atom holds one batch; a {more.type} follows")

    def _columns_of(self, records: Sequence[bytes], index: int) -> tuple[int, list[Column]]:
        batch = self.batch_of(_bytes_at(records, index))
        schema = batch.schema
        if self._places[0] is None or not (schema is self._places[0] or schema.equals(self._places[0])):
            self._places = schema, {path: _places(schema, path, kind) for path, kind in self.wanted.items()}
        places = self._places[1]
        tops: dict[int, Any] = {}
        try:
            return batch.num_rows, [
                self._column(_array(batch, tops, places[path]), path, kind, records)
                for path, kind in self.wanted.items()
            ]
        except _REFUSALS as error:
            raise DecodeFailure(f"damaged: {_line(error)}") from error

    def _column(self, array: Any, path: Path, kind: Kind, records: Sequence[bytes]) -> Column:
        name = ".".join(path)
        buffers, count, skip = array.buffers(), len(array), array.offset
        valid = _bits(buffers[0], skip, count, name)
        if kind == "struct":
            return Column(None, None, valid)
        if kind == "text":
            assert isinstance(records, Payloads)
            return _texts(buffers, skip, count, valid, name, records)
        if kind == "bool":
            bits = _bits(buffers[1], skip, count, name)
            return Column(np.zeros(count, np.bool_) if bits is None else bits, None, valid)
        return Column(_numbers(buffers[1], _DTYPES[kind], skip, count, name), None, valid)


def _bytes_at(records: Sequence[bytes], index: int) -> Any:
    """A record where it lies."""
    if isinstance(records, Payloads):
        return records.buffer[records.starts[index] : records.ends[index]]
    return records[index]


def _places(schema: pa.Schema, path: Path, kind: Kind) -> list[int]:
    """Where the column is; types are looked at before arrays, which not all of them can be made into."""
    places, fields = [], schema
    for depth, name in enumerate(path, start=1):
        at = fields.get_field_index(name)
        if at < 0:
            raise DecodeFailure(f"no column {'.'.join(path[:depth])}, or more than one")
        places.append(at)
        found = fields.field(at).type
        wanted = "struct" if depth < len(path) else kind
        if not (pa.types.is_struct(found) if wanted == "struct" else found == TYPES[wanted]):
            raise DecodeFailure(f"column {'.'.join(path[:depth])} is {found}, not {TYPES.get(wanted, wanted)}")
        fields = found
    return places


def _array(batch: pa.RecordBatch, tops: dict[int, Any], places: list[int]) -> Any:
    """The column there; ``tops`` keeps those of the batch itself."""
    array = tops.get(places[0])
    if array is None:
        array = tops[places[0]] = batch.column(places[0])
    for at in places[1:]:
        array = array.field(at)
    return array


def _numbers(buffer: pa.Buffer | None, dtype: Any, skip: int, count: int, name: str) -> NDArray[Any]:
    size = np.dtype(dtype).itemsize
    if count == 0:
        return np.empty(0, dtype)
    if buffer is None or buffer.size < (skip + count) * size:
        raise DecodeFailure(f"column {name} is shorter than its batch")
    return np.frombuffer(buffer, dtype, count, skip * size)


def _bits(buffer: pa.Buffer | None, skip: int, count: int, name: str) -> Valid:
    if buffer is None or count == 0:
        return None
    if buffer.size * 8 < skip + count:
        raise DecodeFailure(f"column {name} is shorter than its batch")
    packed = np.frombuffer(buffer, np.uint8, (skip + count + 7) // 8)
    return np.unpackbits(packed, bitorder="little", count=skip + count)[skip:].view(np.bool_)


def _texts(buffers: Sequence[Any], skip: int, count: int, valid: Valid, name: str, records: Payloads) -> Column:
    """Places in the records' own buffer, where Arrow has not copied the data out of it."""
    if count == 0:
        return Column(None, Texts(records.buffer, np.empty(0, np.int64), np.empty(0, np.int64)), valid)
    offsets = _numbers(buffers[1], np.int32, skip, count + 1, name).astype(np.int64)
    data = np.empty(0, np.uint8) if buffers[2] is None else np.frombuffer(buffers[2], np.uint8)
    first, last = int(offsets[0]), int(offsets[-1])
    if first < 0 or last > len(data) or bool((offsets[1:] < offsets[:-1]).any()):
        raise DecodeFailure(f"column {name} has texts beyond its end")
    at = data.ctypes.data - records.buffer.ctypes.data
    if at >= 0 and at + len(data) <= len(records.buffer):
        texts = Texts(records.buffer, offsets[:-1] + at, offsets[1:] + at)
    else:
        whole = Payloads.of([data.tobytes()])
        texts = Texts(whole.buffer, offsets[:-1], offsets[1:])
    if last > first and int(data[first:last].max()) > 0x7F:
        valid = _utf8(data, offsets, valid)
    return Column(None, texts, valid)


def _utf8(data: NDArray[np.uint8], offsets: NDArray[np.int64], valid: Valid) -> Valid:
    """Valid rows whose text is UTF-8."""
    right = np.ones(len(offsets) - 1, np.bool_) if valid is None else valid.copy()
    for row in np.flatnonzero(right).tolist():
        try:
            data[offsets[row] : offsets[row + 1]].tobytes().decode("utf-8")
        except UnicodeDecodeError:
            right[row] = False
    return right


def _joined(kind: Kind, parts: list[Column], heights: list[int], records: Sequence[bytes]) -> Column:
    if len(parts) == 1:
        return parts[0]
    valid = None
    if any(part.valid is not None for part in parts):
        masks = [
            np.ones(height, np.bool_) if p.valid is None else p.valid for p, height in zip(parts, heights, strict=True)
        ]
        valid = np.concatenate(masks)
    if kind == "struct":
        return Column(None, None, valid)
    if kind == "text":
        assert isinstance(records, Payloads)
        return Column(None, _joined_texts([part.texts for part in parts if part.texts is not None], records), valid)
    dtype = np.bool_ if kind == "bool" else _DTYPES[kind]
    return Column(np.concatenate([np.empty(0, dtype), *_arrays(parts)]), None, valid)


def _arrays(parts: Iterable[Column]) -> Iterator[NDArray[Any]]:
    return (part.numbers for part in parts if part.numbers is not None)


def _joined_texts(parts: list[Texts], records: Payloads) -> Texts:
    nothing = np.empty(0, np.int64)
    if any(part.buffer is not records.buffer for part in parts):
        whole = Payloads.joined([Payloads(part.buffer, part.starts, part.ends) for part in parts])
        return Texts(whole.buffer, whole.starts, whole.ends)
    starts, ends = ([nothing, *(getattr(part, side) for part in parts)] for side in ("starts", "ends"))
    return Texts(records.buffer, np.concatenate(starts), np.concatenate(ends))


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
