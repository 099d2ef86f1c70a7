"""Plans: what the compiled loop has to know of a Struct, and which column each of its fields becomes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import UnionType
from typing import Any, Literal, TypeGuard, Union, get_args, get_origin

import msgspec
from msgspec import inspect

from holon.columnar.event_types import fields, getter, has_fields, is_plain_dict, is_struct
from holon.columnar.structs.kinds import LIST, MEMBER, MEMBER_TAG, OBJECT, SPAN, TAG, UNION
from holon.columnar.structs.scalars import lengths, scalar

ColumnKind = Literal["int", "float", "bool", "text", "list"]
"""int64, float64 or bool arrays, ``Texts``, or a list of what msgspec makes of the field."""

Within = tuple[type, ...] | None
"""Types that a field lies in; None where unions and lists of Structs are to be msgspec's."""
ITEM = "[]"
"""The part of a path that is any item of a list."""
MAX_FIELDS = 256
MAX_DEPTH = 8
_PLAIN = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*')
"""Tags that JSON writes as they are; msgspec has only such names."""


@dataclass(frozen=True, slots=True)
class PlannedField:
    """A field of a Struct, or of one that is a field of it; also any item of a list, and the record itself.

    ``kind`` is its column's kind, ``slot`` what the loop reads; they differ where a value may be null, or is checked
    by msgspec itself, which then gets its bytes (``SPAN``). ``path`` is of Python names; ``accepts`` returns which
    values of an array, or lengths of lists, keep the bounds of the type; ``items`` is a list's item, ``number`` that of
    a member of a union; ``choices`` are the objects by their texts or ints. ``may_lack_parent``: it is a field of a
    Struct that may be None, and None with it. ``members`` are columns of a union: one of its tags, and one for each of
    its Structs, with the objects of that Struct, else None; ``step`` makes an object of the union one of such a column,
    or reads the value of a key.
    """

    path: tuple[str, ...]
    encoded: str
    kind: ColumnKind
    slot: int
    type: Any
    required: bool
    default: Any = None
    factory: Callable[[], Any] | None = None
    nullable: bool = False
    accepts: Callable[[Any], Any] | None = None
    struct: PlannedStruct | None = None
    tag: str | int = ""
    members: tuple[PlannedField, ...] = ()
    step: Callable[[Any], Any] | None = None
    tags: tuple[str | int, ...] = ()
    number: int = 0
    items: PlannedField | None = None
    choices: Mapping[Any, Any] | None = None
    may_lack_parent: bool = False

    @property
    def name(self) -> str:
        """The name of its column."""
        return ".".join(part for part in self.path if part != ITEM)

    @property
    def has_column(self) -> bool:
        """Tags of Structs have none, and items are in that of their list."""
        return self.slot != TAG and self.path[-1] != ITEM

    @property
    def lists(self) -> int:
        """How many lists it lies in: a row of its column is a list then."""
        return self.path.count(ITEM)

    @property
    def is_list_of_values(self) -> bool:
        """Whether it is a list, or a list of lists, of anything but Structs."""
        items = self.items
        while items is not None and items.items is not None:
            items = items.items
        return items is not None and items.slot not in (OBJECT, UNION)

    @property
    def shape(self) -> tuple[ColumnKind, int]:
        """The kind of values in its column, and in how many lists these are."""
        if not self.is_list_of_values:
            return self.kind, self.lists
        assert self.items is not None
        return self.items.shape


@dataclass(frozen=True, slots=True)
class PlannedStruct:
    fields: tuple[PlannedField, ...]
    forbids_others: bool


_KINDS: dict[type, tuple[ColumnKind, type]] = {
    inspect.IntType: ("int", int),
    inspect.FloatType: ("float", float),
    inspect.BoolType: ("bool", bool),
    inspect.StrType: ("text", str),
}


def column_kinds(of: Any) -> dict[str, ColumnKind]:
    """The kind of column that each field becomes; those of Structs inside go by their path, with dots."""
    planned = plan(of)
    if planned is not None:
        return {one.name: "list" if one.lists else one.kind for one in fields_of(planned) if one.has_column}
    info = inspect.type_info(of)
    assert isinstance(info, (*_OBJECTS, inspect.NamedTupleType))
    infos = {field.name: field.type for field in info.fields}
    return {field.name: _kind(infos[field.name], field) for field in fields(of)}


def _kind(info: inspect.Type, field: msgspec.structs.FieldInfo) -> ColumnKind:
    """A list where the default is of another type than the field: ``UNSET``, or None."""
    kind, python = _KINDS.get(type(_bare(info)), ("list", object))
    constant = not field.required and field.default_factory is msgspec.NODEFAULT
    return "list" if constant and type(field.default) is not python else kind


def _bare(info: inspect.Type) -> inspect.Type:
    return _bare(info.type) if isinstance(info, inspect.Metadata) else info


def structs_of(of: Any) -> tuple[type[msgspec.Struct], ...]:
    """The Struct that a type is, or those that it is a union of; () for other types."""
    kinds = get_args(of) if get_origin(of) in (Union, UnionType) else (of,)
    return kinds if all(map(is_struct, kinds)) else ()


def event_types_of(of: Any) -> tuple[type, ...]:
    """As ``structs_of``; also a dataclass, a TypedDict or a NamedTuple that is plain."""
    return structs_of(of) or ((of,) if has_fields(of) else ())


def plan(of: Any) -> PlannedField | None:
    """How the loop reads records of a Struct or of a union of Structs; None if all of them are for msgspec.

    A union has columns then, too: those of a plan whose slot is ``SPAN``.
    """
    return _plan_of_class(of) if isinstance(of, type) else _plan(of)


def _plan(of: Any) -> PlannedField | None:
    for within in ((), None):
        found = _record(of, within)
        if found is not None and sum(1 for _ in fields_of(found)) <= MAX_FIELDS:
            return found
    return _unread(of) if len(structs_of(of)) > 1 else None


@lru_cache(256)
def _plan_of_class(of: type) -> PlannedField | None:
    return _plan(of)


def _record(of: Any, within: Within) -> PlannedField | None:
    info = inspect.type_info(of)
    if _is_union(info):
        members = _members(list(info.types), (), within)
        return PlannedField((), "", "list", UNION, of, True, members=members) if members else None
    struct = _struct(of, (), within)
    return None if struct is None else PlannedField((), "", "list", OBJECT, of, True, struct=struct)


def _unread(of: Any) -> PlannedField:
    """The columns of a union whose records are for msgspec: its tags, its Structs and their fields."""
    members: list[PlannedField] = []
    tag_field = ""
    for kind in structs_of(of):
        path = (kind.__name__,)
        tag_field = kind.__struct_config__.tag_field or ""
        fields = [
            PlannedField((*path, field.name), field.encode_name, "list", SPAN, field.type, True)
            for field in msgspec.structs.fields(kind)
        ]
        struct = PlannedStruct(tuple(fields), False)
        members.append(_lacking(PlannedField(path, "", "list", SPAN, kind, True, struct=struct, step=_only(kind))))
    tag = _lacking(PlannedField((tag_field,), "", "list", SPAN, Any, True, step=_tag))
    return PlannedField((), "", "list", SPAN, of, True, members=(tag, *members))


def fields_of(field: PlannedField) -> Iterator[PlannedField]:
    """All fields inside of one, also columns of unions and items of lists."""
    inside = () if field.struct is None else field.struct.fields
    items = () if field.items is None else (field.items,)
    for one in (*inside, *field.members, *items):
        yield one
        yield from fields_of(one)


_OBJECTS = (inspect.DataclassType, inspect.StructType, inspect.TypedDictType)
"""Types whose JSON is an object with a member for each field."""


def _struct(of: type, path: tuple[str, ...], within: Within) -> PlannedStruct | None:
    """None for types that are lists, check themselves, lie too deep, are not plain, or have a tag that JSON escapes."""
    info = inspect.type_info(of)
    if not isinstance(info, _OBJECTS) or not has_fields(of) or hasattr(of, "__post_init__") or len(path) >= MAX_DEPTH:
        return None
    within = None if within is None else (*within, of)
    infos = {field.name: field.type for field in info.fields}
    found = [_field(field, infos[field.name], path, within) for field in fields(of)]
    if not isinstance(info, inspect.StructType):
        steps = [getter(of, field.name) if is_plain_dict(of) else None for field in fields(of)]
        return PlannedStruct(tuple(replace(field, step=step) for field, step in zip(found, steps, strict=True)), False)
    if info.array_like or not (_PLAIN.fullmatch(str(info.tag)) and _PLAIN.fullmatch(info.tag_field or "")):
        return None
    if info.tag_field is not None and info.tag is not None:
        found.append(PlannedField((*path, ""), info.tag_field, "text", TAG, str, False, tag=info.tag))
    names = [field.encoded for field in found]
    return PlannedStruct(tuple(found), info.forbid_unknown_fields) if len(set(names)) == len(names) else None


def _field(field: msgspec.structs.FieldInfo, info: inspect.Type, path: tuple[str, ...], within: Within) -> PlannedField:
    path, bare = (*path, field.name), _bare(info)
    kind = _kind(info, field)
    default = msgspec.UNSET if field.default is msgspec.NODEFAULT else field.default
    factory = None if field.default_factory is msgspec.NODEFAULT else field.default_factory
    planned = PlannedField(path, field.encode_name, kind, SPAN, field.type, field.required, default, factory)
    rest = [one for one in bare.types if not isinstance(one, inspect.NoneType)] if _is_union(bare) else [bare]
    one = _bare(rest[0]) if len(rest) == 1 else None
    nullable = _is_union(bare) and len(rest) < len(bare.types)
    known = field.required or (nullable and factory is None and default is None)
    if len(rest) > 1 and known:
        members = () if within is None else _members([_bare(each) for each in rest], path, within)
        return replace(planned, slot=UNION, members=members, nullable=nullable) if members else planned
    if isinstance(one, _OBJECTS):
        struct = _struct(one.cls, path, within) if known else None
        if struct is None:
            return planned
        return replace(planned, slot=OBJECT, struct=_nullable(struct) if nullable else struct, nullable=nullable)
    if isinstance(one, inspect.ListType):
        items = _items(one, path, within)
        if items is None:
            return planned
        found = replace(planned, slot=LIST, items=items, nullable=nullable, accepts=lengths(one))
        return found if known or factory is list or found.is_list_of_values else planned
    plain = None if one is None else scalar(one)
    if plain is None:
        return planned
    return replace(planned, slot=plain.slot, nullable=nullable, accepts=plain.accepts, choices=plain.choices)


def _items(info: inspect.ListType, path: tuple[str, ...], within: Within) -> PlannedField | None:
    """The item of a list; None if the list is msgspec's.

    Lists of Structs that may lie in themselves are msgspec's: their columns would be without end.
    """
    bare = _bare(info.item_type)
    for one in map(_bare, bare.types if _is_union(bare) else (bare,)):
        if isinstance(one, _OBJECTS) and (within is None or one.cls in within):
            return None
    if len(path) >= MAX_DEPTH:
        return None
    found = _field(msgspec.structs.FieldInfo(ITEM, ITEM, Any), info.item_type, path, within)
    return None if found.slot == SPAN else found


def _members(infos: Sequence[inspect.Type], path: tuple[str, ...], within: Within) -> tuple[PlannedField, ...]:
    """Columns of a union of Structs with tags; empty where it is for msgspec.

    Unions that may lie in themselves are msgspec's: their columns would be without end.
    """
    found: list[PlannedField] = []
    tags: list[Any] = []
    tag_field = ""
    for info in infos:
        if not isinstance(info, inspect.StructType) or info.tag is None or info.cls in (within or ()):
            return ()
        if not isinstance(info.cls, type):
            return ()  # a generic one: no object has this type
        inside = (*path, info.cls.__name__)
        struct = _struct(info.cls, inside, within)
        if struct is None:
            return ()
        step = _only(info.cls)
        member = PlannedField(inside, "", "list", MEMBER, info.cls, True, struct=struct, number=len(found), step=step)
        found.append(_lacking(member))
        tags.append(info.tag)
        tag_field = info.tag_field or ""
    tag = PlannedField((*path, tag_field), "", "list", MEMBER_TAG, Any, True, step=_tag, tags=tuple(tags))
    members = _lacking(tag), *found
    names = {member.path[-1] for member in members}
    return members if len(names) == len(members) and not any("." in name for name in names) else ()


def _only(of: type) -> Callable[[Any], Any]:
    return lambda value: value if type(value) is of else None


def _tag(value: Any) -> Any:
    return None if value is None else value.__struct_config__.tag


def _nullable(struct: PlannedStruct) -> PlannedStruct:
    """The Struct where it may be None: its fields are columns of objects then."""
    return replace(struct, fields=tuple(map(_lacking, struct.fields)))


def _lacking(field: PlannedField) -> PlannedField:
    struct = None if field.struct is None else _nullable(field.struct)
    members = tuple(map(_lacking, field.members))
    return replace(field, kind="list", may_lack_parent=True, struct=struct, members=members)


def _is_union(info: inspect.Type) -> TypeGuard[inspect.UnionType]:
    return isinstance(info, inspect.UnionType)
