"""Large runs of records whose function is followed go by columns, as a whole or not at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from holon import (
    Batch,
    Context,
    Job,
    Json,
    Output,
    Source,
)
from holon.columnar.loops import install, installed
from holon.dataflow.record_functions.followed import followed_sources, with_column_forms
from holon.errors import UserFunctionError
from holon.testing import JobTestDriver
from holon.tracks.column_runs import LONGEST_PAUSE
from tests.unit.holon.dataflow.followed_records import (
    RECORDS,
    Event,
    by_columns,
    check_by_columns,
    job_of,
    noted_ways,
    record,
)

pytestmark = pytest.mark.usefixtures("loops_installed")


def _counts(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(1, ctx.timestamp_ms)
    if event.a > self.limit:
        self.seen.insert(event.t, event.ts)
    else:
        self.sums.insert((event.t, event.a), event.ts)
        self.sums.insert((event.t, 5), event.ts)


def test_followed_functions_insert_by_columns() -> None:
    found = check_by_columns(job_of(_counts), RECORDS, [7, 20, 21])
    assert found["ways"] == [True, True, False, True, True]  # one record alone is as quick by the loop


def _divides(self: Any, event: Any, ctx: Context) -> None:
    self.top.insert(event.a // event.n, event.ts)


@pytest.mark.parametrize("bad", [record(9, n=0), record(9, n=None), record(9, a=2**64, n=1)])
def test_runs_with_a_record_that_fails_or_that_columns_refuse_go_one_by_one(bad: bytes) -> None:
    records = [*(record(place, n=1) for place in range(9)), bad, *(record(place, n=2) for place in range(9, 30))]
    found = check_by_columns(job_of(_divides, "dead-letter"), records, [5, 20])
    assert found["ways"][:2] == [True, False] and all(
        found["ways"][2:]
    )  # what is behind the bad one may be a run of its own
    assert found["counts"].dead == (1 if b"184467" not in bad else 0)
    job = job_of(_divides)
    if found["counts"].dead:
        with pytest.raises(UserFunctionError, match="offset 9"):
            JobTestDriver(by_columns(job), 1).feed(0, *records)


def test_damaged_and_filtered_records_are_those_of_the_loop() -> None:
    records = [*RECORDS[:20], b"{", record(25, a="no"), *RECORDS[20:]]
    found = check_by_columns(job_of(_counts, wanted=lambda event: event.a != 2), records)
    assert (found["counts"].dead, found["counts"].filtered) == (2, 11)
    assert found["ways"] == [True, True]


class Named(msgspec.Struct):
    name: str
    of: Any = None


def _emits(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(1, event.ts)
    ctx.emit({"a": event.a, "where": "here" if event.p is None else event.p.city, "text": event.t})
    if event.a == 1:
        return
    ctx.emit(Named(event.t, event.x / event.a))
    if event.f:
        ctx.emit((event.a, "fixed", event.s))
        ctx.emit(event, key=None)
    ctx.emit("nothing", key=b"k")


def test_results_are_emitted_by_columns_in_the_order_of_records() -> None:
    records = [record(n, a=1 + n % 3, f=n % 2 == 0, t=["web", '\u00e9"', ""][n % 3]) for n in range(40)]
    found = check_by_columns(job_of(_emits), [*records[:30], record(31, p={"city": "Bern"}), *records[31:]], [2, 33])
    assert found["ways"][:3] == [True, True, True]
    assert len(found["outputs"]["main"]) > 100
    zero = [*records[:9], record(9, a=0), *records[10:]]
    found = check_by_columns(job_of(_emits, "dead-letter"), zero, [5])
    assert found["counts"].dead == 1


def test_an_output_that_encodes_itself_gets_the_objects() -> None:
    def labels(event: Event, ctx: Context) -> None:
        ctx.emit({"a": event.a}, output="texts")

    texts = Output("texts", encode=lambda value: str(value).encode())
    source = Source("events", Json(Event), lambda event: event.ts)
    job: Job[Event] = Job("texts", source, labels, side_outputs={"texts": texts})
    (found,) = followed_sources(job)
    assert found.form is None and "an encoding of its own" in found.why_not


def test_outputs_by_key_and_results_that_json_refuses_go_one_by_one() -> None:
    def by_key(event: Event, ctx: Context) -> None:
        ctx.emit(event.t, key=b"fixed")

    def without(event: Event, ctx: Context) -> None:
        ctx.emit(event.t)

    def infinite(event: Event, ctx: Context) -> None:
        ctx.emit(event.x * 1e308 * 1e308)

    source = Source("events", Json(Event), lambda event: event.ts)
    ways: list[list[bool]] = []
    for process, policy in ((by_key, "fail"), (without, "fail"), (infinite, "dead-letter")):
        output = "out" if process is infinite else Output("out", route_by_key=True)
        job: Job[Event] = Job("keys", source, process, output=output, on_error=policy)  # type: ignore[arg-type]
        if process is without:
            with pytest.raises(UserFunctionError, match="needs key="):
                JobTestDriver(by_columns(job), 1).feed(0, *RECORDS)
        else:
            ways.append(check_by_columns(job, RECORDS)["ways"])
    by_fixed_key, of_infinity = ways
    assert all(by_fixed_key) and not any(of_infinity)


def _adds_or_removes(self: Any, event: Any, ctx: Context) -> None:
    if event.a > 1:
        self.tags.insert(("add", event.t), event.ts)
        return
    self.tags.insert(("remove", event.t), event.ts)
    self.tags.insert(("add", event.a), event.ts)


def test_inserts_of_one_state_are_in_the_order_of_records() -> None:
    found = check_by_columns(
        job_of(_adds_or_removes), [record(1, a=n % 3, t="wa"[n % 2]) for n in (0, 2, 1, 3, 2, 0, 1)]
    )
    assert found["ways"][0]


def _needs_one(self: Any, event: Any, ctx: Context) -> None:
    self.top.insert(event.a if event.n is not None else event.n + 1, event.ts)


def test_a_way_on_which_the_function_raises_is_its_own() -> None:
    right, wrong = record(1, n=1), record(2, n=None)
    found = check_by_columns(job_of(_needs_one, "dead-letter"), [right, right, wrong, right], [2])
    assert (found["counts"].dead, found["ways"][:2]) == (2, [True, False])


def _far(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(1, event.ts)
    self.top.insert(event.a, event.ts + event.a * 10**17)


def _a_float(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(1, event.ts)
    self.top.insert(event.a, event.x)


def _negative(self: Any, event: Any, ctx: Context) -> None:
    self.top.insert(event.a, event.ts)
    self.count.insert(event.a - 1, event.ts)


def test_elements_that_are_refused_fail_before_anything_is_inserted() -> None:
    found = check_by_columns(job_of(_negative, "dead-letter"), [record(1, a=3), record(2, a=0), record(3, a=2)])
    assert found["counts"].dead == 2 and found["ways"][0] is False


@pytest.mark.parametrize("process", [_far, _a_float])
def test_times_that_are_none_fail_before_anything_is_inserted(process: Any) -> None:
    found = check_by_columns(job_of(process, "dead-letter"), [record(1, a=0), record(2), record(3, a=0)])
    assert found["counts"].dead == (2 if process is _far else 6) and found["ways"][0] is False


def _late_for_some(self: Any, event: Any, ctx: Context) -> None:
    self.count.insert(1, event.ts)
    self.mean.insert(event.x, event.ts)


def test_rows_that_are_late_for_one_state_alone_are_told_alike() -> None:
    found = check_by_columns(job_of(_late_for_some), [*RECORDS[:25], record(2), record(24), *RECORDS[25:]], [3])
    assert found["counts"].late == 0 and found["counts"].late_by_state == {"count": 1}
    assert len(found["outputs"]["late"]) == 1


@pytest.fixture
def went() -> Iterator[list[bool]]:
    with noted_ways() as ways:
        yield ways


def test_after_a_run_that_went_one_by_one_the_next_ones_do_at_growing_intervals(went: list[bool]) -> None:
    job, attempts = by_columns(job_of(_divides, "dead-letter")), list[int]()
    form = job.column_forms["events"]

    def noted(batch: Batch[Any]) -> Any:
        attempts.append(len(batch))
        return form.effects(batch)

    test = JobTestDriver(job.by_columns({"events": dataclasses.replace(form, effects=noted)}), 1)
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
