"""Each operator on columns of edge values: Python's results and their types, by NumPy or not."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from holon.columnar.payloads import Texts
from holon.dataflow.arithmetic import applied, as_list, truth

INTS = [0, 1, -1, 3, -7, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 0.5, -2.5, 2.0**53, 1e308, float("inf"), float("-inf"), float("nan")]
BOOLS = [False, True]
VALUES: dict[str, list[Any]] = {"int": INTS, "float": FLOATS, "bool": BOOLS}
TEXTS = ["", "web", "wex", "app", "Zürich", "we"]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, *COMPARISONS]


def column(values: list[Any]) -> Any:
    return Texts.of(values) if isinstance(values[0], str) else np.array(values)


def outcome(function: Callable[..., Any], *arguments: Any) -> str:
    try:
        return repr(function(*arguments))
    except ArithmeticError as error:
        return type(error).__name__


def by_column(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: as_list(applied(function, [column([one]) for one in given], [False] * len(given), 1))[0]


@pytest.mark.parametrize("function", BINARY)
@pytest.mark.parametrize(("left", "right"), list(product(VALUES, VALUES)))
def test_operators_of_numbers(function: Callable[..., Any], left: str, right: str) -> None:
    pairs = list(product(VALUES[left], VALUES[right]))
    expected = [outcome(function, *pair) for pair in pairs]
    assert [outcome(by_column(function), *pair) for pair in pairs] == expected
    good = [n for n, one in enumerate(expected) if not one.endswith("Error")]
    lefts, rights = zip(*(pairs[n] for n in good), strict=True)
    whole = applied(function, [column(list(lefts)), column(list(rights))], [False, False], len(good))
    assert list(map(repr, as_list(whole))) == [expected[n] for n in good]


@pytest.mark.parametrize("function", BINARY)
@pytest.mark.parametrize(("left", "right"), list(product(VALUES, VALUES)))
def test_operators_with_a_constant(function: Callable[..., Any], left: str, right: str) -> None:
    for constant in [*VALUES[right], 2**63]:
        rows = [one for one in VALUES[left] if not outcome(function, one, constant).endswith("Error")]
        if rows:
            found = applied(function, [column(rows), constant], [False, True], len(rows))
            assert list(map(repr, as_list(found))) == [repr(function(one, constant)) for one in rows]


@pytest.mark.parametrize("function", [operator.neg, operator.abs])
@pytest.mark.parametrize("kind", VALUES)
def test_operators_of_one_number(function: Callable[..., Any], kind: str) -> None:
    for rows in [VALUES[kind], *([one] for one in VALUES[kind])]:
        found = applied(function, [column(rows)], [False], len(rows))
        assert list(map(repr, as_list(found))) == [repr(function(one)) for one in rows]


@pytest.mark.parametrize("function", COMPARISONS)
@pytest.mark.parametrize("constant", TEXTS)
def test_texts_are_compared_with_one(function: Callable[..., Any], constant: str) -> None:
    assert as_list(applied(function, [Texts.of(TEXTS), constant], [False, True], 6)) == [
        function(text, constant) for text in TEXTS
    ]
    assert as_list(applied(function, [constant, Texts.of(TEXTS)], [True, False], 6)) == [
        function(constant, text) for text in TEXTS
    ]


def test_no_rows_are_no_rows() -> None:
    assert as_list(applied(operator.add, [column([1])[:0], 1], [False, True], 0)) == []


@pytest.mark.parametrize("rows", [[0, 2, -1], [0.0, float("nan"), 0.5], ["", "a"], [None, 0, [1]]])
def test_truth_is_that_of_python(rows: list[Any]) -> None:
    found = truth(rows if rows[0] is None else column(rows))
    assert found.tolist() == list(map(bool, rows)) and found.dtype == np.bool_
