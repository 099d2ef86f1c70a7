"""q4's join and the columns that it keeps, against the obvious way."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexmark.queries.averages import DENSE, Ints, best_bids
from wcrdt.lattices.keyed.packing import narrow, widened

SMALL = st.integers(-3, 8)
SPREAD = st.sampled_from([1, DENSE, 2**50])
SALES = st.lists(st.tuples(SMALL, SMALL, SMALL, st.integers(0, 20)), max_size=12)
BIDS = st.lists(st.tuples(SMALL, st.integers(-5, 25), st.integers(-(2**63), 2**63 - 1)), max_size=40)
LEAST, MOST = -(2**63), 2**63 - 1


def columns(rows: list[tuple[int, ...]], width: int) -> list[Ints]:
    return list(np.array(rows, dtype=np.int64).reshape(-1, width).T)


@pytest.mark.slow
@given(SALES, BIDS, SPREAD)
def test_the_best_bids_are_those_of_a_nested_loop(
    sales: list[tuple[int, int, int, int]], bids: list[tuple[int, int, int]], spread: int
) -> None:
    """Also where an auction is there twice, and where its number is far from all others."""
    sales = [(sale * spread, *rest) for sale, *rest in sales]  # type: ignore[misc]
    bids = [(auction * spread, *rest) for auction, *rest in bids]  # type: ignore[misc]
    best: dict[tuple[int, int], int] = {}
    for sale, category, opens, expires in sales:
        for auction, time, price in bids:
            if auction == sale and opens <= time <= expires:
                best[sale, category] = max(price, best.get((sale, category), LEAST))
    found = best_bids(columns(sales, 4), columns(bids, 3))
    prices: dict[tuple[int, int], int] = {}
    for sale, category, price in found.T.tolist():  # an auction that is there twice has a row of each
        prices[sale, category] = max(price, prices.get((sale, category), LEAST))
    assert prices == best


@given(st.lists(st.one_of(st.integers(0, 300), st.integers(LEAST, MOST), st.integers(10**12, 10**12 + 10**6))))
def test_a_narrow_column_comes_back(numbers: list[int]) -> None:
    column = np.array(numbers, dtype=np.int64)
    assert widened(narrow(column)).tolist() == numbers
    column.sort()
    assert narrow(column, ascends=True) == narrow(column)


def test_times_that_ascend_slowly_take_a_byte_each() -> None:
    assert len(narrow(np.arange(10**12, 10**12 + 100_000, 100))[3]) == 999


@pytest.mark.parametrize(
    "wire",
    [
        [None, 0, 3, b"abc"],
        [None, 0, 2, b"abc"],
        [None, 2**63, 1, b"a"],
        [None, 1, 1, b"\x01\x02"],  # the least is 2
        [None, 0, 2, b"\x01\x00\x00\x00"],  # one byte would do
        [7, 0, 1, b""],
        [None, 0, 1],
        ["x", 0, 1, b"a"],
        [None, 0, 1, 5],
    ],
)
def test_what_is_no_narrow_column_is_refused(wire: list[object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        widened(wire)


@pytest.mark.parametrize(
    ("numbers", "stored"),
    [
        ([*range(90_000)], [0, 1, 1]),
        ([*range(0, 300_000, 300)], [0, 300, 1]),
        ([*range(400), *range(10**6, 10**6 + 400)], [None, 0, 4]),  # the first steps alone would be narrow
        ([0, 70_000, *range(70_001, 71_000)], [None, 0, 4]),
        ([5, 200, 3, *range(260)], [None, 0, 2]),
        ([-(2**31) - 7, 2**31 - 8, *range(400)], [None, -(2**31) - 7, 4]),  # the whole range of four bytes
        ([-(2**31) - 7, 2**31 - 7, *range(400)], [None, 0, 8]),
        ([MOST - 300, MOST, MOST - 100], [None, MOST - 300, 2]),
    ],
)
def test_how_a_column_is_stored(numbers: list[int], stored: list[int | None]) -> None:
    """However long it is: distances from the least, of the numbers or, where these are narrower, of all their steps."""
    wire = narrow(np.array(numbers))
    assert wire[:3] == stored
    begin, least, width, data = wire
    column = numbers if begin is None else [two - one for one, two in pairwise(numbers)]
    distances = [
        int.from_bytes(data[at : at + width], "little", signed=width == 8) for at in range(0, len(data), width)
    ]
    assert distances == [number - least for number in column]
    assert widened(wire).tolist() == numbers
