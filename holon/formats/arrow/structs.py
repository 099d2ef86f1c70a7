"""Structs, lists and maps of Arrow that are read where they lie: which types are, and which columns of Arrow fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import UnionType
from typing import Any, NamedTuple, TypeGuard, Union, get_args, get_origin

import msgspec
import pyarrow as pa

from holon.columnar.atoms.adapting import KEY, VALUE
from holon.columnar.atoms.columns import Kind, Layout, Path
from holon.columnar.atoms.types import value_type
from holon.columnar.structs.plan import MAX_DEPTH, column_kinds
from holon.formats.arrow.fields import is_list, kind_refusal, refusal
from holon.formats.arrow.plan import KINDS, Plain, has_known_default, plain_kind
from holon.formats.record_fields import RecordFields

Within = tuple[type, ...]


class NotInPlace(Exception):
    """A column that is no plain struct, list or map of Arrow, or lacks a field: msgspec is to make its values.

    ``part`` is the name of the column that it lies in.
    """

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part


class Inner(NamedTuple):
    """A Struct of type ``of`` at a path.

    ``may_lack``: batches may be without it.
    """

    name: str
    path: Path
    of: type[msgspec.Struct]
    nullable: bool
    info: msgspec.inspect.Type
    fields: Mapping[str, Part]
    may_lack: bool = False

    def parts(self) -> Iterator[Part]:
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


class Items(NamedTuple):
    """A list at a path, of items that are no plain numbers or texts; a dict where there is a ``key``.

    ``item`` and ``key`` have paths that begin at an item, and ``default`` is None, or () where it is empty then.
    """

    name: str
    path: Path
    item: Part
    key: Plain | None
    nullable: bool
    info: msgspec.inspect.Type
    default: Any = msgspec.NODEFAULT

    @property
    def is_of_values(self) -> bool:
        """Whether it is a list, or a list of lists, of numbers and texts."""
        return self.key is None and (isinstance(self.item, Plain) or (is_items(self.item) and self.item.is_of_values))

    def layout(self) -> Layout:
        """The columns of its items."""
        return layout_of([self.item] if self.key is None else [self.key, self.item])

    def parts(self) -> Iterator[Part]:
        """Itself: its items have other rows."""
        yield self

    def defaults(self) -> dict[str, Any]:
        """The value of its column, if a batch may be without it."""
        return {} if self.default is msgspec.NODEFAULT else {self.name: self.default}


Part = Plain | Inner | Items


def is_items(part: Part) -> TypeGuard[Items]:
    """Whether it is a list or a dict."""
    return isinstance(part, Items)


def kind_of(part: Part) -> Kind:
    """The kind that its column is read as."""
    return part.kind if isinstance(part, Plain) else "struct" if isinstance(part, Inner) else "rows"


def layout_of(parts: Iterable[Part]) -> Layout:
    """The columns of these and of everything inside."""
    columns: dict[str, tuple[Path, Kind]] = {}
    defaults: dict[str, Any] = {}
    inside: dict[str, Layout] = {}
    for part in parts:
        for one in (part,) if isinstance(part, Plain) else part.parts():
            columns[one.name] = one.path, kind_of(one)
            if isinstance(one, Items):
                inside[one.name] = one.layout()
        if not isinstance(part, Plain):
            defaults |= part.defaults()
        elif part.default is not msgspec.NODEFAULT:
            defaults[part.name] = part.default
    return Layout(columns, defaults=defaults, inside=inside)


def is_in_place(part: Part, of: Any) -> bool:
    """Whether a column of this type of Arrow can be read where it lies."""
    return (isinstance(part, Plain) or refusal(part.name, part.info, of) is None) and _fits(part, of)


def _fits(part: Part, of: Any, is_plain: bool = False) -> bool:
    """Whether a type of Arrow is read as this part. ``is_plain``: arrays have been made plain before it is read."""
    if isinstance(part, Plain):
        return kind_refusal(part.name, part.kind, of) is None
    if is_plain or isinstance(part, Items):
        of = value_type(of)
        if pa.types.is_null(of):
            return True
    if isinstance(part, Inner):
        return pa.types.is_struct(of) and all(_field_fits(one, of, is_plain) for one in part.fields.values())
    if part.key is None:
        return is_list(of) and _fits(part.item, of.value_type, True)
    return pa.types.is_map(of) and _fits(part.key, of.key_type) and _fits(part.item, of.item_type, True)


def _field_fits(part: Part, of: Any, is_plain: bool) -> bool:
    found = of.get_all_field_indices(part.path[-1])
    return not found or (len(found) == 1 and _fits(part, of.field(found[0]).type, is_plain))


def part_of(name: str, path: Path, declared: Any) -> Inner | Items | None:
    """How a column of this type is read where it lies; None: msgspec makes its values."""
    found = _part(name, path, declared, ())
    return found if not isinstance(found, Plain) and _has_columns_of_json(found, declared) else None


def part_of_field(name: str, path: Path, field: msgspec.structs.FieldInfo) -> Inner | Items | None:
    """As ``part_of``, of a field, whose default is known."""
    found = _field(name, path, field, ())
    return found if not isinstance(found, Plain) and _has_columns_of_json(found, field.type) else None


def _has_columns_of_json(part: Inner | Items | None, declared: Any) -> bool:
    """Whether the columns are those that ``JsonColumns`` has: types of too many fields have fewer there."""
    if part is None:
        return False
    known = column_kinds(msgspec.defstruct("One", [("x", declared)]))
    return set(known) == {f"x{name[len(part.name) :]}" for name, _, _ in columns_in_place(part)}


def columns_in_place(part: Part) -> list[tuple[str, str, bool]]:
    """The columns of it and of everything inside, as ``columns_read`` has them."""
    kind = part.kind if isinstance(part, Plain) else "struct" if isinstance(part, Inner) else "list"
    found = [(part.name, "dict" if isinstance(part, Items) and part.key is not None else kind, True)]
    if isinstance(part, Inner):
        return found + [each for one in part.fields.values() for each in columns_in_place(one)]
    if isinstance(part, Items) and part.key is None:
        found += [(named_in(part, name), "list", True) for name, _, _ in columns_in_place(part.item)[1:]]
    return found


def named_in(items: Items, name: str) -> str:
    """The name of the column of lists of what is in a column of the items."""
    return items.name + name[len(items.item.name) :]


def _part(name: str, path: Path, declared: Any, within: Within) -> Part | None:
    kind, nullable = plain_kind(declared, KINDS)
    if kind is not None:
        return Plain(name, path, kind, nullable)
    options = get_args(declared) if get_origin(declared) in (Union, UnionType) else (declared,)
    others = [one for one in options if one is not type(None)]
    if len(others) != 1 or len(within) >= MAX_DEPTH:
        return None
    of, nullable = others[0], len(options) > 1
    if get_origin(of) in (list, dict) and len(get_args(of)) == (1 if get_origin(of) is list else 2):
        return _items(name, path, of, nullable, within)
    if not _is_plain(of) or of in within:
        return None
    fields: dict[str, Part] = {}
    for field in msgspec.structs.fields(of):
        found = _field(f"{name}.{field.name}", (*path, field.encode_name), field, (*within, of))
        if found is None:
            return None
        fields[field.name] = found
    return Inner(name, path, of, nullable, msgspec.inspect.type_info(declared), fields)


def _items(name: str, path: Path, of: Any, nullable: bool, within: Within) -> Items | None:
    """A list or a dict of this type."""
    key: Plain | None = None
    if get_origin(of) is list:
        item = _part(f"{name}[]", (), get_args(of)[0], (*within, list))
    else:
        kind, may_be_null = plain_kind(get_args(of)[0], {int: "int", str: "text"})
        if kind is None or may_be_null:
            return None
        key = Plain(f"keys of {name}", (KEY,), kind, False)
        item = _part(f"values of {name}", (VALUE,), get_args(of)[1], (*within, dict))
    if item is None:
        return None
    return Items(name, path, item, key, nullable, msgspec.inspect.type_info(of | None if nullable else of))


def _field(name: str, path: Path, field: msgspec.structs.FieldInfo, within: Within) -> Part | None:
    found = _part(name, path, field.type, within)
    if isinstance(found, Plain):
        if not has_known_default(field, found.kind, found.nullable):
            return None
        return found._replace(default=field.default if field.default_factory is msgspec.NODEFAULT else ())
    if found is None or field.required:
        return found
    if field.default is None and found.nullable:
        return found._replace(may_lack=True) if isinstance(found, Inner) else found._replace(default=None)
    if isinstance(found, Items) and field.default_factory is (list if found.key is None else dict):
        return found._replace(default=())
    return None


def _is_plain(of: Any) -> bool:
    """Whether it is a Struct that only its fields decide about."""
    if not isinstance(of, type) or not issubclass(of, msgspec.Struct) or hasattr(of, "__post_init__"):
        return False
    config = of.__struct_config__
    return not (config.array_like or config.forbid_unknown_fields or config.tag) and RecordFields.of(of) is None
