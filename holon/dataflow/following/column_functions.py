"""Functions of values that know columns too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import Texts
from holon.columnar.structs.lazy import LazyColumn
from holon.formats.batch import Column


class Same:
    """Equal to what holds the same object."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other._value is self._value

    def __hash__(self) -> int:
        return object.__hash__(self._value)


class ColumnFunction(ABC):
    """A function of values, called with those of a row.

    ``key``: equal for two of a class that give equal values; None: each is alone.
    """

    key: tuple[Any, ...] | None = None
    is_total: bool = False
    """Whether it raises no error that a clause may catch (``attempts.py``)."""

    @abstractmethod
    def __call__(self, *values: Any) -> Any: ...

    @abstractmethod
    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """The results of all rows, of which there is one at least; ``fixed`` arguments are one value for all.

        None where they are made one by one. Raises what the function raises for the first row of which it does.
        """


class RowsFunction(ColumnFunction):
    """A function of rows themselves, of which the arguments of its expression are what it uses."""

    def __call__(self, *values: Any) -> Any:
        raise AssertionError("it takes rows")

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """None."""
        raise AssertionError("it takes rows")

    @abstractmethod
    def of_rows(self, rows: Any) -> Column:
        """The results of all rows. Raises what the function raises for the first row of which it does."""


class Parting(RowsFunction):
    """A condition: the rows of which it is true have more fields behind it."""

    @abstractmethod
    def those(self, rows: Any, index: Any) -> Any:
        """These rows, of which it is true, with their fields."""


class PartOfEach(ColumnFunction):
    """An attribute of each value; equal values of a column that is numbered have it looked up once."""

    is_total = True

    def __init__(self, name: str) -> None:
        self._of = attrgetter(name)
        self.key = (name,)

    def __call__(self, *values: Any) -> Any:
        return self._of(*values)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """Texts and numbers as columns."""
        (column,) = given
        numbered = column.numbered_rows() if isinstance(column, LazyColumn) else None
        if numbered is None:
            return packed(list(map(self._of, as_list(column))))
        return spread(list(map(self._of, as_list(column.take(numbered[1])))), numbered[0])


class MadeAnew(ColumnFunction):
    """A function that makes a list or set: of two calls each makes its own, since a later function may change it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *values: Any) -> Any:
        return self._function(*values)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """They are made one by one."""
        return None


def as_list(column: Column) -> list[Any]:
    """Python's objects of a column; a tuple of columns gives tuples."""
    if isinstance(column, tuple):
        return list(zip(*map(as_list, column), strict=True))
    if isinstance(column, list):
        return column
    made = getattr(column, "tolist", None)
    return list(column) if made is None else made()


def spread(values: list[Any], numbers: NDArray[Any]) -> Column:
    """A column of the value of each number."""
    column: Any = packed(values)
    if isinstance(column, list):
        return [column[number] for number in numbers.tolist()]
    return column.take(numbers)


def packed(values: list[Any]) -> Column:
    """Texts and numbers as such a column, where all are of one type; else as they are."""
    return Texts.of(values) if set(map(type, values)) == {str} else packed_numbers(values)


def packed_numbers(values: list[Any]) -> Column:
    """Numbers as an array, where all are of one type that has one."""
    kind = type(values[0]) if len(set(map(type, values))) == 1 else None
    dtype = None if kind is None else _DTYPES.get(kind)
    if dtype is None:
        return values
    try:
        return np.array(values, dtype)
    except OverflowError:  # an int beyond 64 bits
        return values


_DTYPES: dict[type, Any] = {int: np.int64, float: np.float64, bool: np.bool_}
