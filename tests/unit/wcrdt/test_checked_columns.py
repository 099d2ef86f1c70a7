"""Columns are checked at once: they are refused where one of their elements is, and only there."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from holon.columnar.payloads import Texts
from holon.columnar.structs.decimals import Decimals
from wcrdt import Average, GCounter, GSet, Lattice, MapOf, Max, Min, PNCounter, RecordOf, Sum

LARGE = Decimals(np.array([1, 5], np.int64), np.array([0, 7000], np.int64))
COLUMNS = [
    np.array([1, 0, 7]),
    np.array([3, -1]),
    np.array([0.5, -0.0, np.inf]),
    np.array([1.0, np.nan]),
    np.array([True, False]),
    np.array([1, 2], np.uint64),
    np.array([], np.float64),
    [1, 2.5, Decimal(3)],
    [1, None],
    Texts.of(["a", "b"]),
    Decimals(np.array([15, 2], np.int64), np.array([-1, 3], np.int64)),
    LARGE,
]


def refused(work: Callable[[], object]) -> bool:
    try:
        work()
    except (TypeError, ValueError, ArithmeticError):
        return True
    return False


def each(column: Any) -> list[Any]:
    return column.tolist() if hasattr(column, "tolist") else list(column)


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("bottom", [GCounter(), PNCounter(), Max(), Min(), Sum(), Average(), GSet()], ids=repr)
def test_a_column_is_refused_where_one_of_its_elements_is(bottom: Lattice[Any, Any], column: Any) -> None:
    wrong = any(refused(lambda one=one: bottom.check(one)) for one in each(column))
    assert refused(lambda: bottom.check_many(column)) == wrong
    rows = len(each(column))
    keyed: MapOf[Any, Any, Any] = MapOf(RecordOf(one=bottom, n=GCounter()))
    parts = column, np.ones(rows, np.int64)
    assert refused(lambda: keyed.check_many((Texts.of(["k"] * rows), parts))) == wrong
    assert refused(lambda: keyed.check_many((np.arange(rows), parts))) == wrong
    assert refused(lambda: bottom.bottom().insert_many(column)) == wrong


def test_keys_that_are_no_elements_are_refused() -> None:
    counts: MapOf[Any, Any, Any] = MapOf(GCounter())
    for keys in (np.array([0.5]), [True], [Decimal(1)], ([1.5], [2])):
        assert refused(lambda keys=keys: counts.check_many((keys, np.array([1]))))
    counts.check_many(((Texts.of(["a"]), np.array([1])), np.array([1])))


class UpToThree(GCounter):
    """Takes elements as long as there are three at most."""

    def check(self, element: int) -> None:
        if self.value + element > 3:
            raise ValueError("more than three")

    def insert(self, element: int, *, actor: int = 0) -> UpToThree:
        self.check(element)
        return super().insert(element, actor=actor)


def test_where_a_check_reads_what_is_there_each_key_is_asked() -> None:
    counts: MapOf[Any, Any, Any] = MapOf(UpToThree())
    counts.insert((7, 3))
    with pytest.raises(ValueError, match="more than three"):
        counts.check_many((np.array([8, 7]), np.array([1, 1])))
    counts.check_many((np.array([8, 9]), np.array([1, 1])))
