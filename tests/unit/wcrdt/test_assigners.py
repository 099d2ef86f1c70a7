"""A column of times is grouped as each of its times is, in whatever order they come."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from wcrdt import Tumbling, Window

TIMES = st.lists(st.integers(-(2**40), 2**40) | st.integers(0, 60), min_size=1, max_size=30)


@given(TIMES, st.sampled_from([1, 7, 10_000]), st.sampled_from([0, 3]), st.booleans())
@example(times=[0, 8, 1, 9], size=7, offset=0, in_order=False)
def test_rows_are_grouped_by_the_window_of_each(times: list[int], size: int, offset: int, in_order: bool) -> None:
    times = sorted(times) if in_order else times
    windows = Tumbling(size, offset)
    found = [(window, np.arange(len(times))[rows].tolist()) for window, rows in windows.split(np.array(times))]
    expected: dict[Window, list[int]] = {}
    for row, ts_ms in enumerate(times):
        expected.setdefault(windows.windows_for(ts_ms)[0], []).append(row)
    assert dict(found) == expected and len(found) == len(expected)


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 7, 15, 16, 40]), st.sampled_from([1023, 1024, 3000]))
def test_many_rows_of_few_windows_are_grouped_as_few_rows_are(seed: int, windows: int, rows: int) -> None:
    times = np.random.default_rng(seed).integers(0, 10 * windows, rows) - 30
    found = dict(Tumbling(10).split(times))
    expected: dict[Window, list[int]] = {}
    for row, ts_ms in enumerate(times.tolist()):
        expected.setdefault(Tumbling(10).windows_for(ts_ms)[0], []).append(row)
    assert {window: np.arange(rows)[each].tolist() for window, each in found.items()} == expected
    assert list(found) == sorted(found), "windows are inserted into in the order of time"


def test_rows_in_order_are_slices_so_that_columns_are_not_copied() -> None:
    found = list(Tumbling(10).split(np.array([3, 9, 10, 35, 39])))
    assert found == [(Window(0, 10), slice(0, 2)), (Window(10, 20), slice(2, 3)), (Window(30, 40), slice(3, 5))]


def test_no_rows_have_no_window() -> None:
    assert list(Tumbling(10).split(np.array([], np.int64))) == []
