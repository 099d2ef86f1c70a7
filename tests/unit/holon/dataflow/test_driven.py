"""Windows driven by data: their order, what closes them, early results, late and failing rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from holon import Json
from holon.dataflow import Between, Change, Count, Flow, Group, Stream, Tumbling
from holon.dataflow.data_driven import open_windows
from holon.dataflow.sliced import shards
from holon.errors import UserFunctionError
from holon.testing import JobTestDriver
from wcrdt import GSet
from wcrdt.lattices.keyed.keys import Unfit


class Event(msgspec.Struct):
    at: int
    key: int = 0
    id: int = 0
    on: bool = False
    off: bool = False


def flow_of(build: Callable[[Stream[Event]], Any], *, bounded: bool = False, out_of_order: int = 0, **settings: Any):
    flow = Flow("driven", **settings)
    source = flow.source(
        "events", Json(Event), time=lambda e: e.at, out_of_order=out_of_order, bounded=bounded, max_future_skew_ms=None
    )
    build(source)
    return flow


def row(g: Group[Any, Event]) -> tuple[Any, ...]:
    return g.key, g.window.start_ms, g.window.end_ms, g.fold(GSet(), lambda e: e.id), g.timed_out


def rows_of(windows: Any, **early: Any) -> Callable[[Stream[Event]], Any]:
    return lambda events: events.key_by(lambda e: e.key).window(windows, **early).agg(row).sink("out")


def shown(results: Sequence[Any]) -> list[Any]:
    return [[key, start, end, sorted(ids), out] for key, start, end, ids, out in results]


def run(flow: Flow, parts: Sequence[Sequence[Event]], order: Sequence[int] = ()) -> list[Any]:
    test = JobTestDriver(flow.job, len(parts))
    for partition in order or range(len(parts)):
        test.feed(partition, *parts[partition])
    test.finish()
    return shown(test.outputs())


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_rows_are_counted_by_time_then_partition_whatever_came_first(order: tuple[int, int]) -> None:
    # time        1    2    2    3    4
    # partition   1    0    1    0    1
    parts = [[Event(2, id=20), Event(3, id=30)], [Event(1, id=11), Event(2, id=21), Event(4, id=41)]]
    found = run(flow_of(rows_of(Count(2, slice=10)), bounded=True), parts, order)
    assert found == [[0, 1, 3, [11, 20], False], [0, 2, 4, [21, 30], False], [0, 4, 5, [41], True]]


def test_rows_of_one_time_and_partition_keep_the_order_of_the_log() -> None:
    events = [Event(5, id=9), Event(5, id=3), Event(5, id=7), Event(4, id=1)]
    found = run(flow_of(rows_of(Count(2, slice=10)), out_of_order=3), [events])
    assert found == [[0, 4, 6, [1, 9], False], [0, 5, 6, [3, 7], False]]


def test_the_last_window_closes_where_input_is_to_end_and_else_stays_open() -> None:
    events = [Event(at, id=at) for at in range(5)]
    assert run(flow_of(rows_of(Count(3, slice=2)), bounded=True), [events])[1:] == [[0, 3, 5, [3, 4], True]]
    test = JobTestDriver(flow_of(rows_of(Count(3, slice=2))).job)
    test.feed(0, *events, Event(100, id=100))
    assert shown(test.outputs()) == [[0, 0, 3, [0, 1, 2], False]]
    test.checkpoint(0)
    test.fail(0)
    test.feed(0, Event(102))
    assert shown(test.outputs())[1:] == [[0, 3, 101, [3, 4, 100], False]], "open for as long as rows are missing"


def test_a_timeout_closes_a_window_without_the_rows_that_come_then() -> None:
    # start      1........20 | 21: exactly 20 ms later, no window is open; 30 begins one, 35 ends it
    events = [Event(1, id=1, on=True), Event(20, id=2), Event(21, id=3), Event(30, id=4, on=True), Event(35, off=True)]
    between = Between[Event](start=lambda e: e.on, end=lambda e: e.off, timeout=20, slice=10)
    assert run(flow_of(rows_of(between)), [events]) == [[0, 1, 21, [1, 2], True], [0, 30, 36, [0, 4], False]]
    counted = run(flow_of(rows_of(Count(3, timeout=20, slice=10))), [events])
    assert counted == [[0, 1, 21, [1, 2], True], [0, 21, 36, [0, 3, 4], False]]


def test_a_window_that_is_due_closes_in_a_slice_without_rows() -> None:
    test = JobTestDriver(flow_of(rows_of(Count(2, timeout=25, slice=10))).job, 2)
    test.feed(0, Event(3, id=1), Event(29, key=1))
    test.feed(1, Event(29, key=1))
    assert test.outputs() == []
    test.feed(0, Event(30, key=2))
    test.feed(1, Event(30, key=2))
    assert shown(test.outputs())[0] == [0, 3, 28, [1], True]


def early(g: Group[Any, Event]) -> tuple[Any, ...]:
    return g.key, g.window.end_ms, g.count(), g.final, g.retracted, g.timed_out


EARLY = [Event(1), Event(12), Event(13), Event(14), Event(15), Event(31), Event(55, key=9)]
UPSERTS = [[2, 1, False, False], [14, 3, True, False], [16, 2, False, False], [32, 3, True, False]]
RETRACTED = [UPSERTS[0], [2, 1, False, True], *UPSERTS[1:3], [16, 2, False, True], UPSERTS[3]]


@pytest.mark.parametrize(("updates", "wanted"), [("upsert", UPSERTS), ("retract", RETRACTED)])
def test_early_results_come_at_slices_with_rows_and_closing_ones_are_final(updates: Any, wanted: list[Any]) -> None:
    flow = flow_of(
        lambda events: events.key_by(lambda e: e.key).window(Count(3), early=10, updates=updates).agg(early).sink("out")
    )
    test = JobTestDriver(flow.job)
    for event in EARLY:
        test.feed(0, event)
        test.checkpoint(0)
        test.fail(0)
    assert [each[1:5] for each in test.outputs() if each[0] == 0] == wanted
    assert "slices of 10 ms with early results" in flow.explain()[1].how


def test_an_early_result_of_a_window_that_times_out_is_retracted_too() -> None:
    windows = Count(3, timeout=20)
    flow = flow_of(lambda events: events.window(windows, early=10, updates="retract").agg(early).sink("out"))
    test = JobTestDriver(flow.job)
    test.feed(0, Event(1))
    test.finish()
    first, last = [None, 2, 1, False, False, False], [None, 21, 1, True, False, True]
    assert test.outputs() == [first, [None, 2, 1, False, True, False], last]


@pytest.mark.parametrize("lateness", [0, 10])
def test_rows_of_complete_slices_are_late_and_have_a_stream(lateness: int) -> None:
    def build(events: Stream[Event]) -> None:
        counts = events.key_by(lambda e: e.key).window(Count(2, slice=10)).agg(row)
        counts.sink("out")
        counts.late.map(lambda e: e.id).sink("missed")

    test = JobTestDriver(flow_of(build, lateness=lateness).job)
    test.feed(0, Event(1, id=1), Event(15, id=2), Event(5, id=3))
    test.finish()
    assert test.outputs("missed") == ([] if lateness else [3])
    assert shown(test.outputs()) == [[0, 1, 6 if lateness else 16, [1, 3] if lateness else [1, 2], False]]
    counts = test.counts
    assert (counts.accepted, counts.late) == ((3, 0) if lateness else (2, 1))


KEYS: dict[str, Callable[[Event], Any]] = {
    "ints": lambda e: e.key - 2,
    "texts": lambda e: f"key {e.key}",
    "pairs": lambda e: (e.key, "a"),
    "of several kinds": lambda e: (e.key,) if e.key % 2 else e.key - 1,
    "bytes": lambda e: bytes([e.key]),
}


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("form", ["columns", "objects", "columns that are unfit"])
def test_windows_are_the_same_whatever_the_form_of_rows(key: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unfit(*given: Any) -> Any:
        raise Unfit

    if form == "columns that are unfit":
        monkeypatch.setattr(open_windows, "together", unfit)
    monkeypatch.setattr(shards, "LEAST_KEYS", 10**9 if form == "objects" else 1)
    rng = random.Random(4)
    parts = [[Event(at // 2, rng.choice([0, 0, 0, 1, 2, 3]), 2 * at + part) for at in range(300)] for part in range(2)]
    of_key = KEYS[key]

    def build(events: Stream[Event]) -> None:
        windows = events.key_by(of_key).window(Count(7, slice=50))
        found = windows.agg(lambda g: (g.key, g.min(lambda e: e.id), g.sum(lambda e: e.id), g.count()))
        found.map(lambda row: [repr(row[0]), *row[1:]]).sink("out")

    test = JobTestDriver(flow_of(build, bounded=True).job, 2)
    for at in range(0, 300, 60):
        for part in range(2):
            test.feed(part, *parts[part][at : at + 60])
            test.checkpoint(part)
    test.finish()
    wanted = []
    for number in range(4):
        of_one = [(e.at, part, e) for part in range(2) for e in parts[part] if e.key == number]
        ids = [event.id for _, _, event in sorted(of_one, key=lambda row: row[:2])]
        for begin in range(0, len(ids), 7):
            some = ids[begin : begin + 7]
            wanted.append([repr(of_key(Event(0, number))), min(some), sum(some), len(some)])
    assert sorted(test.outputs()) == sorted(wanted)


class Broken:
    """Windows of each two rows, of which ``next`` fails at a row with the id 3."""

    slice_ms, timeout_ms = 10, 50
    marks = (lambda e: e.id, lambda e: e.on)

    def next(self, state: Any, *marks: Any) -> Change:
        return Change(None if state else 12 // (3 - marks[0]) or 1)

    def describe(self) -> str:
        return "broken"


def test_a_row_at_which_windows_fail_is_a_letter_and_the_others_go_on() -> None:
    events = [Event(1, id=1), Event(2, 7, id=3, on=True), Event(3, id=2), Event(11, 7, id=4), Event(12, 7, id=5)]
    test = JobTestDriver(flow_of(rows_of(Broken()), on_error="dead-letter").job)
    test.feed(0, *events, Event(100))
    assert shown(test.outputs()) == [[0, 1, 4, [1, 2], False], [7, 11, 13, [4, 5], False]]
    (letter,) = [msgspec.json.decode(each) if isinstance(each, bytes) else each for each in test.outputs("dead")]
    assert letter["row_key"] == 7 and "ZeroDivisionError" in letter["reason"] and "step 2 (agg" in letter["step"]
    test = JobTestDriver(flow_of(rows_of(Broken())).job)
    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        test.feed(0, *events, Event(100))


class Misused(Broken):
    def __init__(self, change: Any) -> None:
        self.change = change

    def next(self, state: Any, *marks: Any) -> Change:
        return self.change


@pytest.mark.parametrize(
    ("change", "words"), [((None,), "gives a Change, got"), (Change(1, takes=False), "no window is open")]
)
def test_a_misuse_of_the_protocol_stops_the_job_under_either_policy(change: Any, words: str) -> None:
    test = JobTestDriver(flow_of(rows_of(Misused(change)), on_error="dead-letter").job)
    with pytest.raises(UserFunctionError, match=words):
        test.feed(0, Event(1), Event(100))


def test_a_function_of_marks_that_fails_buries_its_record() -> None:
    between = Between[Event](start=lambda e: 1 // e.id > 0, end=lambda e: True, timeout=20, slice=10)
    test = JobTestDriver(flow_of(rows_of(between), on_error="dead-letter").job)
    test.feed(0, Event(1, id=1), Event(2, id=0), Event(30, id=1))
    assert test.counts.dead == 1 and len(test.outputs()) == 1


def test_each_partition_alone_and_windows_of_windows() -> None:
    def build(events: Stream[Event]) -> None:
        own = events.per_partition().window(Count(2, slice=10)).agg(lambda g: (g.window.start_ms, g.count()))
        own.sink("own")
        pairs = (
            own.all_partitions()
            .window(Count(2, slice=10))
            .agg(lambda g: (g.count(), g.sum(lambda r: r[1]), g.timed_out))
        )
        pairs.sink("pairs")

    test = JobTestDriver(flow_of(build, bounded=True).job, 2)
    test.feed(0, *(Event(at) for at in (1, 2, 3)))
    test.feed(1, *(Event(at) for at in (1, 5, 7, 30)))
    test.finish()
    assert sorted(test.outputs("own")) == [[1, 2], [1, 2], [3, 1], [7, 2]]
    assert test.outputs("pairs") == [[2, 4, False], [2, 3, False]]


def test_rows_that_two_steps_make_of_windows_with_one_end_are_two() -> None:
    def build(events: Stream[Event]) -> None:
        counts = events.window(Tumbling(10)).agg(lambda g: g.count())
        sums = events.window(Tumbling(10)).agg(lambda g: g.sum(lambda e: e.id))
        pairs = counts.union(sums).window(Count(2, slice=10)).agg(lambda g: (g.count(), g.fold(GSet(), lambda n: n)))
        pairs.sink("out")

    test = JobTestDriver(flow_of(build).job)
    test.feed(0, Event(1, id=5), Event(2, id=8), Event(12, id=4), Event(30))
    assert [[count, sorted(values)] for count, values in test.outputs()] == [[2, [2, 13]], [2, [1, 4]]]


def test_fold_gives_the_value_with_its_key() -> None:
    def build(events: Stream[Event]) -> None:
        events.key_by(lambda e: e.key).window(Count(2)).fold(GSet[int](), lambda e: e.id).sink("out")

    assert run_pairs(flow_of(build)) == [[0, [1, 2]]]


def run_pairs(flow: Flow) -> list[Any]:
    return [[key, sorted(ids)] for key, ids in flow.collect({"events": [Event(1, id=1), Event(2, id=2), Event(3)]})]
