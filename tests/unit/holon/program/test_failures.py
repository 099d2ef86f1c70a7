"""Failures of the user's code: who is told what, and what is undone."""

from __future__ import annotations

import statistics
import sys

import numpy as np
import pytest

from holon import (
    WCRDT,
    Batch,
    Context,
    Job,
    JsonColumns,
    Local,
    ProcessingFunction,
    Source,
    Tumbling,
    UserFunctionError,
    Window,
    on_window,
)
from holon.testing import JobTestDriver
from holon.tracebacks import own_frames
from tests.unit.holon_jobs import Base, Event, Reading, feeding, job
from wcrdt import GCounter


def test_an_exception_names_job_topic_partition_offset_and_record_and_shows_the_users_frames_alone() -> None:
    class Fails(Base):
        def process(self, event: Event, ctx: Context) -> None:
            if event["ts"] == 3:
                raise KeyError("nothing there")

    test = JobTestDriver(job(Fails), partitions=2)
    with pytest.raises(UserFunctionError) as caught:
        test.feed(1, {"ts": 1}, {"ts": 3})
    message = (
        "job 'test': the processing function raised KeyError: 'nothing there' on partition 1 at offset 1 of "
        "topic 'events'"
    )
    assert str(caught.value) == message
    assert (caught.value.partition, caught.value.offset) == (1, 1)
    lines = caught.value.details.splitlines()
    assert lines[:2] == ['record at offset 1: {"ts":3}', "Traceback (most recent call last):"]
    assert f'File "{__file__}"' in lines[2] and lines[2].endswith("in process")
    assert lines[3:] == ['    raise KeyError("nothing there")', "KeyError: 'nothing there'"]
    assert "tracks/record_loop.py" in caught.value.trace and lines[3] in caught.value.trace


def test_frames_of_libraries_are_left_out_behind_the_users_own_and_kept_where_there_are_none() -> None:
    class Fails(Base):
        def process(self, event: Event, ctx: Context) -> None:
            statistics.mean([])

    with pytest.raises(UserFunctionError) as caught:
        feeding(Fails, {"ts": 1})
    lines = caught.value.details.splitlines()
    assert lines[3:] == ["    statistics.mean([])", "statistics.StatisticsError: mean requires at least one data point"]
    assert "statistics.py" in caught.value.trace
    with pytest.raises(statistics.StatisticsError) as raised:
        statistics.mean([])
    trace = raised.value.__traceback__
    assert trace is not None
    assert "statistics.py" in own_frames(raised.value.with_traceback(trace.tb_next))


def test_the_text_of_a_failure_stays_short_whatever_it_holds() -> None:
    def a(n: int) -> int:
        return b(n)

    def b(n: int) -> int:
        return a(n + 1)

    class Fails(Base):
        def process(self, event: Event, ctx: Context) -> None:
            if event["do"] == "deep":
                a(0)
            try:
                raise ValueError("first \ud800")
            except ValueError as error:
                raise TypeError("x" * 1_000_000) from error

    with pytest.raises(UserFunctionError) as caught:
        feeding(Fails, {"ts": 1, "do": "deep"})
    assert "more frames)" in caught.value.details and len(caught.value.details) < 5_000
    with pytest.raises(UserFunctionError) as caught:
        feeding(Fails, {"ts": 1, "do": "é\n" * 1_000})
    text = f"{caught.value}\n{caught.value.details}"
    assert len(text) < 6_000 and text.encode()
    assert "first \\ud800" in text and "direct cause" in text and "(1,000,011 characters in all)" in text
    record = next(line for line in text.splitlines() if line.startswith("record at offset 0: "))
    assert record.startswith('record at offset 0: {"ts":1,"do":"é\\né') and record.endswith("bytes in all)")


def test_a_window_handler_that_fails_names_its_window_and_shows_its_own_frames() -> None:
    class Fails(Base):
        @on_window(Base.count)
        def answer(self, window: Window, ctx: Context) -> None:
            raise ValueError("no such window")

    with pytest.raises(UserFunctionError, match=r"on partition 0 at window \[0, 10\) in answer$") as caught:
        feeding(Fails, {"ts": 1}, {"ts": 25})
    assert "tracks/window_track.py" in caught.value.trace and "tracks/window_track.py" not in caught.value.details
    assert caught.value.details.endswith("ValueError: no such window")


class Own(BaseException):
    """A program's own exception that is no ``Exception``."""


@pytest.mark.parametrize("error", [SystemExit("x"), KeyboardInterrupt("x"), GeneratorExit("x"), Own("x")])
def test_whatever_a_function_raises_is_a_failure_like_any_other(error: BaseException) -> None:
    class Leaves(Base):
        def process(self, event: Event, ctx: Context) -> None:
            if event["ts"] == 3:
                raise error
            ctx.emit(event["ts"])

    class Awaits(Base):
        async def process(self, event: Event, ctx: Context) -> None:
            if event["ts"] == 3:
                raise error
            ctx.emit(event["ts"])

    class Answers(Base):
        @on_window(Base.count)
        def answer(self, window: Window, ctx: Context) -> None:
            raise error

    said = f"{type(error).__name__}: x on partition 0 at"
    for function in (Leaves, Awaits):
        with pytest.raises(UserFunctionError, match=f"{said} offset 1"):
            feeding(function, {"ts": 1}, {"ts": 3})
        test = feeding(function, {"ts": 1}, {"ts": 3}, {"ts": 4}, on_error="dead-letter")
        assert test.outputs() == [1, 4] and [record["offset"] for record in test.dead()] == [1]
    with pytest.raises(UserFunctionError, match=f"{said} window"):
        feeding(Answers, {"ts": 1}, {"ts": 25})


def test_leaving_the_interpreter_is_a_failure_like_any_other() -> None:
    class Leaves(Base):
        def process(self, event: Event, ctx: Context) -> None:
            if event["ts"] == 3:
                sys.exit(4)
            ctx.emit(event["ts"])

    with pytest.raises(UserFunctionError, match="SystemExit: 4 on partition 0 at offset 1"):
        feeding(Leaves, {"ts": 1}, {"ts": 3})
    test = feeding(Leaves, {"ts": 1}, {"ts": 3}, {"ts": 4}, on_error="dead-letter")
    assert test.outputs() == [1, 4] and [record["offset"] for record in test.dead()] == [1]


def test_misuse_stops_the_job_also_with_dead_letters() -> None:
    class Wrong(Base):
        def write(self, ctx: Context) -> None:
            self.later.insert(1, 0)

    with pytest.raises(UserFunctionError, match="TrackError"):
        feeding(Wrong, {"ts": 1, "do": "write"}, on_error="dead-letter")


def test_a_failing_batch_names_its_offsets() -> None:
    class Fails(ProcessingFunction[Reading]):
        def process_batch(self, batch: Batch[Reading], ctx: Context) -> None:
            raise ValueError("no")

    test = JobTestDriver(Job("test", Source("events", JsonColumns(Reading), "ts"), Fails))
    with pytest.raises(UserFunctionError, match=r"ValueError: no on partition 0 at offsets 0 to 2 \(a batch\)"):
        test.feed(0, {"ts": 1}, {"ts": 2}, {"ts": 3})


def test_dead_letters_of_a_batch_cost_only_the_rows_that_fail() -> None:
    class Fails(ProcessingFunction[Reading]):
        count = WCRDT(GCounter(), Tumbling(10))
        seen = Local[list[int]]([])

        def process_batch(self, batch: Batch[Reading], ctx: Context) -> None:
            self.count.insert_many(np.ones(len(batch), dtype=np.int64), batch.ts_ms)
            self.seen.value.extend(batch.ts_ms.tolist())
            ctx.emit_many(batch.ts_ms)
            if 7 in batch["level"]:
                raise ValueError("seven")

        @on_window(count)
        async def close(self, window: Window, ctx: Context) -> None:
            ctx.emit(["count", await self.count.window_value(window)])

    made = Job("test", Source("events", JsonColumns(Reading), "ts"), Fails, output="out", on_error="dead-letter")
    test = JobTestDriver(made)
    test.feed(0, *({"ts": i, "level": level} for i, level in enumerate([1, 7, 2, 3, 7, 7, 4])))
    assert test.tasks[0].scope.locals["seen"] == [0, 2, 3, 6]
    test.finish()
    assert test.outputs() == [0, 2, 3, 6, ["count", 4]]
    assert [record["offset"] for record in test.dead()] == [1, 4, 5]
    assert test.dead()[0]["reason"] == "the processing function raised ValueError: seven"
