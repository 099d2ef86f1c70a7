"""Rows that are dicts with constant names, whose columns are those of a Struct; and rows that are tuples."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import date, timedelta
from decimal import Decimal
from functools import lru_cache
from keyword import iskeyword
from typing import Any, NamedTuple

import msgspec

from holon.columnar.event_types import field_names, is_made_of_fields, is_plain_dict, is_struct, made
from holon.dataflow.following.column_functions import ColumnFunction


class DictRow(msgspec.Struct):
    """A type of rows that are dicts, whose fields are its keys. No row is one."""


def dict_row(types: Mapping[str, Any]) -> type[msgspec.Struct]:
    """The type of dicts with these keys, in this order; ``types`` are those of their values (None: not known)."""
    try:
        return _made(tuple(types.items()))
    except TypeError:  # a type that has no hash
        return _made(tuple(dict.fromkeys(types).items()))


@lru_cache(1024)
def _made(types: tuple[tuple[str, Any], ...]) -> type[msgspec.Struct]:
    fields = [(name, Any if of is None else of) for name, of in types]
    return msgspec.defstruct("Row", fields, bases=(DictRow,))


def are_names(keys: Mapping[Any, Any]) -> bool:
    """Whether a dict has keys, and all can be names of columns."""
    return bool(keys) and all(
        type(key) is str and key.isidentifier() and not iskeyword(key) and not key.startswith("__") for key in keys
    )


def is_dict_row(row_type: Any) -> bool:
    """Whether rows of this type are dicts that a function has made."""
    return isinstance(row_type, type) and issubclass(row_type, DictRow)


def never_changes(row_type: Any) -> bool:
    """Whether no function can change a row of this type in a way that goes unseen; Structs are taken as they were."""
    if isinstance(row_type, TupleRow):
        return row_type.never_changes
    if is_dict_row(row_type) or is_plain_dict(row_type):
        return False
    return not dataclasses.is_dataclass(row_type) or row_type.__dataclass_params__.frozen  # type: ignore[union-attr]


class TupleRow(NamedTuple):
    """The type of rows that are tuples of so many parts; ``types`` are those of the parts (None: not known)."""

    types: tuple[Any, ...]

    @property
    def never_changes(self) -> bool:
        """Whether no function can change a part of a row."""
        return all(isinstance(of, type) and issubclass(of, _CONSTANT) for of in self.types)


_CONSTANT = (bytes, date, Decimal, float, int, str, timedelta)


def tuples_in_common(row_types: Sequence[Any]) -> TupleRow | None:
    """The one type of rows that are all tuples of one length; None where they are not. A part's type may differ."""
    tuples = [one for one in row_types if isinstance(one, TupleRow)]
    if not tuples or len(tuples) < len(row_types) or len({len(one.types) for one in tuples}) > 1:
        return None
    parts = zip(*(one.types for one in tuples), strict=True)
    return TupleRow(tuple(part[0] if all(of is part[0] for of in part) else None for part in parts))


def have_fields(row_type: Any) -> bool:
    """Whether rows are objects that are made of columns with names: neither dicts nor values nor tuples of them."""
    return (is_struct(row_type) and not is_dict_row(row_type)) or is_made_of_fields(row_type)


def in_common(row_types: Sequence[Any]) -> Any:
    """The one type of all rows; None where they have several. Of dicts with equal keys a value's type may differ."""
    first = row_types[0]
    if all(one is first for one in row_types):
        return first
    if not all(map(is_dict_row, row_types)) or len({one.__struct_fields__ for one in row_types}) > 1:
        return None
    each = [{field.name: field.type for field in msgspec.structs.fields(one)} for one in row_types]
    return dict_row({name: of if all(one[name] is of for one in each) else None for name, of in each[0].items()})


class New(ColumnFunction):
    """A list, dict or set of constants, made anew for each row, since a later function may change it; or ``()``."""

    is_total = True

    def __init__(self, value: Any) -> None:
        self._value = value

    def __call__(self, *values: Any) -> Any:
        return deepcopy(self._value)

    def of_columns(self, given: Sequence[Any], fixed: Sequence[bool], rows: int) -> list[Any]:
        """One for each row."""
        return [deepcopy(self._value) for _ in range(rows)]


def objects_of(struct: type, columns: Sequence[list[Any]]) -> list[Any]:
    """The objects of a type that is made of fields, or dicts, by the values of these."""
    names = field_names(struct)
    if not is_struct(struct):
        return made(struct, columns)
    if is_dict_row(struct):
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return [struct(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]
