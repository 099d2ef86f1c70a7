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
    Source,
    Tumbling,
    Window,
    WLocal,
    on_window,
)
from holon.testing import JobTestDriver
from holon.tracks.admission import AdmissionCounts
from nodes.machine.messages import CheckpointSaved, counted
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
    assert test.counts == AdmissionCounts(accepted=9, late_inserts=LATE)
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
    assert test.counts == AdmissionCounts(accepted=10, dead=1, late_inserts=LATE + 1)


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
    said = CheckpointSaved(1, "n", 0, 1, "x", 4, 0, 0, counts=counted(AdmissionCounts(accepted=4, late_inserts=3)))
    assert (said.taken, said.late_inserts) == (4, 3)
