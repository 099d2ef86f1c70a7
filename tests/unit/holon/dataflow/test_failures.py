"""Failures of a flow's functions name step, line and row; what stands where it cannot names what has to come first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
import numpy as np
import pytest

from holon import Job, Json, ProcessingFunction, Source
from holon.dataflow import Files, Flow, FlowError, Stream, Tumbling
from holon.errors import JobError, UserFunctionError
from holon.testing import JobTestDriver, run_job


class Reading(msgspec.Struct):
    at: int
    name: str
    value: float | None = None


READINGS = [Reading(at, "ab"[at % 2], None if at in (37, 41) else float(at)) for at in range(1, 51)]
"""Of 50 rows the ones with the offsets 36 and 40 have no value."""
FIRST = 36
Build = Callable[[Stream[Reading]], Any]


def failure(
    build: Build, on_error: Literal["fail", "dead-letter"] = "fail", given: list[Any] = READINGS
) -> JobTestDriver | UserFunctionError:
    flow = Flow("failing", on_error=on_error)
    build(flow.source("readings", Json(Reading), time=lambda r: r.at, max_future_skew_ms=None))
    test = JobTestDriver(flow.job)
    try:
        test.feed(0, *given)
        test.finish()
    except UserFunctionError as error:
        return error
    return test


def mean(readings: Stream[Reading]) -> None:
    readings.key_by(lambda r: r.name).window(Tumbling(10)).agg(lambda g: (g.key, g.mean(lambda r: r.value))).sink("out")


def by_key(readings: Stream[Reading]) -> None:
    (
        readings.filter(lambda r: r.at > 36)
        .key_by(lambda r: r.name if r.value is None else r.value)  # type: ignore[arg-type]
        .window(Tumbling(10))
        .agg(lambda g: g.count())
        .sink("out")
    )


def mapped(readings: Stream[Reading]) -> None:
    readings.map(lambda r: r.value + 1).sink("out")  # type: ignore[operator]


def by_row(readings: Stream[Reading]) -> None:
    readings.filter(lambda r: r.at > 5).flat_map(lambda r: [r.value + 1]).sink("out")  # type: ignore[operator]


def unencodable(readings: Stream[Reading]) -> None:
    readings.map(lambda r: r.name if r.value else {1}).sink("out")


def sink_key(readings: Stream[Reading]) -> None:
    readings.sink("out", key=lambda r: str(r.value + 1))  # type: ignore[operator]


CASES = [
    (
        mean,
        "step 2 (agg",
        "TypeError: an exact number is an int or a Decimal (sums and averages take floats, too), not NoneType",
        FIRST,
    ),
    (by_key, "step 3 (agg", "TypeError: 38.0 cannot be a key of a map", FIRST + 1),
    (mapped, "step 2 (map", "TypeError: unsupported operand", FIRST),
    (by_row, "step 3 (flat_map", "TypeError: unsupported operand", FIRST),
    (sink_key, "step 2 (sink", "TypeError: unsupported operand", FIRST),
]


@pytest.mark.parametrize(("build", "step", "reason", "offset"), CASES)
def test_a_job_that_stops_names_step_and_record(build: Build, step: str, reason: str, offset: int) -> None:
    error = failure(build)
    assert isinstance(error, UserFunctionError)
    assert f"{step}, test_failures.py:" in str(error) and reason in str(error)
    assert str(error).endswith(f"on partition 0 at offset {offset} of topic 'readings'") and error.offset == offset
    assert f"record at offset {offset}: " in error.details
    assert error.details.count(reason) == 1 and "another one" not in error.details


@pytest.mark.parametrize(("build", "step", "reason", "offset"), CASES)
def test_dead_letters_name_the_step(build: Build, step: str, reason: str, offset: int) -> None:
    test = failure(build, "dead-letter")
    assert isinstance(test, JobTestDriver)
    first = min(test.dead(), key=lambda letter: letter["offset"])
    assert first["offset"] == offset and first["reason"].startswith(f"{step}, test_failures.py:")
    assert reason in first["reason"]


def test_a_function_that_is_followed_shows_the_line_of_the_user() -> None:
    error = failure(mapped)
    assert isinstance(error, UserFunctionError) and "readings.map(lambda r: r.value + 1)" in error.details


def test_a_row_that_no_window_takes_is_not_blamed() -> None:
    """It comes first, and would fail. Since it is late it is not inserted; the one that stops the job comes behind."""
    late = [Reading(100, "a", 1.0), Reading(1, "a", None), Reading(101, "a", 1.0), Reading(102, "a", None)]
    error = failure(mean, given=late)
    assert isinstance(error, UserFunctionError) and error.offset == 3


def test_rows_for_late_streams_are_tried_too() -> None:
    def build(readings: Stream[Reading]) -> None:
        totals = readings.window(Tumbling(10)).agg(lambda g: g.count())
        totals.sink("out")
        totals.late.map(lambda r: r.value + 1).sink("late")  # type: ignore[operator]

    error = failure(build, given=[Reading(100, "a", None), Reading(1, "a", 1.0), Reading(2, "a", None)])
    assert isinstance(error, UserFunctionError) and error.offset == 2 and " (map, " in str(error)


def test_a_group_that_fails_is_named_by_its_key() -> None:
    def build(readings: Stream[Reading]) -> None:
        counts = readings.key_by(lambda r: r.at % 7).window(Tumbling(10)).agg(lambda g: (g.key, 10 // (g.key - 5)))
        counts.sink("out")

    error = failure(build)
    assert isinstance(error, UserFunctionError)
    assert "step 2 (agg, test_failures.py:" in str(error) and "), key 5, raised ZeroDivisionError: " in str(error)
    assert "at window [0, 10) in complete_agg2" in str(error)


def test_a_step_behind_windows_that_fails_is_named() -> None:
    def build(readings: Stream[Reading]) -> None:
        counts = readings.key_by(lambda r: r.name).window(Tumbling(10)).agg(lambda g: g.key)
        counts.map(lambda name: 1 // (name != "b")).sink("out")

    error = failure(build)
    assert isinstance(error, UserFunctionError) and "step 3 (map, test_failures.py:" in str(error)
    assert ", key 'b', raised ZeroDivisionError" in str(error)


def test_without_a_row_that_fails_by_itself_the_batch_is_named() -> None:
    calls: list[int] = []

    def once(row: Reading) -> bool:
        calls.append(row.at)
        if len(calls) == 5:
            raise ValueError("only once")
        return True

    error = failure(lambda readings: readings.filter(once).sink("out"))
    assert isinstance(error, UserFunctionError)
    assert "the processing function raised ValueError: only once" in str(error) and "(a batch)" in str(error)


VERBS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda s: s.key_by(lambda r: r.name).sink, "KeyedStream has no sink: write it before key_by, or behind groups"),
    (lambda s: s.key_by(lambda r: r.name).agg, "KeyedStream has no agg: rows by key go into windows first: .window"),
    (lambda s: s.agg, "Stream has no agg: rows go into windows first"),
    (lambda s: s.per_partition().agg, "PartitionStream has no agg: rows go into windows first"),
    (lambda s: s.per_partition().key_by(lambda r: r.name).map, "PartitionKeyedStream has no map"),
    (lambda s: s.window(Tumbling(10)).sink, "WindowedStream has no sink: groups become rows first: .agg(...).sink"),
    (lambda s: s.window(Tumbling(10)).key_by, "key_by: it comes before window"),
]


@pytest.mark.parametrize(("use", "text"), VERBS)
def test_a_verb_that_comes_too_early_names_what_comes_first(use: Callable[[Any], Any], text: str) -> None:
    stream = Flow("verbs").source("readings", Json(Reading), time=lambda r: r.at)
    with pytest.raises(FlowError) as found:
        use(stream)
    assert text in str(found.value) and str(found.value).startswith("test_failures.py:")


GIVEN: list[tuple[Callable[[Any], Any], str]] = [
    (
        lambda s: s.filter("name"),
        "step 2 (filter, test_failures.py:{}): give a function of a row, as lambda row: row.name",
    ),
    (lambda s: s.map(3), "give a function of a row, as lambda row: row.price, not 3"),
    (
        lambda s: s.sink("out", key="name"),
        "step 2 (sink, test_failures.py:{}): give a function of a row, as key=lambda row",
    ),
    (lambda s: s.sink(Files("out/{day}")), "name the field with their time: Files('out/{{day}}', time=\"at\")"),
    (lambda s: s.window("10s"), """window (test_failures.py:{}): give windows, as Tumbling("10s"), not '10s'"""),
    (lambda s: s.key_by("name").window(Tumbling(10)).agg(lambda g: g.key), "as key=lambda row: row.name, not 'name'"),
    (
        lambda s: s.window(Tumbling(10)).agg(lambda g: g.sum("at")),
        "as lambda row: row.at, not 'at' (test_failures.py:{})",
    ),
]


@pytest.mark.parametrize(("use", "text"), GIVEN)
def test_a_step_that_is_given_something_else_is_refused_where_it_is_written(
    use: Callable[[Any], Any], text: str
) -> None:
    stream = Flow("given").source("readings", Json(Reading), time=lambda r: r.at)
    with pytest.raises(FlowError) as found:
        use(stream)
    assert text.format(use.__code__.co_firstlineno) in str(found.value)


def test_a_source_that_is_given_something_else_is_refused() -> None:
    with pytest.raises(FlowError, match=r"as time=lambda row: row\.at, not 'at'"):
        Flow("given").source("readings", Json(Reading), time="at")  # type: ignore[arg-type]
    with pytest.raises(JobError, match=r"give a format of Reading, as Json\(Reading\), not the type alone"):
        Flow("given").source("readings", Reading, time=lambda r: r.at)  # type: ignore[arg-type]


def test_other_names_are_ordinary_attribute_errors() -> None:
    stream = Flow("verbs").source("readings", Json(Reading), time=lambda r: r.at)
    assert not hasattr(stream, "agg")
    with pytest.raises(AttributeError, match=r"^'Stream' object has no attribute 'colour'$"):
        _ = stream.colour  # type: ignore[attr-defined]


class Echo(ProcessingFunction[Reading]):
    def process(self, event: Reading, ctx: Any) -> None:
        ctx.emit(event.name)


def test_runs_without_a_log_warn_of_dead_records() -> None:
    job = Job("echo", Source("readings", Json(Reading), timestamp=lambda r: r.at), Echo, output="out")
    with pytest.warns(UserWarning) as found:
        assert run_job(job, [[{"at": 1, "name": "a"}, {"at": 2}, {"name": "b"}]]) == ["a"]
    (warning,) = found
    assert str(warning.message).startswith(
        "job 'echo': 2 dead records, which the results lack; the first one is offset 1"
    )
    assert "missing required field `name`" in str(warning.message) and warning.filename == __file__


def test_a_flow_that_is_collected_warns_of_late_records_and_dead_rows() -> None:
    flow = Flow("lossy", on_error="dead-letter")
    readings = flow.source("readings", Json(Reading), time=lambda r: r.at, max_future_skew_ms=None)
    readings.window(Tumbling(10)).agg(lambda g: 6 // (g.count() - 2)).sink("out")
    with pytest.warns(UserWarning) as found:
        rows = flow.collect({"readings": [Reading(5, "a"), Reading(15, "a"), Reading(16, "a"), Reading(6, "a")]})
    dead, late = (str(warning.message) for warning in found)
    assert rows == [-6] and {warning.filename for warning in found} == {__file__}
    assert "1 dead row, which the results lack; the first one is window [10, 20] in step 2 (agg, " in dead
    assert "1 late record, which the results lack; the first one is offset 3 of readings[0]: " in late


def test_a_run_that_loses_nothing_does_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    job = Job("echo", Source("readings", Json(Reading), timestamp=lambda r: r.at), Echo, output="out")
    assert run_job(job, {"readings": READINGS}) == [each.name for each in READINGS]
    assert not recwarn.list and np.all([each.at for each in READINGS])
