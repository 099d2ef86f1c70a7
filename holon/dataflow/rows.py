"""Rows on their way through a pipeline: columns as long as functions can be followed, then objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.columnar.event_types import ITSELF, field_names, fields, getter, is_struct
from holon.columnar.payloads import Texts
from holon.dataflow.arithmetic import nones
from holon.dataflow.dict_rows import objects_of
from holon.dataflow.expressions import Expression, Indices
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.following.declared import Key, Member, kinds_of
from holon.formats.batch import Column, take_columns
from wcrdt.lattices.columns import SelectedRows
from wcrdt.windows.assigners import Window

VALUE = ""
"""The column of rows that are no Structs, or of the rows' objects beside those of fields (``ITSELF``)."""
OBJECTS = object()
"""The type of rows that come from a function that was not followed."""
_DTYPES = {int: np.int64, float: np.float64, bool: np.bool_}


class Rows:
    """``len(rows)`` rows with their event times (ms), and the row of the batch that each comes from.

    Either ``columns`` (of a Struct's fields, or one called ``VALUE``) or ``objects``, one a row.
    ``struct``: the Struct, or the union of Structs of which each row is one.
    """

    __slots__ = ("_objects", "columns", "index", "is_whole", "known", "struct", "ts_ms")

    def __init__(
        self,
        ts_ms: NDArray[np.int64],
        index: Indices,
        *,
        columns: Mapping[str, Column] | None = None,
        struct: Any = None,
        objects: list[Any] | None = None,
        is_whole: bool = False,
    ) -> None:
        self.ts_ms = ts_ms
        self.index = index
        self.is_whole = is_whole
        """Each row comes from the one at its own place."""
        self.columns = columns
        self.struct = struct
        self.known: dict[Expression, Column] = {}
        self._objects = objects

    def __len__(self) -> int:
        return len(self.ts_ms)

    def field(self, path: tuple[str, ...]) -> Column:
        """The column of a field; of the rows themselves where the path is empty."""
        if self.columns is None or not path:
            found: Any = self.objects() if self.struct is not None or self.columns is None else self.columns[VALUE]
        elif ".".join(path) in self.columns and (type(path[0]) is not Member or self.are_of_kinds):
            return self.columns[".".join(path)]
        elif path == ("window",) and self.struct is None:  # of groups
            return list(map(Window, *(as_list(self.columns[f"window.{end}"]) for end in ("start_ms", "end_ms"))))
        elif path[0] == "key" and self.struct is None:  # a part of a key of groups
            keys, part = self.columns["key"], int(path[1])
            return keys[part] if isinstance(keys, tuple) else [each[part] for each in as_list(keys)]
        else:
            return part_of(as_list(self.field(path[:-1])), path[-1])
        for name in path:
            found = part_of(found, name)
        return found

    def column_at(self, path: tuple[str, ...]) -> Column | None:
        """The column of a field, or of one of the items of a list; None where there is none by that name."""
        if self.columns is None or (type(path[0]) is Member and not self.are_of_kinds):
            return None
        return self.columns.get(".".join(path))

    def names_within(self, path: tuple[str, ...]) -> Sequence[str]:
        """The names, without that path, of columns within a field."""
        prefix = f"{'.'.join(path)}."
        return [name.removeprefix(prefix) for name in self.columns or () if name.startswith(prefix)]

    def selected(self, path: tuple[str, ...]) -> Column:
        """As ``field``, but an array or texts of which rows were chosen are gathered where they are used."""
        found = self.columns.selected(".".join(path)) if isinstance(self.columns, ColumnView) else None
        return self.field(path) if found is None else found

    def inner(self, path: tuple[str, ...], struct: type) -> Self:
        """The Structs of a field that is None in no row, as rows."""
        names, has_all = _names_within(".".join(path), struct, tuple(self.columns or ()))
        if not is_struct(struct) and ".".join(path) in (self.columns or ()):
            names = {**names, ITSELF: ".".join(path)}
        columns = {} if self.columns is None else ColumnView.of(self.columns).renamed(names)
        if has_all:
            return self.replaced(columns=columns, struct=struct)
        objects = as_list(self.field(path))
        return self.replaced(columns=columns_of(struct, objects), struct=struct, objects=objects)

    @property
    def are_of_kinds(self) -> bool:
        """Whether the columns are those of a union of Structs (``JsonColumns``)."""
        return self.columns is not None and len(kinds_of(self.struct)) > 1

    def of_kind(self, kind: type) -> Self:
        """Those of one Struct, where the columns are those of a union of Structs."""
        assert self.columns is not None
        name = kind.__name__
        mine = ColumnView.of(self.columns).renamed(
            {n: n for n in self.columns if n == name or n.startswith(f"{name}.")}
        )
        there = np.flatnonzero(~nones(mine[name]))
        return self.replaced(columns=mine).take(there).inner((name,), kind)

    @property
    def has_objects(self) -> bool:
        """Whether the rows' objects are there."""
        return self._objects is not None

    def objects(self) -> list[Any]:
        """The rows as Python objects, made once."""
        if self._objects is None:
            assert self.columns is not None
            if self.struct is None or ITSELF in self.columns:
                self._objects = as_list(self.columns[VALUE])
            elif self.are_of_kinds:
                self._objects = _any_of([as_list(self.columns[kind.__name__]) for kind in kinds_of(self.struct)])
            else:
                self._objects = _structs(self.struct, self.columns, "", len(self))
        return self._objects

    def take(self, index: Indices) -> Self:
        """The rows of an index, in its order."""
        return self.replaced(
            index,
            columns=None if self.columns is None else ColumnView.of(self.columns).take(index),
            struct=self.struct,
            objects=None if self._objects is None else [self._objects[place] for place in index.tolist()],
        )

    def replaced(self, origin: Indices | None = None, **rows: Any) -> Self:
        """Other rows, each made of the row at ``origin`` (None: of the one at its own place)."""
        if origin is None:
            return type(self)(self.ts_ms, self.index, is_whole=self.is_whole, **rows)
        return type(self)(self.ts_ms[origin], origin if self.is_whole else self.index[origin], **rows)


def ones(rows: Rows) -> NDArray[np.int64]:
    """A column of ones."""
    return _ONES[: len(rows)] if len(rows) <= len(_ONES) else np.broadcast_to(_ONES[:1], len(rows))


_ONES = np.broadcast_to(np.int64(1), 1 << 20)
"""One number with a stride of 0: a part of it costs nothing."""


class Origins(NamedTuple):
    """Where rows come from: their records, the events in these, and which of an event's rows they are."""

    offsets: NDArray[np.int64]
    places: NDArray[np.int64]
    ordinals: NDArray[np.int64]


class ColumnView(Mapping[str, Column]):
    """Some rows of columns: a column's rows are gathered when it is first asked for, since few of them may be."""

    __slots__ = ("_columns", "_index", "_made")

    def __init__(self, columns: Mapping[str, Column], index: Indices | None, made: dict[str, Column]) -> None:
        self._columns = columns
        self._index = index
        self._made = made

    @classmethod
    def of(cls, columns: Mapping[str, Column]) -> ColumnView:
        """All rows of columns."""
        return columns if isinstance(columns, ColumnView) else cls(columns, None, {})

    def __getitem__(self, name: str) -> Column:
        if self._index is None:
            return self._columns[name]
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = _taken(self._columns[name], self._index)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def selected(self, name: str) -> Any:
        """The rows of an array or of texts, not gathered yet; None where it is neither, or gathered."""
        if self._index is None or name in self._made:
            return None
        column = self._columns.get(name)
        return SelectedRows(column, self._index) if isinstance(column, np.ndarray | Texts) else None

    def take(self, index: Indices) -> ColumnView:
        """The rows of an index, in its order."""
        return ColumnView(self._columns, index if self._index is None else self._index[index], {})

    def renamed(self, names: Mapping[str, str]) -> ColumnView:
        """The columns of these names here, by other names."""
        made = {name: self._made[mine] for name, mine in names.items() if mine in self._made}
        return ColumnView({name: self._columns[mine] for name, mine in names.items()}, self._index, made)


def _any_of(columns: Sequence[list[Any]]) -> list[Any]:
    """The one value of each row that is not None."""
    return [next(value for value in row if value is not None) for row in zip(*columns, strict=True)]


def part_of(objects: list[Any], name: str) -> list[Any]:
    """One part of a path, of each object. Raises what Python raises for the first that lacks it."""
    return list(map(name.value_of if isinstance(name, Key | Member) else attrgetter(name), objects))


def _taken(column: Column, index: Indices) -> Column:
    if type(column) is np.ndarray:  # as most are
        return column[index]
    if isinstance(column, tuple):
        return tuple(_taken(part, index) for part in column)
    return take_columns({VALUE: column}, index)[VALUE]


def _structs(struct: type, columns: Mapping[str, Column], prefix: str, rows: int) -> list[Any]:
    """Objects of a Struct whose fields are columns, those of Structs within it by their path."""
    values = []
    for each in field_names(struct):
        name = f"{prefix}{each}"
        column = columns.get(name)
        if column is not None:
            values.append(as_list(column))
        else:
            values.append(_structs(_struct_in(types_of(struct)[each]), columns, f"{name}.", rows))
    if not values:
        return [struct() for _ in range(rows)]
    return objects_of(struct, values)


_WITH_COLUMNS = (msgspec.inspect.StructType, msgspec.inspect.DataclassType, msgspec.inspect.NamedTupleType)


def _struct_in(type_of_field: Any) -> type:
    """The Struct of a field that has columns of its own."""
    info = msgspec.inspect.type_info(type_of_field)
    assert isinstance(info, _WITH_COLUMNS), f"{type_of_field} has no columns"
    return info.cls


@lru_cache(256)
def _names_within(path: str, struct: type, names: tuple[str, ...]) -> tuple[Mapping[str, str], bool]:
    """The columns within a field, by their names there, and whether these are all fields of its Struct."""
    found = {name.removeprefix(f"{path}."): name for name in names if name.startswith(f"{path}.")}
    tops = {name.partition(".")[0] for name in found}
    return found, all(name in tops for name in field_names(struct))


@cache
def types_of(struct: type) -> Mapping[str, Any]:
    """The declared types of a Struct's fields, by name."""
    return {field.name: field.type for field in fields(struct)}


def columns_of(struct: type, objects: list[Any]) -> dict[str, Column]:
    """The fields of Structs as columns: plain numbers as arrays, others as lists."""
    found: dict[str, Column] = {}
    for name, kind in types_of(struct).items():
        values = list(map(getter(struct, name), objects))
        found[name] = as_array(values, _DTYPES.get(kind))
    return found


def as_array(values: list[Any], dtype: Any) -> Column:
    """An array of this type, or the values where there is none (``dtype`` None) or an int has more than 64 bits."""
    if dtype is None:
        return values
    try:
        return np.array(values, dtype)
    except OverflowError:  # beyond 64 bits: expressions go row by row with Python's ints
        return values
