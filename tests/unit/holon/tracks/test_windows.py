"""Windows: the borders of tumbling ones, and that an assigner of one's own is all that other windows need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon import (
    WCRDT,
    Assigner,
    Batch,
    BoundedOutOfOrderness,
    Context,
    GlobalWindow,
    Job,
    JobError,
    JsonColumns,
    ProcessingFunction,
    Sliding,
    Source,
    Tumbling,
    Window,
    on_window,
)
from holon.testing import JobTestDriver, run_job
from tests.unit.holon_jobs import Event, Reading, job
from wcrdt import GCounter


class Overlapping:
    """Windows of ``size_ms`` that begin every ``slide_ms``, written as simply as a user could."""

    def __init__(self, size_ms: int, slide_ms: int) -> None:
        self.size_ms, self.slide_ms = size_ms, slide_ms

    def windows_for(self, ts_ms: int) -> tuple[Window, ...]:
        last = ts_ms // self.slide_ms * self.slide_ms
        starts = range(last, ts_ms - self.size_ms, -self.slide_ms)
        return tuple(Window(start, start + self.size_ms) for start in sorted(starts))

    def split(self, ts_ms: Any) -> Iterator[tuple[Window, Any]]:
        for window in sorted({window for ts in ts_ms.tolist() for window in self.windows_for(ts)}):
            yield window, np.flatnonzero((ts_ms >= window.start_ms) & (ts_ms < window.end_ms))

    def describe(self) -> str:
        return f"overlapping({self.size_ms},{self.slide_ms})"


TIMES = st.lists(st.integers(-(10**6), 10**6), max_size=30)


def by_row(assigner: Assigner, times: list[int]) -> dict[Window, list[int]]:
    rows: dict[Window, list[int]] = {}
    for row, ts in enumerate(times):
        for window in assigner.windows_for(ts):
            rows.setdefault(window, []).append(row)
    return rows


@given(times=TIMES, size_ms=st.integers(1, 1000), offset_ms=st.integers(-2000, 2000))
def test_a_column_is_split_as_its_rows_are_assigned(times: list[int], size_ms: int, offset_ms: int) -> None:
    for assigner in (Tumbling(size_ms, offset_ms), GlobalWindow()):
        column = np.array(times, dtype=np.int64)
        split = {window: np.arange(len(times))[rows].tolist() for window, rows in assigner.split(column)}
        assert split == by_row(assigner, times)


@given(times=TIMES, slide_ms=st.integers(1, 1000), slides=st.integers(1, 5))
def test_sliding_windows_take_a_time_as_often_as_they_overlap(times: list[int], slide_ms: int, slides: int) -> None:
    assigner, column = Sliding(slides * slide_ms, slide_ms), np.array(times, dtype=np.int64)
    split = {window: np.arange(len(times))[rows].tolist() for window, rows in assigner.split(column)}
    assert split == by_row(assigner, times) == by_row(Overlapping(slides * slide_ms, slide_ms), times)
    assert all(len(assigner.windows_for(ts)) == slides for ts in times)


@pytest.mark.parametrize(("size_ms", "slide_ms"), [(10, 0), (10, -5), (10, 4), (0, 5), (-10, 5)])
def test_a_slide_that_does_not_divide_the_window_is_refused(size_ms: int, slide_ms: int) -> None:
    with pytest.raises(ValueError, match="divides size_ms"):
        Sliding(size_ms, slide_ms)


@given(ts=st.integers(-(2**53), 2**53), size_ms=st.integers(1, 10**9), offset_ms=st.integers(-(10**9), 10**9))
def test_a_time_lies_in_exactly_one_tumbling_window(ts: int, size_ms: int, offset_ms: int) -> None:
    (window,) = Tumbling(size_ms, offset_ms).windows_for(ts)
    assert window.start_ms <= ts < window.end_ms == window.start_ms + size_ms
    assert (window.start_ms - offset_ms) % size_ms == 0


@pytest.mark.parametrize(
    ("ts", "window"), [(0, (0, 10)), (9, (0, 10)), (10, (10, 20)), (-1, (-10, 0)), (-10, (-10, 0)), (-11, (-20, -10))]
)
def test_a_window_includes_its_start_and_not_its_end(ts: int, window: tuple[int, int]) -> None:
    """|--- [-20, -10) ---|--- [-10, 0) ---|--- [0, 10) ---|--- [10, 20) ---|"""
    assert Tumbling(10).windows_for(ts) == (window,)


def test_what_is_no_window_size_is_refused() -> None:
    with pytest.raises(ValueError, match="size_ms > 0"):
        Tumbling(0)
    with pytest.raises(TypeError):
        Tumbling(10.5)  # type: ignore[arg-type]
    with pytest.raises(JobError, match="delay_ms must be 0 or more"):
        BoundedOutOfOrderness(-1)


class PerBatch(ProcessingFunction[Reading]):
    count = WCRDT(GCounter(), Overlapping(20, 10))

    def process_batch(self, batch: Batch[Reading], ctx: Context) -> None:
        self.count.insert_many(np.ones(len(batch), dtype=np.int64), batch.ts_ms)

    @on_window(count)
    async def close(self, window: Window, ctx: Context) -> None:
        ctx.emit([*window, await self.count.window_value(window)])


JOB = Job("windows", Source("events", JsonColumns(Reading), "ts"), PerBatch, output="out")


def test_overlapping_windows_need_only_an_assigner() -> None:
    """5 and 12 share [0, 20); 12 and 25 share [10, 30)."""
    results = run_job(JOB, [[{"ts": 5}, {"ts": 12}, {"ts": 25}]])
    assert results == [[-10, 10, 1], [0, 20, 2], [10, 30, 2], [20, 40, 1]]


def test_a_record_that_is_late_for_one_of_its_windows_still_counts_in_the_others() -> None:
    test = JobTestDriver(JOB)
    test.feed(0, {"ts": 22}, {"ts": 15}, {"ts": 5})  # 15 lies in [0, 20), which is closed, and [10, 30), which is not
    test.finish()
    assert test.outputs() == [[10, 30, 2], [20, 40, 1]]
    assert [record["offset"] for record in test.late()] == [2]


@pytest.mark.slow
def test_many_windows_that_complete_at_once_are_answered_in_the_order_of_their_ends() -> None:
    test = JobTestDriver(JOB, partitions=2)
    test.feed(1, {"ts": 10**6})
    test.feed(0, *({"ts": 10 * i} for i in range(5_000)), {"ts": 10**6})
    ends = [end for _, end, _ in test.outputs()]
    assert len(ends) == 2 * 5_001
    assert sorted(ends) == sorted([10 * i for i in range(1, 5_002)] * 2)
    per_partition = [identity.position for _, identity, _ in test.raw_outputs() if identity and identity.partition == 0]
    assert per_partition == sorted(per_partition)


def test_windows_are_given_by_units_too() -> None:
    assert repr(Sliding.of(minutes=10, slide_seconds=30)) == repr(Sliding(600_000, 30_000))
    assert repr(Sliding.of(hours=1, minutes=30, slide_hours=0.25)) == repr(Sliding(5_400_000, 900_000))
    assert repr(Tumbling.of(hours=1, seconds=0.5)) == repr(Tumbling(3_600_500))
    with pytest.raises(ValueError, match="slide_ms > 0 that divides size_ms, got 0 and 60000"):
        Sliding.of(minutes=1)


def test_an_insert_that_changes_nothing_opens_its_window_all_the_same() -> None:
    class Counts(ProcessingFunction[Event]):
        count = WCRDT(GCounter(), Tumbling(10))

        def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(event["by"], ctx.timestamp_ms)

        @on_window(count)
        async def answer(self, window: Window, ctx: Context) -> None:
            ctx.emit([window.end_ms, await self.count.window_value(window)])

    test = JobTestDriver(job(Counts), partitions=2)
    test.feed(0, {"ts": 5, "by": 0}, {"ts": 25, "by": 1})
    test.finish()
    assert test.outputs() == [[10, 0], [30, 1]] * 2  # of each partition; nothing for the window in between


def test_a_record_that_fails_does_not_move_the_watermark() -> None:
    """A filtered one does: its event time is known and trusted."""

    class Fails(ProcessingFunction[Event]):
        count = WCRDT(GCounter(), Tumbling(10))

        def process(self, event: Event, ctx: Context) -> None:
            self.count.insert(1, ctx.timestamp_ms)
            if event["ts"] == 1_000:
                raise ValueError("no")

        @on_window(count)
        async def answer(self, window: Window, ctx: Context) -> None:
            ctx.emit(await self.count.window_value(window))

    test = JobTestDriver(job(Fails, on_error="dead-letter"))
    test.feed(0, {"ts": 5}, {"ts": 1_000})
    assert (test.outputs(), test.frontier_ms, test.counts.dead) == ([], 5, 1)
    test.feed(0, {"ts": 6}, {"ts": 30})
    assert test.outputs() == [2]
