"""Samples of a job's stack are told apart by stage."""

from __future__ import annotations

from collections import Counter

import pytest

from nodes.profiling.stages import STAGES, shares, stage_of

RECORD = ("nodes/profiling/task_runs.py:run", "holon/tracks/task.py:feed", "holon/tracks/record_track.py:feed")
BATCH = (*RECORD, "holon/tracks/record_track.py:_feed", "holon/tracks/record_track.py:_feed_batch")
LOOP = (*RECORD, "holon/tracks/record_track.py:_feed", "holon/tracks/record_loop.py:run")
ADMIT = (*RECORD, "holon/tracks/record_track.py:_admit", "holon/tracks/admission.py:admit")


@pytest.mark.parametrize(
    ("stack", "stage"),
    [
        (("nodes/profiling/task_runs.py:run", "nodes/profiling/records.py:runs", "nodes/log/memory.py:read"), "read"),
        ((*ADMIT, "holon/formats/json_columns.py:decode", "holon/columnar/structs/reader.py:read"), "decode"),
        ((*ADMIT, "holon/time/event_time.py:times"), "time and lateness"),
        (BATCH, "records"),
        ((*LOOP, "holon/program/scope.py:enter_record"), "records"),
        ((*LOOP, "jobs.py:process", "holon/program/handles.py:insert"), "insert"),
        ((*LOOP, "jobs.py:process", "holon/program/gathered_handles.py:insert"), "insert"),
        ((*RECORD, "holon/program/scope.py:apply_all", "wcrdt/replica/slots.py:insert_many"), "insert"),
        ((*BATCH, "examples/top_items.py:process_batch"), "function"),
        ((*BATCH, "shop/jobs.py:process_batch", "numpy/lib/arraysetops.py:unique"), "function"),
        (
            (*BATCH, "jobs.py:process_batch", "holon/program/handles.py:insert_many", "wcrdt/lattices/maps.py:x"),
            "insert",
        ),
        ((*BATCH, "jobs.py:process_batch", "holon/program/context.py:emit"), "output"),
        (("holon/tracks/task.py:advance", "holon/tracks/window_track.py:advance"), "windows"),
        (("holon/tracks/task.py:advance", "holon/tracks/window_track.py:advance", "jobs.py:report"), "function"),
        (("holon/tracks/task.py:take_delta", "wcrdt/replica/slots.py:take_delta"), "delta"),
        (("nodes/profiling/task_runs.py:broadcast", "nodes/machine/messages.py:encode"), "delta"),
        (("nodes/profiling/task_runs.py:save", "holon/tracks/task.py:snapshot"), "checkpoint"),
        (("nodes/cli/main.py:run",), "rest"),
    ],
)
def test_a_sample_counts_for_the_stage_that_was_begun_last(stack: tuple[str, ...], stage: str) -> None:
    assert stage_of(stack) == stage


def test_shares_add_up_in_the_order_of_a_records_way() -> None:
    found = shares(Counter({BATCH: 1, (*BATCH, "jobs.py:process_batch"): 2, ADMIT: 1}))
    assert found == {"time and lateness": 0.25, "records": 0.25, "function": 0.5}
    assert list(found) == [stage for stage in STAGES if stage in found]
    assert shares(Counter()) == {}
