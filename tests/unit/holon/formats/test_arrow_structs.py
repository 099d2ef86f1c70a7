"""Structs of Arrow whose fields are read where they lie: the same columns as JSON's, and none of msgspec's work."""

from __future__ import annotations

import decimal
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from holon import Json, JsonColumns
from holon.arrow import ArrowColumns, write_atom
from holon.columnar.payloads import Texts
from holon.columnar.structs.columns import Lists
from holon.formats.arrow.structs import part_of
from tests.unit.holon.formats.arrow_arrays import dictionary, runs


class Point(msgspec.Struct):
    lat: float
    lon: float = 0.5


class Place(msgspec.Struct, rename="camel", kw_only=True):
    zip_code: str
    at: Point
    near: Point | None = None
    tags: list[str] = msgspec.field(default_factory=list)
    price: decimal.Decimal | None = None
    seen: datetime | None = None


class Visit(msgspec.Struct):
    number: int
    place: Place
    other: Place | None = None


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    lat: float


class Timed(msgspec.Struct):
    seen: datetime = datetime(2024, 1, 1)


class Tree(msgspec.Struct):
    left: Tree | None = None


POINT = pa.struct({"lat": pa.float64(), "lon": pa.float64()})
FULL = pa.struct({
    "zipCode": pa.large_string(), "at": POINT, "near": POINT, "tags": pa.list_(pa.string()),
    "price": pa.decimal128(10, 2), "seen": pa.timestamp("us"),
})  # fmt: skip
SHORT = pa.struct({"zipCode": pa.dictionary(pa.int8(), pa.string()), "at": pa.struct({"lat": pa.float32()})})


def place(zip_code: str, lat: float, **rest: Any) -> dict[str, Any]:
    return {"zipCode": zip_code, "at": {"lat": lat}, **rest}


ROWS = [
    {
        "number": 1,
        "place": place("8000", 1.5, seen=datetime(2024, 1, 1), near={"lat": 2.0, "lon": 3.0}, tags=["a", "b"]),
        "other": None,
    },
    {"number": 2, "place": place("ü", 2.5, price=decimal.Decimal("1.25")), "other": place("2", 0.25, tags=["c"])},
]


def plainly(columns: Any) -> dict[str, str]:
    """Each value as Python's, written out."""
    return {
        name: repr([value.item() if isinstance(value, np.generic) else value for value in column])
        for name, column in columns.items()
    }


def whole(row: dict[str, Any]) -> dict[str, Any]:
    """The row as Arrow has it: each field that it lacks has its default."""
    full = msgspec.convert(row, Visit, strict=False)
    return {"number": full.number, **{name: written(getattr(full, name)) for name in ("place", "other")}}


def written(of: Place | None) -> dict[str, Any] | None:
    if of is None:
        return None
    found = {field.encode_name: getattr(of, field.name) for field in msgspec.structs.fields(of)}
    return found | {name: found[name] and msgspec.structs.asdict(found[name]) for name in ("at", "near")}


def table(of: Any, rows: list[dict[str, Any]]) -> bytes:
    return write_atom(
        pa.record_batch({
            "number": [row["number"] for row in rows],
            "place": pa.array([row["place"] for row in rows], of),
            "other": pa.array([row["other"] for row in rows], of),
        })
    )  # fmt: skip


def test_fields_have_the_columns_that_json_gives_with_structs_within_structs_and_defaults() -> None:
    payloads = [msgspec.json.encode(whole(row)) for row in ROWS]
    expected = JsonColumns(Visit).decode(payloads).columns
    found = ArrowColumns(Visit).decode([table(FULL, [whole(row) for row in ROWS])])
    assert not found.bad and not found.bad_events
    assert plainly(found.columns) == plainly(expected)
    assert isinstance(found.columns["place.at.lat"], np.ndarray) and isinstance(found.columns["place.zip_code"], Texts)
    assert isinstance(found.columns["other.tags"], Lists)
    assert [list(found.columns["place"]), list(found.columns["other"])] == [
        [getattr(event, name) for event in Json(Visit).decode(payloads).events] for name in ("place", "other")
    ]
    assert list(found.columns["other"][1:]) == list(found.columns["other"])[1:]


def test_fields_that_a_struct_of_the_batch_lacks_have_their_defaults_also_where_it_is_null() -> None:
    rows = [{**row, **{name: row[name] and {key: row[name][key] for key in ("zipCode", "at")}
                       for name in ("place", "other")}} for row in ROWS]  # fmt: skip
    expected = JsonColumns(Visit).decode([msgspec.json.encode(row) for row in rows]).columns
    assert plainly(ArrowColumns(Visit).decode([table(SHORT, rows)]).columns) == plainly(expected)


def test_a_struct_that_may_be_none_may_be_missing_and_one_that_may_not_be_null_is_a_dead_row() -> None:
    record = write_atom(pa.record_batch({"number": [1, 2], "place": pa.array([ROWS[0]["place"], None], SHORT)}))
    found = ArrowColumns(Visit).decode([record])
    assert list(found.columns["other"]) == list(found.columns["other.at.lat"]) == [None]
    assert found.bad_events == [(0, 1, "column place is null: declare it as Place | None")]
    lacking = pa.array([{"zipCode": "1", "at": None}, {"zipCode": None, "at": {"lat": 1.0}}], SHORT)
    record = write_atom(pa.record_batch({"number": [1, 2], "place": lacking}))
    assert [reason for _, _, reason in ArrowColumns(Visit).decode([record]).bad_events] == [
        "column place.at is null: declare it as Point | None",
        "column place.zip_code is null: declare it as str | None",
    ]


@pytest.mark.parametrize("of", ["runs", "union"])
def test_a_field_that_cannot_say_that_it_is_null_is_null_where_its_struct_is(of: str) -> None:
    ints = [pa.array([1, 2, 3])]
    inner = {
        "runs": runs([2, 3], [5, 6]),
        "union": pa.UnionArray.from_dense(pa.array([0, 0, 0], pa.int8()), pa.array([0, 1, 2], pa.int32()), ints),
    }[of]
    structs = pa.StructArray.from_arrays([inner, pa.nulls(3)], names=["x", "y"], mask=pa.array([False, True, False]))
    of_struct = msgspec.defstruct("Of", [("x", int | None), ("y", str | None)])
    record = write_atom(pa.record_batch({"s": structs}))
    found = ArrowColumns(msgspec.defstruct("Event", [("s", of_struct | None)])).decode([record])
    expected = [5, None, 6] if of == "runs" else [1, None, 3]
    assert not found.bad and list(found.columns["s.x"]) == expected and list(found.columns["s.y"]) == [None] * 3
    assert [one is None for one in found.columns["s"]] == [False, True, False]
    if of == "runs":
        assert list(ArrowColumns({"s.x": int | None}).decode([record]).columns["s.x"]) == expected


def test_columns_by_name_have_the_fields_of_their_structs() -> None:
    form = ArrowColumns({"place.at": Point, "number": int})
    form.check_column("place.at.lon")
    found = form.decode([table(FULL, [whole(row) for row in ROWS])]).columns
    assert {name: list(column) for name, column in found.items()} == {
        "number": [1, 2], "place.at": [Point(1.5), Point(2.5)], "place.at.lat": [1.5, 2.5],
        "place.at.lon": [0.5, 0.5],
    }  # fmt: skip


def test_other_columns_of_the_same_field_are_msgspecs_in_the_same_run() -> None:
    values = [place("1", 1.0), place("1", 1.0)]
    by_dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(values[:1], SHORT))
    others = [
        write_atom(pa.record_batch({"number": [1, 2], "place": column, "other": pa.nulls(2)}))
        for column in (pa.array(values, SHORT), by_dictionary)
    ]
    wrong = write_atom(pa.record_batch({"number": [1], "place": pa.array(["x"])}))
    twice = pa.StructArray.from_arrays([pa.array([1.0])] * 2, names=["lat", "lat"])
    double = write_atom(pa.record_batch({"number": [1], "place": pa.StructArray.from_arrays(
        [dictionary(["1"]), twice], names=["zipCode", "at"])}))  # fmt: skip
    form = ArrowColumns(Visit)
    found = form.decode([*others, wrong, double])
    assert list(found.columns["place.zip_code"]) == ["1"] * 4 and list(found.columns["other"]) == [None] * 4
    assert [index for index, _ in found.bad] == [2, 3]
    assert "column place is string, and Place is declared" in found.bad[0][1]
    assert [form.events_in(record) for record in (*others, wrong, double)] == [2, 2, 1, 1]


@pytest.mark.parametrize("declared", [Strict, Timed, Tree, Point | Strict, list[Strict], Point | int, int])
def test_structs_about_which_more_than_their_fields_decides_are_msgspecs(declared: Any) -> None:
    assert part_of("x", ("x",), declared) is None
