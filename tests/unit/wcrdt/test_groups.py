"""Groups of numbered rows fold as groups of arranged rows do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.columnar.payloads import Texts
from wcrdt import GCounter, MapOf
from wcrdt.lattices.columns import Groups, group_ints
from wcrdt.lattices.keyed.keys import grouped

INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False).map(lambda number: number + 0.0)


@given(st.lists(st.tuples(st.integers(0, 6), INTS, FLOATS), min_size=1, max_size=40))
def test_the_best_of_each_group_is_that_of_its_rows(rows: list[tuple[int, int, float]]) -> None:
    columns = zip(*rows, strict=True)
    codes, ints, floats = (np.array(column, kind) for column, kind in zip(columns, (int, int, float), strict=True))
    groups, present = Groups.of_codes(codes)
    for column in (ints, floats):
        members = [column[codes == code] for code in present.tolist()]
        expected = [each.max() for each in members], [each.min() for each in members]
        for found, best in zip((groups.largest(column), groups.smallest(column)), expected, strict=True):
            assert found.dtype == column.dtype and found.tolist() == best
        arranged = group_ints(codes, stable=True)
        assert arranged.largest(column).tolist() == groups.largest(column).tolist()


@pytest.mark.usefixtures("loops_installed")
@pytest.mark.parametrize("rows", [3, 2000])
def test_texts_that_loops_number_are_grouped_as_texts_without(rows: int) -> None:
    texts = [f"k{number * number % 37}" for number in range(rows)]
    found: list[Any] = [grouped(Texts.of(texts)), grouped(texts)]
    (keys, groups), (expected, known) = found
    assert (Texts.of(texts).numbered_rows() is None) == (rows == 3)
    assert keys.tolist() == expected.tolist()
    assert groups.sizes().tolist() == known.sizes().tolist()
    assert [texts[row] for row in groups.one_of_each().tolist()] == keys.tolist()


def test_a_delta_is_written_in_the_order_of_its_keys() -> None:
    keys = [f"k{number * 7 % 100}" for number in range(100)]
    counts, alone = MapOf(GCounter()), MapOf(GCounter())
    counts.insert_many((keys, [1] * 100))
    for some in (keys[3:70], keys[20:90], keys[3:70]):
        delta = counts.insert_many((some, [1] * len(some)))
    alone.insert_many((some, [3 if key in keys[3:20] else 4 for key in some]))
    assert delta.held_as_columns and delta.to_wire() == alone.to_wire()
