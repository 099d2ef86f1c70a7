"""Inserts that a closed window of one state refuses, of records that another state takes: none is lost uncounted."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from holon import (
    WCRDT,
    Batch,
    Context,
    GlobalWindow,
    Job,
    Json,
    JsonColumns,
    ProcessingFunction,
    Sliding,
    Source,
    Tumbling,
    Window,
    WLocal,
    on_window,
)
from holon.errors import JobError, UserFunctionError
from holon.testing import JobTestDriver
from holon.tracks.admission import AdmissionCounts
from nodes.machine.messages import CheckpointSaved
from tests.unit.holon_jobs import Reading
from wcrdt import GCounter

RECORDS = [{"ts": ts, "level": level} for level, ts in enumerate([1, 25, 3, 27, 9, 10, 40, 29, 38])]
LATE = 5
"""With windows of 10: 3, 9 and 10 behind 25, 29 and 38 behind 40."""


class Both(ProcessingFunction[Reading]):
    count = WCRDT(GCounter(), Tumbling(10))
    everything = WCRDT(GCounter(), GlobalWindow())

    def process(self, event: Reading, ctx: Context) -> None:
        self.count.insert(1, ctx.timestamp_ms)
        self.everything.insert(1, ctx.timestamp_ms)


class BothByBatch(ProcessingFunction[Reading]):
    count = WLocal(GCounter(), Tumbling(10))
    everything = WCRDT(GCounter(), GlobalWindow())

    def process_batch(self, batch: Batch[Reading], ctx: Context) -> None:
        ones = np.ones(len(batch), dtype=np.int64)
        self.count.insert_many(ones, batch.ts_ms)
        self.everything.insert_many(ones, batch.ts_ms)
        if 99 in batch["level"]:
            raise ValueError("told to fail")


def trial(function: type, on_error: Literal["fail", "dead-letter"] = "fail") -> JobTestDriver:
    by_batch = function is BothByBatch
    by_record: Source[Any] = Source("events", Json(Reading), _time_of)
    source = Source("events", JsonColumns(Reading), "ts") if by_batch else by_record
    return JobTestDriver(Job("test", source, function, on_error=on_error))


def _time_of(event: Reading) -> int:
    return event.ts


@pytest.mark.parametrize("function", [Both, BothByBatch])
@pytest.mark.parametrize("size", [1, 2, 4, 9])
def test_they_are_counted_wherever_a_batch_is_cut(function: type, size: int) -> None:
    test = trial(function)
    for at in range(0, len(RECORDS), size):
        test.feed(0, *RECORDS[at : at + size])
    assert test.counts == AdmissionCounts(accepted=9, late_inserts=LATE, late_by_state={"count": LATE})
    assert test.counts.taken == 9, "they are inserts, not records"


def test_they_are_part_of_the_state() -> None:
    test = trial(Both)
    test.feed(0, *RECORDS[:4])
    test.checkpoint(0)
    test.feed(0, *RECORDS[4:])
    before = test.counts
    test.fail(0)
    assert test.counts == before


def test_those_of_a_record_that_failed_are_undone() -> None:
    test = trial(BothByBatch, "dead-letter")
    test.feed(0, *RECORDS, {"ts": 2, "level": 99}, {"ts": 2, "level": 0})
    assert test.counts == AdmissionCounts(accepted=10, dead=1, late_inserts=LATE + 1, late_by_state={"count": LATE + 1})


def test_one_state_refuses_whole_records_and_none_is_an_insert() -> None:
    class One(ProcessingFunction[Reading]):
        count = WCRDT(GCounter(), Tumbling(10))

        def process(self, event: Reading, ctx: Context) -> None:
            self.count.insert(1, ctx.timestamp_ms)

    test = trial(One)
    test.feed(0, *RECORDS)
    assert test.counts == AdmissionCounts(accepted=4, late=LATE)


class Answers(ProcessingFunction[Reading]):
    count = WCRDT(GCounter(), Tumbling(10))
    later = WCRDT(GCounter(), Tumbling(10), stage=1)

    def process(self, event: Reading, ctx: Context) -> None:
        self.count.insert(1, ctx.timestamp_ms)

    @on_window(count)
    def answer(self, window: Window, ctx: Context) -> None:
        taken = self.later.insert(1, window.start_ms), self.later.insert(1, window.start_ms - 10)
        assert taken == (True, False), "the window before is answered"


def test_those_of_a_handler_into_a_window_that_is_answered_are_counted_and_part_of_the_state() -> None:
    test = trial(Answers)
    test.feed(0, {"ts": 1, "level": 0}, {"ts": 11, "level": 0}, {"ts": 25, "level": 0})
    assert test.counts == AdmissionCounts(accepted=3, late_inserts=2)
    assert test.counts.taken == 3
    test.checkpoint(0)
    test.feed(0, {"ts": 45, "level": 0})
    assert test.counts == AdmissionCounts(accepted=4, late_inserts=3)
    test.fail(0)
    assert test.counts == AdmissionCounts(accepted=4, late_inserts=3)


def test_late_inserts_are_no_records_in_what_a_checkpoint_says() -> None:
    said = CheckpointSaved(1, "n", 0, 1, "x", 4, 0, 0, counts=AdmissionCounts(accepted=4, late_inserts=3).numbers())
    assert (said.taken, said.late_inserts) == (4, 3)


@pytest.mark.parametrize("function", [Both, BothByBatch])
@pytest.mark.parametrize("size", [1, 2, 9])
def test_their_records_go_to_the_late_output_once_for_each_state(function: type, size: int) -> None:
    test = trial(function)
    for at in range(0, len(RECORDS), size):
        test.feed(0, *RECORDS[at : at + size])
    assert [(letter["offset"], letter["state"]) for letter in test.late()] == [(at, "count") for at in (2, 4, 5, 7, 8)]
    assert "every window of count that would take it" in test.late()[0]["reason"]


class Spread(ProcessingFunction[Reading]):
    sliding = WCRDT(GCounter(), Sliding(20, 10))
    count = WCRDT(GCounter(), Tumbling(10))
    everything = WCRDT(GCounter(), GlobalWindow())

    def process(self, event: Reading, ctx: Context) -> None:
        self.everything.insert(1, ctx.timestamp_ms)
        for _ in range(int(event.level)):
            self.sliding.insert(1, ctx.timestamp_ms)
            self.count.insert(1, ctx.timestamp_ms)


def test_a_row_is_late_for_a_state_where_no_window_takes_it_and_a_record_has_one_letter_for_all_its_rows() -> None:
    test = trial(Spread)
    test.feed(0, {"ts": 25, "level": 1}, {"ts": 15, "level": 2}, {"ts": 1, "level": 3})
    late = {"sliding": 3, "count": 5}
    refusals = 2 * 1 + 3 * 2 + 5
    assert test.counts == AdmissionCounts(accepted=3, late_inserts=refusals, late_by_state=late)
    letters = [(letter["offset"], letter["state"]) for letter in test.late()]
    assert letters == [(1, "count"), (2, "count"), (2, "sliding")]


class Routes(ProcessingFunction[Reading]):
    count = WCRDT(GCounter(), Tumbling(10))
    everything = WCRDT(GCounter(), GlobalWindow())

    def process_batch(self, batch: Batch[Reading], ctx: Context) -> None:
        ones = np.ones(len(batch), dtype=np.int64)
        self.everything.insert_many(ones, batch.ts_ms)
        rows = np.flatnonzero(batch["level"] > 0)
        late = self.count.take_late(batch.ts_ms[rows], rows)
        in_time = np.delete(rows, late)
        self.count.insert_many(ones[in_time], batch.ts_ms[in_time], in_time)
        ctx.emit_many(batch["level"][rows[late]], rows[late])


@pytest.mark.parametrize("size", [1, 2, 9])
def test_a_function_takes_late_rows_to_an_output_of_its_own(size: int) -> None:
    test = JobTestDriver(Job("test", Source("events", JsonColumns(Reading), "ts"), Routes, output="late-levels"))
    for at in range(0, len(RECORDS), size):
        test.feed(0, *RECORDS[at : at + size])
    assert test.outputs() == [2.0, 4.0, 5.0, 7.0, 8.0] and test.late() == []
    assert test.counts == AdmissionCounts(accepted=9, late_inserts=LATE, late_by_state={"count": LATE})


class RoutesIfClosed(Routes):
    def process_batch(self, batch: Batch[Reading], ctx: Context) -> None:
        rows = np.flatnonzero(batch["level"] > 0)
        made = np.ones(len(rows), dtype=np.int64)
        if self.count.insert_if_open(lambda: made, batch.ts_ms[rows], rows):
            self.everything.insert_many(np.ones(len(batch), dtype=np.int64), batch.ts_ms)
        else:
            super().process_batch(batch, ctx)


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_rows_are_inserted_at_once_where_all_of_their_windows_are_open(size: int) -> None:
    found = []
    for function in (Routes, RoutesIfClosed):

        class Answers(function):  # type: ignore[misc, valid-type]
            @on_window(function.count)
            async def answer(self, window: Window, ctx: Context) -> None:
                ctx.emit((window.start_ms, await self.count.window_value(window)))

        test = JobTestDriver(Job("test", Source("events", JsonColumns(Reading), "ts"), Answers, output="late-levels"))
        for at in range(0, len(RECORDS), size):
            test.feed(0, *RECORDS[at : at + size])
        test.finish()
        found.append((test.outputs(), test.counts))
    assert found[0] == found[1] and [20, 2] in found[0][0]


def test_rows_that_are_inserted_at_once_have_as_many_elements() -> None:
    class Fewer(Routes):
        def process_batch(self, batch: Batch[Reading], ctx: Context) -> None:
            self.count.insert_if_open(lambda: np.ones(1, dtype=np.int64), batch.ts_ms)

    test = JobTestDriver(Job("test", Source("events", JsonColumns(Reading), "ts"), Fewer))
    with pytest.raises(UserFunctionError, match="a column of 1 elements for 2 times"):
        test.feed(0, *RECORDS[:2])


def test_a_function_takes_the_late_row_of_one_record() -> None:
    class One(ProcessingFunction[Reading]):
        count = WCRDT(GCounter(), Tumbling(10))

        def process(self, event: Reading, ctx: Context) -> None:
            ctx.emit(self.count.take_late(np.array([event.ts]), letters=event.level > 3).tolist())

    source: Source[Any] = Source("events", Json(Reading), _time_of)
    test = JobTestDriver(Job("test", source, One, output="out", late_records="process"))
    test.feed(0, *RECORDS[:5])
    assert test.outputs() == [[], [], [0], [], [0]]
    assert [letter["offset"] for letter in test.late()] == [4]
    assert test.counts == AdmissionCounts(accepted=5, late_inserts=2, late_by_state={"count": 2})


def test_a_handler_has_no_record_that_could_be_late() -> None:
    class Handles(Answers):
        @on_window(Answers.count)
        def answer(self, window: Window, ctx: Context) -> None:
            self.later.take_late(np.array([window.start_ms]))

    test = trial(Handles)
    with pytest.raises(UserFunctionError, match="take_late of 'later' in a handler, where insert gives False"):
        test.feed(0, {"ts": 1, "level": 0}, {"ts": 25, "level": 0})


def test_a_job_says_what_becomes_of_late_records() -> None:
    source: Source[Any] = Source("events", Json(Reading), _time_of)
    plain, processed = (Job("test", source, Both, late_records=kind) for kind in ("divert", "process"))
    assert plain.describe() + "\nlate records processed" == processed.describe()
    with pytest.raises(JobError, match='late_records must be "divert" or "process"'):
        Job("test", source, Both, late_records="drop")  # type: ignore[arg-type]


def test_a_batch_function_counts_a_row_once() -> None:
    def count(batch: Batch[Reading], ctx: Context) -> None:
        ctx.count_filtered(1)
        ctx.count_late(len(batch))

    test = JobTestDriver(Job("test", Source("events", JsonColumns(Reading), "ts"), process_batch=count))
    with pytest.raises(UserFunctionError, match=r"count_late\(2\): a batch function counts .*; 1 are left"):
        test.feed(0, *RECORDS[:2])


COUNTS = AdmissionCounts(5, 4, 3, 2, 1, 9, {"b": 7, "d": 8})


def test_a_checkpoint_says_how_many_rows_are_late_for_each_state_and_older_nodes_stop_at_it() -> None:
    numbers = COUNTS.numbers(["a", "b", "c", "d"])
    assert numbers == (5, 4, 3, 2, 1, 9, 0, 7, 0, 8)
    assert AdmissionCounts.of_numbers(numbers, ["a", "b", "c", "d"]) == COUNTS
    assert (CheckpointSaved(1, "n", 0, 1, "x", 4, 0, 0, counts=numbers).format, COUNTS.taken) == (5, 15)
    assert CheckpointSaved(1, "n", 0, 1, "x", 4, 0, 0, counts=numbers[:6]).format == 2


def test_counts_are_summed_by_state_too() -> None:
    both = COUNTS.plus(AdmissionCounts(1, late_by_state={"a": 2, "d": 1}))
    assert both == AdmissionCounts(6, 4, 3, 2, 1, 9, {"a": 2, "b": 7, "d": 9})
