"""Sets, maps and records."""

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from wcrdt import (
    ColumnsOf,
    CountDistinct,
    GCounter,
    GSet,
    Histogram,
    MapOf,
    Max,
    MaxBy,
    Min,
    ORSet,
    PairOf,
    PNCounter,
    RecordOf,
    Sum,
    TopK,
    YText,
)
from wcrdt.lattice import Lattice
from wcrdt.lattices.columns import rows_of


def test_a_set_keeps_elements_apart_that_python_does_not():
    found = GSet()
    found.insert_many([1, True, 1.0, Decimal(1), 1])
    assert [repr(x) for x in found.value] == ["True", "1", "1.0", "Decimal('1')"]
    assert 1 in found and 2 not in found and len(found) == 4


def test_inserting_a_known_element_gives_an_empty_delta():
    found = GSet()
    found.insert_many(np.array([1, 2, 2]))
    assert found.insert(2) == GSet()


def test_an_add_wins_over_a_removal_that_did_not_see_it():
    mine, theirs = ORSet(), ORSet()
    mine.add("x", actor=1)
    theirs.merge(mine)
    theirs.remove("x")
    mine.add("x", actor=1)
    mine.merge(theirs)
    assert mine.value == ("x",)


def test_a_removal_takes_away_what_it_saw_also_when_it_comes_first():
    writer, reader = ORSet(), ORSet()
    added = writer.add("x")
    removed = writer.remove("x")
    reader.merge(removed)
    reader.merge(added)
    assert reader.value == () and reader == writer


def test_removed_elements_leave_no_tombstones():
    found = ORSet()
    for number in range(100):
        found.add(number)
        found.remove(number)
    assert found.to_wire() == [[], [[0, 100]], []]


def test_removing_what_is_not_there_changes_nothing():
    found = ORSet()
    assert found.remove("x") == ORSet() == found


@pytest.mark.parametrize("refused", ["x", ("put", 1), ("add",), ("add", [1]), ("add", 1, 2)])
def test_an_orset_refuses_other_edits(refused):
    with pytest.raises(TypeError):
        ORSet().insert(refused)


def test_a_refused_edit_keeps_the_edits_before_it_out_too():
    found = ORSet()
    with pytest.raises(TypeError):
        found.insert_many([("add", 1), ("remove", [1])])
    assert found == ORSet()


def test_the_delta_of_a_column_has_the_keys_that_changed():
    highest = MapOf(Max())
    keys, prices = np.array([1, 2, 3]), np.array([10, 20, 30])
    highest.insert_many((keys, prices))
    delta = highest.insert_many((np.array([1, 2, 4]), np.array([5, 25, 0])))
    assert delta.value == {2: 25, 4: 0}


def test_the_delta_of_a_column_has_the_whole_contribution_of_the_actor():
    counts = MapOf(GCounter())
    counts.insert(("a", 5), actor=1)
    counts.insert(("a", 7), actor=2)
    delta = counts.insert_many((["a", "b"], np.array([1, 1])), actor=1)
    assert delta.value == {"a": 6, "b": 1}


@pytest.mark.parametrize(
    "keys",
    [
        np.array([3, 1, 3, 2**40, 1]),
        np.array([3, -(2**63), 3, 2**63 - 1, -(2**63)]),
        np.array([3, 1, 3, 0, 1], np.uint8),
        np.array(["a", "b", "a", "é", "b"]),
        ["a", 1, "a", b"x", 1],
        [None, 1, None, (1, "a"), 1],
        (np.array([3, 1, 3, 2, 1]), ["a", "b", "a", "d", "b"]),
        (np.array([0, 2**62, 0, 1, 2**62]), np.array([0, -(2**62), 0, 5, -(2**62)])),
        (np.array([0, 2**31, 0, 1, 2**31]), np.array([0, -(2**62), 0, 5, -(2**62)]), np.array([1, 1, 1, 2, 1])),
        ((np.array([1, 2, 1, 3, 2]), ["x", "y", "x", "y", "y"]), np.array([7, 8, 7, 7, 8])),
    ],
)
@pytest.mark.parametrize("inner", [Max(), Min(), Sum(), GSet(), TopK(2, distinct=False), Histogram([0, 5])])
def test_columns_of_every_kind_of_key_equal_single_inserts(keys, inner: Lattice):
    numbers = np.array([5, -1, 6, 7, 5])
    rows = list(zip(*map(np.ndarray.tolist, [numbers]), strict=True))
    parts = (numbers, numbers) if inner.tag == "topk" else numbers
    values = [(n, n) if inner.tag == "topk" else n for (n,) in rows]
    single, column = MapOf(inner), MapOf(inner)
    plain_keys = zip(*(_as_list(k) for k in keys), strict=True) if isinstance(keys, tuple) else _as_list(keys)
    for key, value in zip(plain_keys, values, strict=True):
        single.insert((key, value))
    column.insert_many((keys, parts))
    assert column == single
    assert len(column) == 3


def _as_list(column):
    if isinstance(column, tuple):
        return list(zip(*map(_as_list, column), strict=True))
    return column.tolist() if isinstance(column, np.ndarray) else column


def test_rows_of_one_key_keep_their_order():
    texts = MapOf(YText())
    texts.insert_many((["a", "b", "a", "a"], ["x", "y", (0, "<"), "z"]))
    assert texts.value == {"a": "<xz", "b": "y"}


def test_rows_of_far_apart_keys_keep_their_order_too():
    letters = [chr(ord("a") + row % 26) for row in range(600)]
    keys = np.array([0, 2**60, -(2**60)] * 200)
    texts = MapOf(YText())
    texts.insert_many((keys, letters))
    assert texts.get(2**60) == "".join(letters[1::3])


@pytest.mark.parametrize("refused", [True, 1.0, Decimal(1), (1, True), float("nan"), [1]])
def test_keys_that_a_dict_takes_for_others_are_refused_everywhere(refused):
    counts = MapOf(GCounter())
    with pytest.raises((TypeError, ValueError)):
        counts.insert((refused, 1))
    with pytest.raises((TypeError, ValueError)):
        counts.insert_many(([1, refused], [1, 1]))
    with pytest.raises((TypeError, ValueError)):
        counts.insert_many(([1, refused], np.array([1, 1])))
    assert counts == MapOf(GCounter())


def test_a_refused_element_leaves_no_key_and_no_half_record_behind():
    record = RecordOf(count=GCounter(), seen=GSet())
    with pytest.raises(ValueError, match="NaN"):
        record.insert((1, float("nan")))
    with pytest.raises(ValueError, match="NaN"):
        record.insert_many((np.array([1, 1]), [0.5, float("nan")]))
    counts = MapOf(record)
    with pytest.raises(ValueError, match="NaN"):
        counts.insert(("a", (1, float("nan"))))
    with pytest.raises(ValueError, match="NaN"):
        counts.insert_many((["a", "b"], (np.array([1, 1]), [0.5, float("nan")])))
    assert record == record.bottom() and counts == counts.bottom()


def test_a_map_reads_in_the_order_of_its_keys():
    counts = MapOf(GCounter())
    counts.insert_many(([10, 9, "b", "a", None], [1, 1, 1, 1, 0]))
    assert list(counts.value) == [None, 9, 10, "a", "b"]
    assert counts.get(10) == 1 and counts.get("c") is None and None in counts and len(counts) == 5


def test_a_restricted_map_is_independent():
    counts = MapOf(GCounter())
    counts.insert_many((["a", "b"], [1, 2]))
    part = counts.restricted(["b", "c"])
    part.insert(("b", 1))
    assert (part.value, counts.value) == ({"b": 3}, {"a": 1, "b": 2})


@pytest.mark.parametrize("inner", [GCounter(), Sum(), GSet(), RecordOf(n=PNCounter(), top=Max())])
@pytest.mark.parametrize(("left", "right"), [(200, 200), (200, 3), (3, 200)])
def test_maps_that_are_columns_combine_as_objects_do(inner: Lattice[Any, Any], left: int, right: int):
    def element(number: int) -> Any:
        return (number, -number) if isinstance(inner, RecordOf) else number

    columns, single, both = [MapOf(inner), MapOf(inner)], [MapOf(inner), MapOf(inner)], MapOf(inner)
    for side, rows in enumerate((left, right)):
        elements = [(number % 90, element(number + side)) for number in range(rows)]
        columns[side].insert_many(([key for key, _ in elements], [part for _, part in elements]), actor=side)
        for one in elements:
            single[side].insert(one, actor=side)
            both.insert(one, actor=side)
    assert columns[0].held_as_columns is (left == 200)
    columns[0].combine(columns[1])
    single[0].combine(single[1])
    assert columns[0] == single[0]
    assert columns[0].value == both.value


@pytest.mark.parametrize("rows", [10, 200])
def test_the_entries_of_chosen_keys_are_those_of_all(rows: int):
    counts: MapOf[int, int, int] = MapOf(GCounter())
    counts.insert_many((np.arange(rows), np.ones(rows, np.int64)))
    for key in (1, 4, -7, 1_000):  # above columns, where these hold the others
        counts.insert((key, 5))
    chosen = counts.entries_where(lambda key: key % 3 == 1)
    wanted = {key: count for key, count in counts.value.items() if key % 3 == 1}
    assert {key: entry.value for key, entry in chosen.items()} == wanted
    assert wanted[1] == 6 and wanted[1_000] == 5
    assert counts.entries_where(lambda key: False) == {}


def test_maps_of_maps_and_records_group_their_columns():
    nested = MapOf(MapOf(RecordOf(bids=GCounter(), best=MaxBy())))
    outer, inner, price = np.array([1, 1, 2]), np.array([7, 8, 7]), np.array([5, 6, 6])
    nested.insert_many((outer, (inner, (np.ones(3, np.int64), (price, outer)))))
    assert nested.value == {
        1: {7: {"bids": 1, "best": (5, (1,))}, 8: {"bids": 1, "best": (6, (1,))}},
        2: {7: {"bids": 1, "best": (6, (2,))}},
    }


def test_records_name_their_parts_and_pairs_do_not():
    record = RecordOf({"class": Max()}, count=GCounter())
    record.insert((3, 1))
    assert record.value == {"class": 3, "count": 1} and record["count"].value == 1
    with pytest.raises(KeyError, match="no part 'size' in a record of class, count"):
        record["size"]
    pair = PairOf(Max(), Min())
    pair.insert_many((np.array([1, 2]), np.array([1, 2])))
    assert pair.value == (2, 1)


def test_a_product_is_compact_if_all_its_parts_are():
    assert PairOf(Max(), Min()).compact and RecordOf(a=PairOf(Max(), Min())).bottom().compact
    assert not RecordOf(a=Max(), b=GSet()).compact and not MapOf(Max()).compact


@pytest.mark.parametrize("refused", [5, (1,), (1, 2, 3), [1, 2]])
def test_a_record_takes_one_element_for_each_part(refused):
    with pytest.raises(TypeError, match="tuple of 2 parts"):
        PairOf(Max(), GSet()).insert(refused)


def test_records_and_maps_of_other_shapes_are_not_merged():
    for mine, other in [
        (MapOf(Max()), MapOf(Min())),
        (MapOf(TopK(1)), MapOf(TopK(2))),
        (RecordOf(a=Max()), RecordOf(b=Max())),
        (PairOf(Max(), Max()), PairOf(Max(), Min())),
    ]:
        with pytest.raises(TypeError, match="shape"):
            mine.merge(other)


def test_an_empty_record_makes_no_sense():
    with pytest.raises(ValueError, match="at least one part"):
        RecordOf()


def test_no_rows_change_nothing():
    for value, columns in [
        (MapOf(Max()), (np.array([], np.int64), np.array([], np.int64))),
        (MapOf(GSet()), []),
        (RecordOf(a=Max()), ([],)),
        (RecordOf(a=GSet()), []),
        (TopK(2), (np.array([], np.int64), np.array([], np.int64))),
    ]:
        assert value.insert_many(columns) == value == value.bottom()


def test_distinct_elements_are_counted_as_sets_hold_them() -> None:
    found = CountDistinct[object]()
    found.insert_many([1, True, 1.0, "1", 1])
    assert found.value == len(found) == 4 and 1.0 in found
    assert found.to_wire() == GSet().from_wire(found.to_wire()).to_wire()


KEYS = np.arange(300) % 100


@pytest.mark.parametrize(
    ("inner", "parts", "odd"),
    [
        (GSet(), KEYS * 7 % 10, 0.5),
        (GSet(), [f"who-{number % 9}" for number in range(300)], 1),
        (GSet(), (KEYS % 3, [b"a", b"b", b"b"] * 100), None),
        (TopK(2), (KEYS * 37 % 50, [f"item-{number % 9}" for number in range(300)]), (Decimal("99.5"), "item-0")),
        (TopK(2, distinct=False), (KEYS / 4, KEYS % 7), (99, 0)),
    ],
)
def test_columns_of_sets_and_of_the_best_become_objects_where_they_have_to(inner: Any, parts: Any, odd: Any) -> None:
    """Two partitions' deltas as columns, at a peer, and an element that no column holds in the midst."""
    state, by_rows, peer = ColumnsOf(inner), MapOf(inner), ColumnsOf(inner)
    for actor in (1, 2):
        column = (KEYS + actor, parts)
        delta = state.insert_many(column, actor=actor)
        assert state.held_as_columns and delta.held_as_columns
        peer.merge(peer.from_wire(delta.to_wire()))
        for row in rows_of(column):
            by_rows.insert(row, actor=actor)
    assert state.to_wire() == by_rows.to_wire() == peer.to_wire() and by_rows.to_wire()[0] == 1
    assert state.value == by_rows.value == peer.value
    assert peer.from_wire(state.former_wire()) == state, "an earlier release has written an object a key"
    for each in (state, peer, by_rows):
        each.insert_many(([5], [odd]), actor=3)
    assert not state.held_as_columns and state.to_wire() == by_rows.to_wire() == peer.to_wire()
    assert type(by_rows.to_wire()[0]) is list and state.value == by_rows.value
    keys, values = state.value.columns()
    assert keys == list(range(1, 102)) and values[4] == by_rows.get(5)


def test_a_record_that_does_not_fold_refuses_a_column_before_it_holds_half_of_it():
    found = MapOf(RecordOf(count=GCounter(), seen=GSet()))
    keys, seen = np.array([1, 1, 2]), np.array([7, 8, 9])
    with pytest.raises(ValueError, match="cannot go down by 1"):
        found.insert_many((keys, (np.array([1, 2, -1]), seen)))
    assert found.value == {}
    found.insert_many((keys, (np.array([1, 0, 1]), seen)))
    assert found.value == {1: {"count": 1, "seen": (7, 8)}, 2: {"count": 1, "seen": (9,)}}


def test_a_column_of_ints_is_checked_as_its_elements_are():
    counts = np.array([1, 2, -1])
    with pytest.raises(ValueError, match="cannot go down by 1"):
        GCounter().check_many(counts)
    GCounter().check_many(counts[:2])
    GCounter().check_many(counts[:0])
    record = RecordOf(count=GCounter(), seen=GSet())
    with pytest.raises(ValueError, match="cannot go down by 1"):
        record.insert_many((counts, np.array([7, 8, 9])))
    assert record.value == RecordOf(count=GCounter(), seen=GSet()).value
