"""Integers by the place at which they were added (wcrdt/lattices/keyed/int_index.py)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holon.columnar.loops import install, installed
from wcrdt.lattices.keyed.int_index import IntIndex, factor, install_secret

pytestmark = pytest.mark.usefixtures("loops_installed")

FAR = 1 << 20
COUNTS = st.lists(st.sampled_from([1, 5, 100, 129, 400]), min_size=1, max_size=5)


@pytest.fixture(params=["spread", "all in one slot"])
def slots(request: pytest.FixtureRequest) -> Iterator[None]:
    """By the factor 1 the slot is the first bits of an integer, which those of 40 bits share."""
    before = int(factor())
    if request.param == "all in one slot":
        install_secret(1)
    yield
    install_secret(before)


@pytest.fixture(params=["compiled", "numpy"])
def loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """With the compiled loops, or without."""
    before = installed()
    install(before if request.param == "compiled" else None)
    yield
    install(before)


@pytest.mark.slow
@pytest.mark.usefixtures("slots", "loops")
@pytest.mark.parametrize("bits", [40, 63])
def test_far_integers_are_found_where_they_were_added(bits: int) -> None:
    @settings(max_examples=15)
    @given(counts=COUNTS, seed=st.integers(0, 2**32 - 1))
    def holds(counts: list[int], seed: int) -> None:
        draw = np.random.default_rng(seed)
        keys = np.unique(draw.integers(0, 1 << bits, 2 * sum(counts)) // FAR * FAR)
        draw.shuffle(keys)
        index, places, begin = IntIndex(), dict[int, int](), 0
        for count in counts:
            added = keys[begin : begin + count]
            begin += count
            places |= {key: len(places) + number for number, key in enumerate(added.tolist())}
            index.add(added)
            assert index.find(keys).tolist() == [places.get(key, -1) for key in keys.tolist()]
        assert index.copy().find(index.keys).tolist() == list(range(index.count))
        assert IntIndex(index.keys.copy()).find(keys).tolist() == index.find(keys).tolist()

    holds()


@pytest.mark.slow
@pytest.mark.usefixtures("slots", "loops")
@pytest.mark.parametrize(("count", "apart"), [(3, FAR), (500, FAR), (3, 8)])
def test_integers_that_come_twice_get_the_next_ones_that_are_free(count: int, apart: int) -> None:
    index = IntIndex(np.arange(count) * apart)
    twice = np.repeat((np.arange(count) + count) * apart, 3)
    index.find(twice)
    index.add(twice)
    assert sorted(index.keys[count:].tolist()) == sorted([*twice[::3], *(twice[::3] + 1), *(twice[::3] + 2)])
    assert index.find(index.keys).tolist() == list(range(4 * count))


@pytest.mark.slow
@pytest.mark.usefixtures("slots")
@given(
    spans=st.lists(st.sampled_from([1, 3, 1 << 20, 1 << 60]), min_size=2, max_size=6),
    first=st.sampled_from([-(1 << 63), -5, 0, (1 << 62)]),
    compiled=st.lists(st.booleans(), min_size=12, max_size=12),
    seed=st.integers(0, 2**32 - 1),
)
def test_tables_of_loops_are_read_and_filled_without_them_and_the_reverse(
    spans: list[int], first: int, compiled: list[bool], seed: int
) -> None:
    draw, before = np.random.default_rng(seed), installed()
    index, places = IntIndex(), dict[int, int]()
    high = (1 << 63) - 1
    try:
        for number, span in enumerate(spans):
            asked = {min(first + int(key) * span // 64, high) for key in draw.integers(0, 256, 90)}
            asked |= {min(first + key, high) for key in (0, 1)} | {-(1 << 63), high}
            keys = np.array(sorted(asked), np.int64)
            install(before if compiled[2 * number] else None)
            found = index.find(keys)
            assert found.tolist() == [places.get(key, -1) for key in keys.tolist()]
            new = keys[found < 0][::2]
            places |= {key: len(places) + place for place, key in enumerate(new.tolist())}
            install(before if compiled[2 * number + 1] else None)
            index.add(new)
    finally:
        install(before)
    assert index.keys.tolist() == list(places)


def test_columns_with_gaps_or_without_rows_are_looked_up() -> None:
    index = IntIndex(np.arange(20)[::2] * FAR)
    assert index.find(np.arange(8)[::3] * FAR).tolist() == [0, -1, 3]
    assert index.find(np.arange(18)[::6] * FAR).tolist() == [0, 3, 6]
    assert index.find(np.empty(0, np.int64)).tolist() == [] == IntIndex().find(np.empty(0, np.int64)).tolist()
    fixed = np.array([4 * FAR, 5])
    fixed.flags.writeable = False
    assert index.find(fixed).tolist() == [2, -1] and IntIndex(fixed).find(fixed).tolist() == [0, 1]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("end", [-(1 << 63), (1 << 63) - 1])
def test_integers_at_both_ends_of_64_bits_are_not_in_the_order_of_their_slots(end: int, compiled: bool) -> None:
    """The table of one end has slots beyond it, which the integers of the other end get."""
    before = installed()
    try:
        install(before if compiled else None)
        index = IntIndex(np.array([end]))
        assert index.find(np.array([end])).tolist() == [0]
        index.add(np.array([-1 - end]))
        assert index.find(np.array([-1 - end, end])).tolist() == [1, 0]
    finally:
        install(before)
    order = index.ascending()
    assert order is None or index.keys[order].tolist() == [-(1 << 63), (1 << 63) - 1]


def test_integers_that_lie_close_are_in_order_by_their_slots() -> None:
    index = IntIndex(np.array([7, 3, 5]))
    assert index.ascending() is None and index.find(np.array([3])).tolist() == [1]
    index.add(np.array([6, -4]))
    order = index.ascending()
    assert order is not None and index.keys[order].tolist() == [-4, 3, 5, 6, 7]
