"""Joins of two streams within windows: their rows, what is refused, and rows that fail or come late."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from holon import Json
from holon.dataflow import Flow, FlowError, Joined, Session, Stream, Tumbling
from holon.dataflow.joins.pairs import PairColumns, pairs_of
from holon.testing import JobTestDriver


class Bid(msgspec.Struct):
    auction: int
    price: int
    at: int
    note: str | None = None


class Sale(msgspec.Struct):
    id: int
    category: str
    at: int


class Boxed(msgspec.Struct):
    inner: Sale
    at: int


class Either(msgspec.Struct):
    kind: str
    id: int
    value: int
    at: int
    text: str = ""


def streams(flow: Flow, **options: Any) -> tuple[Stream[Bid], Stream[Sale]]:
    bids = flow.source("bids", Json(Bid), time=lambda b: b.at, **options)
    return bids, flow.source("sales", Json(Sale), time=lambda s: s.at, **options)


def joined(flow: Flow) -> Stream[Joined[Bid, Sale]]:
    bids, sales = streams(flow)
    return bids.key_by(lambda b: b.auction).window(Tumbling("1s")).join(sales.key_by(lambda s: s.id))


BIDS = [Bid(1, 10, 0), Bid(2, 20, 1), Bid(1, 30, 2, "x"), Bid(3, 5, 3), Bid(1, 40, 1_500)]
SALES = [Sale(1, "a", 900), Sale(2, "b", 950), Sale(1, "c", 999), Sale(4, "d", 999), Sale(1, "e", 1_001)]


def test_pairs_are_of_one_key_and_window_by_the_left_row_then_the_right() -> None:
    flow = Flow("joined")
    joined(flow).map(lambda both: (both.left.price, both.left.note, both.right.category)).sink("out")
    found = flow.collect({"bids": BIDS, "sales": SALES})
    assert found == [[10, None, "a"], [10, None, "c"], [20, None, "b"], [30, "x", "a"], [30, "x", "c"], [40, None, "e"]]


def test_whole_pairs_leave_as_objects_of_both_sides() -> None:
    flow = Flow("joined")
    joined(flow).filter(lambda both: both.right.category == "b").sink("out")
    assert flow.collect({"bids": BIDS, "sales": SALES}) == [
        {
            "left": {"auction": 2, "price": 20, "at": 1, "note": None},
            "right": {"id": 2, "category": "b", "at": 950},
        }
    ]


def test_functions_of_pairs_are_followed_and_further_windows_take_them() -> None:
    flow = Flow("best")
    (
        joined(flow)
        .key_by(lambda both: both.right.category, sharded=False)
        .window(Tumbling("2s"))
        .agg(lambda g: (g.key, g.max(lambda both: both.left.price), g.window.end_ms))
        .sink("out")
    )
    assert flow.collect({"bids": BIDS, "sales": SALES}) == [["a", 30, 2000], ["b", 20, 2000], ["c", 30, 2000],
                                                           ["e", 40, 2000]]  # fmt: skip
    assert {step.how for step in flow.explain()} == {"", "columns"}


def test_explain_shows_both_sides_and_who_holds_them() -> None:
    flow = Flow("joined")
    joined(flow).sink("out")
    left, right = flow.explain()[2:4]
    assert (left.verb, left.after, left.also_after) == ("join", 1, ())
    assert (right.verb, right.after, right.also_after) == ("join", 2, (3,))
    assert left.keys.startswith("per partition") and right.keys.startswith("all-to-all: join sends")


def test_rows_stay_on_the_partition_of_the_left_side() -> None:
    flow = Flow("joined")
    rows = flow.source("rows", Json(Either), time=lambda e: e.at)
    sales = rows.filter(lambda e: e.kind == "sale").key_by(lambda e: e.id)
    bids = rows.filter(lambda e: e.kind == "bid").key_by(lambda e: e.id).window(Tumbling("1s"))
    bids.join(sales).map(lambda both: (both.left.value, both.right.value)).sink("out")
    test = JobTestDriver(flow.job, partitions=3)
    for partition in range(3):
        test.feed(partition, Either("bid", 7, partition, 10), Either("sale", 7, 10 + partition, 20))
    test.finish()
    found = [(partition, json.loads(value)) for partition, _, value in test.raw_outputs()]
    assert sorted(found) == [(p, [p, 10 + q]) for p in range(3) for q in range(3)]


def test_late_rows_of_either_side_have_letters_and_meet_nobody() -> None:
    flow = Flow("joined", lateness="500ms")
    rows = flow.source("rows", Json(Either), time=lambda e: e.at)
    sales = rows.filter(lambda e: e.kind != "bid").key_by(lambda e: e.id)
    bids = rows.filter(lambda e: e.kind != "sale").key_by(lambda e: e.id).window(Tumbling("1s"))
    bids.join(sales).map(lambda both: (both.left.value, both.right.value)).sink("out")
    test = JobTestDriver(flow.job, partitions=1)
    test.feed(
        0, Either("bid", 1, 1, 10), Either("sale", 1, 2, 1_400), Either("sale", 1, 3, 20), Either("both", 1, 4, 9)
    )
    test.feed(0, Either("bid", 1, 5, 1_600), Either("bid", 1, 6, 30), Either("both", 1, 7, 40))
    test.finish()
    assert sorted(test.outputs()) == [[1, 3], [1, 4], [4, 3], [4, 4], [5, 2]]
    assert test.counts.late == 2 and len(test.late()) == 3


@pytest.mark.parametrize("cut", [1, 100])
def test_rows_that_cannot_be_kept_or_have_no_key_are_dead_and_the_others_are_joined(cut: int) -> None:
    flow = Flow("joined", on_error="dead-letter")
    rows = flow.source("rows", Json(Either), time=lambda e: e.at)
    sales = rows.filter(lambda e: e.kind == "sale").key_by(lambda e: 12 // e.id)
    bids = rows.filter(lambda e: e.kind == "bid").key_by(lambda e: 12 // e.id).window(Tumbling("1s"))
    bids.join(sales).map(lambda both: (both.left.value, both.right.value)).sink("out")
    test = JobTestDriver(flow.job, partitions=1)
    records = [Either("bid", 3, 1, 10), Either("bid", 0, 2, 10), Either("sale", 3, 3, 10), Either("sale", 0, 4, 10)]
    for first in range(0, len(records), cut):
        test.feed(0, *records[first : first + cut])
    test.finish()
    assert test.outputs() == [[1, 3]]
    assert test.counts.dead == 2


def test_a_function_that_fails_at_a_pair_sets_it_aside_with_its_key() -> None:
    flow = Flow("joined", on_error="dead-letter")
    joined(flow).map(lambda both: 100 // (both.left.price - 20)).sink("out")
    test = JobTestDriver(flow.job, partitions={"bids": 1, "sales": 1})
    test.feed(("bids", 0), *BIDS)
    test.feed(("sales", 0), *SALES)
    test.finish()
    assert test.outputs() == [-10, -10, 10, 10, 5]
    (letter,) = test.dead()
    assert letter["row_key"] == 2 and "ZeroDivisionError" in letter["reason"]


def refusals() -> dict[str, tuple[Callable[[Stream[Bid], Stream[Sale]], object], str]]:
    second = Tumbling("1s")
    return {
        "no key": (lambda b, s: b.window(second).join(s.key_by(lambda s: s.id)), "put key_by"),
        "sharded": (
            lambda b, s: b.key_by(lambda b: b.auction, sharded=True).window(second).join(s.key_by(lambda s: s.id)),
            "leave sharded=True out",
        ),
        "other sharded": (
            lambda b, s: b.key_by(lambda b: b.auction).window(second).join(s.key_by(lambda s: s.id, sharded=True)),
            "leave sharded=True out",
        ),
        "sessions": (
            lambda b, s: b.key_by(lambda b: b.auction).window(Session("1s")).join(s.key_by(lambda s: s.id)),
            "follow from the times of rows alone",
        ),
        "early": (
            lambda b, s: b.key_by(lambda b: b.auction).window(second, early="100ms").join(s.key_by(lambda s: s.id)),
            "follow from the times of rows alone",
        ),
        "windows": (
            lambda b, s: b.window(second).agg(lambda g: Sale(g.count(), "", 0)).key_by(lambda s: s.id).window(second)
            .join(s.key_by(lambda s: s.id)),
            "join before window",
        ),
        "union": (
            lambda b, s: b.union(b).key_by(lambda b: b.auction).window(second).join(s.key_by(lambda s: s.id)),
            "join each stream",
        ),
        "values": (
            lambda b, s: b.map(lambda b: b.price).key_by(lambda p: p).window(second).join(s.key_by(lambda s: s.id)),
            "put a map to one before it",
        ),
        "structs within": (
            lambda b, s: b.key_by(lambda b: b.auction).window(second)
            .join(s.map(lambda s: Boxed(Sale(s.id, "", 0), s.at)).key_by(lambda x: x.at)),
            "put a map to a Struct",
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", refusals())
def test_a_join_that_cannot_be_made_is_refused_with_what_to_do(name: str) -> None:
    join, advice = refusals()[name]
    with pytest.raises(FlowError, match=advice):
        join(*streams(Flow("refused")))


def test_streams_of_two_flows_and_top_of_pairs_are_refused() -> None:
    bids, _ = streams(Flow("one"))
    _, sales = streams(Flow("two"))
    with pytest.raises(FlowError, match="another flow"):
        bids.key_by(lambda b: b.auction).window(Tumbling("1s")).join(sales.key_by(lambda s: s.id))
    with pytest.raises(FlowError, match="come in parts"):
        joined(Flow("top")).top(1, by=lambda both: both.left.price)


@pytest.mark.parametrize("spread", [1, 10**15])
@pytest.mark.parametrize("repeated", [False, True])
def test_places_of_pairs_are_those_of_nested_loops(spread: int, repeated: bool) -> None:
    rng = np.random.default_rng(5)
    left = rng.integers(-20, 20, 60) * spread
    right = rng.integers(-20, 20, 50) * spread if repeated else rng.permutation(30) * spread
    wanted = [(i, j) for i, one in enumerate(left) for j, other in enumerate(right) if one == other]
    assert list(zip(*map(np.ndarray.tolist, pairs_of(left, right)), strict=True)) == wanted


def test_keys_are_equal_as_elements_are() -> None:
    ours, theirs = pairs_of([1, True, 1.0, None, "1", b"1"], [b"1", "1", None, 1.0, True, 1])
    assert list(zip(ours.tolist(), theirs.tolist(), strict=True)) == [(n, 5 - n) for n in range(6)]
    assert [len(places) for places in pairs_of(([1], [2]), ([1], [2], [3]))] == [0, 0]
    assert [len(places) for places in pairs_of([], [1])] == [0, 0]


def test_keys_of_pairs_are_no_column_of_theirs() -> None:
    places = np.array([1, 0])
    columns = PairColumns({"left": ({"a": np.array([5, 6])}, places)}, (["x", "y"], places))
    assert list(columns) == ["left.a"] and len(columns) == 1 and "key" not in columns
    assert columns["left.a"].tolist() == [6, 5] and columns["key"] == ["y", "x"]  # type: ignore[union-attr]
