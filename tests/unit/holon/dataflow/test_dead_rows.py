"""Functions behind windows that fail: under the dead-letter policy the row is a letter, and the others go on."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import msgspec
import pytest

from holon import WCRDT, Context, Job, ProcessingFunction, Source, Window, on_window
from holon import Json as JsonFormat
from holon.dataflow import Flow, Stream, Tumbling
from holon.errors import UserFunctionError
from holon.testing import JobTestDriver
from holon.tracks.admission import AdmissionCounts
from wcrdt import GCounter


class Event(msgspec.Struct):
    at: int
    key: int


class Total(msgspec.Struct):
    key: int
    count: int


EVENTS = [Event(at, key) for at, key in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 3), (15, 2), (16, 2)]]
"""Counts by key: 1, 2 and 3 in the first window of 10, and 2 of key 2 in the second."""

Build = Callable[[Stream[Total]], Any]


def totals_of(events: Stream[Event]) -> Stream[Total]:
    return events.key_by(lambda e: e.key).window(Tumbling(10)).agg(lambda g: Total(g.key, g.count()))


def driver(build: Build, on_error: Literal["fail", "dead-letter"] = "dead-letter") -> JobTestDriver:
    flow = Flow("dead", on_error=on_error)
    build(totals_of(flow.source("events", JsonFormat(Event), time=lambda e: e.at, max_future_skew_ms=None)))
    test = JobTestDriver(flow.job)
    test.feed(0, *EVENTS)
    test.checkpoint(0)
    test.finish()
    test.fail(0)
    return test


def rows_of(test: JobTestDriver) -> list[Any]:
    return [(letter["window"], letter["row_key"], letter["number"]) for letter in test.dead()]


def by_columns(totals: Stream[Total]) -> None:
    totals.map(lambda t: 6 // (t.count - 2)).sink("out")


def by_row(totals: Stream[Total]) -> None:
    totals.map(lambda t: [6 // (t.count - 2)][0]).sink("out")


def by_filter(totals: Stream[Total]) -> None:
    totals.filter(lambda t: 6 // (t.count - 2) < 9).map(lambda t: 6 // (t.count - 2)).sink("out")


def by_flat_map(totals: Stream[Total]) -> None:
    totals.flat_map(lambda t: [6 // (t.count - 2)]).sink("out")


def by_map_columns(totals: Stream[Total]) -> None:
    def divided(columns: Any) -> dict[str, Any]:
        return {"key": columns["key"], "count": [6 // (count - 2) for count in columns["count"].tolist()]}

    totals.map_columns(divided, Total).map(lambda t: t.count).sink("out")


@pytest.mark.parametrize("build", [by_columns, by_row, by_filter, by_flat_map, by_map_columns])
def test_the_row_at_which_a_function_fails_is_a_letter_and_the_others_go_on(build: Build) -> None:
    test = driver(build)
    assert test.outputs() == [-6, 6]
    assert rows_of(test) == [([0, 10], 2, 0), ([10, 20], 2, 0)]
    assert test.counts == AdmissionCounts(accepted=8), "rows of windows are no records"


def test_a_letter_has_step_window_key_row_and_traceback() -> None:
    first, _ = driver(by_row).dead()
    assert first["step"].startswith("step 3 (map, test_dead_rows.py:")
    assert (first["topic"], first["partition"], first["offset"], first["timestamp_ms"]) == ("events", 0, -1, 9)
    assert msgspec.json.decode(base64.b64decode(first["payload"])) == {"key": 2, "count": 2}
    assert "the function raised ZeroDivisionError: " in first["reason"]
    assert first["reason"].count("Traceback") == first["reason"].count("test_dead_rows.py") == 1
    assert "failing_rows.py" not in first["reason"]


@pytest.mark.parametrize("build", [by_columns, by_row])
def test_by_default_such_a_function_stops_the_job(build: Build) -> None:
    with pytest.raises(UserFunctionError, match=r"ZeroDivisionError.*window \[0, 10\)"):
        driver(build, "fail")


def test_a_group_whose_result_fails_is_a_letter_without_a_row() -> None:
    flow = Flow("dead", on_error="dead-letter")
    events = flow.source("events", JsonFormat(Event), time=lambda e: e.at, max_future_skew_ms=None)
    keyed = events.key_by(lambda e: e.key).window(Tumbling(10))
    keyed.agg(lambda g: (g.key, 6 // (g.count() - 2))).sink("out")
    test = JobTestDriver(flow.job)
    test.feed(0, *EVENTS)
    test.finish()
    assert test.outputs() == [[1, -6], [3, 6]]
    assert [(letter["step"].split(",")[0], letter["row_key"]) for letter in test.dead()] == [("step 2 (agg", 2)] * 2
    assert {base64.b64decode(letter["payload"]) for letter in test.dead()} == {b"null"}


def test_top_takes_the_largest_of_the_rows_that_are_left() -> None:
    test = driver(lambda totals: totals.top(1, by=lambda t: 6 // (t.count - 2)).sink("out"))
    assert test.outputs() == [{"key": 3, "count": 3}]
    assert rows_of(test) == [([0, 10], 2, 0), ([10, 20], 2, 0)]


def test_top_sets_rows_aside_whose_values_do_not_compare() -> None:
    mixed = {1: 1, 2: "two", 3: 5}
    test = driver(lambda totals: totals.top(3, by=lambda t: mixed[t.count]).sink("out"))
    assert [row["key"] for row in test.outputs()] == [3, 1, 2]
    assert rows_of(test) == [([0, 10], 2, 0)]
    assert "the function raised TypeError: '<' not supported" in test.dead()[0]["reason"]
    partly = {1: (0, 0), 2: (1, None), 3: (1, 5)}
    test = driver(lambda totals: totals.top(3, by=lambda t: partly[t.count]).sink("out"))
    assert [row["key"] for row in test.outputs()] == [2], "of the second window"
    assert rows_of(test) == [([0, 10], key, number) for number, key in enumerate([1, 2, 3])]


def test_keys_of_sinks_values_that_json_cannot_hold_and_keys_of_windows_fail_for_their_row_alone() -> None:
    def build(totals: Stream[Total]) -> None:
        totals.sink("out", key=lambda t: 6 // (t.count - 2))
        totals.map(lambda t: float("nan") if t.count == 3 else 0.5).sink("numbers")
        again = totals.key_by(lambda t: "x" if t.count > 1 else 6 // (t.count - 1)).window(Tumbling(20))
        again.agg(lambda g: (g.key, g.count())).sink("twenties")

    test = driver(build)
    assert [row["key"] for row in test.outputs()] == [1, 3]
    assert (test.outputs("numbers"), test.outputs("twenties")) == ([0.5, 0.5, 0.5], [["x", 3]])
    assert sorted(rows_of(test)) == [([0, 10], 1, 2), ([0, 10], 2, 0), ([0, 10], 3, 1), ([10, 20], 2, 0)]


def test_a_key_that_a_window_refuses_is_a_letter_of_its_row() -> None:
    def build(totals: Stream[Total]) -> None:
        again = totals.key_by(lambda t: {3: 0.5}.get(t.count, t.key)).window(Tumbling(20))
        again.agg(lambda g: (g.key, g.count())).sink("out")

    test = driver(build)
    assert test.outputs() == [[1, 1], [2, 2]]
    assert rows_of(test) == [([0, 10], 3, 0)]


def test_rows_that_fail_in_windows_of_windows_name_the_window_that_was_in_hand() -> None:
    def build(totals: Stream[Total]) -> None:
        twenties = totals.map(lambda t: 6 // (t.count - 2)).window(Tumbling(20)).agg(lambda g: g.count())
        twenties.map(lambda count: 1 // (count - 2)).sink("out")

    test = driver(build)
    assert test.outputs() == []
    assert rows_of(test) == [([0, 10], 2, 0), ([10, 20], 2, 0), ([0, 20], None, 1)]


class Handles(ProcessingFunction[Event]):
    count = WCRDT(GCounter(), Tumbling(10))

    def process(self, event: Event, ctx: Context) -> None:
        self.count.insert(1, event.at)
        if event.key == 9:
            ctx.emit_dead(event, reason="no handler")

    @on_window(count)
    def answer(self, window: Window, ctx: Context) -> None:
        ctx.emit_dead({"end": window.end_ms}, reason="unusable" * 20_000, step="answer", key="k")


def test_a_handler_writes_such_letters_itself_and_a_record_has_none() -> None:
    source = Source("events", JsonFormat(Event), _time_of)
    test = JobTestDriver(Job("test", source, Handles))
    test.feed(0, Event(1, 1), Event(12, 1))
    (letter,) = test.dead()
    assert (letter["window"], letter["step"], letter["row_key"]) == ([0, 10], "answer", "k")
    assert len(letter["reason"]) < 70_000
    with pytest.raises(UserFunctionError, match="emit_dead belongs into an on_window handler"):
        test.feed(0, Event(13, 9))


def _time_of(event: Event) -> int:
    return event.at


def test_the_policy_is_that_of_the_run() -> None:
    flow = Flow("dead")
    by_row(totals_of(flow.source("events", JsonFormat(Event), time=lambda e: e.at, max_future_skew_ms=None)))
    test = JobTestDriver(replace(flow.job, on_error="dead-letter"))
    test.feed(0, *EVENTS)
    test.finish()
    assert (test.outputs(), len(test.dead())) == ([-6, 6], 2)
