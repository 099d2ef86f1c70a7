"""Python's operators on columns: by NumPy where that gives the same values, else row by row."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from itertools import product, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon.columnar.casing import cased
from holon.columnar.payloads import BinaryColumn, Texts
from holon.columnar.structs.columns import Lists
from holon.columnar.structs.lazy import LazyColumn
from holon.dataflow.following.column_functions import ColumnFunction, as_list, packed_numbers
from holon.dataflow.following.formats import Formatted
from holon.dataflow.following.loops.words import Words
from holon.dataflow.following.matches import Matches
from holon.dataflow.following.separated import Separated
from holon.formats.batch import Column

_LEAST, _MOST = -(2**63), 2**63 - 1
_EXACT = 2**53
"""Every int up to it is a float."""

Quick = Callable[..., Column | None]


def truth(column: Column) -> NDArray[np.bool_]:
    """``bool`` of each row."""
    if isinstance(column, np.ndarray):
        return column.astype(np.bool_, copy=False)
    if isinstance(column, Matches):
        return column.there
    lengths = column.lengths() if isinstance(column, Lists) else None
    if lengths is not None:
        return lengths > 0
    if isinstance(column, Texts):
        return column.ends > column.starts
    rows = as_list(column)
    return np.fromiter(map(bool, rows), np.bool_, len(rows))


def is_none(value: Any) -> bool:
    """Whether it is None."""
    return value is None


def is_there(value: Any) -> bool:
    """Whether it is not None."""
    return value is not None


def quotient_of(left: Any, right: Any) -> Any:
    """The first value of ``divmod``."""
    return divmod(left, right)[0]


def rest_of(left: Any, right: Any, quotient: Any) -> Any:
    """The second value of ``divmod``, of which ``quotient`` is the first."""
    return divmod(left, right)[1]


def quick_of(function: Callable[..., Any]) -> Quick | None:
    """The function of whole columns, where there is one. It gives None for what goes row by row."""
    return _QUICK.get(function)


def computed(function: Callable[..., Any], given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column:
    """The function of each row, by the quickest way; raises as ``applied``."""
    quick = quick_of(function) if rows else None
    numbers = [number_of(one) if same else one for one, same in zip(given, fixed, strict=True)]
    found = None if quick is None else quick(*numbers)
    return applied(function, given, fixed, rows) if found is None else found


def applied(function: Callable[..., Any], given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column:
    """The function of each row, without ``quick_of``; ``fixed`` arguments are one value for all rows.

    Raises what the function raises for the first row of which it does.
    """
    if not rows:
        return []
    if isinstance(function, ColumnFunction):
        found = function.of_columns(given, fixed, rows)
        if found is not None:
            return found
    columns = [repeat(value, rows) if same else as_list(value) for value, same in zip(given, fixed, strict=True)]
    return list(map(function, *columns))


def number_of(value: Any) -> Any:
    """A constant as NumPy has it; itself where NumPy has no such number."""
    if type(value) is int and _LEAST <= value <= _MOST:
        return np.int64(value)
    if type(value) is float:
        return np.float64(value)
    return np.int64(value) if type(value) is bool else value


def _bounds(column: Any) -> tuple[int, int]:
    if isinstance(column, np.generic):
        return int(column), int(column)
    return int(np.minimum.reduce(column)), int(np.maximum.reduce(column))


def _has_zero(column: Any) -> bool:
    return bool(not column) if isinstance(column, np.generic) else int(np.count_nonzero(column)) < len(column)


def _has_least(column: Any) -> bool:
    """Whether the lowest int of 64 bits is there, which no other one is the opposite of."""
    return int(column if isinstance(column, np.generic) else np.minimum.reduce(column)) == _LEAST


def _fits(*ends: int) -> bool:
    return all(_LEAST <= end <= _MOST for end in ends)


def _numbers(*columns: Any) -> list[Any] | None:
    """Ints and floats of 64 bits, bools as ints; None if one is something else."""
    found = list(columns)
    for place, column in enumerate(columns):
        if not isinstance(column, _ARRAYS):
            return None
        kind = column.dtype.kind
        if kind == "b":
            found[place] = column.astype(np.int64)
        elif kind != "i" and kind != "f":
            return None
    return found


_ARRAYS = (np.ndarray, np.generic)


def _are_ints(columns: Sequence[Any]) -> bool:
    return all(column.dtype.kind == "i" for column in columns)


def _with_extremes(function: Callable[..., Any]) -> Quick:
    """A function of ints that is largest and smallest where its arguments are."""

    def quick(*columns: Any) -> Column | None:
        numbers = _numbers(*columns)
        if numbers is None:
            return None
        if _are_ints(numbers):
            ends = [function(*each) for each in product(*map(_bounds, numbers))]
            return function(*numbers) if _fits(*ends) else None
        with np.errstate(all="ignore"):
            return function(*numbers)

    return quick


def _true_division(left: Any, right: Any) -> Column | None:
    numbers = _numbers(left, right)
    if numbers is None or _has_zero(numbers[1]):
        return None
    if not all(column.dtype.kind == "f" or max(map(abs, _bounds(column))) <= _EXACT for column in numbers):
        return None
    with np.errstate(all="ignore"):
        return np.true_divide(*numbers)


def _of_whole_numbers(function: Callable[..., Any]) -> Quick:
    """``//`` and ``%`` of ints."""

    def quick(left: Any, right: Any) -> Column | None:
        numbers = _numbers(left, right)
        if numbers is None or not _are_ints(numbers) or _has_zero(numbers[1]) or _has_least(numbers[0]):
            return None
        return function(*numbers)

    return quick


def _of_bits(function: Callable[..., Any]) -> Quick:
    """``&``, ``|`` and ``^``: of two bools a bool, else of ints. Of a constant it is not known here which it was."""

    def quick(left: Any, right: Any) -> Column | None:
        kinds = [one.dtype.kind if isinstance(one, _ARRAYS) else "" for one in (left, right)]
        if kinds == ["b", "b"]:
            return function(left, right)
        if "b" in kinds and not all(isinstance(one, np.ndarray) for one in (left, right)):
            return None
        numbers = _numbers(left, right)
        return None if numbers is None or not _are_ints(numbers) else function(*numbers)

    return quick


def _remainder(left: Any, right: Any) -> Any:
    """``%`` of ints; by one number NumPy divides four times as quickly as it finds the remainder."""
    return (
        left % right if isinstance(left, np.generic) or isinstance(right, np.ndarray) else left - left // right * right
    )


def _rest(left: Any, right: Any, quotient: Any) -> Column | None:
    """Exact also where the product has wrapped: the difference is within 64 bits."""
    numbers = _numbers(left, right, quotient)
    if numbers is None or not _are_ints(numbers) or isinstance(quotient, np.generic):
        return None
    return numbers[0] - numbers[2] * numbers[1]


def _comparison(function: Callable[..., Any]) -> Quick:
    def quick(left: Any, right: Any) -> Column | None:
        numbers = _numbers(left, right)
        if numbers is None:
            return _of_texts(function, left, right)
        if numbers[0].dtype.kind != numbers[1].dtype.kind:
            ints = [column for column in numbers if column.dtype.kind == "i"]
            if max(map(abs, _bounds(ints[0]))) > _EXACT:
                return None
        return function(*numbers)

    return quick


def _of_texts(function: Callable[..., Any], left: Any, right: Any) -> Column | None:
    """A column of texts that is equal to one text, or not."""
    if isinstance(left, str):
        left, right = right, left
    if not isinstance(left, Texts) or not isinstance(right, str) or function not in (operator.eq, operator.ne):
        return None
    wanted = np.frombuffer(right.encode("utf-8", "surrogatepass"), np.uint8)
    equal = left.ends - left.starts == len(wanted)
    rows = np.flatnonzero(equal)
    for place, byte in enumerate(wanted.tolist()):
        rows = rows[left.buffer[left.starts[rows] + place] == byte]
    equal = np.zeros(len(left), np.bool_)
    equal[rows] = True
    return equal if function is operator.eq else ~equal


def _absolute(column: Any) -> Column | None:
    numbers = _numbers(column)
    if numbers is None or (_are_ints(numbers) and _has_least(numbers[0])):
        return None
    return np.abs(numbers[0])


def _length(column: Any) -> Column | None:
    if isinstance(column, Lists | Separated | Words):
        return column.lengths()
    if isinstance(column, BinaryColumn) or (isinstance(column, Texts) and not int(column.buffer.max(initial=0)) >> 7):
        return column.ends - column.starts
    return None


def _contains(column: Any, wanted: Any) -> Column | None:
    """The rows of lists with one item that is equal to a constant."""
    lengths = column.lengths() if isinstance(column, Lists) else None
    if lengths is None or type(wanted) not in (str, np.int64):
        return None
    items, offsets = column.flat()
    is_fitting = isinstance(items, Texts) if isinstance(wanted, str) else isinstance(items, np.ndarray)
    equal = _comparison(operator.eq)(items, wanted) if is_fitting and len(items) else None
    if not isinstance(equal, np.ndarray):
        return None
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(equal)])
    return before[offsets[1:]] > before[offsets[:-1]]


def _to_ints(whole: Callable[[Any], Any]) -> Quick:
    """Ints as they are; of floats the whole number that ``whole`` gives."""

    def quick(column: Any) -> Column | None:
        numbers = _numbers(column)
        if numbers is None or _are_ints(numbers):
            return None if numbers is None else numbers[0]
        return whole(numbers[0]).astype(np.int64) if _fit(numbers[0]) else None

    return quick


def _fit(floats: NDArray[np.float64]) -> bool:
    """Whether 64 bits hold the whole part of each; infinities and NaN have none."""
    return bool((np.abs(floats) < 2.0**63).all())


def _floating(column: Any) -> Column | None:
    numbers = _numbers(column)
    return None if numbers is None else numbers[0].astype(np.float64)


def _root(column: Any) -> Column | None:
    numbers = _numbers(column)
    return None if numbers is None or bool((numbers[0] < 0).any()) else np.sqrt(numbers[0])


def _of_texts_too(kind: type, function: Quick) -> Quick:
    """The numbers that Python reads of texts, as an array where they fit."""
    return lambda column: (
        packed_numbers(list(map(kind, as_list(column)))) if isinstance(column, Texts) else function(column)
    )


def _text(column: Any) -> Column | None:
    if isinstance(column, Texts):
        return column
    if not isinstance(column, np.ndarray) or column.dtype.kind != "i":
        return None
    return _PLAIN_FORMAT.of_columns([column], [False], len(column))


def _cased(method: Callable[[str], str]) -> Quick:
    return lambda column: cased(column, method) if isinstance(column, Texts) else None


def _of_one(function: Quick) -> Quick:
    """With a second argument, digits or a base, rows go one by one."""
    return lambda column, *others: None if others else function(column)


_PLAIN_FORMAT = Formatted(["", ""], [""])


def nones(column: Column) -> NDArray[np.bool_]:
    """Which rows are None."""
    found = _nones(column)
    return np.array(list(map(is_none, as_list(column))), np.bool_) if found is None else found


def _nones(column: Any) -> Any:
    if isinstance(column, LazyColumn | Matches):
        return column.nones()
    return np.zeros(len(column), np.bool_) if isinstance(column, np.ndarray | Texts) else None


def _there(column: Any) -> Any:
    found = _nones(column)
    return None if found is None else ~found


_QUICK: dict[Callable[..., Any], Quick] = {
    operator.add: _with_extremes(operator.add),
    operator.sub: _with_extremes(operator.sub),
    operator.mul: _with_extremes(operator.mul),
    operator.neg: _with_extremes(operator.neg),
    operator.truediv: _true_division,
    operator.floordiv: _of_whole_numbers(operator.floordiv),
    operator.mod: _of_whole_numbers(_remainder),
    quotient_of: _of_whole_numbers(operator.floordiv),
    rest_of: _rest,
    operator.abs: _absolute,
    is_none: _nones,
    is_there: _there,
    len: _length,
    bool: truth,
    operator.contains: _contains,
    int: _of_one(_of_texts_too(int, _to_ints(np.trunc))),
    float: _of_one(_of_texts_too(float, _floating)),
    round: _of_one(_to_ints(np.rint)),
    str: _of_one(_text),
    str.lower: _cased(str.lower),
    str.upper: _cased(str.upper),
    math.ceil: _to_ints(np.ceil),
    math.floor: _to_ints(np.floor),
    math.trunc: _to_ints(np.trunc),
    math.sqrt: _root,
    **{each: _of_bits(each) for each in (operator.and_, operator.or_, operator.xor)},
} | {each: _comparison(each) for each in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)}
