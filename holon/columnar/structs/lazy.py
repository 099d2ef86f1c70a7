"""Columns of Python objects that are made when they are read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import BinaryColumn, Texts
from holon.columnar.structs.decimals import Decimals, mantissa_and_exponent
from holon.columnar.structs.kinds import MISSING, NULL, PRESENT
from holon.columnar.structs.members import BuiltDicts, BuiltStructs, Members
from holon.columnar.structs.times import Datetimes

Marks = NDArray[np.int64]

_OTHER = 1 + max(MISSING, PRESENT, NULL)


_TYPES: dict[str, type] = {"i": int, "f": float, "b": bool}


def row_type(values: NDArray[Any] | Texts) -> type:
    """The type of the Python objects that the rows are."""
    return str if isinstance(values, Texts) else _TYPES.get(values.dtype.kind, object)


class ObjectColumn(Sequence[Any]):
    """A column of Python objects; all of them are made when one is read, and once."""

    __slots__ = ("_list",)

    def __init__(self) -> None:
        self._list: list[Any] | None = None

    def tolist(self) -> list[Any]:
        """All objects."""
        if self._list is None:
            self._list = self._made()
        return self._list

    @abstractmethod
    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """The rows of an index, a mask or a slice."""

    @abstractmethod
    def _made(self) -> list[Any]: ...

    @abstractmethod
    def _row(self, row: int) -> Any: ...

    @overload
    def __getitem__(self, row: int) -> Any: ...
    @overload
    def __getitem__(self, row: slice) -> Self: ...
    def __getitem__(self, row: int | slice) -> Any:
        return self.take(row) if isinstance(row, slice) else self._row(row)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and not isinstance(other, str) and self.tolist() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self[:3])!r}{'...' if len(self) > 3 else ''}, {len(self)} rows)"


LazyValues = (
    NDArray[Any] | Texts | BinaryColumn | Decimals | Datetimes | Members | BuiltStructs | BuiltDicts | ObjectColumn
)


class LazyColumn(ObjectColumn):
    """Rows of ``values``, where they are marked as present; else None, ``missing``, or one of a few other objects.

    ``decode`` makes an object of a row's bytes; None where ``values`` holds numbers or texts.
    """

    __slots__ = ("_decode", "_marks", "_missing", "_others", "_values")

    def __init__(
        self,
        values: LazyValues,
        marks: Marks,
        missing: Any = None,
        decode: Callable[[bytes], Any] | None = None,
        others: Sequence[Any] = (),
    ) -> None:
        super().__init__()
        self._values, self._marks, self._missing, self._decode, self._others = values, marks, missing, decode, others

    def replaced(self, rows: NDArray[np.intp], objects: Sequence[Any]) -> LazyColumn:
        """With other objects at some rows."""
        marks = self._marks.copy()
        marks[rows] = np.arange(len(rows)) + (_OTHER + len(self._others))
        return LazyColumn(self._values, marks, self._missing, self._decode, [*self._others, *objects])

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Self:
        """The rows of an index, a mask or a slice."""
        values = self._values[index] if isinstance(self._values, np.ndarray) else self._values.take(index)
        return type(self)(values, self._marks[index], self._missing, self._decode, self._others)

    def nones(self) -> NDArray[np.bool_] | None:
        """The rows that are None; None where that shows in the objects alone."""
        if self._decode is not None and self._may_be_null():
            return None
        found = self._marks == NULL
        if self._missing is None:
            found |= self._marks == MISSING
        others = np.flatnonzero(self._marks >= _OTHER)
        found[others] = [self._other(mark) is None for mark in self._marks[others].tolist()]
        return found

    def _may_be_null(self) -> bool:
        """Whether bytes of a row are JSON's null; nothing else is decoded to None."""
        assert isinstance(self._values, BinaryColumn)
        short = np.flatnonzero(self._values.ends - self._values.starts == len(b"null"))
        return any(span == b"null" for span in self._values.take(short))

    def present(self) -> NDArray[Any] | Texts | None:
        """The numbers or texts of all rows; None where some rows have none, or the values are others."""
        plain = self._decode is None and isinstance(self._values, np.ndarray | Texts)
        return self._values if plain and bool(np.all(self._marks == PRESENT)) else None  # type: ignore[return-value]

    def filled(self, value: Any) -> NDArray[Any] | Texts | None:
        """The numbers or texts, and ``value`` where there is none; None where that takes objects."""
        if self._decode is not None or not isinstance(self._values, np.ndarray | Texts):
            return None
        nones = self.nones()
        if nones is None or type(value) is not row_type(self._values):
            return None
        others = np.flatnonzero((self._marks != PRESENT) & ~nones)
        objects = [self._other(mark) for mark in self._marks[others].tolist()]
        if any(type(each) is not type(value) for each in objects):
            return None
        if isinstance(self._values, Texts):
            rows = np.flatnonzero(nones)
            return self._values.replaced(np.concatenate([rows, others]), [value] * len(rows) + objects)
        try:
            found = np.where(nones, self._values.dtype.type(value), self._values)
            found[others] = objects
        except OverflowError:
            return None
        return found

    def numbered(self) -> tuple[NDArray[np.int64], list[Any]] | None:
        """A number from 0 for each row, and the distinct texts or ints by number, as they first come."""
        found = self.numbered_rows()
        return None if found is None else (found[0], self.take(found[1]).tolist())

    def numbered_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """The same, with the first row of each number in place of its object; None where that takes objects."""
        if self._decode is not None or not isinstance(self._values, Texts | Members):
            return None
        return self._values.numbered_rows() if bool(np.all(self._marks == PRESENT)) else None

    def scaled(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Mantissas and exponents, where all rows are Decimals of that size."""
        if not isinstance(self._values, Decimals):
            return None
        mantissas, exponents = self._values.scaled()
        others = np.flatnonzero(self._marks != PRESENT)
        if not len(others):
            return mantissas, exponents
        found = [mantissa_and_exponent(self._other(int(mark))) for mark in self._marks[others].tolist()]
        known = [each for each in found if each is not None]
        if len(known) < len(found):
            return None
        mantissas, exponents = mantissas.copy(), exponents.copy()
        mantissas[others], exponents[others] = zip(*known, strict=True)
        return mantissas, exponents

    def datetimes(self) -> Datetimes | None:
        """The numbers of all rows, where each is a datetime."""
        is_whole = isinstance(self._values, Datetimes) and bool(np.all(self._marks == PRESENT))
        return self._values if is_whole else None  # type: ignore[return-value]

    def epoch_ms(self) -> tuple[NDArray[np.int64], NDArray[np.intp]] | None:
        """Milliseconds since 1970 UTC where rows are datetimes, and the rows of which that is not known."""
        if not isinstance(self._values, Datetimes):
            return None
        return self._values.epoch_ms(), np.flatnonzero(self._marks != PRESENT)

    def _made(self) -> list[Any]:
        found: list[Any]
        if self._decode is None:
            found = list(self._values) if isinstance(self._values, BinaryColumn) else self._values.tolist()
        else:
            found = [None] * len(self)
            rows = np.flatnonzero(self._marks == PRESENT)
            assert isinstance(self._values, BinaryColumn)
            for row, span in zip(rows.tolist(), self._values.take(rows), strict=True):
                found[row] = self._decode(span)
        for row in np.flatnonzero(self._marks != PRESENT).tolist():
            found[row] = self._other(int(self._marks[row]))
        return found

    def _other(self, mark: int) -> Any:
        """The object of a row that is not present."""
        return self._missing if mark == MISSING else None if mark == NULL else self._others[mark - _OTHER]

    def _row(self, row: int) -> Any:
        mark = int(self._marks[row])
        return self.tolist()[row] if mark == PRESENT else self._other(mark)

    def __len__(self) -> int:
        return len(self._marks)
