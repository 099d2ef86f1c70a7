"""Whether windows are open for all rows of a batch is known from its least time and its last watermark."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.errors import JobError
from holon.program.insert_arguments import RowWatermarks
from holon.program.late_inserts import late_places
from wcrdt import Sliding, Tumbling
from wcrdt.windows.assigners import END_OF_TIME_MS, Assigner, GlobalWindow

ASSIGNERS: list[Assigner] = [Tumbling(10), Tumbling(10, 3), Sliding(20, 5), GlobalWindow(), Tumbling("1d", tz="UTC")]


@pytest.mark.parametrize("windows", ASSIGNERS, ids=repr)
@given(
    rows=st.lists(st.tuples(st.integers(-60, 60), st.integers(-60, 80)), min_size=1, max_size=6),
    lateness_ms=st.integers(0, 20),
)
def test_open_for_all_rows_is_open_for_each(windows: Assigner, rows: list[tuple[int, int]], lateness_ms: int) -> None:
    times = np.array([ts for ts, _ in rows])
    watermarks = np.sort(np.array([watermark for _, watermark in rows]))
    of_rows = RowWatermarks("state", watermarks, len(times), None)
    closed = [
        [window.end_ms + lateness_ms <= watermark for window in windows.windows_for(ts)]
        for ts, watermark in zip(times.tolist(), watermarks.tolist(), strict=True)
    ]
    if of_rows.leave_open(windows, times, lateness_ms, 0):
        assert not any(map(any, closed))
    if of_rows.leave_open(windows, times, lateness_ms, -1):
        assert not len(late_places(windows, times, watermarks, lateness_ms))
    if len(set(times.tolist())) == 1:  # then the last watermark decides
        assert of_rows.leave_open(windows, times, lateness_ms, 0) == (not any(map(any, closed)))
        assert of_rows.leave_open(windows, times, lateness_ms, -1) == (not any(map(all, closed)))


def test_other_assigners_and_the_end_of_the_input_are_seen_row_by_row() -> None:
    class Own:
        windows_for = staticmethod(Tumbling(10).windows_for)
        split = staticmethod(Tumbling(10).split)
        describe = staticmethod(Tumbling(10).describe)

    times = np.array([1])
    assert not RowWatermarks("state", np.array([0]), 1, None).leave_open(Own(), times, 0, 0)
    assert not RowWatermarks("state", np.array([END_OF_TIME_MS]), 1, None).leave_open(Tumbling(10), times, 0, 0)
    assert RowWatermarks("state", np.array([0]), 1, None).leave_open(Tumbling(10), times, 0, 0)
    assert not RowWatermarks("state", None, 1, None).leave_open(Tumbling(10), times, 0, 0)


def test_rows_that_are_not_of_the_batch_are_refused_also_where_all_windows_are_open() -> None:
    times, watermarks = np.array([1, 2]), np.array([0, 0, 0])
    for rows in ([0, 3], [-1, 0]):
        of_rows = RowWatermarks("state", watermarks, 2, np.array(rows))
        assert of_rows.leave_open(Tumbling(10), times, 0, 0)
        with pytest.raises(JobError, match="2 times for a batch of 3 rows"):
            of_rows.where_closed(Tumbling(10), times, 0)
        with pytest.raises(JobError, match="2 times for a batch of 3 rows"):
            of_rows.each()
    assert RowWatermarks("state", watermarks, 2, np.array([0, 2])).where_closed(Tumbling(10), times, 0) is None


@pytest.mark.parametrize("times", [[1], np.array([1.0]), np.array([1], np.int32), np.array([], np.int64)], ids=repr)
def test_times_that_are_no_column_of_64_bits_are_seen_row_by_row(times: Any) -> None:
    assert not RowWatermarks("state", np.array([0] * len(times)), len(times), None).leave_open(
        Tumbling(10), times, 0, 0
    )
