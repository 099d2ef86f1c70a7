"""Rows that come too late for a step: the stream of them, letters, and the account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holon import Json
from holon.dataflow import Flow, Sliding, Stream, Tumbling
from holon.testing import JobTestDriver
from holon.tracks.admission import AdmissionCounts


class Event(msgspec.Struct):
    at: int
    key: int


EVENTS = [Event(at, key) for at, key in [(1, 1), (25, 1), (3, 2), (27, 1), (4, 3), (150, 1), (7, 4)]]
"""With windows of 10 the times 3, 4 and 7 are late, with windows of 100 only 7."""


def flow_of(build: Callable[[Stream[Event]], Any], **settings: Any) -> Flow:
    flow = Flow("late", **settings)
    build(flow.source("events", Json(Event), time=lambda e: e.at, max_future_skew_ms=None))
    return flow


def driver(flow: Flow, size: int = 7) -> JobTestDriver:
    test = JobTestDriver(flow.job)
    for at in range(0, len(EVENTS), size):
        test.feed(0, *EVENTS[at : at + size])
        test.fail(0)
    test.finish()
    return test


def _routed(events: Stream[Event]) -> None:
    tens = events.key_by(lambda e: e.key).window(Tumbling(10)).agg(lambda g: (g.key, g.count()))
    tens.sink("tens")
    tens.late.filter(lambda e: e.key != 3).sink("late-tens", key=lambda e: e.key)
    events.window(Tumbling(100)).agg(lambda g: g.count()).sink("hundreds")


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_late_rows_of_a_step_have_an_output_though_another_step_took_the_record(size: int) -> None:
    test = driver(flow_of(_routed), size)
    assert test.outputs() == [[1, 1], [1, 2], [1, 1]]
    assert test.outputs("late-tens") == [{"at": 3, "key": 2}, {"at": 7, "key": 4}]
    assert test.outputs("hundreds") == [5, 1]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_late_rows_are_counted_by_step_and_a_record_that_nothing_else_takes_is_late(size: int) -> None:
    test = driver(flow_of(_routed), size)
    counts = AdmissionCounts(accepted=6, late=1, late_inserts=4, late_by_state={"agg2": 3, "agg7": 1})
    assert test.counts == counts
    assert [(letter["offset"], letter["state"]) for letter in test.late()] == [(6, "agg7")]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_row_goes_into_those_of_its_windows_that_are_open(size: int) -> None:
    def build(events: Stream[Event]) -> None:
        events.window(Sliding(40, 20)).agg(lambda g: (g.window.start_ms, g.count())).sink("counts")

    test = driver(flow_of(build), size)
    assert sorted(test.outputs("counts")) == [[-20, 1], [0, 5], [20, 2], [120, 1], [140, 1]]
    assert test.counts == AdmissionCounts(accepted=6, late=1, late_inserts=4, late_by_state={"agg2": 1})


def test_without_late_the_record_has_a_letter_for_each_step() -> None:
    def build(events: Stream[Event]) -> None:
        events.window(Tumbling(10)).agg(lambda g: g.count()).sink("tens")
        events.window(Tumbling(100)).agg(lambda g: g.count()).sink("hundreds")

    test = driver(flow_of(build))
    letters = [(letter["offset"], letter["state"]) for letter in test.late()]
    assert letters == [(2, "agg2"), (4, "agg2"), (6, "agg2"), (6, "agg4")]
    assert (test.counts.accepted, test.counts.late) == (6, 1)


def test_a_sink_before_any_window_gets_late_records_too() -> None:
    def build(events: Stream[Event]) -> None:
        events.window(Tumbling(10)).agg(lambda g: g.count()).sink("tens")
        events.filter(lambda e: e.key > 2).sink("copies")

    test = driver(flow_of(build))
    assert [row["at"] for row in test.outputs("copies")] == [4, 7]
    assert test.counts == AdmissionCounts(accepted=6, late=1, late_inserts=3, late_by_state={"agg2": 3})


def test_a_late_record_that_a_filter_drops_is_filtered_and_one_at_which_a_function_fails_is_dead() -> None:
    def build(events: Stream[Event]) -> None:
        sound = events.filter(lambda e: 6 // (e.key - 3) != -3)
        sound.window(Tumbling(10)).agg(lambda g: g.count()).sink("tens")

    test = driver(flow_of(build, on_error="dead-letter"))
    assert test.counts == AdmissionCounts(filtered=4, late=2, dead=1, late_inserts=2, late_by_state={"agg3": 2})


def test_the_function_of_a_key_never_sees_a_late_row() -> None:
    def build(events: Stream[Event]) -> None:
        keyed = events.key_by(lambda e: 6 // (e.key - 3)).window(Tumbling(10))
        keyed.agg(lambda g: g.count()).sink("tens")

    test = driver(flow_of(build, on_error="dead-letter"))
    assert (test.counts.late, test.counts.dead) == (3, 0)


def test_late_rows_go_into_further_windows_and_count_as_late() -> None:
    def build(events: Stream[Event]) -> None:
        tens = events.per_partition().window(Tumbling(10)).agg(lambda g: g.count())
        tens.sink("tens")
        again = tens.late.all_partitions().window(Tumbling(100)).agg(lambda g: (g.window.end_ms, g.count()))
        again.sink("again")
        again.late.sink("never")

    test = driver(flow_of(build))
    assert test.outputs("again") == [[100, 2]]
    assert [row["at"] for row in test.outputs("never")] == [7]
    assert test.counts == AdmissionCounts(accepted=4, late=3, late_inserts=4, late_by_state={"agg2": 3, "agg5": 1})


def test_rows_of_complete_windows_are_never_late_for_further_ones() -> None:
    def build(events: Stream[Event]) -> None:
        tens = events.window(Tumbling(10)).agg(lambda g: g.count())
        hundreds = tens.window(Tumbling(100)).agg(lambda g: g.sum(lambda count: count))
        hundreds.sink("hundreds")
        hundreds.late.sink("none")

    test = driver(flow_of(build))
    assert (test.outputs(), test.outputs("none")) == ([3, 1], [])


def test_explain_names_the_step_that_rows_are_late_for() -> None:
    steps = [(step.step, step.verb, step.after) for step in flow_of(_routed).explain()]
    assert steps[3:6] == [(4, "late", 2), (5, "filter", 4), (6, "sink", 5)]


def test_late_is_one_step_however_often_it_is_named() -> None:
    def build(events: Stream[Event]) -> None:
        tens = events.window(Tumbling(10)).agg(lambda g: g.count())
        tens.sink("tens")
        tens.late.sink("all")
        tens.late.filter(lambda e: e.at > 3).map(lambda e: e.at).sink("some")

    test = driver(flow_of(build))
    assert (len(test.outputs("all")), test.outputs("some")) == (3, [4, 7])


def test_as_many_rows_as_records_count_for_those_that_they_come_from() -> None:
    def repeated(events: Stream[Event]) -> None:
        events.flat_map(lambda e: [e] * e.key).window(Tumbling(10)).agg(lambda g: g.count()).sink("counts")

    test = JobTestDriver(flow_of(repeated).job)
    test.feed(0, Event(1, 0), Event(25, 2))
    test.finish()
    assert test.outputs() == [2]
    assert (test.counts.accepted, test.counts.filtered) == (1, 1)
