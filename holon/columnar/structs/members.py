"""Columns of objects that are found by numbers, or built of columns, when they are read.

Members of an enum and values of a Literal are each one of a few objects; Structs are built of their fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Self, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import Texts

_NONE = object()
_ELEMENTS = str, int
Rows = NDArray[np.intp]


class Members(Sequence[Any]):
    """Row ``i`` is ``objects[numbers[i]]``."""

    __slots__ = ("_numbers", "_objects")

    def __init__(self, numbers: Rows, objects: Sequence[Any]) -> None:
        self._numbers, self._objects = numbers, objects

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """The rows of an index, a mask or a slice."""
        return type(self)(self._numbers[index], self._objects)

    def tolist(self) -> list[Any]:
        """All of them."""
        return [self._objects[number] for number in self._numbers.tolist()]

    def numbered_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """A number from 0 for each row, and the first row of each number; None where objects are no texts, no ints."""
        if len(set(map(type, self._objects))) != 1 or type(self._objects[0]) not in _ELEMENTS:
            return None
        if len(set(self._objects)) < len(self._objects):
            return None
        firsts = np.full(len(self._objects), -1, np.int64)
        firsts[self._numbers[::-1]] = np.arange(len(self._numbers) - 1, -1, -1)
        here = np.flatnonzero(firsts >= 0)
        here = here[np.argsort(firsts[here])]
        numbers = np.empty(len(firsts), np.int64)
        numbers[here] = np.arange(len(here))
        return numbers[self._numbers], firsts[here]

    @overload
    def __getitem__(self, row: int) -> Any: ...
    @overload
    def __getitem__(self, row: slice) -> Members: ...
    def __getitem__(self, row: int | slice) -> Any:
        return self.take(row) if isinstance(row, slice) else self._objects[self._numbers[row]]

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())


class BuiltStructs(Sequence[Any]):
    """Row ``i`` is a Struct of type ``of``, of row ``i`` of each column; these are by the names of fields.

    Nothing checks the values again.
    """

    __slots__ = ("_columns", "_height", "_of")

    def __init__(self, of: type[msgspec.Struct], columns: dict[str, Any], height: int) -> None:
        self._of, self._columns, self._height = of, columns, height

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """The rows of an index, a mask or a slice."""
        columns = {
            name: column[index] if isinstance(column, np.ndarray) else column.take(index)
            for name, column in self._columns.items()
        }
        return type(self)(self._of, columns, len(np.empty(self._height, np.bool_)[index]))

    def tolist(self) -> list[Any]:
        """All of them."""
        if not self._columns:
            return [self._of() for _ in range(self._height)]
        names = tuple(self._columns)
        lists = [column.tolist() for column in self._columns.values()]
        if names == self._of.__match_args__:
            return list(map(self._of, *lists))
        return [self._of(**dict(zip(names, row, strict=True))) for row in zip(*lists, strict=True)]

    @overload
    def __getitem__(self, row: int) -> Any: ...
    @overload
    def __getitem__(self, row: slice) -> BuiltStructs: ...
    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            return self.take(row)
        return self.take(np.array([row], np.intp)).tolist()[0]

    def __len__(self) -> int:
        return self._height

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())


class BuiltDicts(Sequence[Any]):
    """Row ``i`` is a dict of the keys and the values in row ``i`` of two columns of lists; empty where these are None.

    Dicts are made of all items at once: a list of each row would be one more object for the garbage collector.
    """

    __slots__ = ("_keys", "_values")

    def __init__(self, keys: Any, values: Any) -> None:
        self._keys, self._values = keys, values

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """The rows of an index, a mask or a slice."""
        return type(self)(self._keys.take(index), self._values.take(index))

    def tolist(self) -> list[Any]:
        """All of them."""
        (keys, offsets), (values, _) = self._keys.flat(), self._values.flat()
        keys, values = (items.tolist() if isinstance(items, np.ndarray) else list(items) for items in (keys, values))
        return [dict(zip(keys[start:end], values[start:end], strict=True)) for start, end in pairwise(offsets.tolist())]

    @overload
    def __getitem__(self, row: int) -> Any: ...
    @overload
    def __getitem__(self, row: slice) -> BuiltDicts: ...
    def __getitem__(self, row: int | slice) -> Any:
        return self.take(row) if isinstance(row, slice) else self.take(np.array([row], np.intp)).tolist()[0]

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())


def members_of(values: Texts | NDArray[np.int64], rows: Rows, choices: Mapping[Any, Any]) -> tuple[Members, Rows]:
    """The objects that ``choices`` has for the texts or ints of these rows, and the rows for which it has none.

    Rows that are not requested are any of the objects.
    """
    numbers, distinct = _numbered(values, rows)
    found = [choices.get(each, _NONE) for each in distinct]
    known = np.array([each is not _NONE for each in found], np.bool_)
    all_numbers = np.zeros(len(values), np.intp)
    all_numbers[rows] = numbers
    return Members(all_numbers, found or [None]), rows[~known[numbers]]


def _numbered(values: Texts | NDArray[np.int64], rows: Rows) -> tuple[Rows, list[Any]]:
    """A number for each of the rows, and the values that are numbered."""
    if not isinstance(values, Texts):
        ints, numbers = np.unique(values[rows], return_inverse=True)
        return numbers.astype(np.intp), ints.tolist()
    some = values.take(rows)
    numbered = some.numbered()
    if numbered is not None:
        return numbered[0].astype(np.intp), numbered[1]
    known: dict[str, int] = {}
    return np.array([known.setdefault(text, len(known)) for text in some], np.intp), list(known)
