"""Integers by the place at which they were added (wcrdt/lattices/keyed/int_index.py)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wcrdt.lattices.keyed.int_index import IntIndex, factor, install_secret

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


@pytest.mark.usefixtures("slots")
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


@pytest.mark.usefixtures("slots")
@pytest.mark.parametrize("count", [3, 500])
def test_integers_that_come_twice_get_the_next_ones_that_are_free(count: int) -> None:
    index = IntIndex(np.arange(count) * FAR)
    twice = np.repeat((np.arange(count) + count) * FAR, 3)
    index.find(twice)
    index.add(twice)
    assert sorted(index.keys[count:].tolist()) == sorted([*twice[::3], *(twice[::3] + 1), *(twice[::3] + 2)])
    assert index.find(index.keys).tolist() == list(range(4 * count))
