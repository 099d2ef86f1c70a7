"""``flat_map`` by columns: as many rows as the function gives, in its order, each at the place of its row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import numpy as np
import pytest

from holon import Json
from holon.dataflow import Flow
from holon.dataflow.following.results import flat_mapped, struct_of
from holon.dataflow.rows import Rows, columns_of
from holon.dataflow.steps import followed
from holon.dataflow.tracing import trace_flat
from tests.laws.row_functions import outcome
from tests.unit.holon.dataflow.followed_records import Event, Item

pytestmark = pytest.mark.usefixtures("loops_installed")


class Sold(msgspec.Struct):
    sku: str
    value: float


def _item(sku: str, price: float, count: int, note: str | None = None, marks: list[int] | None = None) -> Item:
    return Item(sku, price, count, note, marks or [])


ITEMS = [[], [_item("a", 1.5, 2)], [_item("b", 0.5, 3, "x", [1, 2]), _item("a", -0.0, 0)], [_item("c", 2.0, 1, "y")]]
ROWS = [
    Event(place, place % 3, 0.5, place % 2 > 0, ["", "The  cat", "a b a"][place % 3], place % 2 or None,
          tags=["w", "x"][: place % 3], items=ITEMS[place % 4], nums=[1, 2, 0][: place % 4])
    for place in range(24)
]  # fmt: skip


def helped(event: Any) -> Any:
    if event.f:
        return [Sold(item.sku, item.price) for item in event.items if item.count]
    return []


FOLLOWED: list[Callable[[Any], Iterable[Any]]] = [
    lambda event: event.t.split(),
    lambda event: event.items,
    lambda event: event.nums,
    lambda event: [Sold(item.sku, item.price * item.count) for item in event.items],
    lambda event: (Sold(word, event.x) for word in event.t.lower().split() if len(word) > 1),
    lambda event: [item.price if item.count > 1 else event.a for item in event.items],
    lambda event: [(mark, item.sku) for item in event.items for mark in item.marks],
    lambda event: [event.a, event.x],
    lambda event: [],
    lambda event: (Sold(event.t, 1.0), Sold("end", event.x)),
    lambda event: event.items if event.f else [event.t],
    lambda event: [len([tag for tag in event.tags if tag < word]) for word in event.t.split()],
    lambda event: [sum([mark * item.count for mark in item.marks]) for item in event.items],
    lambda event: [item.note.upper() for item in event.items if item.note is not None],
    helped,
]
FAILING: list[Callable[[Any], Iterable[Any]]] = [
    lambda event: [6 // item.count for item in event.items],
    lambda event: [event.a // 2] if 6 // event.a else [],
]


def _columns(rows: list[Event]) -> Rows:
    places = np.arange(len(rows))
    return Rows(places, places, columns=columns_of(Event, rows), struct=Event, is_whole=True)


def _by_columns(function: Callable[[Any], Any], rows: list[Event]) -> list[str]:
    decision, why_not = followed(function, Event, checked=True, trace=trace_flat)
    assert decision is not None, why_not
    made = flat_mapped(decision, struct_of(decision), _columns(rows))
    assert made.index.tolist() == made.ts_ms.tolist()
    return [f"{place} {value!r}" for place, value in zip(made.index.tolist(), made.objects(), strict=True)]


def _by_rows(function: Callable[[Any], Any], rows: list[Event]) -> list[str]:
    return [f"{place} {value!r}" for place, row in enumerate(rows) for value in function(row)]


@pytest.mark.parametrize("number", range(len(FOLLOWED)))
def test_results_are_those_of_python(number: int) -> None:
    function = FOLLOWED[number]
    for rows in (ROWS, ROWS[:1], ROWS[4:5], ROWS[5:12]):
        assert _by_columns(function, rows) == _by_rows(function, rows)


@pytest.mark.parametrize("number", range(len(FAILING)))
def test_a_row_that_fails_fails_as_in_python(number: int) -> None:
    function = FAILING[number]
    for row in ROWS:
        alone = outcome(lambda one: _by_rows(function, [one]), row)
        assert outcome(lambda one: _by_columns(function, [one]), row) == alone


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda event: [event.t] * event.a, "a list of expressions"),
        (lambda event: {item.sku for item in event.items}, "a comprehension of a set"),
        (lambda event: [item.sku for item in event.items] or [event.t], "for more than len, sum"),
        (lambda event: [item.sku for item in event.items][:1], "for more than len, sum"),
        (lambda event: ["".join(reversed([item.sku for item in event.items]))], "for more than len, sum"),
        (lambda event: event.t, "a loop over a str"),
        (lambda event: [item.note.upper() for item in event.items if event.n is not None], "it raises AttributeError"),
        (lambda event: [[item.sku for item in event.items].copy()], "for more than len, sum"),
    ],
)
def test_other_results_are_called_for(function: Callable[[Any], Any], why: str) -> None:
    decision, why_not = followed(function, Event, checked=True, trace=trace_flat)
    assert decision is None and why in why_not


def twice(tags: Any) -> Any:
    return [tag for tag in tags if tag != "w"]


def test_a_list_that_is_made_twice_is_not_followed() -> None:
    function = lambda event: [sum([len(twice(event.tags)), len(twice(event.tags))])]  # noqa: E731
    decision, why_not = followed(function, Event, checked=True, trace=trace_flat)
    assert decision is None and "makes the list of a comprehension twice" in why_not


def test_a_flow_of_words_works_on_columns() -> None:
    flow = Flow("words")
    events = flow.source("events", Json(Event), time=lambda event: event.ts)
    words = events.flat_map(lambda event: [Sold(word, event.x) for word in event.t.lower().split()])
    words.filter(lambda word: word.sku != "a").sink("out")
    assert [step.how for step in flow.explain()][1:3] == ["columns", "columns"]
    expected = [Sold(word, event.x) for event in ROWS for word in event.t.lower().split() if word != "a"]
    assert flow.collect({"events": ROWS}) == [msgspec.to_builtins(one) for one in expected]
