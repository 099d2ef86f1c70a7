"""Functions of single records are followed where that shows all that they do."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from typing import Any

import msgspec
import pytest

from holon import (
    WCRDT,
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
from holon.dataflow.record_functions.followed import followed_sources, with_column_forms
from tests.unit.holon.dataflow.followed_records import (
    RECORDS,
    Event,
    States,
    check_by_columns,
    job_of,
    record,
)
from wcrdt import GCounter, MapOf, Sum

pytestmark = pytest.mark.usefixtures("loops_installed")


total: WCRDT[Any, Any] = WCRDT(GCounter(), Tumbling(10), name="total")


later: WCRDT[Any, Any] = WCRDT(GCounter(), Tumbling(10), stage=1, name="later")


KNOWN = {"web": [1]}


def _assigns(self: Any, event: Any, ctx: Context) -> None:
    event.a = 2
    self.count.insert(event.a, event.ts)


def _loops(self: Any, event: Any, ctx: Context) -> None:
    while event.a > 3:
        self.count.insert(1, event.ts)


def _emits_elsewhere(self: Any, event: Any, ctx: Context) -> None:
    ctx.emit(event.a, output="side")


def _emits_by_numbers(self: Any, event: Any, ctx: Context) -> None:
    ctx.emit({event.a: event.t})


def _emits_lists(self: Any, event: Any, ctx: Context) -> None:
    ctx.emit([event.a, event.t])


def _taints(self: Any, event: Any, ctx: Context) -> None:
    ctx.emit_nondeterministic(event.a)


def _reads(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(1, event.ts - self.count.global_watermark_ms)


def _looks_up(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(KNOWN["web"][0], event.ts)


def _asks(self: Any, event: Any, ctx: Context) -> None:
    if self.count.insert(1, event.ts):
        self.low.insert(event.a, event.ts)


def _inserts_itself(self: Any, event: Any, ctx: Context) -> None:
    self.seen.insert(event, event.ts)


def _returns(self: Any, event: Any, ctx: Context) -> Any:
    self.count.insert(1, event.ts)
    return event.a


def _formats_for_nothing(self: Any, event: Any, ctx: Context) -> None:
    text = f"{event.a:d}"  # noqa: F841 (that is the case)
    self.count.insert(1, event.ts)


def _misspells(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(event.b, event.ts)


def _compares(self: Any, event: Any, ctx: Context) -> None:
    text = f"{event.t}"
    self.seen.insert("w" if text == "web" else text, event.ts)


def _differs(self: Any, event: Any, ctx: Context) -> None:
    self.seen.insert((event.t, event.a), event.ts)
    self.seen.insert(event.t, event.ts)


async def _waits(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(1, event.ts)


@pytest.mark.parametrize(
    ("process", "why"),
    [
        (_assigns, "assigning an attribute"),
        (_loops, "64 ways through it"),
        (_emits_elsewhere, "emits to 'side'"),
        (_emits_by_numbers, "needs the value"),
        (_emits_lists, "a list of expressions"),
        (_taints, "ctx.emit_nondeterministic"),
        (_reads, "'global_watermark_ms' of the state 'count'"),
        (_looks_up, "'KNOWN', a dict"),
        (_asks, "what insert gives"),
        (_inserts_itself, "the record itself"),
        (_returns, "returns something"),
        (_formats_for_nothing, "not used"),
        (_misspells, "no field 'b'"),
        (_compares, "needs the value"),
        (_differs, "tuples of different lengths"),
        (_waits, "async"),
    ],
)
def test_a_function_that_does_more_than_insert_gets_each_record(process: Callable[..., Any], why: str) -> None:
    (found,) = followed_sources(job_of(process))
    assert found.form is None and why in found.why_not
    job = job_of(process)
    assert with_column_forms(job) is job


def _once(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(1, event.ts)


def test_a_time_may_be_an_attribute() -> None:
    found = check_by_columns(job_of(_once, timestamp=attrgetter("ts")), RECORDS)
    assert found["ways"][0]
    for getter in (attrgetter("n"), attrgetter("p.zone"), attrgetter("ts", "a"), attrgetter("b")):
        (found,) = followed_sources(job_of(_once, timestamp=getter))
        assert found.form is None and "attrgetter" in found.why_not


class Inner(States):
    def process(self, event: Event, ctx: Context) -> None:
        self.sums.insert((event.t, self.weight(event)), event.ts)

    def weight(self, event: Event) -> int:
        return 0 if event.n is None else event.n * self.limit


class Outer(States):
    inner = Inner()
    more = Inner()

    def __init__(self) -> None:
        self.double = lambda number: number * 2

    def process(self, event: Event, ctx: Context) -> None:
        self.inner.process(event, ctx)
        if self.is_large(event.a):
            self.more.process(event, ctx)
        self.top.insert(self.double(event.a), ctx.timestamp_ms)

    def is_large(self, number: int) -> bool:
        return number > self.limit - 1


def _job_of(function: type[States]) -> Job[Event]:
    return Job("nested", Source("events", Json(Event), lambda event: event.ts), function, output="out")


def test_methods_and_nested_functions_are_followed() -> None:
    records = [record(n, a=n % 4, n=[None, n][n % 2]) for n in range(30)]
    found = check_by_columns(_job_of(Outer), records, [9])
    assert found["ways"] == [True, True, True]


class Formats(States):
    def process(self, event: Event, ctx: Context) -> None:
        self.seen.insert(self.label(event), event.ts)

    def label(self, event: Event) -> str:
        return f"{event.t}-{event.a}"


def _formats(self: Any, event: Any, ctx: Context) -> None:
    text = f"{event.t}/{event.a:03d}"
    self.seen.insert(text, event.ts)
    if event.f:
        text = text + f"/{event.x}"
    self.sums.insert((text, event.a), event.ts)
    ctx.emit({"text": text, "a": event.a}, key=f"{event.a}")
    ctx.emit((f"<{event.t}>", 1))


def test_formatted_texts_are_inserted_and_emitted() -> None:
    records = [record(place, a=place % 7, t=["web", 'a"b', "ü"][place % 3], f=place % 2 == 0) for place in range(60)]
    found = check_by_columns(job_of(_formats), records, [20])
    assert found["ways"] == [True, True, True]


class Draws(States):
    @property
    def now(self) -> int:
        raise AssertionError("a property is no constant")

    def process(self, event: Event, ctx: Context) -> None:
        self.count.insert(self.now, event.ts)


class Loops(States):
    def process(self, event: Event, ctx: Context) -> None:
        self.count.insert(self.total_of(event), event.ts)

    def total_of(self, event: Event) -> int:
        return sum(map(len, event.tags))


class Private(States):
    _at = "a"
    _path = "p"

    def process(self, event: Event, ctx: Context) -> None:
        self.seen.insert((self._at, self._path), event.ts)


def test_attributes_may_be_called_as_what_stands_for_a_function_has() -> None:
    assert check_by_columns(_job_of(Private), RECORDS)["ways"][0]


class Weight(Enum):
    ONE = 1

    def of(self, number: int) -> str:
        return str(number)


class Weighs(States):
    weight = Weight.ONE

    def process(self, event: Event, ctx: Context) -> None:
        self.seen.insert(self.weight.of(event.a), event.ts)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (Weighs, "self.weight, a Weight"),
        (Formats, "needs the value"),
        (Draws, "self.now, a property"),
        (Loops, "'map'"),
    ],
)
def test_methods_that_do_more_are_called_for_each_record(function: type[States], why: str) -> None:
    (found,) = followed_sources(_job_of(function))
    assert found.form is None and why in found.why_not


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


def test_the_function_form_of_a_job_is_followed_too() -> None:
    source = Source("events", Json(Event), lambda event: event.ts)
    found = check_by_columns(Job("function", source, _of_a_function, states=[total], output="out"), RECORDS)
    assert found["ways"] == [True, True]


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


class _Odd:
    __class__ = property(lambda self: 1 // 0)  # type: ignore[assignment]


ODD: Any = _Odd()


def _names_odd(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(ODD, event.ts)


def test_objects_that_cannot_be_looked_at_stop_no_job() -> None:
    (found,) = followed_sources(job_of(_names_odd))
    assert found.form is None and "ZeroDivisionError" in found.why_not


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
