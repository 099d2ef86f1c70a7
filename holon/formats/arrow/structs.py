"""Structs of Arrow whose fields are read where they lie, as columns by their path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holon.columnar.atoms.columns import Column, Path, Valid
from holon.columnar.structs.kinds import NULL, PRESENT
from holon.columnar.structs.lazy import LazyColumn
from holon.columnar.structs.members import BuiltStructs
from holon.columnar.structs.plan import MAX_DEPTH
from holon.formats.arrow.fields import refusal
from holon.formats.arrow.plan import KINDS, Plain, Unfit, has_known_default, plain_column, plain_kind
from holon.formats.record_fields import RecordFields

Within = tuple[type, ...]


class NotInPlace(Exception):
    """A column that is no plain struct of Arrow, or lacks what its Struct needs: msgspec is to make its values."""


class Inner(NamedTuple):
    """A Struct of type ``of`` at a path; its fields are numbers, texts, lists of these, and such Structs.

    ``may_lack``: batches may be without it.
    """

    name: str
    path: Path
    of: type[msgspec.Struct]
    nullable: bool
    info: msgspec.inspect.Type
    fields: Mapping[str, Plain | Inner]
    may_lack: bool = False

    def parts(self) -> Iterator[Plain | Inner]:
        """Itself and everything inside; a Struct comes before its fields."""
        yield self
        for one in self.fields.values():
            if isinstance(one, Inner):
                yield from one.parts()
            else:
                yield one

    def defaults(self, lacks: bool = False) -> dict[str, Any]:
        """The values of columns that a batch may be without. ``lacks``: it may be without the Struct around it."""
        lacks = lacks or self.may_lack
        found: dict[str, Any] = {self.name: None} if lacks else {}
        for one in self.fields.values():
            if isinstance(one, Inner):
                found |= one.defaults(lacks)
            elif one.default is not msgspec.NODEFAULT:
                found[one.name] = one.default
            elif lacks:
                found[one.name] = None
        return found

    def check(self, of: Any) -> None:
        """Raise ``NotInPlace`` unless a column of this type of Arrow can be read where it lies."""
        if refusal(self.name, self.info, of) is not None or not self._is_struct(of):
            raise NotInPlace(self.name)

    def _is_struct(self, of: Any) -> bool:
        """Whether it is a struct, and so are those inside; without fields of one name."""
        if not pa.types.is_struct(of):
            return False
        for one in self.fields.values():
            found = of.get_all_field_indices(one.path[-1])
            if len(found) > 1 or (found and isinstance(one, Inner) and not one._is_struct(of.field(found[0]).type)):
                return False
        return True


def inner_of(name: str, path: Path, declared: Any, within: Within = ()) -> Inner | None:
    """How fields of this type are read where they lie; None: msgspec makes its values."""
    options = get_args(declared) if get_origin(declared) in (Union, UnionType) else (declared,)
    structs = [one for one in options if one is not type(None)]
    if len(structs) != 1 or not _is_plain(structs[0]) or structs[0] in within or len(within) >= MAX_DEPTH:
        return None
    of = structs[0]
    fields: dict[str, Plain | Inner] = {}
    for field in msgspec.structs.fields(of):
        found = _field(f"{name}.{field.name}", (*path, field.encode_name), field, (*within, of))
        if found is None:
            return None
        fields[field.name] = found
    return Inner(name, path, of, len(options) > 1, msgspec.inspect.type_info(declared), fields)


def inner_field(name: str, path: Path, field: msgspec.structs.FieldInfo, within: Within = ()) -> Inner | None:
    """As ``inner_of``, of a field: its default may be None."""
    if not (field.required or field.default is None):
        return None
    found = inner_of(name, path, field.type, within)
    return found if found is None or field.required else found._replace(may_lack=True)


def _field(name: str, path: Path, field: msgspec.structs.FieldInfo, within: Within) -> Plain | Inner | None:
    kind, nullable = plain_kind(field.type, KINDS)
    if kind is None:
        return inner_field(name, path, field, within)
    if not has_known_default(field, kind, nullable):
        return None
    return Plain(name, path, kind, nullable, field.default if field.default_factory is msgspec.NODEFAULT else ())


def _is_plain(of: Any) -> bool:
    """Whether it is a Struct that only its fields decide about."""
    if not isinstance(of, type) or not issubclass(of, msgspec.Struct) or hasattr(of, "__post_init__"):
        return False
    config = of.__struct_config__
    return not (config.array_like or config.forbid_unknown_fields or config.tag) and RecordFields.of(of) is None


def inner_columns(
    inner: Inner, read: Mapping[str, Column], above: Valid = None, lacks: bool = False
) -> tuple[dict[str, Any], Unfit]:
    """Columns of a Struct and of its fields as users get them, and the rows that are none.

    ``above``: the rows in which the Struct around it is there (None: all); ``lacks``: whether that one may be None.
    """
    column = read[inner.name]
    lacks = lacks or inner.nullable
    unfit: Unfit = {}
    if not inner.nullable and column.valid is not None:
        why = f"column {inner.name} is null: declare it as {inner.of.__name__} | None"
        unfit = dict.fromkeys(_rows(~column.valid, above), why)
    columns: dict[str, Any] = {}
    for one in inner.fields.values():
        if isinstance(one, Inner):
            more, wrong = inner_columns(one, read, column.valid, lacks)
        else:
            values, wrong = plain_column(one, read[one.name], column.valid, lacks)
            more = {one.name: values}
        columns |= more
        unfit = wrong | unfit
    marks = np.full(column.height, PRESENT, np.int64)
    if column.valid is not None:
        marks[~column.valid] = NULL
    fields = {name: columns[one.name] for name, one in inner.fields.items()}
    return {inner.name: LazyColumn(BuiltStructs(inner.of, fields, column.height), marks), **columns}, unfit


def _rows(which: NDArray[np.bool_], above: Valid) -> list[int]:
    return np.flatnonzero(which if above is None else which & above).tolist()
