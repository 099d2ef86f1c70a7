"""Plans: what the compiled loop has to know of a Struct, and which column each of its fields becomes."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeGuard

import msgspec
from msgspec import inspect

from holon.columnar.structs.kinds import (
    BOOL,
    DECIMAL,
    FLOAT,
    INTEGER,
    LIST,
    MEMBER,
    MEMBER_TAG,
    OBJECT,
    SPAN,
    TAG,
    TEXT,
    TIME,
    UNION,
)

ColumnKind = Literal["int", "float", "bool", "text", "list"]
"""int64, float64 or bool arrays, ``Texts``, or a list of what msgspec makes of the field."""

Within = tuple[type, ...] | None
"""Structs that a field lies in; None where unions are to be msgspec's."""
MAX_FIELDS = 256
MAX_DEPTH = 8
_PLAIN = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*')
"""Tags that JSON writes as they are; msgspec has only such names."""


@dataclass(frozen=True, slots=True)
class PlannedField:
    """A field of a Struct, or of one that is a field of it.

    ``kind`` is its column's kind, ``slot`` what the loop reads; they differ where a value may be null, or is checked
    by msgspec itself, which then gets its bytes (``SPAN``). ``path`` is of Python names; ``accepts`` returns which
    values of an array keep the bounds of the type; ``item`` is the slot of a list's items, or the number of a member
    of a union; ``choices`` are the objects by their texts or ints. ``may_lack_parent``: it is a field of a Struct that
    may be None, and None with it. ``members`` are columns of a union: one of its tags, and one for each of its Structs,
    with the objects of that Struct, else None; ``step`` makes an object of the union one of such a column.
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
    item: int = SPAN
    choices: Mapping[Any, Any] | None = None
    may_lack_parent: bool = False


@dataclass(frozen=True, slots=True)
class PlannedStruct:
    fields: tuple[PlannedField, ...]
    forbids_others: bool


_PLAIN_SLOTS: dict[type, int] = {inspect.BoolType: BOOL, inspect.DecimalType: DECIMAL}
_KINDS: dict[type, tuple[ColumnKind, type]] = {
    inspect.IntType: ("int", int),
    inspect.FloatType: ("float", float),
    inspect.BoolType: ("bool", bool),
    inspect.StrType: ("text", str),
}


def column_kinds(of: type[msgspec.Struct]) -> dict[str, ColumnKind]:
    """The kind of column that each field becomes; those of Structs inside go by their path, with dots."""
    planned = plan(of)
    if planned is not None:
        return {".".join(field.path): field.kind for field in fields_of(planned) if field.slot != TAG}
    info = inspect.type_info(of)
    assert isinstance(info, inspect.StructType)
    infos = {field.name: field.type for field in info.fields}
    return {field.name: _kind(infos[field.name], field) for field in msgspec.structs.fields(of)}


def _kind(info: inspect.Type, field: msgspec.structs.FieldInfo) -> ColumnKind:
    """A list where the default is of another type than the field: ``UNSET``, or None."""
    kind, python = _KINDS.get(type(_bare(info)), ("list", object))
    constant = not field.required and field.default_factory is msgspec.NODEFAULT
    return "list" if constant and type(field.default) is not python else kind


def _bare(info: inspect.Type) -> inspect.Type:
    return _bare(info.type) if isinstance(info, inspect.Metadata) else info


def plan(of: type[msgspec.Struct]) -> PlannedStruct | None:
    """How the loop reads records of this type; None if all of them are for msgspec."""
    for within in ((), None):
        found = _struct(of, (), within)
        if found is not None and sum(1 for _ in fields_of(found)) <= MAX_FIELDS:
            return found
    return None


def fields_of(struct: PlannedStruct) -> Iterator[PlannedField]:
    """All fields, also those of Structs inside, and the columns of unions."""
    for field in struct.fields:
        yield field
        for one in (field, *field.members):
            if one is not field:
                yield one
            if one.struct is not None:
                yield from fields_of(one.struct)


def _struct(of: type[msgspec.Struct], path: tuple[str, ...], within: Within) -> PlannedStruct | None:
    """None for Structs that are lists, check themselves, lie too deep, or have a tag that JSON escapes."""
    info = inspect.type_info(of)
    if not isinstance(info, inspect.StructType) or info.array_like or hasattr(of, "__post_init__"):
        return None
    if len(path) >= MAX_DEPTH or not (_PLAIN.fullmatch(str(info.tag)) and _PLAIN.fullmatch(info.tag_field or "")):
        return None
    within = None if within is None else (*within, of)
    infos = {field.name: field.type for field in info.fields}
    fields = [_field(field, infos[field.name], path, within) for field in msgspec.structs.fields(of)]
    if info.tag_field is not None and info.tag is not None:
        fields.append(PlannedField((*path, ""), info.tag_field, "text", TAG, str, False, tag=info.tag))
    names = [field.encoded for field in fields]
    return PlannedStruct(tuple(fields), info.forbid_unknown_fields) if len(set(names)) == len(names) else None


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
        members = _members([_bare(each) for each in rest], path, within)
        return replace(planned, slot=UNION, members=members, nullable=nullable) if members else planned
    if isinstance(one, inspect.StructType):
        struct = _struct(one.cls, path, within) if known else None
        if struct is None:
            return planned
        return replace(planned, slot=OBJECT, struct=_nullable(struct) if nullable else struct, nullable=nullable)
    slot, accepts = (SPAN, None) if one is None else _slot(one)
    item, choices = _item(one), _choices(one)
    if item != SPAN:
        slot = LIST
    if choices is not None:
        slot = TEXT if type(next(iter(choices))) is str else INTEGER
    return replace(
        planned, slot=slot, nullable=_is_union(bare) and slot != SPAN, accepts=accepts, item=item, choices=choices
    )


def _members(infos: list[inspect.Type], path: tuple[str, ...], within: Within) -> tuple[PlannedField, ...]:
    """Columns of a union of Structs with tags; empty where it is for msgspec.

    Unions that may lie in themselves are msgspec's: their columns would be without end.
    """
    found: list[PlannedField] = []
    tags: list[Any] = []
    tag_field = ""
    for info in infos:
        if within is None or not isinstance(info, inspect.StructType) or info.tag is None or info.cls in within:
            return ()
        if not isinstance(info.cls, type):
            return ()  # a generic one: no object has this type
        inside = (*path, info.cls.__name__)
        struct = _struct(info.cls, inside, within)
        if struct is None:
            return ()
        step = _only(info.cls)
        member = PlannedField(inside, "", "list", MEMBER, info.cls, True, struct=struct, item=len(found), step=step)
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


def _choices(info: inspect.Type | None) -> Mapping[Any, Any] | None:
    """Members of an enum by their values, or the values of a Literal; None unless all are texts, or all ints."""
    found: dict[Any, Any] = {}
    if isinstance(info, inspect.LiteralType):
        found = {value: value for value in info.values}
    elif isinstance(info, inspect.EnumType) and info.cls._missing_.__func__ is enum.Enum._missing_.__func__:  # pyright: ignore[reportFunctionMemberAccess]
        found = {member.value: member for member in info.cls}
    kinds = set(map(type, found))
    return found if kinds in ({str}, {int}) else None


def _item(info: inspect.Type | None) -> int:
    """The slot of the items of a list whose arrays the loop checks; else ``SPAN``."""
    if not isinstance(info, inspect.ListType) or (info.min_length, info.max_length) != (None, None):
        return SPAN
    slot, accepts = _slot(_bare(info.item_type))
    return slot if accepts is None and slot in (INTEGER, FLOAT, BOOL, TEXT) else SPAN


def _nullable(struct: PlannedStruct) -> PlannedStruct:
    """The Struct where it may be None: its fields are columns of objects then."""
    return replace(struct, fields=tuple(map(_lacking, struct.fields)))


def _lacking(field: PlannedField) -> PlannedField:
    struct = None if field.struct is None else _nullable(field.struct)
    members = tuple(map(_lacking, field.members))
    return replace(field, kind="list", may_lack_parent=True, struct=struct, members=members)


def _is_union(info: inspect.Type) -> TypeGuard[inspect.UnionType]:
    return isinstance(info, inspect.UnionType)


def _slot(info: inspect.Type) -> tuple[int, Callable[[Any], Any] | None]:
    """The slot that the loop reads, and the bounds that are checked behind it."""
    if isinstance(info, inspect.StrType):
        bounded = (info.min_length, info.max_length, info.pattern) != (None, None, None)
        return (SPAN if bounded else TEXT), None
    if isinstance(info, inspect.IntType | inspect.FloatType):
        if info.multiple_of is not None:
            return SPAN, None
        return INTEGER if isinstance(info, inspect.IntType) else FLOAT, _bounds(info)
    if isinstance(info, inspect.DateTimeType):
        return (TIME if info.tz is None else SPAN), None
    return _PLAIN_SLOTS.get(type(info), SPAN), None


def _bounds(info: inspect.IntType | inspect.FloatType) -> Callable[[Any], Any] | None:
    """A check of an array against the bounds of a type: which of its values keep them."""
    tests: list[Callable[[Any], Any]] = []
    if (low := info.ge) is not None:
        tests.append(lambda values: values >= low)
    if (below := info.gt) is not None:
        tests.append(lambda values: values > below)
    if (high := info.le) is not None:
        tests.append(lambda values: values <= high)
    if (above := info.lt) is not None:
        tests.append(lambda values: values < above)
    if not tests:
        return None

    def accepts(values: Any) -> Any:
        kept = tests[0](values)
        for test in tests[1:]:
            kept = kept & test(values)
        return kept

    return accepts
