"""The least of values that grow is always what looking at all of them finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wcrdt.replica.least import Least


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 3))))
def test_least_is_the_minimum_after_every_change(values: list[int], changes: list[tuple[int, int]]) -> None:
    least = Least[int]()
    for place, change in changes:
        assert least.of(values) == min(values)
        at = place % len(values)
        before, values[at] = values[at], values[at] + change
        least.moved(before, values[at])
    assert least.of(values) == min(values)


def test_others_are_only_looked_at_when_the_last_has_left_the_least_value() -> None:
    least = Least[int]()
    assert least.of([1, 1, 2]) == 1
    least.moved(1, 5)
    least.moved(2, 3)
    assert least.of([]) == 1, "one is still there, so nobody is asked"
    least.moved(1, 4)
    assert least.of([5, 4, 3]) == 3
