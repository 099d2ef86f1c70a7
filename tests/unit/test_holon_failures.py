"""Failures of the user's code: who is told what, and what is undone."""

from __future__ import annotations

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
from holon.testing import JobTest
from tests.unit.holon_jobs import Base, Event, Reading, feeding, job
from wcrdt import GCounter


def test_an_exception_names_job_partition_and_offset_and_keeps_the_traceback() -> None:
    class Fails(Base):
        def process(self, event: Event, ctx: Context) -> None:
            if event["ts"] == 3:
                raise KeyError("nothing there")

    test = JobTest(job(Fails), partitions=2)
    with pytest.raises(UserFunctionError) as caught:
        test.feed(1, {"ts": 1}, {"ts": 3})
    message = "job 'test': the processing function raised KeyError: 'nothing there' on partition 1 at offset 1"
    assert str(caught.value) == message
    assert (caught.value.partition, caught.value.offset) == (1, 1)
    assert 'raise KeyError("nothing there")' in caught.value.details


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

    test = JobTest(Job("test", Source("events", JsonColumns(Reading), "ts"), Fails))
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
    test = JobTest(made)
    test.feed(0, *({"ts": i, "level": level} for i, level in enumerate([1, 7, 2, 3, 7, 7, 4])))
    assert test.tasks[0].scope.locals["seen"] == [0, 2, 3, 6]
    test.finish()
    assert test.outputs() == [0, 2, 3, 6, ["count", 4]]
    assert [record["offset"] for record in test.dead()] == [1, 4, 5]
    assert test.dead()[0]["reason"] == "the processing function raised ValueError: seven"
