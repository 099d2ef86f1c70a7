"""The benchmark's own lattice keeps the laws, as any type of a user has to."""

import numpy as np
from hypothesis import strategies as st

from nexmark.queries.bag import Bag
from wcrdt import check_laws

NUMBERS = st.integers(-(2**63), 2**63 - 1)


def test_a_bag_keeps_the_laws() -> None:
    check_laws(Bag(2), st.tuples(NUMBERS, NUMBERS))


def test_a_bag_gives_its_rows_as_columns_in_order() -> None:
    bag = Bag(2)
    bag.insert_many((np.array([3, 1]), np.array([30, 10])), actor=1)
    bag.insert((2, 20), actor=0)
    first, second = bag.value
    assert first.tolist() == [2, 3, 1]
    assert second.tolist() == [20, 30, 10]
