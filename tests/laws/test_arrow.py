"""Arrow record batches of any types against JSON of the same rows: the same columns, events, dead rows and results."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin

import msgspec
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holon import Json, JsonColumns, Tumbling
from holon.arrow import Arrow, ArrowColumns
from holon.columnar.structs.columns import Lists
from holon.dataflow import Flow
from holon.job import DEAD, LATE
from holon.testing import JobTestDriver
from tests.unit.holon.formats.arrow_arrays import stream

Values = st.SearchStrategy[Any]
Array = Callable[[list[Any]], Any]
PLAIN = (int, float, bool, str, datetime, decimal.Decimal)
YEARS = datetime(1800, 1, 1), datetime(2200, 1, 1)


class Drawn(NamedTuple):
    """A type as users declare it, its values, and an array of such values or None."""

    declared: Any
    values: Values
    array: Array


def _of(kind: Any) -> Array:
    return lambda values: pa.array(values, kind)


def _decimals(kind: Any) -> Drawn:
    return Drawn(decimal.Decimal, st.integers(-(10**5), 10**5).map(lambda n: decimal.Decimal(n).scaleb(-2)), _of(kind))


LEAVES: list[Drawn] = [
    *(Drawn(int, st.integers(-128, 127), _of(kind)) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *(Drawn(int, st.integers(0, 255), _of(kind)) for kind in (pa.uint8(), pa.uint16(), pa.uint32())),
    Drawn(int, st.integers(2**63 - 2, 2**63 + 2), _of(pa.uint64())),
    Drawn(float, st.floats(width=32, allow_nan=False, allow_infinity=False), _of(pa.float32())),
    Drawn(float, st.floats(width=16, allow_nan=False, allow_infinity=False), _of(pa.float16())),
    Drawn(float, st.floats(allow_nan=False, allow_infinity=False), _of(pa.float64())),
    Drawn(float, st.integers(-(2**60), 2**60), _of(pa.int64())),
    Drawn(bool, st.booleans(), _of(pa.bool_())),
    *(Drawn(str, st.text(max_size=20), _of(kind)) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *(Drawn(bytes, st.binary(max_size=20), _of(kind)) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())),
    *(Drawn(datetime, st.datetimes(*YEARS), _of(pa.timestamp(unit))) for unit in ("us", "ns")),
    *(Drawn(datetime, st.datetimes(*YEARS, timezones=st.just(UTC)), _of(pa.timestamp("us", zone)))
      for zone in ("UTC", "Asia/Tokyo")),
    Drawn(date, st.dates(), _of(pa.date32())),
    Drawn(time, st.times(), _of(pa.time64("ns"))),
    Drawn(timedelta, st.timedeltas(timedelta(days=-1000), timedelta(days=1000)), _of(pa.duration("us"))),
    _decimals(pa.decimal128(10, 2)),
    _decimals(pa.decimal256(40, 2)),
]  # fmt: skip


def _by_dictionary(of: Drawn) -> Drawn:
    return of._replace(array=lambda values: of.array(values).dictionary_encode())


def _by_runs(of: Drawn) -> Drawn:
    def array(values: list[Any]) -> Any:
        ends = pa.array(range(1, len(values) + 1), pa.int32())
        return pa.RunEndEncodedArray.from_arrays(ends, of.array(values))

    return of._replace(array=array)


def _lists(of: Drawn, nullable: bool, kind: str) -> Drawn:
    """Lists of up to three items, or of two; their items lie in the other order where these are views."""

    def array(values: list[Any]) -> Any:
        if kind == "fixed":
            items = [item for each in values for item in each or [None, None]]
            mask = pa.array([each is None for each in values], pa.bool_())
            return pa.FixedSizeListArray.from_arrays(of.array(items), 2, mask=mask)
        if kind in VIEWS:
            items = [item for each in reversed(values) for item in each or ()]
            sizes = [len(each or ()) for each in values]
            places = [sum(sizes[row + 1 :]) for row in range(len(values))]
            mask = pa.array([each is None for each in values], pa.bool_())
            return VIEWS[kind].from_arrays(places, sizes, of.array(items), mask=mask)
        ends: list[Any] = [0]
        for each in values:
            ends.append((ends[-1] or 0) + len(each or ()))
        starts = [None if each is None else at for each, at in zip(values, ends, strict=False)]
        made: Any = pa.LargeListArray if kind == "large" else pa.ListArray
        return made.from_arrays([*starts, ends[-1]], of.array([item for each in values for item in each or ()]))

    items = st.none() | of.values if nullable else st.one_of(*[of.values] * 15, st.none())
    declared = list[of.declared | None] if nullable else list[of.declared]  # type: ignore[valid-type]
    least, most = (2, 2) if kind == "fixed" else (0, 3)
    return Drawn(declared, st.lists(items, min_size=least, max_size=most), array)


def _maps(of: Drawn, nullable: bool, by_text: bool) -> Drawn:
    keys = st.sampled_from("abü") if by_text else st.sampled_from([-1, 0, 7])
    values = st.none() | of.values if nullable else st.one_of(*[of.values] * 15, st.none())
    declared = of.declared | None if nullable else of.declared

    def array(rows: list[Any]) -> Any:
        ends: list[Any] = [0]
        for each in rows:
            ends.append((ends[-1] or 0) + len(each or ()))
        starts = [None if each is None else at for each, at in zip(rows, ends, strict=False)]
        own = pa.array([key for each in rows for key in each or ()], pa.string() if by_text else pa.int8())
        items = of.array([value for each in rows for value in (each or {}).values()])
        return pa.MapArray.from_arrays([*starts, ends[-1]], own, items)

    return Drawn(dict[str if by_text else int, declared], st.dictionaries(keys, values, max_size=3), array)  # type: ignore[valid-type,misc]


def _part_of_more(of: Drawn) -> Drawn:
    """The same rows as a part of an array that has others around them."""

    def array(values: list[Any]) -> Any:
        return of.array([*values[:1], *values, *values[-1:]]).slice(len(values[:1]), len(values))

    return of._replace(array=array)


def _structs(drawn: list[tuple[Drawn, bool]]) -> Drawn:
    """``drawn``: the fields, and which of them may be None as they are declared; all are None now and then."""
    parts = [one for one, _ in drawn]
    names = [f"part{number}" for number in range(len(parts))]
    fields = [one.declared | None if optional else one.declared for one, optional in drawn]
    declared = msgspec.defstruct("Inner", list(zip(names, fields, strict=True)))

    def array(values: list[Any]) -> Any:
        inner = [one.array([each and each[n] for each in values]) for n, one in zip(names, parts, strict=True)]
        return pa.StructArray.from_arrays(
            inner, names=names, mask=pa.array([each is None for each in values], pa.bool_())
        )

    values = st.fixed_dictionaries(
        {n: st.none() | one.values if optional else st.one_of(*[one.values] * 9, st.none())
         for n, (one, optional) in zip(names, drawn, strict=True)}
    )  # fmt: skip
    return Drawn(declared, values, array)


def _encoded(of: Drawn) -> st.SearchStrategy[Drawn]:
    """Values as they are, by a dictionary, or in runs."""
    views = (pa.string_view(), pa.binary_view(), pa.float16())
    if of.array([]).type in views:
        return st.just(of)
    return st.sampled_from([of, of, _by_dictionary(of), _by_runs(of)])


VIEWS: dict[str, Any] = {"view": pa.ListViewArray, "large view": pa.LargeListViewArray}


def _with_lists(items: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
    """Lists and maps of these."""
    kinds = st.sampled_from(["plain", "large", "fixed", *VIEWS])
    return st.builds(_lists, items, st.booleans(), kinds) | st.builds(_maps, items, st.booleans(), st.booleans())


def _with_structs(parts: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
    return st.lists(st.tuples(parts, st.booleans()), max_size=2).map(_structs)


leaves = st.sampled_from(LEAVES).flatmap(_encoded)
inner = leaves | _with_lists(leaves)
structs = _with_structs(inner)
nested = _with_structs(inner | structs | _with_lists(structs))
whole = leaves | _with_lists(inner | structs) | structs | nested | _with_lists(nested)
types = whole | whole.map(_part_of_more)


class Table(NamedTuple):
    event: Any
    rows: list[dict[str, Any]]
    records: list[bytes]
    rows_of: list[int]


@st.composite
def tables(draw: Callable[[Values], Any]) -> Table:
    """A Struct of up to four fields, some of them optional, rows that may have None in all, and records of these."""
    drawn = draw(st.lists(st.tuples(types, st.booleans()), min_size=1, max_size=4))
    fields: list[tuple[Any, ...]] = [("at", int), ("key", int | None)]
    fields += [(f"x{number}", of.declared | None if optional else of.declared)
               for number, (of, optional) in enumerate(drawn)]  # fmt: skip
    values: dict[str, Values] = {"at": st.integers(0, 60), "key": st.none() | st.integers(0, 2)}
    arrays: dict[str, Array] = {"at": _of(pa.int16()), "key": _of(pa.uint64())}
    for number, (of, _) in enumerate(drawn):
        values[f"x{number}"] = of.values | st.none() if draw(st.integers(0, 3)) == 0 else of.values
        arrays[f"x{number}"] = of.array
    rows = draw(st.lists(st.fixed_dictionaries(values), max_size=12))
    batches, records, counts = [], [], []
    for group in _cut(draw, rows):
        batches = [
            pa.record_batch({name: array([row[name] for row in part]) for name, array in arrays.items()})
            for part in (_cut(draw, group) or [[]])
        ]
        records.append(stream(*batches, emit_dictionary_deltas=draw(st.booleans())))
        counts.append(len(group))
    return Table(msgspec.defstruct("Event", fields), rows, records, counts)


def _cut(draw: Callable[[Values], Any], rows: list[Any]) -> list[list[Any]]:
    ends = sorted({*draw(st.lists(st.integers(0, len(rows)), max_size=2)), len(rows)})
    return [rows[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _plainly(column: Any) -> list[Any]:
    return [value.item() if isinstance(value, np.generic) else value for value in column]


def _flat(columns: Any) -> dict[str, Any]:
    """The items of columns of lists, and where each row's begin."""
    flat = {name: column.flat() for name, column in columns.items() if isinstance(column, Lists)}
    return {name: (repr(_plainly(items)), offsets.tolist()) for name, (items, offsets) in flat.items()}


def _dead(found: Any, counts: list[int]) -> list[int]:
    """The dead rows by their numbers among all."""
    assert not found.bad, found.bad
    return [sum(counts[:index]) + place for index, place, _ in found.bad_events]


@given(tables())
def test_columns_events_and_dead_rows_are_those_of_json_of_the_same_rows(table: Table) -> None:
    payloads = [msgspec.json.encode(row) for row in table.rows]
    by_json, by_arrow = Json(table.event).decode(payloads), Arrow(table.event).decode(table.records)
    assert repr(by_arrow.events) == repr(by_json.events)
    assert _dead(by_arrow, table.rows_of) == [row for row, _ in by_json.bad]
    expected, found = JsonColumns(table.event).decode(payloads), ArrowColumns(table.event).decode(table.records)
    assert _dead(found, table.rows_of) == [row for row, _ in expected.bad]
    if table.rows:
        assert {name: repr(_plainly(column)) for name, column in found.columns.items()} == {
            name: repr(_plainly(column)) for name, column in expected.columns.items()
        }
        assert _flat(found.columns) == _flat(expected.columns)


@given(tables())
def test_a_flow_gives_the_same_bytes(table: Table) -> None:
    found = _results(Arrow(table.event), table.records)
    assert found == _results(Json(table.event), [msgspec.json.encode(row) for row in table.rows])


def _results(form: Any, records: list[bytes]) -> Any:
    flow = Flow("law")
    events = flow.source("in", form, time=lambda e: e.at)
    events.filter(lambda e: e.key is None or e.key > 0).sink("rows")
    events.key_by(lambda e: e.key).window(Tumbling(20)).agg(
        lambda g: (g.key, g.count(), g.max(lambda e: e.at), g.window.end_ms)
    ).sink("groups")
    test = JobTestDriver(flow.job)
    test.feed(0, *records)
    test.finish()
    results = {
        name: [value for _, _, value in test.raw_outputs(name)] for name in flow.job.outputs if name not in (DEAD, LATE)
    }
    return results, test.counts


Changes = list[tuple[int, bytes]]
changes_of_bytes = st.lists(st.tuples(st.integers(0, 2**20), st.binary(min_size=1, max_size=8)), min_size=1, max_size=4)


def _damaged(record: bytes, changes: Changes) -> bytes:
    changed = bytearray(record)
    for place, with_bytes in changes:
        at = place % len(changed)
        changed[at : at + len(with_bytes)] = with_bytes
    return bytes(changed)


def _rows_of_first(found: Any) -> Any:
    """Rows, dead rows and whether it is dead, of the first record of a run."""
    assert found.rows is not None and found.places is not None
    rows = np.flatnonzero(found.rows == 0)
    values = {name: repr([_plainly(column)[row] for row in rows]) for name, column in found.columns.items()}
    dead = (
        [place for index, place, _ in found.bad_events if index == 0],
        [index for index, _ in found.bad if index == 0],
    )
    return found.places[rows].tolist(), values, dead


def _unlike(declared: Any) -> Any:
    """A column of one null, which no list, map or Struct is read of where it lies."""
    options = get_args(declared) if isinstance(declared, UnionType) else (declared,)
    is_list = any(get_origin(of) is list and get_args(of)[0] in (int, float, bool, str) for of in options)
    if is_list or all(of in (NoneType, *PLAIN) for of in options):
        return pa.nulls(1)
    return pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.nulls(1)])


@given(tables(), changes_of_bytes | st.just([]))
def test_records_with_and_without_structs_of_their_own_are_read_alike_side_by_side(
    table: Table, changes: Changes
) -> None:
    without = stream(pa.record_batch({name: _unlike(of) for name, of in table.event.__annotations__.items()}))
    form = ArrowColumns(table.event)
    for record in table.records:
        record = _damaged(record, changes) if changes else record
        assert _rows_of_first(form.decode([record, without])) == _rows_of_first(form.decode([record]))


@given(tables(), changes_of_bytes)
def test_damaged_records_are_dead_or_read_and_each_event_counts_once(table: Table, changes: Changes) -> None:
    for record in table.records:
        damaged = _damaged(record, changes)
        for form in (Arrow(table.event), ArrowColumns(table.event), ArrowColumns({"at": int})):
            found = form.decode([damaged])
            assert found.rows is not None and found.places is not None
            assert form.events_in(damaged) == len(found.bad) + len(found.bad_events) + len(found.rows)
            for place in [*found.places.tolist(), *(place for _, place, _ in found.bad_events)][:2]:
                assert form.events_in(form.single(damaged, place)) == 1
