"""Each operator on columns of edge values: Python's results and their types, by NumPy or not."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from holon.columnar.payloads import Texts
from holon.dataflow.arithmetic import quotient_of, rest_of, truth
from holon.dataflow.expressions import Apply, Constant, Expression, Field, Indices, evaluate
from holon.dataflow.following.column_functions import as_list
from holon.formats.batch import Column

INTS = [0, 1, -1, 3, -7, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 0.5, -2.5, 2.0**53, 1e308, float("inf"), float("-inf"), float("nan")]
BOOLS = [False, True]
VALUES: dict[str, list[Any]] = {"int": INTS, "float": FLOATS, "bool": BOOLS}
TEXTS = ["", "web", "wex", "app", "Zürich", "we"]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod]
BINARY += [quotient_of, *COMPARISONS]
BITWISE = [operator.and_, operator.or_, operator.xor]


class Columns:
    """Rows of columns by their number."""

    def __init__(self, columns: dict[str, Column], rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.known: dict[Expression, Column] = {}

    def __len__(self) -> int:
        return self.rows

    def field(self, path: tuple[str, ...]) -> Column:
        return self.columns[path[0]]

    def take(self, index: Indices) -> Columns:
        raise NotImplementedError


def applied(function: Callable[..., Any], *given: Any, rows: int) -> list[Any]:
    """A flow's values of the function of these arguments: Constants and columns."""
    columns = {str(n): one for n, one in enumerate(given) if not isinstance(one, Constant)}
    arguments = tuple(one if isinstance(one, Constant) else Field((str(n),)) for n, one in enumerate(given))
    return as_list(evaluate(Apply("function", function, arguments), Columns(columns, rows)))


def column(values: list[Any]) -> Any:
    return Texts.of(values) if isinstance(values[0], str) else np.array(values)


def outcome(function: Callable[..., Any], *arguments: Any) -> str:
    try:
        return repr(function(*arguments))
    except ArithmeticError as error:
        return type(error).__name__


def by_column(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: applied(function, *(column([one]) for one in given), rows=1)[0]


@pytest.mark.parametrize("function", BINARY)
@pytest.mark.parametrize(("left", "right"), list(product(VALUES, VALUES)))
def test_operators_of_numbers(function: Callable[..., Any], left: str, right: str) -> None:
    pairs = list(product(VALUES[left], VALUES[right]))
    expected = [outcome(function, *pair) for pair in pairs]
    assert [outcome(by_column(function), *pair) for pair in pairs] == expected
    good = [n for n, one in enumerate(expected) if not one.endswith("Error")]
    lefts, rights = zip(*(pairs[n] for n in good), strict=True)
    whole = applied(function, column(list(lefts)), column(list(rights)), rows=len(good))
    assert list(map(repr, whole)) == [expected[n] for n in good]


@pytest.mark.parametrize("function", BINARY)
@pytest.mark.parametrize(("left", "right"), list(product(VALUES, VALUES)))
def test_operators_with_a_constant(function: Callable[..., Any], left: str, right: str) -> None:
    for constant in [*VALUES[right], 2**63]:
        rows = [one for one in VALUES[left] if not outcome(function, one, constant).endswith("Error")]
        if rows:
            found = applied(function, column(rows), Constant(constant), rows=len(rows))
            assert list(map(repr, found)) == [repr(function(one, constant)) for one in rows]


@pytest.mark.parametrize("function", BITWISE)
@pytest.mark.parametrize(("left", "right"), list(product(("int", "bool"), repeat=2)))
def test_operators_of_bits(function: Callable[..., Any], left: str, right: str) -> None:
    pairs = list(product(VALUES[left], VALUES[right]))
    lefts, rights = (column(list(each)) for each in zip(*pairs, strict=True))
    expected = [repr(function(*pair)) for pair in pairs]
    assert list(map(repr, applied(function, lefts, rights, rows=len(pairs)))) == expected
    for constant in [*VALUES[right], 2**63]:
        found = applied(function, column(VALUES[left]), Constant(constant), rows=len(VALUES[left]))
        assert list(map(repr, found)) == [repr(function(one, constant)) for one in VALUES[left]]


def test_bits_of_floats_fail_as_pythons_do() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        applied(operator.and_, column([1]), column([0.5]), rows=1)


@pytest.mark.parametrize(("left", "right"), list(product(VALUES, VALUES)))
def test_the_rest_of_a_quotient(left: str, right: str) -> None:
    pairs = [pair for pair in product(VALUES[left], VALUES[right]) if pair[1]]
    lefts, rights = (column(list(each)) for each in zip(*pairs, strict=True))
    for quotients in (applied(quotient_of, lefts, rights, rows=len(pairs)), [divmod(*pair)[0] for pair in pairs]):
        whole = applied(rest_of, lefts, rights, quotients, rows=len(pairs))
        assert list(map(repr, whole)) == [repr(divmod(*pair)[1]) for pair in pairs]
    ones = [applied(rest_of, *(column([one]) for one in (*pair, divmod(*pair)[0])), rows=1)[0] for pair in pairs]
    assert list(map(repr, ones)) == [repr(divmod(*pair)[1]) for pair in pairs]


@pytest.mark.parametrize("function", [operator.neg, operator.abs])
@pytest.mark.parametrize("kind", VALUES)
def test_operators_of_one_number(function: Callable[..., Any], kind: str) -> None:
    for rows in [VALUES[kind], *([one] for one in VALUES[kind])]:
        found = applied(function, column(rows), rows=len(rows))
        assert list(map(repr, found)) == [repr(function(one)) for one in rows]


@pytest.mark.parametrize("function", COMPARISONS)
@pytest.mark.parametrize("constant", TEXTS)
def test_texts_are_compared_with_one(function: Callable[..., Any], constant: str) -> None:
    found = applied(function, Texts.of(TEXTS), Constant(constant), rows=6)
    assert found == [function(text, constant) for text in TEXTS]
    found = applied(function, Constant(constant), Texts.of(TEXTS), rows=6)
    assert found == [function(constant, text) for text in TEXTS]


def test_no_rows_are_no_rows() -> None:
    assert applied(operator.add, column([1])[:0], Constant(1), rows=0) == []


@pytest.mark.parametrize("rows", [[0, 2, -1], [0.0, float("nan"), 0.5], ["", "a"], [None, 0, [1]]])
def test_truth_is_that_of_python(rows: list[Any]) -> None:
    found = truth(rows if rows[0] is None else column(rows))
    assert found.tolist() == list(map(bool, rows)) and found.dtype == np.bool_
