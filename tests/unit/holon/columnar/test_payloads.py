"""Byte strings in one buffer."""

import numpy as np
import pytest

from holon.columnar.payloads import BinaryColumn

VALUES = [f"value {number}".encode() * (number % 3) for number in range(4_000)]


@pytest.mark.parametrize("step", [1, 7, 40])
def test_rows_are_the_values_however_few_of_them_are_read(step: int) -> None:
    column = BinaryColumn.of(VALUES)
    assert list(column.take(np.arange(0, len(VALUES), step))) == VALUES[::step]
    assert list(column.take(np.arange(len(VALUES))[::-step])) == VALUES[::-step]
