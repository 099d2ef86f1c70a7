"""Windows of one flow that take rows for different times after their ends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holon import Count, Files, Json, Session, Sliding, Tumbling
from holon.dataflow import Flow, FlowError, Stream
from holon.errors import JobError
from holon.job import LATE
from holon.testing import JobTestDriver


class Click(msgspec.Struct):
    at: int


def clicks(flow: Flow) -> Stream[Click]:
    return flow.source("clicks", Json(Click), time=lambda c: c.at)


def counted(flow: Flow, **lateness: Any) -> Flow:
    """Windows of 10 ms by the names of their sinks, with the lateness of each."""
    of = clicks(flow)
    for name, each in lateness.items():
        rows = of.window(Tumbling(10), lateness=each).agg(lambda g: [g.window.start_ms, g.window.end_ms, g.count()])
        rows.sink(name)
    return flow


def rows_of(driver: JobTestDriver, topic: str) -> list[Any]:
    name = next(name for name, output in driver.job.outputs.items() if output.topic == topic)
    return driver.outputs(name)


def test_each_window_waits_as_long_as_its_own_lateness_says() -> None:
    driver = JobTestDriver(counted(Flow("two"), short=0, long=30).job)
    driver.feed(0, {"at": 1}, {"at": 12})
    assert rows_of(driver, "short") == [[0, 10, 1]] and not rows_of(driver, "long"), "nothing waits for the other one"
    driver.feed(0, {"at": 3}, {"at": 39}, {"at": 4})
    assert rows_of(driver, "long") == []
    driver.feed(0, {"at": 40}, {"at": 5})
    assert rows_of(driver, "long") == [[0, 10, 3]]
    driver.finish()
    assert rows_of(driver, "short") == [[0, 10, 1], [10, 20, 1], [30, 40, 1], [40, 50, 1]]
    assert rows_of(driver, "long") == [[0, 10, 3], [10, 20, 1], [30, 40, 1], [40, 50, 1]]
    late = [(letter["state"], letter["offset"]) for letter in driver.outputs(LATE)]
    assert late == [("agg2", 2), ("agg2", 4), ("agg2", 6), ("agg4", 6)]


@pytest.mark.parametrize(
    ("flow_ms", "given", "job_ms", "extra_ms"),
    [
        (0, {"a": None, "b": "30s"}, 0, [0, 30_000]),
        (5, {"a": None, "b": 5}, 5, [0, 0]),
        (60_000, {"a": "10s", "b": None}, 10_000, [0, 50_000]),
        (7, {"a": 3, "b": 3}, 3, [0, 0]),
    ],
)
def test_the_least_lateness_is_that_of_the_job_and_windows_with_more_are_held_longer(
    flow_ms: int, given: dict[str, Any], job_ms: int, extra_ms: list[int]
) -> None:
    job = counted(Flow("given", lateness=flow_ms), **given).job
    assert job.allowed_lateness_ms == job_ms
    described = [decl.windows.describe() for decl in job.program.windowed().values()]
    assert described == [f"later(tumbling(10,0),{more})" if more else "tumbling(10,0)" for more in extra_ms]


def test_windows_of_windows_wait_for_those_before_them() -> None:
    flow = Flow("further")
    of = clicks(flow)
    long = of.window(Tumbling(10), lateness=30).agg(lambda g: [g.window.end_ms, g.count()])
    short = of.window(Tumbling(5), lateness=0).agg(lambda g: [g.window.end_ms, g.count()])
    short.union(long).window(Tumbling(20)).agg(lambda g: [g.window.end_ms, g.sum(lambda row: row[1])]).sink("both")
    short.window(Tumbling(20)).agg(lambda g: [g.window.end_ms, g.sum(lambda row: row[1])]).sink("short")
    driver = JobTestDriver(flow.job)
    driver.feed(0, {"at": 1}, {"at": 21}, {"at": 2})
    assert rows_of(driver, "short") == [[20, 1]] and not rows_of(driver, "both")
    driver.finish()
    assert rows_of(driver, "both") == [[20, 3], [40, 2]]
    assert rows_of(driver, "short") == [[20, 1], [40, 1]]


def test_late_rows_go_into_windows_that_wait_longer() -> None:
    flow = Flow("again")
    rows = clicks(flow).window(Tumbling(10), lateness=0).agg(lambda g: [g.window.end_ms, g.count()])
    rows.sink("rows")
    rows.late.window(Tumbling(10), lateness="1s").agg(lambda g: [g.window.end_ms, g.count()]).sink("corrections")
    driver = JobTestDriver(flow.job)
    driver.feed(0, {"at": 1}, {"at": 50}, {"at": 2}, {"at": 3})
    driver.finish()
    assert rows_of(driver, "rows") == [[10, 1], [60, 1]] and rows_of(driver, "corrections") == [[10, 2]]


@pytest.mark.parametrize("lateness", ["soon", 1.5, -1])
def test_other_durations_are_refused_where_they_are_written(lateness: Any) -> None:
    with pytest.raises(FlowError, match=r"window \(test_lateness.py:\d+\): lateness"):
        clicks(Flow("refused")).window(Tumbling(10), lateness=lateness)


def test_of_rows_of_windows_none_is_late() -> None:
    flow = Flow("refused")
    windows = clicks(flow).window(Tumbling(10)).agg(lambda g: g.count())
    windows.window(Tumbling(20), lateness="1s").agg(lambda g: g.count()).sink("twenties")
    with pytest.raises(FlowError, match=r"\(agg, test_lateness.py:\d+\): lateness is for windows of records"):
        _ = flow.job


def test_folders_by_time_need_a_field_where_windows_are_held_longer() -> None:
    flow = counted(Flow("folders"), a=0, b=0)
    rows = clicks_again(flow).window(Tumbling(10), lateness="1s").agg(lambda g: [g.window.end_ms, g.count()])
    rows.sink(Files("out/{day}"))
    with pytest.raises(JobError, match="name the field with the time"):
        _ = flow.job


def clicks_again(flow: Flow) -> Stream[Click]:
    return flow.source("more", Json(Click), time=lambda c: c.at)


@pytest.mark.parametrize("windows", [Tumbling(10), Sliding(20, 5), Session(30), Count(2, timeout=50, slice=10)])
def test_explain_names_the_lateness(windows: Any) -> None:
    flow = Flow("explained")
    clicks(flow).key_by(lambda c: c.at % 2).window(windows, lateness="2s").agg(lambda g: g.count()).sink("out")
    assert "lateness 2000 ms" in flow.explain()[1].how
