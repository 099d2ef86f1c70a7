"""Rows of which a batch function makes nothing count as filtered, however often it is called for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from holon import Batch, Context, Job, Json, JsonColumns, Source
from holon.errors import HolonError
from holon.testing import JobTestDriver


class Reading(msgspec.Struct):
    value: int


def job(process: Callable[[Batch[Reading], Context], None]) -> Job[Reading]:
    source = Source("readings", JsonColumns(Reading), filter=lambda columns: columns["value"] != 7)
    return Job("filtered", source, process_batch=process, output="out", on_error="dead-letter")


def positive(batch: Batch[Reading], ctx: Context) -> None:
    rows = np.flatnonzero(batch["value"] > 0)
    ctx.count_filtered(len(batch) - len(rows))
    if 13 in batch["value"]:
        raise ValueError("thirteen")
    ctx.emit_many(batch["value"][rows].tolist(), rows)


def test_a_batch_that_is_done_again_counts_once() -> None:
    test = JobTestDriver(job(positive))
    test.feed(0, *(Reading(value) for value in (1, -1, 7, 13, 0, 5)))
    test.feed(0, Reading(-2))
    test.finish()
    assert test.outputs() == [1, 5]
    assert (test.counts.accepted, test.counts.filtered, test.counts.dead) == (2, 4, 1)


def test_a_batch_of_which_the_source_keeps_nothing_has_no_rows_to_count() -> None:
    test = JobTestDriver(job(positive))
    test.feed(0, Reading(-1))
    test.feed(0, Reading(7))
    assert (test.counts.accepted, test.counts.filtered) == (0, 2)


def too_many(batch: Batch[Reading], ctx: Context) -> None:
    ctx.count_filtered(1)
    ctx.count_filtered(len(batch))


@pytest.mark.parametrize(
    "process", [too_many, lambda batch, ctx: ctx.count_filtered(-1), lambda batch, ctx: ctx.count_filtered(9)]
)
def test_more_rows_than_there_are_is_a_mistake_of_the_job(process: Callable[..., Any]) -> None:
    test = JobTestDriver(job(process))
    with pytest.raises(HolonError, match=r"count_filtered\(-?\d\): a batch function counts rows of its batch"):
        test.feed(0, Reading(1), Reading(2))


def test_a_function_of_one_record_has_no_rows_to_count() -> None:
    source = Source("readings", Json(Reading))
    test = JobTestDriver(Job("single", source, lambda event, ctx: ctx.count_filtered(0), output="out"))
    with pytest.raises(HolonError, match="0 are left"):
        test.feed(0, Reading(1))
