"""The values that a type wants of a record: by the names and aliases of its fields, and what each is declared as."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any, get_args, get_origin

from msgspec import inspect

from holon.columnar.structs.plan import structs_of
from holon.errors import DeserializationError, JobError

Wanted = inspect.Type | None
"""None: the type has no field for the value."""

TEXTS = (
    inspect.StrType, inspect.DateTimeType, inspect.DateType, inspect.TimeType, inspect.TimeDeltaType,
    inspect.UUIDType, inspect.DecimalType, inspect.EnumType, inspect.LiteralType,
)  # fmt: skip
BYTES = (inspect.BytesType, inspect.ByteArrayType, inspect.MemoryViewType)
_ITEMS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)
_RECORDS = (inspect.StructType, inspect.TypedDictType, inspect.DataclassType)


@dataclasses.dataclass(frozen=True, slots=True)
class Alias:
    """Other names that writers give to a field, or gave once: ``user: Annotated[str, Alias("user_id")]``."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        if not names or not all(isinstance(name, str) and name for name in names):
            raise JobError(f"Alias takes the names that writers give to the field, got {names!r:.100}")
        object.__setattr__(self, "names", names)


def alternatives(wanted: Wanted) -> list[inspect.Type]:
    """The types of a union, or the one type, without bounds."""
    if isinstance(wanted, inspect.Metadata):
        return alternatives(wanted.type)
    if isinstance(wanted, inspect.UnionType):
        return [each for one in wanted.types for each in alternatives(one)]
    return [] if wanted is None else [wanted]


def is_any(wanted: Wanted) -> bool:
    """Whether values are taken as they come."""
    return any(isinstance(one, inspect.AnyType) for one in alternatives(wanted))


def is_one_of(wanted: Wanted, kinds: tuple[type, ...]) -> bool:
    """Whether some alternative is of these."""
    return any(isinstance(one, kinds) for one in alternatives(wanted))


def item_of(kind: str, wanted: Wanted) -> Wanted:
    """The type of items, or of the values of a map."""
    for one in alternatives(wanted):
        if kind == "map" and isinstance(one, inspect.DictType):
            return one.value_type
        if kind == "array" and isinstance(one, _ITEMS):
            return one.item_type
        if isinstance(one, inspect.AnyType | inspect.TupleType | inspect.CollectionType):
            return inspect.AnyType()
    return None


def fields_of(wanted: Wanted, written: Sequence[str]) -> Callable[[str], tuple[str, Wanted]]:
    """The name and type that a record's field is read as."""
    if is_any(wanted):
        return lambda name: (name, inspect.AnyType())
    values = next((one.value_type for one in alternatives(wanted) if isinstance(one, inspect.DictType)), None)
    if values is not None:
        return lambda name: (name, values)
    found = {name: (field.encode_name, field.type) for name, field in matched(wanted, written).items()}
    return lambda name: found.get(name, (name, None))


def matched(wanted: Wanted, written: Sequence[str]) -> dict[str, Any]:
    """The declared fields by the names that the writer has for them; empty where no record is wanted."""
    record: Any = next((one for one in alternatives(wanted) if isinstance(one, _RECORDS)), None)
    if record is None:
        return {}
    aliases = aliases_of(record.cls)
    found: dict[str, Any] = {}
    for field in record.fields:
        names = (field.encode_name, *aliases.get(field.name, ()))
        name = next((each for each in names if each in written), None)
        if name is not None:
            found[name] = field
    return found


def aliases_of(type: Any) -> dict[str, tuple[str, ...]]:
    """The aliases of a type's fields, by the fields' own names."""
    hints = typing.get_type_hints(type, include_extras=True)
    found = {}
    for name, hint in hints.items():
        marks = (
            [mark for mark in get_args(hint)[1:] if isinstance(mark, Alias)] if get_origin(hint) is Annotated else []
        )
        if marks:
            found[name] = tuple(alias for mark in marks for alias in mark.names)
    return found


def type_named(name: str, type: Any) -> Any:
    """The Struct of several that records of a schema with this name are: by its tag or its name."""
    kinds = structs_of(type)
    if len(kinds) < 2:
        return type
    last = name.rpartition(".")[2]
    for kind in kinds:
        if last in (kind.__struct_config__.tag, kind.__name__):
            return kind
    names = ", ".join(kind.__name__ for kind in kinds)
    raise DeserializationError(f"the schema is of {last}, and no Struct of {names} has that name or tag")
