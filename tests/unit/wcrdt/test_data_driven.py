"""Windows driven by data: the change that each element makes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from wcrdt import Between, Change, Count, DataDriven, Session, Tumbling


def changes(windows: DataDriven[Any], elements: list[Any]) -> list[tuple[bool, bool]]:
    """Of each element: whether a window takes it, and whether one is open behind it."""
    state, found = None, []
    for element in elements:
        change = windows.next(state, *(mark(element) for mark in windows.marks))
        state = change.state
        found.append((change.takes, state is not None))
    return found


def test_a_count_ends_with_its_last_element() -> None:
    #   1st of three     2nd            3rd            1st of the next three
    assert changes(Count(3), [1, 2, 3, 4]) == [(True, True), (True, True), (True, False), (True, True)]
    assert changes(Count(1), [1, 2]) == [(True, False), (True, False)]


def test_between_takes_its_start_and_its_end_and_nothing_outside() -> None:
    between = Between[str](start=lambda e: "(" in e, end=lambda e: ")" in e)
    found = changes(between, [".", ")", "(", ".", "(", ")", ".", "()"])
    outside, inside, last = (False, False), (True, True), (True, False)
    assert found == [outside, outside, inside, inside, inside, last, outside, last]


@pytest.mark.parametrize("windows", [Count(2), Between[int](start=bool, end=bool)])
def test_windows_driven_by_data_are_told_from_others_by_their_protocol(windows: Any) -> None:
    assert isinstance(windows, DataDriven)
    assert not isinstance(Tumbling(1), DataDriven) and not isinstance(Session(1), DataDriven)
    assert Change(None) == (None, True, False)


def test_texts_of_durations_and_what_is_in_the_fingerprint() -> None:
    count = Count(100, timeout="1d", slice="2s")
    assert (count.timeout_ms, count.slice_ms, count.describe()) == (86_400_000, 2_000, "count(100,86400000,2000)")
    between = Between[int](start=bool, end=bool, timeout="6h")
    assert (between.timeout_ms, between.slice_ms, between.describe()) == (21_600_000, 1_000, "between(21600000,1000)")


def test_counts_and_durations_below_one_are_refused() -> None:
    with pytest.raises(ValueError, match="1 element or more, got 0"):
        Count(0)
    with pytest.raises(ValueError, match="slice and timeout are 1 ms or more, got 0"):
        Count(1, slice=0)
    with pytest.raises(ValueError, match="1 ms or more, got '1s' and '0s'"):
        Between[int](start=bool, end=bool, timeout="0s")
    with pytest.raises(TypeError):
        Count(2.5)  # type: ignore[arg-type]
