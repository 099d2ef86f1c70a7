"""Arrow record batches for both oracles: the events of a record as plain values, by code that is not the engine's.

A record is dead as a whole (one event) unless it is an Arrow stream of one batch in little-endian order. It has all
columns that the query needs, of the right types. The events are a dense union ``event``, or a struct for each kind
beside ``event_type``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.ipc

SUBJECTS = ("person", "auction", "bid")
TIMES = ("dateTime", "expires")
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999."""

Event = tuple[int, dict[str, Any]]
"""Kind, and the fields that the query needs; times in epoch ms."""


def atom_events(value: bytes, needs: Sequence[Mapping[str, type]]) -> list[Event | None]:
    """The events of a record in order, None for one that is dead. ``needs``: of each kind, fields and their types."""
    batch = _batch(value)
    if batch is None:
        return [None]
    if _fits_union(batch, needs):
        union = batch.column("event")
        kinds, places = union.type_codes.to_pylist(), union.offsets.to_pylist()
        structs = [union.field(number) for number in range(len(SUBJECTS))]
    elif _fits(batch, needs):
        kinds = batch.column("event_type").to_pylist()
        structs, places = [batch.column(name) for name in SUBJECTS], list(range(len(kinds)))
    else:
        return [None]
    readers = [_reader(struct, needs[kind]) for kind, struct in enumerate(structs)]
    if None in readers:
        return [None]
    return [_event(kind, place, readers) for kind, place in zip(kinds, places, strict=True)]


def _batch(value: bytes) -> pa.RecordBatch | None:
    try:
        stream = pa.ipc.open_stream(value)
        if not stream.schema.equals(pa.ipc.read_schema(pa.ipc.read_message(value))):
            return None  # of the other byte order
        batches = list(stream)
        for batch in batches:
            batch.validate()
    except (pa.ArrowException, OSError):
        return None
    return batches[0] if len(batches) == 1 else None


def _fits(batch: pa.RecordBatch, needs: Sequence[Mapping[str, type]]) -> bool:
    """Whether there is every column, once, and of its type."""
    if batch.schema.get_field_index("event_type") < 0 or batch.column("event_type").type != pa.int8():
        return False
    for name, wanted in zip(SUBJECTS, needs, strict=True):
        at = batch.schema.get_field_index(name)
        if at < 0 or not _has(batch.schema.field(at).type, wanted):
            return False
    return True


def _fits_union(batch: pa.RecordBatch, needs: Sequence[Mapping[str, type]]) -> bool:
    """Whether there is a column ``event`` of persons, auctions and bids with what is needed of them."""
    at = batch.schema.get_field_index("event")
    of: Any = batch.schema.field(at).type if at >= 0 else None
    if not isinstance(of, pa.DenseUnionType) or of.type_codes != [0, 1, 2]:
        return False
    try:
        names = [of.field(number).name for number in range(of.num_fields)]
    except UnicodeDecodeError:
        return False
    return names == [*SUBJECTS] and all(_has(of.field(kind).type, wanted) for kind, wanted in enumerate(needs))


def _has(struct: pa.DataType, wanted: Mapping[str, type]) -> bool:
    if not pa.types.is_struct(struct):
        return False
    places = {field: struct.get_field_index(field) for field in wanted}
    return all(at >= 0 and struct.field(at).type == _type(field, wanted[field]) for field, at in places.items())


def _type(field: str, of: type) -> pa.DataType:
    if field in TIMES:
        return pa.timestamp("ms")
    return pa.int64() if of is int else pa.string()


def _reader(struct: pa.StructArray, wanted: Mapping[str, type]) -> Callable[[int], dict[str, Any] | None] | None:
    """Gives the fields at a place, None for a null; itself None where texts lie outside of their buffer."""
    there = struct.is_valid().to_pylist()
    columns: dict[str, list[Any]] = {}
    for field in wanted:
        values = _values(struct.field(field))
        if values is None:
            return None
        columns[field] = values

    def read(place: int) -> dict[str, Any] | None:
        if not 0 <= place < len(there) or not there[place]:
            return None
        found = {field: values[place] for field, values in columns.items()}
        times = (found[field] for field in found if field in TIMES)
        usable = None not in found.values() and all(FIRST_MS <= time <= LAST_MS for time in times)
        return found if usable else None

    return read


def _values(column: Any) -> list[Any] | None:
    """Integers, times in epoch ms, texts; None for what is null or no UTF-8."""
    if pa.types.is_timestamp(column.type):
        return column.view(pa.int64()).to_pylist()
    if not pa.types.is_string(column.type):
        return column.to_pylist()
    if len(column):
        ends = pa.Array.from_buffers(pa.int32(), len(column) + 1, [None, column.buffers()[1]], offset=column.offset)
        bounds = ends.to_pylist()
        size = 0 if column.buffers()[2] is None else column.buffers()[2].size
        if bounds[0] < 0 or bounds[-1] > size or bounds != sorted(bounds):
            return None
    return list(_texts(column.view(pa.binary()).to_pylist()))


def _texts(values: list[bytes | None]) -> Iterator[str | None]:
    for value in values:
        try:
            yield None if value is None else value.decode("utf-8")
        except UnicodeDecodeError:
            yield None


def _event(kind: int | None, place: int, readers: Sequence[Any]) -> Event | None:
    if kind is None or not 0 <= kind < len(SUBJECTS):
        return None
    found = readers[kind](place)
    return None if found is None else (kind, found)


def time_text(time_ms: int) -> str:
    """A time as it is on the wire: `yyyy-MM-dd HH:mm:ss.fff`."""
    from datetime import UTC, datetime, timedelta

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}".zfill(19) + f".{time_ms % 1000:03d}"
