"""Windows by their end, against looking at all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wcrdt.windows.assigners import Window
from wcrdt.windows.ends import EndIndex

TIMES = st.integers(-50, 50)
WINDOWS = st.lists(st.builds(lambda start, size: Window(start, start + size), TIMES, st.integers(1, 20)))


@given(WINDOWS, TIMES, TIMES, WINDOWS, TIMES)
def test_it_finds_what_a_look_at_all_windows_finds(
    first: list[Window], dropped_ms: int, after_ms: int, more: list[Window], through_ms: int
) -> None:
    index = EndIndex()
    for window in first:
        index.add(window)
    index.drop_through(dropped_ms)
    held = {window for window in first if window.end_ms > dropped_ms}
    for window in more:
        index.add(window)
        held.add(window)
    wanted = [window for window in held if after_ms < window.end_ms <= through_ms]
    assert index.count_after(after_ms) == sum(window.end_ms > after_ms for window in held)
    assert index.between(after_ms, through_ms) == sorted(wanted, key=lambda window: (window.end_ms, window))
