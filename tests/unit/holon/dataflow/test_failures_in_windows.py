"""Functions that fail in sessions, windows driven by data, early results, sliding windows and joins are named."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from holon import Json
from holon.dataflow import Between, Count, Flow, Session, Sliding, Stream, Tumbling
from holon.errors import UserFunctionError
from holon.testing import JobTestDriver


class Reading(msgspec.Struct):
    at: int
    name: str
    value: int


READINGS = [Reading(at, "ab"[at % 2], 0 if at in (18, 23) else at) for at in range(1, 51)]
"""The rows with the offsets 17 and 22 have a value by which nothing can be divided; both have other keys."""
WINDOWS: dict[str, Callable[[Any, bool], Any]] = {
    "sessions": lambda keyed, _: keyed.window(Session(5)),
    "sliding": lambda keyed, _: keyed.window(Sliding(20, 10)),
    "early": lambda keyed, _: keyed.window(Tumbling(20), early=5, updates="upsert"),
    "count": lambda keyed, _: keyed.window(Count(3, timeout="1m")),
    "between": lambda keyed, _: keyed.window(Between(lambda r: r.at % 5 == 0, lambda r: r.at % 7 == 0, timeout="1m")),
}


def run(build: Callable[[Stream[Reading]], Any], policy: Any) -> JobTestDriver | UserFunctionError:
    flow = Flow("failing", on_error=policy)
    build(flow.source("readings", Json(Reading), time=lambda r: r.at, max_future_skew_ms=None))
    test = JobTestDriver(flow.job)
    try:
        test.feed(0, *READINGS)
        test.finish()
    except UserFunctionError as error:
        return error
    return test


def value(row: Reading) -> int:
    return 100 // row.value


def group_of(name: str, sharded: bool) -> Callable[[Stream[Reading]], Any]:
    def build(readings: Stream[Reading]) -> None:
        keyed: Any = readings.key_by(lambda r: r.name, sharded=True) if sharded else readings.key_by(lambda r: r.name)
        WINDOWS[name](keyed, sharded).agg(lambda g: (g.key, g.sum(value))).sink("out")

    return build


@pytest.mark.parametrize("name", list(WINDOWS))
@pytest.mark.parametrize("sharded", [False, True])
def test_a_row_that_fails_within_a_window_is_named(name: str, sharded: bool) -> None:
    check_rows(group_of(name, sharded), "step 2 (agg, ")


def check_rows(build: Callable[[Stream[Reading]], Any], step: str, offsets: Sequence[int] = (17, 22)) -> None:
    """A row that fails is named, under both policies; all others are in the results."""
    error = run(build, "fail")
    assert isinstance(error, UserFunctionError)
    what = "raised ZeroDivisionError: integer division or modulo by zero"
    named = rf"job 'failing': {re.escape(step)}test_failures_in_windows\.py:\d+\) {what} on partition 0 at offset "
    assert re.fullmatch(rf"{named}{offsets[0]} of topic 'readings'", str(error)) and error.offset == offsets[0]
    test = run(build, "dead-letter")
    assert isinstance(test, JobTestDriver) and test.outputs()
    assert [letter["offset"] for letter in test.dead()] == list(offsets)
    assert all(letter["reason"].startswith(step) and letter["reason"].endswith(what) for letter in test.dead())


@pytest.mark.parametrize("name", list(WINDOWS))
@pytest.mark.parametrize("sharded", [False, True])
def test_a_group_that_fails_is_named_by_its_key(name: str, sharded: bool) -> None:
    def build(readings: Stream[Reading]) -> None:
        keyed: Any = readings.key_by(lambda r: r.name, sharded=True) if sharded else readings.key_by(lambda r: r.name)
        WINDOWS[name](keyed, sharded).agg(lambda g: (g.key, g.count() // (g.key == "a"))).sink("out")

    check_results(build, "step 2 (agg, ", "b")


def check_results(build: Callable[[Stream[Reading]], Any], step: str, key: Any) -> None:
    """A row of windows that fails is named by its window and key, under both policies."""
    error = run(build, "fail")
    assert isinstance(error, UserFunctionError)
    what = "raised ZeroDivisionError: integer division or modulo by zero"
    named = (
        rf"job 'failing': {re.escape(step)}test_failures_in_windows\.py:\d+\), key {key!r}, {what} on partition 0 at "
    )
    assert re.match(rf"{named}window \[(-?\d+), (\d+)\) in complete_agg", str(error))
    test = run(build, "dead-letter")
    assert isinstance(test, JobTestDriver) and test.outputs()
    windows = [f"window [{letter['window'][0]}, {letter['window'][1]})" for letter in test.dead()]
    assert windows and windows[0] in str(error)
    assert all(letter["step"].startswith(step) and letter["row_key"] == key for letter in test.dead())
    assert all(what in letter["reason"] for letter in test.dead())


@pytest.mark.parametrize("side", ["left", "right", "pair"])
def test_rows_and_pairs_of_joins_that_fail_are_named(side: str) -> None:
    def build(readings: Stream[Reading]) -> None:
        def key(of: str) -> Callable[[Reading], int]:
            return (lambda r: 100 // r.value) if side == of else (lambda r: r.value)

        left = readings.key_by(key("left")).window(Tumbling(20))
        pairs = left.join(readings.filter(lambda r: r.name == "a").key_by(key("right")))
        pairs.map(lambda p: p.left.at // (p.left.value if side == "pair" else 1)).sink("out")

    if side == "pair":
        check_results(build, "step 5 (map, ", 0)
    elif side == "left":
        check_rows(build, "step 3 (join, ")
    else:  # which the other row does not get to
        check_rows(build, "step 4 (join, ", [17])
