"""Early results: what is refused while a flow is built, what it says of itself, and how rows are marked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holon import GlobalWindow, Json
from holon.dataflow import Flow, FlowError, Session, Sliding, Stream, Tumbling
from holon.testing import JobTestDriver
from wcrdt import MaxBy, ORSet


class Click(msgspec.Struct):
    at: int
    item: int
    price: int


class Total(msgspec.Struct):
    item: int
    clicks: int
    final: bool


def clicks_of(flow: Flow, **settings: Any) -> Stream[Click]:
    return flow.source("clicks", Json(Click), time=lambda click: click.at, **settings)


DAY = Tumbling("1d")
REFUSED: dict[str, Callable[[Stream[Click]], Any]] = {
    r"window \(test_early.py:\d+\): updates='upsert' is for early": lambda s: s.window(DAY, updates="upsert"),
    r"window \(test_early.py:\d+\): early results are those of Tumbling": lambda s: s.window(Session("1m"), early="1s"),
    r"with each slide": lambda s: s.window(Sliding("1m", "1s"), early="1s"),
    r"less than the window's size, got '1d'": lambda s: s.window(DAY, early="1d"),
    r"more than 0 ms .* got 0": lambda s: s.window(DAY, early=0),
    r"step 2 \(fold, test_early.py:\d+\): .* g.final": lambda s: s.window(DAY, early="1s").fold(
        MaxBy(), lambda c: (c.price, c.item)
    ),
    r"step 2 \(distinct, test_early.py:\d+\)": lambda s: s.window(DAY, early="1s").distinct(lambda c: c.item),
    r"step 2 \(agg, test_early.py:\d+\): a orset has no early results": lambda s: s.window(DAY, early="1s").agg(
        lambda g: g.fold(ORSet(), lambda c: ("add", c.item))
    ),
    r"step 2 \(agg, test_early.py:\d+\): with updates=.retract. .* g.retracted": lambda s: s.window(
        DAY, early="1s", updates="retract"
    ).agg(lambda g: g.count()),
    r"step 3 \(top, .* and early results": lambda s: (
        s.window(DAY, early="1s").agg(lambda g: g.count()).top(1, by=lambda n: n)
    ),
    r"step 4 \(agg, .* count them several times": lambda s: (
        s.window(DAY, early="1s").agg(lambda g: g.count()).map(lambda n: n + 1).window(DAY).agg(lambda g: g.count())
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_has_no_early_results_is_refused_with_its_line_and_a_way_out(words: str) -> None:
    with pytest.raises(FlowError, match=words):
        REFUSED[words](clicks_of(Flow("early")))


@pytest.mark.parametrize(("settings", "early"), [({"bounded": True}, None), ({}, "1s")])
def test_a_window_of_all_time_needs_early_results_or_input_that_ends(settings: Any, early: str | None) -> None:
    flow = Flow("all")
    clicks_of(flow, **settings).window(GlobalWindow(), early=early).agg(lambda g: g.count()).sink("all")
    assert flow.job.name == "all"
    flow = Flow("endless")
    clicks_of(flow).window(GlobalWindow()).agg(lambda g: g.count()).sink("all")
    with pytest.raises(FlowError, match=r'step 2 \(agg, test_early.py:\d+\): .* give early="10s" .* or bounded=True'):
        flow.job  # noqa: B018


def _followed(group: Any) -> Total:
    return Total(group.key, group.count(), group.final)


def _called(group: Any) -> Total:
    return Total(group.key, group.count() + 0 * group.count().bit_length(), group.final)


@pytest.mark.parametrize("function", [_followed, _called])
def test_results_leave_at_ends_of_slices_and_are_marked(function: Callable[[Any], Total]) -> None:
    flow = Flow("totals")
    totals = clicks_of(flow).key_by(lambda click: click.item).window(Tumbling(100), early=10)
    totals.agg(function).sink("totals")
    how = flow.explain()[1].how
    assert ("row by row" in how) is (function is _called)
    assert how.endswith("early results each 10 ms of event time, as upserts")
    test = JobTestDriver(flow.job, 2)
    test.feed(1, {"at": 95, "item": 3, "price": 1})
    test.feed(0, {"at": 5, "item": 1, "price": 1}, {"at": 25, "item": 2, "price": 1}, {"at": 8, "item": 1, "price": 1})
    assert test.outputs() == [{"item": 1, "clicks": 1, "final": False}]
    test.checkpoint(0)
    test.fail(0)
    test.feed(0, {"at": 31, "item": 4, "price": 1})
    found = test.outputs()[1:]
    assert sorted(row["item"] for row in found) == [1, 2]
    assert {"item": 1, "clicks": 2, "final": False} in found, "late for its slice, it counts in the next one"
    test.feed(0, {"at": 101, "item": 4, "price": 1})
    test.feed(1, {"at": 101, "item": 4, "price": 1})
    found = test.outputs()[3:]
    assert sorted(row["item"] for row in found if row["final"]) == [1, 2, 3, 4]
    assert sum(not row["final"] for row in found) == 1, "the slice of the window's end has the final results alone"


def test_without_early_results_all_are_final() -> None:
    flow = Flow("final")
    clicks_of(flow).window(Tumbling(100)).agg(lambda g: (g.count(), g.final, g.retracted)).sink("out")
    assert flow.collect({"clicks": [Click(1, 1, 1)]}) == [[1, True, False]]
