"""Windows of sessions against a plain-Python oracle: each key's rows are sorted and cut at gaps."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from holon import Json
from holon.dataflow import Flow, Session, Stream, Tumbling
from holon.dataflow.sliced.shards import shard_of
from holon.testing import JobTestDriver
from holon.tracks.admission import AdmissionCounts
from wcrdt import GSet, Quantiles, Variance


class Event(msgspec.Struct):
    at: int
    key: int
    amount: float = 0.5


GAP = 20
SLICES, SIZES = (None, 1, 3, GAP), (1, 7, 1000)
Parts = Sequence[Sequence[Event]]


def flow_of(build: Callable[[Stream[Event]], Any], *, out_of_order: int = 0, **settings: Any) -> Flow:
    flow = Flow("sessions", **settings)
    source = flow.source("events", Json(Event), time=lambda e: e.at, out_of_order=out_of_order, max_future_skew_ms=None)
    build(source)
    return flow


def run(flow: Flow, parts: Parts, size: int = 1000, seed: int = 0) -> JobTestDriver:
    """Feed batches of up to ``size``; partitions save and lose their state now and then, and all at the end."""
    test, rng = JobTestDriver(flow.job, partitions=len(parts)), random.Random(seed)
    for at in range(0, max(map(len, parts)), size):
        for partition, events in enumerate(parts):
            test.feed(partition, *events[at : at + size])
        rng.choice((test.checkpoint, test.fail))(rng.randrange(len(parts)))
    test.finish()
    for partition in range(len(parts)):
        test.fail(partition)
    return test


@dataclass
class Found:
    key: int
    first: int
    end: int
    rows: list[Event]

    def row(self) -> list[Any]:
        amounts = [event.amount for event in self.rows]
        return [self.key, self.first, self.end, len(amounts), math.fsum(amounts), max(amounts), len(set(amounts))]


def oracle(events: Sequence[Event], gap: int = GAP) -> list[Found]:
    found: list[Found] = []
    by_key: defaultdict[int, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda e: e.at):
        by_key[event.key].append(event)
    for key, rows in by_key.items():
        cuts = [0, *(n for n in range(1, len(rows)) if rows[n].at - rows[n - 1].at > gap), len(rows)]
        for start, end in pairwise(cuts):
            found.append(Found(key, rows[start].at, rows[end - 1].at + gap, rows[start:end]))
    return found


def results(events: Sequence[Event], gap: int = GAP) -> list[Any]:
    return sorted(each.row() for each in oracle(events, gap))


def aggregated(session: Session) -> Callable[[Stream[Event]], Any]:
    def build(events: Stream[Event]) -> None:
        windows = events.key_by(lambda e: e.key).window(session)
        windows.agg(lambda g: (
            g.key, g.window.start_ms, g.window.end_ms, g.count(), g.sum(lambda e: e.amount),
            g.max(lambda e: e.amount), g.distinct(lambda e: e.amount),
        )).sink("out")  # fmt: skip

    return build


def drawn(seed: int, partitions: int, rows: int = 60, jitter: int = 0) -> list[list[Event]]:
    rng = random.Random(seed)
    times = sorted(rng.randrange(-150, 250) * rng.choice((1, 10)) for _ in range(rows))
    parts: list[list[Event]] = [[] for _ in range(partitions)]
    for at in sorted(times, key=lambda at: at + rng.randint(0, jitter)):
        amount = rng.choice((0.1, 0.2, 1e16, -1e16, 0.3))
        parts[rng.randrange(partitions)].append(Event(at, rng.randrange(5), amount))
    return parts


def flat(parts: Parts) -> list[Event]:
    return [event for events in parts for event in events]


def check_sessions(slice_ms: int | None, partitions: int, size: int, seed: int) -> None:
    """Sessions of drawn rows are those of the oracle."""
    parts = drawn(seed, partitions, jitter=15)
    flow = flow_of(aggregated(Session(GAP, slice_ms)), out_of_order=15)
    assert sorted(run(flow, parts, size, seed).outputs()) == results(flat(parts))


@pytest.mark.slow
@pytest.mark.parametrize("slice_ms", SLICES)
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("size", SIZES)
def test_sessions_are_those_of_sorted_rows(slice_ms: int | None, partitions: int, size: int) -> None:
    check_sessions(slice_ms, partitions, size, seed=0)


@pytest.mark.parametrize("slice_ms", [1, 4, 7, GAP])
@pytest.mark.parametrize(("second", "sessions"), [(GAP - 1, 1), (GAP, 1), (GAP + 1, 2)])
@pytest.mark.parametrize("start", range(8))
def test_rows_a_gap_apart_are_together_and_later_ones_are_not(
    slice_ms: int, second: int, sessions: int, start: int
) -> None:
    events = [Event(start, 1), Event(start + second, 1)]
    found = run(flow_of(aggregated(Session(GAP, slice_ms))), [events]).outputs()
    assert len(found) == sessions
    assert sorted(found) == results(events)


def test_a_session_leaves_once_its_slice_is_complete_though_no_record_comes_there() -> None:
    test = JobTestDriver(flow_of(aggregated(Session(GAP, 5))).job)
    test.feed(0, Event(2, 1), Event(10, 2))
    test.advance_watermark(0, 24)
    assert test.outputs() == []
    test.advance_watermark(0, 25)
    assert [row[:3] for row in test.outputs()] == [[1, 2, 22]]
    test.feed(0, Event(28, 2))
    test.advance_watermark(0, 49)
    assert len(test.outputs()) == 1
    test.advance_watermark(0, 50)
    assert [row[:3] for row in test.outputs()[1:]] == [[2, 10, 48]]


def test_sessions_that_a_slice_closes_leave_in_the_order_of_keys_whatever_came_first() -> None:
    events = [Event(1 + n, key) for n, key in enumerate((5, -3, 4, 30, 2, -3))]
    found = run(flow_of(aggregated(Session(GAP, 10))), [events]).outputs()
    assert [row[0] for row in found] == [-3, 2, 4, 5, 30]


def test_a_session_that_a_row_ends_and_the_next_one_leave_apart() -> None:
    events = [Event(0, 1), Event(21, 1), Event(43, 1)]
    found = run(flow_of(aggregated(Session(20, 20))), [events]).outputs()
    assert [row[:4] for row in found] == [[1, 0, 20, 1], [1, 21, 41, 1], [1, 43, 63, 1]]


@pytest.mark.parametrize("partitions", [2, 5])
def test_each_key_has_one_partition_that_answers(partitions: int) -> None:
    parts = drawn(5, partitions)
    test = run(flow_of(aggregated(Session(GAP))), parts)
    answered = defaultdict(set)
    for partition, _, value in test.raw_outputs():
        answered[msgspec.json.decode(value)[0]].add(partition)
    assert answered == {key: {shard_of(key, partitions)} for key in answered}
    assert len({shard_of(key, partitions) for key in answered}) > 1


def test_without_a_key_all_rows_are_one_group() -> None:
    parts = [[Event(1, 1), Event(60, 4)], [Event(15, 2), Event(34, 3)]]

    def build(events: Stream[Event]) -> None:
        events.window(Session(GAP)).agg(lambda g: (g.window.start_ms, g.window.end_ms, g.count())).sink("out")
        events.window(Session(GAP)).fold(GSet(), lambda e: e.key).sink("keys")
        events.window(Session(GAP)).distinct(lambda e: e.key % 2).sink("odd")

    test = run(flow_of(build, out_of_order=1), parts)
    assert test.outputs() == [[1, 54, 3], [60, 80, 1]]
    assert test.outputs("keys") == [[1, 2, 3], [4]]
    assert sorted(test.outputs("odd")) == [0, 0, 1, 1]


def test_lattices_of_a_fold_are_combined_and_read_as_elsewhere() -> None:
    events = [Event(at, 1, amount) for at, amount in [(0, 1.0), (9, 2.0), (19, 4.5), (33, 0.25)]]

    def build(stream: Stream[Event]) -> None:
        keyed = stream.key_by(lambda e: (e.key, "a")).window(Session(GAP, 3))
        keyed.fold(Variance(), lambda e: e.amount).sink("variance")
        keyed.agg(lambda g: g.fold(Quantiles(), lambda e: e.amount).quantile(1)).sink("largest")
        keyed.agg(lambda g: (g.key, g.mean(lambda e: e.at))).sink("mean")

    test = run(flow_of(build), [events])
    mean = sum(e.amount for e in events) / 4
    assert test.outputs() == [[[1, "a"], sum((e.amount - mean) ** 2 for e in events) / 4]]
    assert test.outputs("largest")[0] == pytest.approx(4.5, rel=0.01)
    assert test.outputs("mean") == [[[1, "a"], 15.25]]


def test_keys_of_other_types_and_numbers_beyond_64_bits() -> None:
    def build(events: Stream[Event]) -> None:
        keyed = events.key_by(lambda e: str(e.key) if e.key % 2 else (e.key, "even")).window(Session(GAP))
        keyed.agg(lambda g: (g.key, g.sum(lambda e: e.key * 2**62))).sink("out")

    test = run(flow_of(build), [[Event(1, 1), Event(2, 2), Event(3, 2), Event(9, 1)]])
    assert sorted(test.outputs(), key=repr) == [["1", 2**63], [[2, "even"], 2**64]]


def test_functions_of_groups_that_are_not_followed_get_the_session_too() -> None:
    def build(events: Stream[Event]) -> None:
        keyed = events.key_by(lambda e: e.key).window(Session(GAP))
        keyed.agg(lambda g: {"the key": g.key, "count": g.count(), "window": g.window}).sink("out")

    flow = flow_of(build)
    assert flow.explain()[1].how.startswith("row by row")
    found = run(flow, [[Event(1, 1), Event(5, 1), Event(70, 2)]]).outputs()
    assert found == [{"the key": 1, "count": 2, "window": [1, 25]}, {"the key": 2, "count": 1, "window": [70, 90]}]


# --- late and failing rows --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize(("lateness", "late"), [(0, [3, 31]), (10, [3])])
def test_a_row_is_late_once_its_slice_is_complete(size: int, lateness: int, late: list[int]) -> None:
    events = [Event(at, 1) for at in (1, 38, 3, 31, 36)]

    def build(stream: Stream[Event]) -> None:
        found = stream.key_by(lambda e: e.key).window(Session(GAP, 5)).agg(lambda g: (g.window, g.count()))
        found.sink("out")
        found.late.map(lambda e: e.at).sink("late-rows")

    test = run(flow_of(build, lateness=lateness), [events], size)
    assert test.outputs("late-rows") == late
    assert test.outputs() == [[[1, 21], 1], [[36 if lateness == 0 else 31, 58], 4 - len(late)]]
    by_state = {"agg2": len(late)}
    assert test.counts == AdmissionCounts(5 - len(late), late=len(late), late_inserts=len(late), late_by_state=by_state)


def test_late_rows_have_one_letter_each() -> None:
    test = run(flow_of(aggregated(Session(GAP, 5))), [[Event(1, 1), Event(50, 1), Event(3, 1)]])
    assert [(letter["offset"], letter["state"]) for letter in test.late()] == [(2, "agg2")]


def test_a_session_at_which_a_function_fails_is_a_letter_and_the_others_go_on() -> None:
    def build(events: Stream[Event]) -> None:
        totals = events.key_by(lambda e: e.key).window(Session(GAP, 10)).agg(lambda g: (g.key, 6 // (g.count() - 2)))
        totals.sink("out")

    events = [Event(1, key) for key in (1, 2, 2, 3, 3, 3)]
    test = run(flow_of(build, on_error="dead-letter"), [events])
    assert test.outputs() == [[1, -6], [3, 6]]
    (letter,) = test.dead()
    assert (letter["row_key"], letter["window"]) == (2, [20, 30])
    assert "ZeroDivisionError" in letter["reason"]


def test_a_record_at_which_the_key_fails_leaves_nothing_behind() -> None:
    def build(events: Stream[Event]) -> None:
        events.key_by(lambda e: 6 // (e.key - 3)).window(Session(GAP)).agg(lambda g: (g.key, g.count())).sink("out")

    test = run(flow_of(build, on_error="dead-letter"), [[Event(1, 3), Event(2, 5), Event(30, 3), Event(90, 5)]])
    assert test.outputs() == [[3, 1], [3, 1]]
    assert (test.counts.accepted, test.counts.dead) == (2, 2)


# --- with other windows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 3])
def test_sessions_go_into_further_windows_by_the_end_of_the_slice_that_closes_them(partitions: int) -> None:
    def build(events: Stream[Event]) -> None:
        found = events.key_by(lambda e: e.key).window(Session(GAP, 10)).agg(lambda g: (g.window.end_ms, g.count()))
        found.sink("sessions")
        sums = found.window(Tumbling(50)).agg(lambda g: (g.window.end_ms, g.count(), g.sum(lambda row: row[1])))
        sums.sink("out")
        sums.late.sink("never")

    parts = drawn(7, partitions, jitter=15)
    test = run(flow_of(build, out_of_order=15), parts)
    expected: defaultdict[int, list[int]] = defaultdict(list)
    for each in oracle(flat(parts)):
        expected[(each.end // 10 * 10 + 9) // 50 * 50 + 50].append(len(each.rows))
    assert sorted(test.outputs()) == sorted([each.end, len(each.rows)] for each in oracle(flat(parts)))
    assert sorted(test.outputs("out")) == [[end, len(some), sum(some)] for end, some in sorted(expected.items())]
    assert test.outputs("never") == []


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("size", [3, 1000])
def test_rows_of_windows_have_sessions_too(partitions: int, size: int) -> None:
    def build(events: Stream[Event]) -> None:
        tens = events.key_by(lambda e: e.key).window(Tumbling(10)).agg(lambda g: (g.key, g.count()))
        found = tens.key_by(lambda row: row[0]).window(Session(30))
        found.agg(lambda g: (g.key, g.window.start_ms, g.window.end_ms, g.count(), g.sum(lambda row: row[1]))).sink(
            "out"
        )

    parts = drawn(3, partitions, jitter=15)
    counts: defaultdict[tuple[int, int], int] = defaultdict(int)
    for event in flat(parts):
        counts[event.at // 10 * 10 + 9, event.key] += 1
    tens = [Event(at, key, count) for (at, key), count in counts.items()]
    expected = [
        [found.key, found.first, found.end, len(found.rows), sum(e.amount for e in found.rows)]
        for found in oracle(tens, 30)
    ]
    assert sorted(run(flow_of(build, out_of_order=15), parts, size).outputs()) == sorted(expected)


def test_sessions_of_sessions() -> None:
    def build(events: Stream[Event]) -> None:
        found = events.key_by(lambda e: e.key).window(Session(GAP, 5)).agg(lambda g: g.count())
        found.window(Session(100)).agg(lambda g: (g.window.start_ms, g.count(), g.sum(lambda n: n))).sink("out")

    parts = [[Event(1, 1), Event(12, 1)], [Event(3, 2), Event(300, 3)]]
    assert run(flow_of(build), parts).outputs() == [[24, 2, 3], [324, 1, 1]]


@pytest.mark.parametrize("size", [1, 1000])
def test_sessions_of_each_partition(size: int) -> None:
    def build(events: Stream[Event]) -> None:
        keyed = events.per_partition().key_by(lambda e: e.key).window(Session(GAP))
        each = keyed.agg(lambda g: (g.key, g.window.start_ms, g.window.end_ms, g.count()))
        each.sink("out")
        each.all_partitions().window(Tumbling(10_000)).agg(lambda g: g.count()).sink("all")
        each.late.sink("never")

    parts = drawn(9, 3, jitter=15)
    test = run(flow_of(build, out_of_order=15), parts, size, seed=4)
    expected = [[found.key, found.first, found.end, len(found.rows)] for part in parts for found in oracle(part)]
    assert sorted(test.outputs()) == sorted(expected)
    assert sum(test.outputs("all")) == len(expected)


def test_sessions_at_the_end_of_all_times() -> None:
    last = 2**53 - 1
    events = [Event(at, 1) for at in (last - 50, last - 25, last)]
    found = run(flow_of(aggregated(Session(GAP, 7))), [events]).outputs()
    assert [row[1:4] for row in found] == [[at, at + GAP, 1] for at in (last - 50, last - 25, last)]
