"""Functions of values that know columns too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from holon.formats.batch import Column


class ColumnFunction(ABC):
    """A function of values, called with those of a row."""

    @abstractmethod
    def __call__(self, *values: Any) -> Any: ...

    @abstractmethod
    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> Column | None:
        """The results of all rows, of which there is one at least; ``fixed`` arguments are one value for all.

        None where they are made one by one. Raises what the function raises for the first row of which it does.
        """


def as_list(column: Column) -> list[Any]:
    """Python's objects of a column; a tuple of columns gives tuples."""
    if isinstance(column, tuple):
        return list(zip(*map(as_list, column), strict=True))
    if isinstance(column, list):
        return column
    made = getattr(column, "tolist", None)
    return list(column) if made is None else made()
