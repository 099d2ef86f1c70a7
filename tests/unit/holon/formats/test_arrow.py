"""Arrow record batches as events and columns: every type with and without nulls, and rows and batches that are dead."""

from __future__ import annotations

import decimal
import enum
import uuid
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from holon import Json
from holon.arrow import Arrow, ArrowColumns, write_atom
from tests.unit.holon.formats.arrow_arrays import dictionary, extension, runs

Decimal = decimal.Decimal
NOW, LATER = datetime(2024, 5, 6, 7, 8, 9), datetime(2024, 5, 6, 7, 8, 10)
ZONED = NOW.replace(tzinfo=UTC)
US = datetime(1970, 1, 1)


class Place(msgspec.Struct):
    lat: float
    name: str | None = None


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


def us(count: int) -> datetime:
    return US + timedelta(microseconds=count)


def of(kind: pa.DataType, values: list[Any], read: list[Any] | None = None) -> tuple[pa.Array, list[Any]]:
    """An array of these values, and what is read of it."""
    return pa.array(values, kind), values if read is None else read


TEXTS, BYTES = ["a", "sch\u00f6n" * 5, None, ""], [b"abc", None, b"\xff\xfe\x00"]
LISTS = [[1, None], None, [], [3]]
PLACES = [{"lat": 1.5, "name": "x"}, None, {"lat": 2.5, "name": None}]
PLACES_READ = [Place(1.5, "x"), None, Place(2.5)]
UUIDS = [uuid.UUID(int=7), None]
UNITS: tuple[Literal["s", "ms", "us", "ns"], ...] = ("s", "ms", "us", "ns")

READ: list[tuple[Any, tuple[pa.Array, list[Any]]]] = [
    *((int, of(kind, [1, None, 100])) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())),
    *((int, of(kind, [1, None, 200])) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    (int, of(pa.int64(), [-(2**63), 2**63 - 1, None])),
    (float, of(pa.float16(), [1.5, None, 0.25])),
    (float, of(pa.float32(), [1.5, None, 0.1], [1.5, None, 0.10000000149011612])),
    (float, of(pa.float64(), [1.5, None, 0.1, 1e300])),
    (float, of(pa.int64(), [1, None, 2**53 + 1], [1.0, None, 2.0**53])),
    (float, of(pa.uint64(), [2**64 - 1, None], [2.0**64, None])),
    (bool, of(pa.bool_(), [True, None, False])),
    (bool, (extension(pa.bool8(), pa.array([2, None, 0], pa.int8())), [True, None, False])),
    *((str, of(kind, TEXTS)) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *((bytes, of(kind, BYTES)) for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3))),
    *((datetime, of(pa.timestamp(unit), [NOW, None, LATER])) for unit in UNITS),
    *((datetime, of(pa.timestamp(u, z), [ZONED, None]))
      for u in UNITS for z in ("UTC", "Europe/Paris", "+02:00", "No/Where")),
    (datetime, of(pa.timestamp("ns"), [1_500, None, 2_499, 1_000_000_000, -1_500, -1_501],
                  [us(2), None, us(2), us(1_000_000), us(-1), us(-2)])),
    *((date, of(kind, [NOW.date(), None])) for kind in (pa.date32(), pa.date64())),
    *((time, of(kind, [NOW.time(), None]))
      for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))),
    (time, of(pa.time64("ns"), [86_400 * 10**9 - 1, 1_500, None], [time(0), time(0, 0, 0, 2), None])),
    *((timedelta, of(pa.duration(unit), [timedelta(seconds=-5), None])) for unit in UNITS),
    (timedelta, of(pa.duration("ns"), [500, -500, -1_500, 1_499, None],
                   [timedelta(microseconds=count) for count in (1, -1, -2, 1)] + [None])),
    *((Decimal, of(kind, [Decimal("1.50"), None]))
      for kind in (pa.decimal32(5, 2), pa.decimal64(9, 2), pa.decimal128(10, 2), pa.decimal256(50, 2))),
    (Decimal, of(pa.float64(), [1.5, None], [Decimal("1.5"), None])),
    (uuid.UUID, (extension(pa.uuid(), pa.array([UUIDS[0].bytes, None], pa.binary(16))), UUIDS)),
    (uuid.UUID, of(pa.string(), [str(UUIDS[0]), None], UUIDS)),
    (datetime, of(pa.string(), ["2024-05-06T07:08:09Z", None], [ZONED, None])),
    (Color, of(pa.string(), ["red", None, "blue"], [Color.RED, None, Color.BLUE])),
    (Literal[1, 2], of(pa.int8(), [1, None, 2])),
    *((list[int | None], of(kind(pa.int16()), LISTS))
      for kind in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)),
    (tuple[int, int], of(pa.list_(pa.int64(), 2), [[1, 2], None], [(1, 2), None])),
    (list[datetime], of(pa.list_(pa.timestamp("ns", "UTC"), 1), [[ZONED], None])),
    (list[datetime], of(pa.list_view(pa.timestamp("ns")), [[NOW, NOW], None])),
    (Place, of(pa.struct({"lat": pa.float32(), "name": pa.large_string()}), PLACES, PLACES_READ)),
    (Place, of(pa.struct({"lat": pa.int8(), "more": pa.int8()}), [{"lat": 1, "more": 2}, None], [Place(1.0), None])),
    (list[Place], (pa.ListArray.from_arrays([0, 2, 2], pa.StructArray.from_arrays(
        [pa.array([1.5, 2.5]), dictionary(["x", None])], names=["lat", "name"])), [[Place(1.5, "x"), Place(2.5)], []])),
    (dict[str, int | None], of(pa.map_(pa.string(), pa.int8()), [[("a", 1)], None, [("b", None)]],
                               [{"a": 1}, None, {"b": None}])),
    (dict[str, datetime], of(pa.map_(pa.string(), pa.timestamp("ns")), [[("a", NOW)], None], [{"a": NOW}, None])),
    (dict[str, int], of(pa.struct({"a": pa.int8()}), [{"a": 1}, None])),
    *((str, (dictionary(["a", None, "b", "a"], index=index, ordered=True), ["a", None, "b", "a"]))
      for index in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())),
    (str, (pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), pa.array(["a", None])), ["a", None, None, "a"])),
    (str, (dictionary(["a", None], pa.large_string()), ["a", None])),
    (str, (dictionary(["a", None], pa.string_view()), ["a", None])),
    (int, (dictionary([7, None, 7], pa.uint8()), [7, None, 7])),
    (datetime, (dictionary([NOW, None], pa.timestamp("ns")), [NOW, None])),
    (Decimal, (dictionary([Decimal("1.5"), None]), [Decimal("1.5"), None])),
    (str, (runs([2, 3, 5], ["a", None, "b"]), ["a", "a", None, "b", "b"])),
    (float, (runs([2, 3], [1.5, None], pa.int16()), [1.5, 1.5, None])),
    (list[int], (runs([2, 3], [[1], None]), [[1], [1], None])),
    (list[str | None], (pa.ListArray.from_arrays([0, 2, 3], runs([1, 3], ["a", None])), [["a", None], [None]])),
    *((kind, (pa.nulls(2), [None, None])) for kind in (int, str, datetime, Place, list[int])),
    (int | str, (pa.UnionArray.from_dense(pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()),
                                          [pa.array([1]), pa.array(["a"])]), [1, "a"])),
]  # fmt: skip


def named(case: Any) -> str:
    return f"{getattr(case[0], '__name__', case[0])}-{case[1][0].type}"[:90]


def plainly(column: Sequence[Any]) -> list[Any]:
    return [value.item() if isinstance(value, np.generic) else value for value in column]


def struct(kind: Any) -> Any:
    return msgspec.defstruct("Event", [("x", kind)])


@pytest.mark.slow
@pytest.mark.parametrize("case", READ, ids=map(named, READ))
def test_each_type_has_the_values_that_json_has_and_a_null_is_none(case: Any) -> None:
    kind, (array, expected) = case
    event, record = struct(kind | None), write_atom(pa.record_batch({"x": array}))
    by_json = Json(event).decode([msgspec.json.encode({"x": value}) for value in expected]).events
    events = Arrow(event).decode([record, record]).events
    assert repr(events) == repr([*by_json, *by_json]) == repr([event(value) for value in expected * 2])
    found = ArrowColumns(event).decode([record, record])
    assert repr(plainly(found.columns["x"])) == repr(expected * 2) and not found.bad and not found.bad_events
    if kind is not datetime:  # is given as epoch ms
        assert repr(plainly(ArrowColumns({"x": kind | None}).decode([record]).columns["x"])) == repr(expected)


@pytest.mark.parametrize("case", READ, ids=map(named, READ))
def test_where_none_is_not_declared_each_row_with_a_null_is_dead_and_no_other(case: Any) -> None:
    kind, (array, expected) = case
    record = write_atom(pa.record_batch({"x": array}))
    nulls = [row for row, value in enumerate(expected) if value is None]
    by_name = [] if kind is datetime and array.type == pa.string() else [ArrowColumns({"x": kind})]
    for form in (ArrowColumns(struct(kind)), *by_name, Arrow(struct(kind))):
        found = form.decode([record])
        assert [(index, place) for index, place, _ in found.bad_events] == [(0, row) for row in nulls]
        assert all("x" in why and "null" in why for _, _, why in found.bad_events), found.bad_events
        assert found.rows is not None and found.places is not None and form.events_in(record) == len(expected)
        assert found.places.tolist() == [row for row in range(len(expected)) if row not in nulls]
    values = [value for value in expected if value is not None]
    assert repr([event.x for event in Arrow(struct(kind)).decode([record]).events]) == repr(values)


def test_a_datetime_among_named_columns_is_epoch_ms_of_any_unit_and_zone() -> None:
    for unit in UNITS:
        for zone in (None, "Europe/Paris"):
            values = pa.array([ZONED, None, US.replace(tzinfo=UTC) - timedelta(seconds=1)], pa.timestamp(unit, zone))
            record = write_atom(pa.record_batch({"x": values}))
            found = ArrowColumns({"x": datetime}).decode([record])
            assert found.columns["x"].tolist() == [int(ZONED.timestamp() * 1000), -1000] and len(found.bad_events) == 1
            assert list(ArrowColumns({"x": datetime | None}).decode([record]).columns["x"])[1] is None
    early = write_atom(pa.record_batch({"x": pa.array([-1, 1_999, -1_000_001], pa.timestamp("us"))}))
    assert ArrowColumns({"x": datetime}).decode([early]).columns["x"].tolist() == [-1, 1, -1001]


REFUSED: list[tuple[Any, pa.DataType, str]] = [
    (int, pa.float64(), "column x is double, and int is declared: declare float, or write another type"),
    (int, pa.string(), "column x is string, and int is declared: declare str"),
    (float, pa.decimal128(5, 2), "column x is decimal128(5, 2), and float is declared: declare decimal.Decimal"),
    (bool, pa.int8(), "declare int"),
    (str, pa.binary(), "column x is binary, and str is declared: declare bytes"),
    (str, pa.dictionary(pa.int8(), pa.int64()), "declare int"),
    (bytes, pa.string(), "declare str"),
    (datetime, pa.int64(), "declare int"),
    (datetime, pa.date32(), "declare datetime.date"),
    (date, pa.timestamp("ms"), "declare datetime.datetime"),
    (time, pa.duration("s"), "declare datetime.timedelta"),
    (Decimal, pa.bool_(), "declare bool"),
    (list[int], pa.list_(pa.string()), "column x[] is string, and int is declared"),
    (list[int], pa.int64(), "column x is int64, and list is declared"),
    (dict[str, int], pa.map_(pa.int64(), pa.int64()), "column keys of x is int64, and str is declared"),
    (dict[str, int], pa.map_(pa.string(), pa.string()), "column values of x is string, and int is declared"),
    (Place, pa.struct({"lat": pa.string()}), "column x.lat is string, and float is declared"),
    (Place, pa.struct({"name": pa.string()}), "no column x.lat"),
    (Place, pa.string(), "column x is string, and Place is declared: declare str"),
    (int, pa.month_day_nano_interval(), "declare typing.Any"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{getattr(case[0], '__name__', case[0])}-{case[1]}"[:90])
def test_a_column_of_a_type_that_the_field_does_not_take_is_one_dead_letter_that_says_how_to_mend_it(case: Any) -> None:
    kind, arrow, words = case
    record = write_atom(pa.record_batch({"x": pa.nulls(3, arrow)}))
    for declared in (kind, kind | None):
        for form in (ArrowColumns(struct(declared)), ArrowColumns({"x": declared}), Arrow(struct(declared))):
            found = form.decode([record])
            assert [index for index, _ in found.bad] == [0] and words in found.bad[0][1], found.bad
            assert form.events_in(record) == 1 and not found.bad_events


UNFIT: list[tuple[Any, pa.Array, int, str]] = [
    (int, pa.array([1, 2**63, 2], pa.uint64()), 1, "x does not fit in 64 bits"),
    (Annotated[int, msgspec.Meta(ge=0)], pa.array([1, -1, 2]), 1, ">= 0"),
    (date, pa.array([1, 2**30, 2], pa.int32()).cast(pa.date32()), 1, "x"),
    (datetime, pa.array([1, 2**60, 2], pa.timestamp("ms")), 1, "x"),
    (time, pa.array([1, 86_400, 2], pa.int32()).view(pa.time32("s")), 1, "x"),
    (time, pa.array([1, -1, 2]).view(pa.time64("ns")), 1, "x"),
    (timedelta, pa.array([1, 2**62, 2], pa.duration("s")), 1, "x"),
    (dict[str, int], pa.array([[], [("a", 1), ("a", 2)], []], pa.map_(pa.string(), pa.int64())), 1, "duplicate"),
    (str, pa.array([b"a", b"\xff", b"b"], pa.large_binary()).view(pa.large_string()), 1, "UTF-8"),
    (Literal["a"], pa.array(["a", "b", "a"]), 1, "x"),
    (tuple[int, int], pa.array([[1, 2], [1], [3, 4]]), 1, "x"),
    (list[int], pa.array([[1, 2], [None], [3, 4]]), 1, "has an item that is null"),
    (list[str], pa.array([["a"], None, []]), 1, "declare it as list[str] | None"),
    (Place, pa.array([{"lat": 1.0}, {"lat": None}, {"lat": 2.0}]), 1, "x.lat"),
]


@pytest.mark.parametrize("case", UNFIT, ids=lambda case: f"{getattr(case[0], '__name__', case[0])}-{case[1].type}"[:90])
def test_a_row_whose_value_does_not_fit_is_dead_alone(case: Any) -> None:
    kind, array, row, words = case
    record = write_atom(pa.record_batch({"x": array, "n": pa.array(range(len(array)))}))
    event = msgspec.defstruct("Event", [("x", kind), ("n", int)])
    for form in (ArrowColumns(event), ArrowColumns({"x": kind, "n": int})):
        if kind is datetime and form.type is None:  # in ms there is such a time
            continue
        found = form.decode([record])
        assert [(index, place) for index, place, _ in found.bad_events] == [(0, row)], found.bad_events
        assert words in found.bad_events[0][2] or "utf-8" in found.bad_events[0][2]
        assert found.columns["n"].tolist() == [other for other in range(len(array)) if other != row]
        alone = form.single(record, row)
        assert len(form.decode([alone]).bad_events) == 1 and form.events_in(alone) == 1
    events = Arrow(event).decode([record])
    assert kind is int or [place for _, place, _ in events.bad_events] == [row]


@pytest.mark.parametrize("scale", [2_000_000, -2_000_000, 2**31 - 1])
def test_a_decimal_whose_power_of_ten_python_does_not_have_is_a_dead_row(scale: int) -> None:
    raw = pa.array([(7).to_bytes(16, "little"), None], pa.binary(16)).view(pa.decimal128(5, scale))
    for form in (ArrowColumns(struct(Decimal | None)), Arrow(struct(Decimal | None))):
        found = form.decode([write_atom(pa.record_batch({"x": raw}))])
        assert [place for _, place, _ in found.bad_events] == [0] and not found.bad
        assert [*found.columns.get("x", ()), *(event.x for event in found.events)] == [None]


def test_seconds_beyond_64_bits_in_ms_are_a_dead_row() -> None:
    record = write_atom(pa.record_batch({"x": pa.array([1, 2**60, -(2**60), None], pa.timestamp("s"))}))
    found = ArrowColumns({"x": datetime}).decode([record])
    assert found.columns["x"].tolist() == [1000]
    assert ["64 bits" in why for _, _, why in found.bad_events] == [True, True, False]
