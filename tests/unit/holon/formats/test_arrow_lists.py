"""Lists and maps of Arrow that are read where they lie: the same columns and dead rows as JSON's."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from holon import JsonColumns
from holon.arrow import Arrow, ArrowColumns, write_atom
from holon.columnar.structs.columns import Lists
from holon.formats.arrow.structs import Items, part_of
from tests.unit.holon.formats.arrow_arrays import runs


class Item(msgspec.Struct):
    name: str
    price: int | None = None
    tags: list[str] = msgspec.field(default_factory=list)
    counts: dict[str, int] = msgspec.field(default_factory=dict)


class Order(msgspec.Struct):
    id: int
    items: list[Item] = msgspec.field(default_factory=list)
    other: list[Item | None] | None = None
    names: dict[int, str | None] = msgspec.field(default_factory=dict)


STRUCT = pa.struct({
    "name": pa.string(), "price": pa.int16(), "tags": pa.list_(pa.string()), "counts": pa.map_(pa.string(), pa.int8()),
})  # fmt: skip
FULL: list[dict[str, Any]] = [
    {"name": "a", "price": 1, "tags": ["x", "y"], "counts": [("k", 1), ("l", 2)]},
    {"name": "ü", "price": None, "tags": [], "counts": []},
]


def record(**columns: Any) -> bytes:
    return write_atom(pa.record_batch(columns))


def plainly(columns: Any) -> dict[str, str]:
    return {name: repr([value.item() if isinstance(value, np.generic) else value for value in column])
            for name, column in columns.items()}  # fmt: skip


def by_json(of: Any, *rows: dict[str, Any]) -> dict[str, Any]:
    return dict(JsonColumns(of).decode([msgspec.json.encode(row) for row in rows]).columns)


def test_items_have_the_columns_that_json_gives_with_lists_and_maps_within_structs() -> None:
    arrays = {
        "id": pa.array([1, 2]),
        "items": pa.array([FULL, []], pa.list_(STRUCT)),
        "other": pa.array([None, [None, FULL[0]]], pa.list_view(STRUCT)),
        "names": pa.array([[(1, "one"), (-2, None)], []], pa.map_(pa.int8(), pa.large_string())),
    }
    found = ArrowColumns(Order).decode([record(**arrays), record(id=[3])])
    assert not found.bad and not found.bad_events
    rows = [{**one, "counts": dict(one["counts"])} for one in FULL]
    expected = by_json(
        Order, {"id": 1, "items": rows, "names": {1: "one", -2: None}}, {"id": 2, "other": [None, rows[0]]}, {"id": 3}
    )
    assert plainly(found.columns) == plainly(expected) and "items.counts" in expected
    for name, column in expected.items():
        if isinstance(column, Lists):
            assert plainly({name: found.columns[name].flat()[0]}) == plainly({name: column.flat()[0]})
    assert [read for _, _, read in ArrowColumns(Order).columns_read()] == [True] * len(expected)
    assert list(found.columns["names"][1:]) == list(found.columns["names"])[1:] == [{}, {}]


@pytest.mark.parametrize("items", [pa.list_, pa.large_list, pa.list_view, pa.large_list_view])
def test_lists_of_any_type_are_read_also_by_dictionaries_and_runs_and_next_to_one_another(items: Any) -> None:
    of = pa.struct({"name": pa.string()})
    values = [[{"name": "a"}, {"name": "b"}], None, [], [{"name": "c"}]]
    whole = pa.array(values, items(of))
    two = pa.array([values[0], None], pa.list_(of, 2))
    form = ArrowColumns({"x": list[Item] | None})
    found = form.decode([record(x=whole), record(x=whole.slice(1)), record(x=two), record(x=pa.nulls(1)),
                         record(x=runs([2], [values[0]])), record(x=dictionary_of(whole))])  # fmt: skip
    ways = [*values, *values[1:], *values[0:2], None, values[0], values[0], *values[3:], None]
    assert not found.bad
    expected = [None if each is None else [one["name"] for one in each] for each in ways]
    assert list(found.columns["x.name"]) == expected
    assert list(found.columns["x"]) == [None if each is None else [Item(name) for name in each] for each in expected]


def dictionary_of(whole: Any) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array([3, None], pa.int8()), whole)


DEAD: list[tuple[Any, Any, list[int], str]] = [
    (list[Item], pa.array([[{"name": "a"}], [{"name": None}], None]), [1, 2], "column x[].name is null"),
    (list[Item], pa.array([[], [None], [{"name": "a"}]]), [1], "column x[] is null: declare it as Item | None"),
    (list[Item], pa.array([[], [], [None]]), [2], "column x[] is null"),
    (list[Item | None], pa.array([[None], None, [{"name": "a"}]]), [1], "column x is null: declare it as list | None"),
    (list[list[int]], pa.array([[[1]], [[1], [2, None]], [None]]), [1, 2], "column x[] has an item that is null"),
    (list[datetime], pa.array([[1], [2, 2**60]], pa.list_(pa.timestamp("ms"))), [1], "beyond the years 1 to 9999"),
    (dict[str, int], pa.array([[("a", 1)], [("a", 1), ("b", None)]], pa.map_(pa.string(), pa.int64())), [1],
     "column values of x is null: declare it as int | None"),
    (dict[int, bool], pa.array([[(1, True)], [(1, True), (2, True), (1, True)]], pa.map_(pa.int8(), pa.bool_())), [1],
     "column x is a map with duplicate keys"),
    (dict[str, Item], pa.array([[("a", {"name": "b"})], [("a", {"name": None})]],
                               pa.map_(pa.string(), pa.struct({"name": pa.string()}))), [1], "column values of x.name"),
    (list[dict[str, int]], pa.array([[[("a", 1), ("a", 2)]], [[]]], pa.list_(pa.map_(pa.string(), pa.int64()))), [0],
     "column x[] is a map with duplicate keys"),
]  # fmt: skip


@pytest.mark.parametrize("case", DEAD, ids=lambda case: f"{case[0]}-{case[2]}"[:80])
def test_a_row_with_an_item_that_does_not_fit_is_dead_alone_as_one_of_objects_is(case: Any) -> None:
    declared, array, dead, words = case
    payload = record(x=array, n=pa.array(range(len(array))))
    of = msgspec.defstruct("Event", [("x", declared), ("n", int)])
    found = ArrowColumns(of).decode([payload])
    assert [place for _, place, _ in found.bad_events] == dead and words in found.bad_events[0][2]
    assert found.columns["n"].tolist() == [row for row in range(len(array)) if row not in dead]
    events: Any = Arrow(of).decode([payload])
    assert [place for _, place, _ in events.bad_events] == dead
    assert repr([event.x for event in events.events]) == repr(list(found.columns["x"]))


def test_ints_beyond_64_bits_are_items_keys_and_fields_of_items() -> None:
    big = 2**63 + 1
    numbers = pa.array([big, 7, 8], pa.uint64())
    structs = pa.StructArray.from_arrays([numbers], names=["n"])
    of = msgspec.defstruct("Of", [("n", int)])
    form = ArrowColumns({"x": list[of], "m": dict[int, int], "l": list[list[int]]})
    found = form.decode([
        record(
            x=pa.ListArray.from_arrays([0, 1, 3], structs),
            m=pa.MapArray.from_arrays([0, 1, 3], numbers, numbers),
            l=pa.ListArray.from_arrays([0, 1, 2], pa.ListArray.from_arrays([0, 2, 3], numbers)),
        )
    ]).columns  # fmt: skip
    assert list(found["x"]) == [[of(big)], [of(7), of(8)]] and list(found["x.n"]) == [[big], [7, 8]]
    assert list(found["x.n"].flat()[0]) == [big, 7, 8]
    assert list(found["m"]) == [{big: big}, {7: 7, 8: 8}] and list(found["l"]) == [[[big, 7]], [[8]]]


def test_rows_whose_views_lie_over_one_another_have_objects_of_their_own() -> None:
    structs = pa.array([{"name": "a"}, {"name": "b"}, {"name": "c"}])
    views = pa.ListViewArray.from_arrays(pa.array([0, 0, 1], pa.int32()), pa.array([1, 1, 1], pa.int32()), structs)
    first, second, third = ArrowColumns({"x": list[Item]}).decode([record(x=views)]).columns["x"]
    assert [first, second, third] == [[Item("a")], [Item("a")], [Item("b")]] and first[0] is not second[0]


def test_a_list_in_a_field_of_a_null_struct_is_null_whatever_lies_there() -> None:
    lists = pa.array([[[1], [2]], [[3]]])
    inner = pa.StructArray.from_arrays([lists, pa.array([5, 6])], names=["l", "n"], mask=pa.array([False, True]))
    of = msgspec.defstruct("Of", [("l", list[list[int]]), ("n", int)])
    for declared, column in ((of | None, inner), (list[of | None], pa.ListArray.from_arrays([0, 1, 2], inner))):
        found = ArrowColumns({"x": declared}).decode([record(x=column)])
        assert not found.bad_events
        assert repr(list(found.columns["x"])) == repr(
            [of([[1], [2]], 5), None] if declared == of | None else [[of([[1], [2]], 5)], [None]]
        )
        expected: list[Any] = [[[1], [2]], None] if declared == of | None else [[[[1], [2]]], [None]]
        assert list(found.columns["x.l"]) == expected


def test_a_dict_that_comes_as_a_struct_is_msgspecs_and_other_columns_of_the_run_stay_where_they_lie() -> None:
    structs = pa.array([FULL[:1]], pa.list_(STRUCT))
    plain = record(id=[1], items=structs, names=pa.array([[(1, "one")]], pa.map_(pa.int8(), pa.string())))
    other = record(id=[2], items=structs, names=pa.array([{}], pa.struct([])))
    form = ArrowColumns(Order)
    found = form.decode([plain, other])
    assert list(found.columns["names"]) == [{1: "one"}, {}] and list(found.columns["items.name"]) == [["a"], ["a"]]
    assert set(form.ways) == {frozenset(), frozenset({"names"})}
    assert [name for name, _, read in form.ways[frozenset({"names"})].columns_read() if not read] == ["names"]


def test_more_mixtures_of_columns_than_a_format_remembers_are_read_all_the_same() -> None:
    names = [f"d{number}" for number in range(5)]
    form = ArrowColumns(msgspec.defstruct("Five", [(name, dict[str, int] | None) for name in names]))
    maps, structs = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())), pa.array([{"a": 1}])
    for chosen in range(32):
        columns = {name: structs if chosen >> place & 1 else maps for place, name in enumerate(names)}
        found = form.decode([record(**columns)])
        assert {name: list(column) for name, column in found.columns.items()} == {name: [{"a": 1}] for name in names}
    assert len(form.ways) <= 17


@pytest.mark.parametrize("of", [list[int], list[str], list[datetime], list[list[int]]])
def test_lists_whose_values_are_of_several_types_are_dead_or_msgspecs(of: Any) -> None:
    parts = [pa.array([[1]]), pa.array([[2], [3]])]
    union = pa.UnionArray.from_dense(pa.array([0, 1], pa.int8()), pa.array([0, 1], pa.int32()), parts)
    items = pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])])
    for column in (union, pa.ListArray.from_arrays([0, 1], items)):
        found = ArrowColumns({"x": of}).decode([record(x=column)])
        assert len(found.bad) == 1 or len(found.bad_events) == len(column)


@pytest.mark.parametrize(
    "declared",
    [set[int], dict[str, Any], dict[float, int], dict[str | None, int], list[bytes], list[Item | int], list, dict],
)
def test_other_lists_and_dicts_are_msgspecs(declared: Any) -> None:
    assert part_of("x", ("x",), declared) is None
    assert isinstance(part_of("x", ("x",), list[Item]), Items)
