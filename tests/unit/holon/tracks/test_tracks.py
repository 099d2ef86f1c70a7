"""The two tracks: what each may touch, and what depends on timing."""

from __future__ import annotations

from typing import Any

import pytest

from holon import (
    WCRDT,
    Batch,
    Context,
    GlobalWindow,
    Job,
    JsonColumns,
    ProcessingFunction,
    Source,
    Tumbling,
    UserFunctionError,
    Window,
    on_window,
)
from holon.testing import JobTestDriver, run_job
from tests.unit.holon_jobs import Base, Event, Reading, feeding, job
from wcrdt import GCounter

# --- state of the other track -----------------------------------------------------------------------------------------


def test_process_cannot_write_a_state_of_stage_one() -> None:
    class Wrong(Base):
        def write(self, ctx: Context) -> None:
            self.later.insert(1, 0)

    with pytest.raises(UserFunctionError, match=r"TrackError: 'later' has stage 1.*not process: declare it"):
        feeding(Wrong, {"ts": 1, "do": "write"})


def test_a_handler_cannot_write_a_state_of_stage_zero() -> None:
    class Wrong(Base):
        def answer(self, window: Window, ctx: Context) -> Any:
            self.count.insert(1, 0)

    with pytest.raises(UserFunctionError, match=r"TrackError: 'count' has stage 0, so process writes it.*\[0, 10\)"):
        feeding(Wrong, {"ts": 1}, {"ts": 10})


def test_a_local_belongs_to_one_track() -> None:
    class Wrong(Base):
        def answer(self, window: Window, ctx: Context) -> Any:
            self.kept.value += 1

    with pytest.raises(UserFunctionError, match="Local 'kept' belongs to the record track and was used on the window"):
        feeding(Wrong, {"ts": 1}, {"ts": 10})

    class AlsoWrong(Base):
        def use(self, ctx: Context) -> None:
            self.answered.value += 1

    with pytest.raises(UserFunctionError, match='declare it with track="record"'):
        feeding(AlsoWrong, {"ts": 1, "do": "use"})


def test_process_cannot_await_what_handlers_write() -> None:
    class Wrong(Base):
        async def process(self, event: Event, ctx: Context) -> None:
            await self.later.window_value(Window(0, 10))

    with pytest.raises(UserFunctionError, match=r"on_window handlers write \(stage 1\); read it in an"):
        feeding(Wrong, {"ts": 20})


def test_increment_watermark_belongs_to_a_record() -> None:
    class Wrong(Base):
        def answer(self, window: Window, ctx: Context) -> Any:
            self.count.increment_watermark(99)

    with pytest.raises(UserFunctionError, match="increment_watermark belongs into a per-record process function"):
        feeding(Wrong, {"ts": 1}, {"ts": 10})


# --- what depends on timing -------------------------------------------------------------------------------------------


class Peeks(Base):
    def process(self, event: Event, ctx: Context) -> None:
        self.count.insert(1, ctx.timestamp_ms)
        seen = self.count.peek(Window(0, 10))
        ctx.emit_nondeterministic([seen, min(self.count.global_watermark_ms, 99)])
        getattr(self, event.get("do", "nothing"))(ctx)

    def nothing(self, ctx: Context) -> None:
        pass

    def emit(self, ctx: Context) -> None:
        ctx.emit(1)

    def insert(self, ctx: Context) -> None:
        self.count.insert(1, ctx.timestamp_ms)

    def keep(self, ctx: Context) -> None:
        self.kept.value = 1

    def promise(self, ctx: Context) -> None:
        self.count.increment_watermark(99)


def test_peek_is_none_while_open_and_the_value_once_complete() -> None:
    test = JobTestDriver(job(Peeks))
    test.feed(0, {"ts": 1})
    test.feed(0, {"ts": 12})
    test.feed(0, {"ts": 13})
    assert [seen for seen, _ in test.outputs("unstable")] == [None, None, 1]
    assert test.raw_outputs("unstable")[0][1] is None


@pytest.mark.parametrize("do", ["emit", "insert", "keep", "promise"])
def test_nothing_that_depends_on_timing_may_reach_results_or_state(do: str) -> None:
    with pytest.raises(UserFunctionError, match=r"NondeterminismError: .* after .*emit_nondeterministic"):
        feeding(Peeks, {"ts": 1, "do": do})


def test_an_await_after_a_peek_is_refused() -> None:
    class Wrong(Base):
        async def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(1, ctx.timestamp_ms)
            if self.count.peek(Window(0, 10)) is None:
                await self.count.window_value(Window(0, 10))

    with pytest.raises(UserFunctionError, match="an await after peek"):
        feeding(Wrong, {"ts": 12})


def test_a_handler_may_peek_at_what_is_final_for_it() -> None:
    class Looks(Base):
        def answer(self, window: Window, ctx: Context) -> Any:
            ctx.emit(self.count.peek(window))

    assert feeding(Looks, {"ts": 1}, {"ts": 10}).outputs() == [1]


def test_a_batch_function_has_no_watermark_to_show() -> None:
    class Shows(ProcessingFunction[Reading]):
        def process_batch(self, batch: Batch[Reading], ctx: Context) -> None:
            assert (ctx.offset, ctx.timestamp_ms) == (-1, -1)
            ctx.emit_many([ctx.watermark_ms] * len(batch))

    test = JobTestDriver(Job("test", Source("events", JsonColumns(Reading), "ts"), Shows, output="out"))
    with pytest.raises(UserFunctionError, match="would depend on where the batch was cut"):
        test.feed(0, {"ts": 1})


# --- the window track -------------------------------------------------------------------------------------------------


def test_stages_follow_each_other_at_every_window_end() -> None:
    class Stages(Base):
        wide = WCRDT(GCounter(), Tumbling(20), stage=1)
        final = WCRDT(GCounter(), Tumbling(20), stage=2)

        async def answer(self, window: Window, ctx: Context) -> Any:
            ctx.emit([0, window.start_ms])
            self.later.insert(await self.count.window_value(window), ctx.timestamp_ms)
            self.wide.insert(1, ctx.timestamp_ms)

        @on_window(Base.later)
        async def first(self, window: Window, ctx: Context) -> None:
            ctx.emit([1, window.start_ms, await self.later.window_value(window)])

        @on_window(wide)
        async def second(self, window: Window, ctx: Context) -> None:
            ctx.emit([2, window.start_ms, await self.wide.window_value(window)])
            self.final.insert(1, ctx.timestamp_ms)

        @on_window(final, scope="global")
        async def third(self, window: Window, ctx: Context) -> None:
            ctx.emit([3, window.start_ms, await self.final.window_value(window)])

    results = run_job(job(Stages), [[{"ts": 1}, {"ts": 12}], [{"ts": 2}]])
    assert sorted(results) == [
        [0, 0], [0, 0], [0, 10], [0, 10],
        [1, 0, 4], [1, 0, 4], [1, 10, 2], [1, 10, 2],
        [2, 0, 4], [2, 0, 4],
        [3, 0, 2],
    ]  # fmt: skip


def test_a_handler_cannot_insert_into_a_window_that_was_answered_before() -> None:
    class Backwards(Base):
        def answer(self, window: Window, ctx: Context) -> Any:
            taken = [self.later.insert(1, window.start_ms + shift) for shift in (-1, 0, 10)]
            ctx.emit([window.start_ms, *taken])

        @on_window(Base.later)
        async def show(self, window: Window, ctx: Context) -> None:
            ctx.emit(["later", window.start_ms, await self.later.window_value(window)])

    results = run_job(job(Backwards), [[{"ts": 1}, {"ts": 12}]])
    assert results == [
        [0, False, True, True],
        ["later", 0, 1],
        [10, False, True, True],
        ["later", 10, 2],
        ["later", 20, 1],
    ]


def test_a_window_for_all_time_is_answered_at_the_end_of_the_input() -> None:
    class All(ProcessingFunction[Event]):
        count = WCRDT(GCounter(), GlobalWindow())

        def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(1, ctx.timestamp_ms)

        @on_window(count, scope="global")
        async def total(self, window: Window, ctx: Context) -> None:
            ctx.emit(await self.count.window_value(window))

    test = JobTestDriver(job(All), partitions=2)
    test.feed(0, {"ts": 1}, {"ts": 10**9})
    test.feed(1, {"ts": 10**9})
    assert test.outputs() == []
    test.finish()
    assert test.outputs() == [3]


def test_windows_are_elected_to_all_partitions_alike() -> None:
    class Once(Base):
        @on_window(Base.count, scope="global")
        def one(self, window: Window, ctx: Context) -> None:
            assert ctx.is_responsible_for(window)
            ctx.emit(ctx.partition)

    feeds = [[{"ts": ts} for ts in range(0, 4_000, 10)] for _ in range(4)]
    results = run_job(job(Once), feeds)
    assert len(results) == 400
    assert all(60 < results.count(partition) < 140 for partition in range(4))


def test_a_handler_of_private_windows_runs_where_they_are() -> None:
    class Private(Base):
        @on_window(Base.mine)
        async def own(self, window: Window, ctx: Context) -> None:
            ctx.emit([ctx.partition, window.start_ms, await self.mine.window_value(window)])

    assert sorted(run_job(job(Private), [[{"ts": 1}, {"ts": 2}], [{"ts": 13}]])) == [[0, 0, 2], [1, 10, 1]]


def test_once_all_is_answered_private_windows_are_in_no_checkpoint() -> None:
    test = feeding(Base, {"ts": 1}, {"ts": 57})
    task = test.tasks[0]
    assert [change.state for change in task.snapshot().record.private.changes] == ["mine", "mine"]
    test.finish()
    assert task.done
    assert task.snapshot().record.private.changes == []


def test_the_context_of_a_handler_shows_its_window_and_no_accident() -> None:
    class Shows(Base):
        def answer(self, window: Window, ctx: Context) -> Any:
            ctx.emit([ctx.offset, ctx.timestamp_ms, ctx.watermark_ms])

    assert feeding(Shows, {"ts": 1}, {"ts": 57}).outputs() == [[-1, 9, 10]]
