"""Distinct integers of a column: the same as numpy's own."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wcrdt.distinct import distinct, numbered

COLUMNS = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3)).map(lambda rows: np.array(rows, np.int64))


@given(COLUMNS)
def test_distinct_values_are_those_of_numpy(column: np.ndarray) -> None:
    assert distinct(column).tolist() == np.unique(column).tolist()


@given(COLUMNS)
def test_each_row_has_the_number_of_its_value(column: np.ndarray) -> None:
    values, places = numbered(column)
    expected, numbers = np.unique(column, return_inverse=True)
    assert (values.tolist(), places.tolist()) == (expected.tolist(), numbers.tolist())
    assert places.dtype == np.int64
