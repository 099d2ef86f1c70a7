"""JSON records as columns: by compiled loops where the process has them, and by msgspec, which both agree with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.columnar.event_types import ITSELF, getter, has_fields, is_struct
from holon.columnar.loops import Loops, installed
from holon.columnar.payloads import BinaryColumn
from holon.columnar.record_parts import RecordParts
from holon.columnar.structs.columns import Lists, column_of, with_values
from holon.columnar.structs.kinds import PRESENT, SPAN
from holon.columnar.structs.lazy import LazyColumn
from holon.columnar.structs.plan import ITEM, column_kinds, event_types_of, fields_of, plan
from holon.columnar.structs.reader import StructReader
from holon.errors import DeserializationError, JobError
from holon.formats.batch import Column, take_columns
from holon.formats.formats import Decoded, MarkedFormat, decode_each, describe_fields
from holon.formats.record_fields import RecordFields

E = TypeVar("E")
Step = Callable[[Any], Any]
Path = tuple[str, ...]

TOO_LARGE = "does not fit in 64 bits"
"""The end of the reason of a record that ``Json`` takes."""
FEW = 24
"""Records of a run below which msgspec is as quick."""


class JsonColumns(MarkedFormat[E]):
    """One JSON document a record, decoded to columns: one for each field of the Struct ``type``.

    ``type`` may be a union of Structs with tags: its columns are those that a field of such a type has, by the names
    behind the dot: ``"type"`` of the tags, ``"Cat"`` and ``"Cat.lives"``. No integer of these is too large.

    int, float and bool fields become numpy arrays (int64, float64, bool), str fields ``Texts``, a sequence of str;
    everything else, also what may be None, a sequence of objects. Fields of a Struct that each record has are columns
    too: ``"place.lat"``. If that Struct may be None, they are sequences of objects, and None with it. A union of
    Structs has a column of tags, ``"pet.type"``, and columns of each Struct, ``"pet.Cat"`` and ``"pet.Cat.lives"``,
    None where it is another one. A list's column is of lists, and so are those of its items' fields,
    ``"items.price"``; ``flat()`` of these, and of lists of plain values, gives all items as one column. An integer
    beyond 64 bits is a bad record. Marked fields are columns of the record's key, headers, log time (int64, or a list
    of datetimes), and of whether it has no value.

    A dataclass, TypedDict or NamedTuple has the columns of such a Struct, where it is plain: it has no
    ``__post_init__``, no key may be missing, and no code of its own reads fields. Its column ``""`` has the events
    themselves, as msgspec makes them.
    """

    compiled = True

    def __init__(self, type: type[E] | Any) -> None:
        if not event_types_of(type):
            raise JobError(
                f"JsonColumns needs a msgspec.Struct, a union of Structs with tags, or a plain dataclass, TypedDict or "
                f"NamedTuple, got {type!r}"
            )
        super().__init__(type)
        inner = self.payload_type
        if self.record_fields is not None and hasattr(type, "__post_init__"):
            raise JobError(
                f"{type.__name__} checks itself (__post_init__): with marked fields, only Json({type.__name__})"
            )
        self._decode = msgspec.json.Decoder(inner).decode
        self._plan = plan(inner)
        planned = () if self._plan is None else list(fields_of(self._plan))
        steps = {one.path: one.step for one in planned if one.step is not None}
        inside = [
            one
            for one in planned
            if one.has_column and (one.may_lack_parent or one.lists or any(each in steps for each in _ways(one.path)))
        ]
        getters = {one.name: _value_or_none(one.path, steps) for one in inside}
        self._shapes = {one.name: one.shape for one in planned if one.has_column and one.shape[1]}
        kinds = column_kinds(inner)
        if self._plan is not None and len(kinds) < sum(one.has_column for one in planned):
            raise JobError(f"{type!r}: two of its columns have one name; a tag's field and Structs have to differ")
        self._fields = [(name, kind, getters.get(name) or getter(type, name)) for name, kind in kinds.items()]
        self._has_events = has_fields(inner) and not is_struct(inner)
        self._integers = [(name, value_of) for name, kind, value_of in self._fields if kind == "int"]
        self._reader: StructReader | None = None
        self.slow_records = 0
        """Records so far that the compiled loop has left to msgspec, in this process."""

    @property
    def is_compiled(self) -> bool:
        """Whether compiled loops read such records, where there are some; False if all of them are for msgspec."""
        return self._plan is not None and self._plan.slot != SPAN

    def reader(self, loops: Loops) -> StructReader | None:
        """The reader of records by these loops; None if all of them are for msgspec."""
        if self._reader is None and self._plan is not None and self.is_compiled:
            self._reader = StructReader(loops, self._plan)
        return self._reader

    def decode_records(
        self, payloads: Sequence[bytes], timestamps_ms: NDArray[np.int64], parts: RecordParts | None
    ) -> Decoded[E]:
        fields = self.record_fields
        assert fields is not None, "requested"
        parts = RecordParts() if parts is None else parts
        found = self._decode_values(fields.filled(payloads, parts))
        return with_record_columns(fields, found, len(payloads), timestamps_ms, parts)

    def _decode_values(self, payloads: Sequence[bytes]) -> Decoded[E]:
        loops = installed()
        reader = None if loops is None or len(payloads) < FEW else self.reader(loops)
        if reader is not None:
            return self._decode_compiled(reader, BinaryColumn.of(payloads))
        events, rows, bad = decode_each(payloads, self._decode)
        try:
            return Decoded(rows, columns=self._columns(events), bad=bad)
        except OverflowError:
            events, rows, bad = decode_each(payloads, self._decode_64)
            return Decoded(rows, columns=self._columns(events), bad=bad)

    def _decode_compiled(self, reader: StructReader, payloads: BinaryColumn) -> Decoded[E]:
        columns, good = reader.read(payloads)
        if self._has_events:
            columns[ITSELF] = LazyColumn(payloads, np.full(len(payloads), PRESENT), decode=self._decode)
        rest = np.flatnonzero(~good)
        if not len(rest):
            return Decoded(None, columns=columns)
        self.slow_records += len(rest)
        events, rows, bad = decode_each(payloads.take(rest), self._decode_64)
        at = rest if rows is None else rest[rows]
        if events:
            for name, _, value_of in self._fields:
                columns[name] = with_values(columns[name], at, list(map(value_of, events)))
        if not bad:
            return Decoded(None, columns=columns)
        bad = [(int(rest[row]), reason) for row, reason in bad]
        index = np.delete(np.arange(len(payloads)), [row for row, _ in bad])
        return Decoded(index, columns=take_columns(columns, index), bad=bad)

    def check_column(self, name: str) -> None:
        """Raise ``JobError`` if there is no such column."""
        names = [known for known, _, _ in self.columns_read()]
        if name not in names:
            of = " | ".join(kind.__name__ for kind in event_types_of(self.type))
            raise JobError(f"{of} has no column {name!r}; it has {', '.join(names)}")

    def columns_read(self) -> list[tuple[str, str, bool]]:
        """Name and kind of each column, and whether compiled loops read it, where there are some."""
        slots = {} if self._plan is None else {one.name: one.slot for one in fields_of(self._plan) if one.has_column}
        beside = () if self.record_fields is None else self.record_fields.fields
        return [
            *((name, kind, slots.get(name, SPAN) != SPAN) for name, kind, _ in self._fields),
            *((field.name, field.kind, True) for field in beside),
        ]

    def columns_of(self, events: list[E]) -> tuple[dict[str, Column], dict[int, str]]:
        """The columns of events, without those that have an int beyond 64 bits: these by their places, and why."""
        try:
            return self._columns(events), {}
        except OverflowError:
            bad = {place: why for place, event in enumerate(events) if (why := self._too_large(event)) is not None}
            return self._columns([event for place, event in enumerate(events) if place not in bad]), bad

    def _columns(self, events: list[E]) -> dict[str, Column]:
        columns: dict[str, Column] = {ITSELF: events} if self._has_events else {}
        for name, kind, value_of in self._fields:
            if name in self._shapes:
                columns[name] = Lists.of(*self._shapes[name], events, value_of)
            else:
                columns[name] = column_of(kind, list(map(value_of, events)))
        return columns

    def _decode_64(self, payload: bytes) -> E:
        event = self._decode(payload)
        if (why := self._too_large(event)) is not None:
            raise DeserializationError(why)
        return event

    def _too_large(self, event: E) -> str | None:
        for name, value_of in self._integers:
            if not -(2**63) <= value_of(event) < 2**63:
                return f"{name} {TOO_LARGE}"
        return None

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint."""
        return f"json columns {self.type!r}{describe_fields(self.record_fields)}"


def with_record_columns(
    fields: RecordFields[Any], found: Decoded[Any], count: int, timestamps_ms: NDArray[np.int64], parts: RecordParts
) -> Decoded[Any]:
    """The columns of values and of the marked fields of the same records, ``count`` of them."""
    columns, without = fields.columns(timestamps_ms, parts)
    known = {row for row, _ in found.bad}
    bad = sorted([*found.bad, *((row, reason) for row, reason in without.items() if row not in known)])
    rows = np.arange(count) if found.rows is None else found.rows
    values = dict(found.columns)
    if without:
        kept = np.isin(rows, list(without), invert=True)
        values, rows = take_columns(values, np.flatnonzero(kept)), rows[kept]
    for field in fields.fields:
        column = columns[field.name]
        values[field.name] = field.column([column[row] for row in rows.tolist()] if bad else column)
    return Decoded(rows if bad else None, columns=values, bad=bad)


def _ways(path: Path) -> Iterator[Path]:
    """A path, and those of what its value lies in."""
    return (path[:end] for end in range(1, len(path) + 1))


def _value_or_none(path: Path, steps: Mapping[Path, Step], place: int = 0) -> Step:
    """The value at a path of fields, items of lists, and columns of unions, which ``steps`` has.

    It is None behind one that is None.
    """
    if place == len(path):
        return lambda value: value
    inner = _value_or_none(path, steps, place + 1)
    if path[place] == ITEM:
        return lambda value: None if value is None else [inner(item) for item in value]
    way = steps.get(path[: place + 1]) or getter(None, path[place])
    return lambda value: None if value is None else inner(way(value))
