"""Functions that ask for None are followed where a format has checked the fields, and give what Python gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import pytest

from holon import Json, Tumbling
from holon.dataflow import Flow, Stream
from holon.dataflow.following.declared import may_be_none
from holon.testing import JobTestDriver
from wcrdt import LinearRegression, Sum


class Place(msgspec.Struct):
    city: str
    zip: int | None = None


class Bid(msgspec.Struct):
    at: int
    price: int
    note: str | None = None
    limit: int | None = None
    place: Place | None = None


ROWS = [
    Bid(0, 5, "a", 3, Place("Bern", 3000)),
    Bid(1, 6),
    Bid(2, 7, None, 9, Place("Basel")),
    Bid(3, 0, "", 0, None),
    Bid(4, 2, "b", None, Place("Zug", 6300)),
]


def bids_of(flow: Flow) -> Stream[Bid]:
    return flow.source("bids", Json(Bid), time=lambda b: b.at)


def helper(value: Any, other: Any) -> Any:
    return other if value is None else value


FUNCTIONS: list[Callable[[Bid], Any]] = [
    lambda b: b.note is None,
    lambda b: b.note is not None and b.note.upper() == "A",
    lambda b: b.price if b.limit is None else b.limit - b.price,
    lambda b: helper(b.limit, b.price) * 2,
    lambda b: (b.place.city, helper(b.place.zip, 0)) if b.place is not None else ("", -1),
    lambda b: (b.price is None, None is None, (b.note or b.limit) is None),
    lambda b: Place("none", b.limit) if b.place is None else Place(b.place.city.lower()),
    lambda b: b.limit == 3 or b.limit is None,
]


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_asking_for_none_is_followed(number: int) -> None:
    flow = Flow("none")
    bids_of(flow).map(FUNCTIONS[number]).sink("out")
    assert flow.explain()[1].how == "columns"
    wanted = msgspec.json.decode(msgspec.json.encode([FUNCTIONS[number](row) for row in ROWS]))
    assert flow.collect({"bids": ROWS}) == wanted


def test_filters_keys_and_folded_values_ask_for_none() -> None:
    flow = Flow("asks", columnar=True)
    some = bids_of(flow).filter(lambda b: b.note is not None or b.limit is not None)
    windows = some.key_by(lambda b: "" if b.place is None else b.place.city).window(Tumbling("1m"))
    windows.fold(Sum(), lambda b: 0 if b.limit is None else b.limit).sink("out")
    assert flow.collect({"bids": ROWS}) == [["", 0], ["Basel", 9], ["Bern", 3], ["Zug", 0]]


def test_what_fails_for_none_is_the_failure_of_such_records_alone() -> None:
    flow = Flow("fails", on_error="dead-letter")
    bids_of(flow).map(lambda b: 0 if b.note is None else b.limit + 1 if b.price != 2 else b.place.zip).sink("out")
    assert flow.explain()[1].how == "columns"
    assert flow.collect({"bids": ROWS}) == [4, 0, 0, 1, 6300]
    other = Flow("fails", on_error="dead-letter")
    bids_of(other).map(lambda b: b.limit > 1 if b.note is not None else False).sink("out")
    assert other.explain()[1].how == "columns"
    with pytest.warns(UserWarning, match="1 dead record, which the results lack"):
        assert other.collect({"bids": ROWS}) == [True, False, False, False]


@pytest.mark.parametrize(
    "function",
    [
        lambda b: b.note is (b.place if b.price else None),
        lambda b: b.note is b.limit,
        lambda b: None is b.note,
    ],
)
def test_other_identity_is_called_for_each_row(function: Callable[[Bid], Any]) -> None:
    flow = Flow("called")
    bids_of(flow).map(function).sink("out")
    line = function.__code__.co_firstlineno
    assert flow.explain()[1].how == f"row by row: it uses `is` (test_none.py:{line})"
    assert flow.collect({"bids": ROWS}) == list(map(function, ROWS))


def test_rows_that_a_function_has_made_may_hold_none_anywhere() -> None:
    flow = Flow("made")
    made = bids_of(flow).map(lambda b: Place(b.note, b.price))  # type: ignore[arg-type]
    made.map(lambda p: "none" if p.city is None else p.city).sink("out")
    assert flow.explain()[2].how == "row by row: it uses `is None` on rows that a function has made"
    assert flow.collect({"bids": ROWS}) == ["a", "none", "none", "", "b"]


class Outer(msgspec.Struct):
    bid: Bid | None
    place: Place
    odd: Place = None  # type: ignore[assignment]


def test_structs_within_structs_become_rows_with_columns() -> None:
    flow = Flow("inner")
    events = flow.source("events", Json(Outer))
    found = events.filter_map(lambda e: e.bid)
    found.filter(lambda b: b.note is None or b.price > 4).map(lambda b: (b.at, b.limit)).sink("bids")
    found.filter_map(lambda b: b.place).filter_map(lambda p: p.zip).sink("zips")
    events.map(lambda e: e.place).map(lambda p: p.city.upper()).sink("cities")
    events.map(lambda e: e.odd).sink("odd")
    rows = [Outer(bid, Place("x"), Place("y")) for one in ROWS for bid in (one, None)] * 3
    assert [step.how for step in flow.explain() if step.how] == ["columns"] * 8
    test = JobTestDriver(flow.job)
    test.feed(0, *rows)
    test.feed(0, b'{"bid":null,"place":{"city":"z"}}')
    test.finish()
    assert test.outputs() == [[0, 3], [1, None], [2, 9]] * 3
    assert test.outputs("zips") == [3000, 6300] * 3
    assert test.outputs("cities") == ["X"] * 30 + ["Z"]
    assert test.outputs("odd") == [{"city": "y", "zip": None}] * 30 + [None]


class Sale(msgspec.Struct, tag=True):
    note: str | None


class Refund(msgspec.Struct, tag=True):
    id: int


def test_rows_of_one_struct_are_checked_as_far_as_all_before_are() -> None:
    flow = Flow("kinds")
    events = flow.source("events", Json[Sale | Refund](Sale | Refund))
    events.of(Sale).map(lambda s: s.note is None).sink("out")
    made = events.map(lambda e: e).of(Sale).of(Sale)
    made.map(lambda s: s.note is None).sink("made")
    assert [step.how.partition(":")[0] for step in flow.explain() if step.verb == "map"] == [
        "columns",
        "columns",
        "row by row",
    ]
    assert flow.collect({"events": [Sale(None), Refund(1), Sale("x")]}) == [True, False]


def city_of(bid: Bid) -> str | None:
    return None if bid.place is None else bid.place.city


OF_GROUPS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda g: (g.key, g.sum(lambda b: 0 if b.limit is None else b.limit)), "columns"),
    (lambda g: ("nowhere" if g.key is None else g.key.upper(), g.count()), "row by row"),
    (lambda g: g.count() if g.key is None else g.sum(lambda b: b.price), "columns"),
    (lambda g: (g.max(lambda b: b.price) is None, g.window.end_ms is None, g.count()), "columns"),
    (lambda g: g.min(lambda b: b.price) if g.fold(Sum(), lambda b: b.at) is None else g.distinct(city_of), "columns"),
    (lambda g: g.fold(Sum(), lambda b: 1 if b.note is None else 2) + 1, "row by row"),
    (lambda g: g.count() if g.max(lambda b: (b.at, b.limit))[1] is None else g.sum(lambda b: b.price), "row by row"),
]
GROUPS = [
    [["Basel", 9], ["Bern", 3], ["Zug", 0], [None, 0]],
    [["BASEL", 1], ["BERN", 1], ["ZUG", 1], ["nowhere", 2]],
    [7, 5, 2, 2],
    [[False, False, 1]] * 3 + [[False, False, 2]],
    [1, 1, 1, 1],
    [2, 3, 3, 4],
    [7, 5, 1, 6],
]


@pytest.mark.parametrize("number", range(len(OF_GROUPS)))
def test_functions_of_groups_ask_for_none(number: int) -> None:
    function, how = OF_GROUPS[number]
    flow = Flow("groups")
    bids_of(flow).key_by(lambda b: None if b.place is None else b.place.city).window(Tumbling("1m")).agg(function).sink(
        "out"
    )
    assert flow.explain()[1].how.partition(":")[0] == how
    assert sorted(map(repr, flow.collect({"bids": ROWS}))) == sorted(map(repr, GROUPS[number]))


def test_a_group_without_a_key_has_none_and_two_folds_are_none_each_by_itself() -> None:
    flow = Flow("groups")
    window = bids_of(flow).window(Tumbling("1m"))
    window.agg(lambda g: (g.key is None, g.sum(lambda b: 1 if b.limit is None else 0))).sink("out")
    assert flow.collect({"bids": ROWS}) == [[True, 2]]
    flow = Flow("folds")
    window = bids_of(flow).window(Tumbling("1m"))
    window.agg(
        lambda g: (
            g.count()
            if g.fold(LinearRegression(), lambda b: (1, b.at)) is None
            and g.fold(LinearRegression(), lambda b: (b.price, b.at)) is not None
            else g.max(lambda b: b.price)
        )
    ).sink("out")
    assert flow.collect({"bids": ROWS}) == [5]


class Odd(msgspec.Struct):
    plain: int
    text: str = ""
    default: int = None  # type: ignore[assignment]
    made: list[int] = msgspec.field(default_factory=lambda: None)  # type: ignore[arg-type, return-value]
    filled: list[int] = msgspec.field(default_factory=list)
    marked: Annotated[str, msgspec.Meta(min_length=1)] = "x"
    maybe: Annotated[int | None, msgspec.Meta(ge=0)] = 0
    anything: Any = 0
    several: int | str = 0


class Checks(msgspec.Struct):
    plain: int

    def __post_init__(self) -> None:
        self.plain = None  # type: ignore[assignment]


def test_defaults_and_own_checks_may_put_none_where_no_type_allows_it() -> None:
    none = {name for name in Odd.__struct_fields__ if may_be_none(Odd, name)}
    assert none == {"default", "made", "maybe", "anything"}
    assert may_be_none(Checks, "plain")
