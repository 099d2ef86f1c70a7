"""Functions of single records are followed where that shows all that they do; large runs then go by columns."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec
import pytest

from holon import (
    WCRDT,
    Batch,
    Context,
    Job,
    Json,
    JsonColumns,
    ManualWatermarks,
    Raw,
    Source,
    Tumbling,
    Window,
    on_window,
)
from holon.columnar.loops import install, installed
from holon.dataflow.record_functions.followed import followed_sources, with_column_forms
from holon.errors import UserFunctionError
from holon.testing import JobTestDriver
from holon.tracks.column_runs import LONGEST_PAUSE, ColumnRuns
from tests.unit.holon.dataflow.followed_records import Event, States, by_columns, check_by_columns, job_of
from wcrdt import GCounter, MapOf, Sum

pytestmark = pytest.mark.usefixtures("loops_installed")

total: WCRDT[Any, Any] = WCRDT(GCounter(), Tumbling(10), name="total")
later: WCRDT[Any, Any] = WCRDT(GCounter(), Tumbling(10), stage=1, name="later")
KNOWN = {"web": 1}


def record(ts: int, **fields: Any) -> bytes:
    return json.dumps({"ts": ts, "a": 1, "x": 0.5, "f": True, "t": "web"} | fields).encode()


RECORDS = [record(place, a=place % 4, t="wa"[place % 2]) for place in range(40)]


@pytest.fixture
def went(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each run went by columns."""
    found: list[bool] = []
    process = ColumnRuns.process

    def noted(self: ColumnRuns, run: Any) -> Any:
        admitted = process(self, run)
        found.append(admitted is not None)
        return admitted

    monkeypatch.setattr(ColumnRuns, "process", noted)
    return found


def _assigns(self: Any, event: Any, ctx: Context) -> None:
    event.a = 2
    self.count.insert(event.a, event.ts)


def _loops(self: Any, event: Any, ctx: Context) -> None:
    for _ in event.tags:
        self.count.insert(1, event.ts)


def _emits(self: Any, event: Any, ctx: Context) -> None:
    ctx.emit(event.a)


def _reads(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(1, event.ts - self.count.global_watermark_ms)


def _looks_up(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(KNOWN["web"], event.ts)


def _asks(self: Any, event: Any, ctx: Context) -> None:
    if self.count.insert(1, event.ts):
        self.low.insert(event.a, event.ts)


def _inserts_itself(self: Any, event: Any, ctx: Context) -> None:
    self.seen.insert(event, event.ts)


def _returns(self: Any, event: Any, ctx: Context) -> Any:
    self.count.insert(1, event.ts)
    return event.a


def _computes(self: Any, event: Any, ctx: Context) -> None:
    event.a // event.n
    self.count.insert(1, event.ts)


def _misspells(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(event.b, event.ts)


def _differs(self: Any, event: Any, ctx: Context) -> None:
    self.seen.insert((event.t, event.a), event.ts)
    self.seen.insert(event.t, event.ts)


async def _waits(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(1, event.ts)


@pytest.mark.parametrize(
    ("process", "why"),
    [
        (_assigns, "assigning an attribute"),
        (_loops, "a loop"),
        (_emits, "ctx.emit"),
        (_reads, "'global_watermark_ms' of the state 'count'"),
        (_looks_up, "'KNOWN', a dict"),
        (_asks, "what insert gives"),
        (_inserts_itself, "the record itself"),
        (_returns, "returns something"),
        (_computes, "not used"),
        (_misspells, "no field 'b'"),
        (_differs, "tuples of different lengths"),
        (_waits, "async"),
    ],
)
def test_a_function_that_does_more_than_insert_gets_each_record(process: Callable[..., Any], why: str) -> None:
    (found,) = followed_sources(job_of(process))
    assert found.form is None and why in found.why_not
    job = job_of(process)
    assert with_column_forms(job) is job


def _counts(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(1, ctx.timestamp_ms)
    if event.a > self.limit:
        self.seen.insert(event.t, event.ts)
    else:
        self.sums.insert((event.t, event.a), event.ts)
        self.sums.insert((event.t, 5), event.ts)


def test_followed_functions_insert_by_columns(went: list[bool]) -> None:
    check_by_columns(job_of(_counts), RECORDS, [7, 20, 21])
    assert went == [True, True, False, True, True]  # one record alone is as quick by the loop


def _divides(self: Any, event: Any, ctx: Context) -> None:
    self.top.insert(event.a // event.n, event.ts)


@pytest.mark.parametrize("bad", [record(9, n=0), record(9, n=None), record(9, a=2**64, n=1)])
def test_runs_with_a_record_that_fails_or_that_columns_refuse_go_one_by_one(bad: bytes, went: list[bool]) -> None:
    records = [*(record(place, n=1) for place in range(9)), bad, *(record(place, n=2) for place in range(9, 30))]
    found = check_by_columns(job_of(_divides, "dead-letter"), records, [5, 20])
    assert went[:2] == [True, False] and all(went[2:])  # what is behind the bad one may be a run of its own
    assert found["counts"].dead == (1 if b"184467" not in bad else 0)
    job = job_of(_divides)
    if found["counts"].dead:
        with pytest.raises(UserFunctionError, match="offset 9"):
            JobTestDriver(by_columns(job), 1).feed(0, *records)


def test_damaged_and_filtered_records_are_those_of_the_loop(went: list[bool]) -> None:
    records = [*RECORDS[:20], b"{", record(25, a="no"), *RECORDS[20:]]
    found = check_by_columns(job_of(_counts, wanted=lambda event: event.a != 2), records)
    assert (found["counts"].dead, found["counts"].filtered) == (2, 11)
    assert went == [True, True]


def _adds_or_removes(self: Any, event: Any, ctx: Context) -> None:
    if event.a > 1:
        self.tags.insert(("add", event.t), event.ts)
        return
    self.tags.insert(("remove", event.t), event.ts)
    self.tags.insert(("add", event.a), event.ts)


def test_inserts_of_one_state_are_in_the_order_of_records(went: list[bool]) -> None:
    check_by_columns(job_of(_adds_or_removes), [record(1, a=n % 3, t="wa"[n % 2]) for n in (0, 2, 1, 3, 2, 0, 1)])
    assert went[0]


def _needs_one(self: Any, event: Any, ctx: Context) -> None:
    self.top.insert(event.a if event.n is not None else event.n + 1, event.ts)


def test_a_way_on_which_the_function_raises_is_its_own(went: list[bool]) -> None:
    right, wrong = record(1, n=1), record(2, n=None)
    found = check_by_columns(job_of(_needs_one, "dead-letter"), [right, right, wrong, right], [2])
    assert (found["counts"].dead, went[:2]) == (2, [True, False])


def test_a_time_may_be_an_attribute(went: list[bool]) -> None:
    check_by_columns(job_of(_counts, timestamp=attrgetter("ts")), RECORDS)
    assert went[0]
    for getter in (attrgetter("n"), attrgetter("p.zone"), attrgetter("ts", "a"), attrgetter("b")):
        (found,) = followed_sources(job_of(_counts, timestamp=getter))
        assert found.form is None and "attrgetter" in found.why_not


def _far(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(1, event.ts)
    self.top.insert(event.a, event.ts + event.a * 10**17)


def _a_float(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(1, event.ts)
    self.top.insert(event.a, event.x)


@pytest.mark.parametrize("process", [_far, _a_float])
def test_times_that_are_none_fail_before_anything_is_inserted(process: Any, went: list[bool]) -> None:
    found = check_by_columns(job_of(process, "dead-letter"), [record(1, a=0), record(2), record(3, a=0)])
    assert found["counts"].dead == (2 if process is _far else 6) and went[0] is False


def _late_for_some(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(1, event.ts)
    self.mean.insert(event.x, event.ts)


def test_rows_that_are_late_for_one_state_alone_are_told_alike() -> None:
    found = check_by_columns(job_of(_late_for_some), [*RECORDS[:25], record(2), record(24), *RECORDS[25:]], [3])
    assert found["counts"].late == 0 and found["counts"].late_by_state == {"count": 1}
    assert len(found["outputs"]["late"]) == 1


def test_after_a_run_that_went_one_by_one_the_next_ones_do_at_growing_intervals(went: list[bool]) -> None:
    job, attempts = by_columns(job_of(_divides, "dead-letter")), list[int]()
    form = job.column_forms["events"]

    def noted(batch: Batch[Any]) -> Any:
        attempts.append(len(batch))
        return form.inserts(batch)

    test = JobTestDriver(job.by_columns({"events": dataclasses.replace(form, inserts=noted)}), 1)
    for _ in range(12):
        test.feed(0, record(1, n=0), record(1, n=1))
    assert len(attempts) == 4 and not any(went)  # runs 1, 3, 6 and 11
    for _ in range(2 * LONGEST_PAUSE):
        test.feed(0, record(1, n=1), record(1, n=1))
    assert went[-1]
    test.feed(0, record(1, n=0), record(1, n=1))
    test.feed(0, record(1, n=1), record(1, n=1))
    test.feed(0, record(1, n=1), record(1, n=1))
    assert went[-3:] == [False, False, True]


def test_without_compiled_loops_and_in_small_runs_records_go_one_by_one(went: list[bool]) -> None:
    job, loops = with_column_forms(job_of(_counts)), installed()
    many = [record(place) for place in range(64)]
    JobTestDriver(job, 1).feed(0, *many[1:])
    JobTestDriver(job, 1).feed(0, *many)
    install(None)
    try:
        JobTestDriver(job, 1).feed(0, *many)
    finally:
        install(loops)
    assert went == [False, True, False]


def _of_a_function(event: Event, ctx: Context) -> None:
    ctx[total].insert(1, event.ts)


def _of_a_later_stage(event: Event, ctx: Context) -> None:
    ctx[total].insert(1, event.ts)
    ctx[later].insert(1, event.ts)


def test_inserts_into_a_later_stage_are_refused_at_their_record() -> None:
    @on_window(total)
    async def up(window: Window, ctx: Context) -> None:
        ctx[later].insert(await ctx[total].window_value(window), window.start_ms)

    source = Source("in", Json(Event), lambda event: event.ts)
    job = Job("stages", source, _of_a_later_stage, states=[total, later], on_window=[up], output="out")
    (found,) = followed_sources(job)
    assert found.form is None and "takes no inserts by columns" in found.why_not


def test_the_function_form_of_a_job_is_followed_too(went: list[bool]) -> None:
    source = Source("events", Json(Event), lambda event: event.ts)
    check_by_columns(Job("function", source, _of_a_function, states=[total], output="out"), RECORDS)
    assert went == [True, True]


class Checked(msgspec.Struct):
    ts: int

    def __post_init__(self) -> None:
        if self.ts < 0:
            raise ValueError("before all time")


class Twin(msgspec.Struct, tag=True):
    ts: int


class Other(msgspec.Struct, tag=True):
    ts: int


def _reads_headers(event: Any) -> int:
    return int(event.t) + len(str({event.a: 1}))


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (Source("in", Raw()), "not Json of a Struct"),
        (Source("in", Json(dict[str, Any])), "not Json of a Struct"),
        (Source("in", Json(Twin | Other), lambda event: event.ts), "not Json of a Struct"),
        (Source("in", Json(Checked), lambda event: event.ts), "checks itself"),
        (Source("in", Json(Event), lambda event: event.ts, watermarks=ManualWatermarks()), "moves the watermark"),
        (Source("in", Json(Event), _reads_headers), "event time cannot be followed"),
        (Source("in", Json(Event), lambda event: event.ts, filter=lambda event: event in RECORDS), "filter"),
    ],
)
def test_sources_that_have_no_columns_of_their_events_are_named(source: Source[Any], why: str) -> None:
    (found,) = followed_sources(Job("sources", source, _of_a_function, states=[total], output="out"))
    assert found.form is None and why in found.why_not


def test_each_topic_of_a_job_has_its_own_form() -> None:
    sources = [Source("a", Json(Event), lambda event: event.ts), Source("b", Raw())]
    job = with_column_forms(Job("two", sources, _of_a_function, states=[total], output="out"))
    assert list(job.column_forms) == ["a"]
    assert [type(form) for form in job.formats_read] == [JsonColumns, Raw]
    assert dataclasses.replace(job).fingerprint() == job.fingerprint()
    by_batches = Job("batches", Source("in", JsonColumns(Event), "ts"), process_batch=lambda batch, ctx: None)
    assert followed_sources(by_batches) == []


def test_states_that_take_no_columns_are_left_alone() -> None:
    class Nested(States):
        def process(self, event: Event, ctx: Context) -> None:
            self.missing.insert(1, event.ts)  # type: ignore[attr-defined]

    (found,) = followed_sources(job_of(Nested.process))
    assert found.form is None and "missing" in found.why_not
    inner: WCRDT[Any, Any] = WCRDT(MapOf(Sum()), Tumbling(10), name="inner")

    def strays(event: Event, ctx: Context) -> None:
        ctx[inner].insert((event.t, event.a), event.ts)

    source = Source("in", Json(Event), lambda event: event.ts)
    (found,) = followed_sources(Job("strays", source, strays, states=[total], output="out"))
    assert found.form is None and "'inner', a WCRDT" in found.why_not
