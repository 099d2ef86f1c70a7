"""Sessions against the oracle, whose rows are sorted and cut at gaps, for more draws than the unit tests take."""

from __future__ import annotations

import pytest

from tests.unit.holon.dataflow.test_sessions import SIZES, SLICES, check_sessions


@pytest.mark.parametrize("slice_ms", SLICES)
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", [1, 2])
def test_sessions_are_those_of_sorted_rows(slice_ms: int | None, partitions: int, size: int, seed: int) -> None:
    check_sessions(slice_ms, partitions, size, seed)
