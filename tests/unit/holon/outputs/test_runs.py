"""Results that leave as columns have the names, bytes and order of those that leave one by one."""

from __future__ import annotations

import numpy as np
import pytest

from holon.columnar.payloads import BinaryColumn
from holon.outputs.identity import IdentityStamp, Track
from holon.outputs.runs import OutputRun


def named(values: list[bytes]) -> list[bytes]:
    return [b"named " + value for value in values]


@pytest.mark.parametrize("numbers", [None, [0, 1, 2, 0]])
def test_a_column_of_identities_has_the_bytes_of_each(numbers: list[int] | None) -> None:
    stamp = IdentityStamp("some job é", 7, 70_000, Track.RECORD)
    positions = np.array([0, 5, 5, 2**62 + 3], np.int64)
    found = stamp.columns(positions, None if numbers is None else np.array(numbers, np.int64))
    assert list(found) == [stamp(p, n) for p, n in zip(positions.tolist(), numbers or [0] * 4, strict=True)]
    assert len(stamp.columns(positions[:0])) == 0


@pytest.mark.parametrize("column_first", [True, False])
def test_columns_and_single_results_keep_their_order(column_first: bool) -> None:
    run, expected = OutputRun(), []
    for number in range(4):
        values = [b"%d-%d" % (number, row) for row in range(3)]
        if (number % 2 == 0) == column_first:
            run.add_columns(BinaryColumn.of(values), BinaryColumn.of(named(values)), [b"k", None, b""])
            expected += list(zip(values, named(values), [b"k", None, b""], strict=True))
        else:
            run.add(values[0], b"h", None)
            run.extend(values[1:], named(values[1:]), None)
            expected += [(values[0], b"h", None), *((value, b"named " + value, None) for value in values[1:])]
    assert list(zip(run.values, run.headers, run.keys, strict=True)) == expected
    run.keep(8)
    run.drop(2)
    assert list(zip(run.values, run.headers, run.keys, strict=True)) == expected[2:8]


def test_columns_alone_stay_columns_in_one_buffer() -> None:
    run = OutputRun()
    for values in ([b"a", b"bc"], [], [b"d"]):
        run.add_columns(BinaryColumn.of(values), BinaryColumn.of(named(values)), None)
    run.keep(9)
    assert isinstance(run.values, BinaryColumn)
    assert isinstance(run.headers, BinaryColumn)
    assert (list(run.values), run.keys, len(run)) == ([b"a", b"bc", b"d"], [None] * 3, 3)
    assert list(run.headers) == named([b"a", b"bc", b"d"])
