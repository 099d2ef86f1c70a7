"""Nexmark events out of Arrow record batches: the columns that ``NexmarkColumns`` gives, read in place.

An atom has one column ``event``, a dense union of persons, auctions and bids; or, as older ones, ``event_type`` and a
struct for each kind. An event is dead unless its kind is 0, 1 or 2, the struct of its kind is there, and the fields
that the query needs are not null. Times are those of the years 1 to 9999. Events of other kinds do not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holon import Decoded
from holon.columnar.atoms.columns import Column, Kind, Layout, Path, address_of, spread
from holon.columnar.atoms.reader import AtomReader, Atoms
from holon.columnar.atoms.writing import single, write_atom
from holon.columnar.loops import Loops, installed
from holon.columnar.payloads import PAD_BYTES, BinaryColumn, Texts
from holon.formats.batch import take_columns
from nexmark.queries.columns import TIME, TIMES, NexmarkColumns
from nexmark.queries.parsing import SUBJECTS
from nexmark.times import MAX_TIME_MS, MIN_TIME_MS, time_cells

Rows = NDArray[np.intp]
_EVENT, _TYPE = "event", "event_type"


class NexmarkAtoms:
    """As ``columns``, but a record is an atom: ``nexmark.generator.arrow_columns`` defines what is in it."""

    compiled = True

    def __init__(self, columns: NexmarkColumns) -> None:
        self.requested = columns.requested
        self._described = columns.describe()
        self._needed = [{**wanted, **TIME} for wanted in self.requested]
        self._plan = self._planned()
        self._reader = AtomReader(
            Layout({_EVENT: ((_EVENT,), "union"), **self._columns((_EVENT,))}, SUBJECTS),
            Layout({_EVENT: ((_TYPE,), "kinds"), **self._columns(())}, SUBJECTS),
        )

    def _planned(self) -> dict[str, list[str]]:
        """Columns that a compiled loop writes, and what each kind has in them ("": zeros)."""
        plan = {"time_ms": [f"{subject}.dateTime" for subject in SUBJECTS]}
        for kind, subject in enumerate(SUBJECTS):
            for name, of in self.requested[kind].items():
                full = f"{subject}.{name}"
                texts = _kind_of(name, of) == "text"
                for out in [] if name in TIME else [f"{full}:starts", f"{full}:ends"] if texts else [full]:
                    plan[out] = ["" if other != subject else out for other in SUBJECTS]
        return plan

    def _columns(self, above: Path) -> dict[str, tuple[Path, Kind]]:
        """The structs and their fields."""
        found: dict[str, tuple[Path, Kind]] = {}
        for subject, needed in zip(SUBJECTS, self._needed, strict=True):
            found[subject] = (*above, subject), "struct"
            for name, of in needed.items():
                found[f"{subject}.{name}"] = (*above, subject, name), _kind_of(name, of)
        return found

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint."""
        return self._described.replace("nexmark json", "nexmark arrow", 1)

    def events_in(self, payload: bytes) -> int:
        """How many events an atom holds; 1 if it is dead as a whole."""
        return self._reader.events_in(payload)

    def single(self, payload: bytes, place: int) -> bytes:
        """An atom of one event."""
        batch = self._reader.batch_of(payload)
        at = batch.schema.get_field_index(_EVENT)
        return single([batch], place) if at < 0 else _single_of_union(batch.column(at), place)

    def decode(self, payloads: Sequence[bytes]) -> Decoded[Any]:
        """Decode a run of payloads."""
        found = self._reader.read(payloads)
        loops = installed()
        if loops is not None and found.parts:
            columns = self._by_loops(loops, found)
            if columns is not None:
                return Decoded(found.rows, columns=columns, bad=found.bad, places=found.places)
        return self._by_arrays(found)

    def _by_loops(self, loops: Loops, found: Atoms) -> dict[str, Any] | None:
        """The columns, if all events can be used."""
        count, at = len(found), 0
        outs = {out: np.empty(count, np.int64) for out in self._plan}
        places = {name: number for number, name in enumerate(found.kinds)}
        for part in found.parts:
            columns = {name: part[number] for name, number in places.items()}
            if _usable(columns.items()) is not None:
                return None
            table = [
                address
                for out, sources in self._plan.items()
                for address in (
                    address_of(outs[out]) + 8 * at,
                    *(_source(columns, source, found.records) for source in sources),
                )
            ]
            if -1 in table or not spread(loops, columns[_EVENT], table):
                return None
            at += columns[_EVENT].height
        return self._finished(found, outs)

    def _finished(self, found: Atoms, outs: dict[str, Any]) -> dict[str, Any]:
        """As ``_by_arrays`` names them."""
        kinds = [_numbers(part[0]) for part in found.parts]
        columns = {"kind": kinds[0] if len(kinds) == 1 else np.concatenate(kinds), "time_ms": outs["time_ms"]}
        for kind, subject in enumerate(SUBJECTS):
            for name in self._names(subject, self.requested[kind])[1:]:
                if name in outs:
                    columns[name] = outs[name]
                elif name.endswith(".dateTime"):
                    rows = np.flatnonzero(columns["kind"] == kind)
                    columns[name] = _time_texts(columns["time_ms"][rows], rows, len(found))
                else:
                    assert isinstance(found.records, BinaryColumn)
                    columns[name] = Texts(found.records.buffer, outs[f"{name}:starts"], outs[f"{name}:ends"])
        return columns

    def _by_arrays(self, found: Atoms) -> Decoded[Any]:
        """By numpy, event by event dead or not."""
        joined = found.columns()
        kinds, at = joined[_EVENT].numbers, joined[_EVENT].places
        assert kinds is not None and at is not None
        count = len(found)
        columns: dict[str, Any] = {"kind": kinds, "time_ms": np.zeros(count, np.int64)}
        good = np.zeros(count, np.bool_)
        for kind in range(len(SUBJECTS)):
            rows = np.flatnonzero((kinds == kind) & (at >= 0))
            self._spread(joined, kind, rows, at[rows], columns, good)
        if good.all():
            return Decoded(found.rows, columns=columns, bad=found.bad, places=found.places)
        unfit = [(int(found.rows[row]), int(found.places[row]), _WHY) for row in np.flatnonzero(~good).tolist()]
        keep = np.flatnonzero(good)
        rows, places = found.rows[keep], found.places[keep]
        return Decoded(rows, columns=take_columns(columns, keep), bad=found.bad, places=places, bad_events=unfit)

    def _spread(
        self,
        found: dict[str, Column],
        kind: int,
        rows: Rows,
        at: NDArray[Any],
        columns: dict[str, Any],
        good: NDArray[np.bool_],
    ) -> None:
        """The columns of one kind to its rows (0 or "" elsewhere), and which of these are good."""
        subject, count = SUBJECTS[kind], len(good)
        fine = _usable([(name, found[name]) for name in self._names(subject, self._needed[kind])])
        good[rows] = True if fine is None else fine[at]
        columns["time_ms"][rows] = _numbers(found[f"{subject}.dateTime"])[at]
        for name in self._names(subject, self.requested[kind])[1:]:
            column = found[name]
            if column.texts is not None:
                columns[name] = _spread_texts(column.texts, rows, at, count)
            elif name.endswith(".dateTime"):
                columns[name] = _time_texts(_numbers(column)[at], rows, count)
            else:
                columns[name] = np.zeros(count, np.int64)
                columns[name][rows] = _numbers(column)[at]

    def _names(self, subject: str, fields: Iterable[str]) -> list[str]:
        return [subject, *(f"{subject}.{name}" for name in fields)]


_WHY = "no event of the kind that its event_type names, or a field that the query needs is null or no such value"


def _kind_of(name: str, of: type) -> Kind:
    return "time" if name in (*TIMES, *TIME) else "int" if of is int else "text"


def _numbers(column: Column) -> NDArray[Any]:
    assert column.numbers is not None
    return column.numbers


def _usable(columns: Iterable[tuple[str, Column]]) -> NDArray[np.bool_] | None:
    """Which rows of a kind's columns can be used; None: all."""
    fine: NDArray[np.bool_] | None = None
    for name, column in columns:
        parts = [] if column.valid is None else [column.valid]
        if name.endswith(_TIME_FIELDS) and column.height:
            times = _numbers(column)
            if times.min() < MIN_TIME_MS or times.max() > MAX_TIME_MS:
                parts.append((times >= MIN_TIME_MS) & (times <= MAX_TIME_MS))
        for part in parts:
            fine = part if fine is None else fine & part
    return fine


_TIME_FIELDS = tuple(f".{name}" for name in (*TIMES, *TIME))


def _source(columns: dict[str, Column], source: str, records: Sequence[bytes]) -> int:
    """Where the values of a column are; -1: its texts are not where the records are."""
    if not source:
        return 0
    name, _, side = source.partition(":")
    column = columns[name]
    if not side:
        return address_of(_numbers(column))
    texts = column.texts
    assert texts is not None
    if column.height and not (isinstance(records, BinaryColumn) and texts.buffer is records.buffer):
        return -1
    return address_of(getattr(texts, side))


def _spread_texts(texts: Texts, rows: Rows, at: NDArray[Any], count: int) -> Texts:
    starts, ends = np.zeros(count, np.int64), np.zeros(count, np.int64)
    starts[rows], ends[rows] = texts.starts[at], texts.ends[at]
    return Texts(texts.buffer, starts, ends)


def _time_texts(times_ms: NDArray[np.int64], rows: Rows, count: int) -> Texts:
    """Times as texts with three digits of fraction."""
    cells = time_cells(times_ms)
    width = cells.shape[1]
    buffer = np.concatenate([cells.ravel(), np.zeros(PAD_BYTES, np.uint8)])
    starts, ends = np.zeros(count, np.int64), np.zeros(count, np.int64)
    starts[rows] = np.arange(len(rows)) * width
    ends[rows] = starts[rows] + width
    return Texts(buffer, starts, ends)


def _single_of_union(union: Any, place: int) -> bytes:
    """An atom of one event; one whose place is none has nothing but its kind there too."""
    kind, at = union.type_codes[place].as_py(), union.offsets[place].as_py()
    children = []
    for number in range(union.type.num_fields):
        child = union.field(number)
        children.append(child.slice(at, 1) if number == kind and 0 <= at < len(child) else child.slice(0, 0))
    names = [union.type.field(number).name for number in range(union.type.num_fields)]
    fresh = pa.UnionArray.from_dense(pa.array([kind], pa.int8()), pa.array([0], pa.int32()), children, names)
    return write_atom(pa.RecordBatch.from_arrays([fresh], [_EVENT]))
