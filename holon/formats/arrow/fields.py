"""Which types of Arrow a field takes, and events made of Arrow's values by the rules of JSON (msgspec's)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from msgspec import inspect

from holon.columnar.atoms.types import is_read_as, is_text, value_type

E = TypeVar("E")
Check = Callable[[Any], bool]

_types = pa.types


def _is_binary(of: Any) -> bool:
    return _types.is_binary(of) or _types.is_large_binary(of) or of == pa.binary_view() or _is_fixed(of)


def _is_fixed(of: Any) -> bool:
    return _types.is_fixed_size_binary(of)


def is_list(of: Any) -> bool:
    """Whether it is one of the five types of lists."""
    return bool(
        _types.is_list(of) or _types.is_large_list(of) or _types.is_fixed_size_list(of)
        or _types.is_list_view(of) or _types.is_large_list_view(of)
    )  # fmt: skip


def _is_number(of: Any) -> bool:
    return _types.is_integer(of) or _types.is_floating(of) or _types.is_decimal(of)


_PYTHON: tuple[tuple[Check, str], ...] = (
    (_types.is_boolean, "bool"), (_types.is_integer, "int"), (_types.is_floating, "float"), (is_text, "str"),
    (_types.is_decimal, "decimal.Decimal"), (_types.is_timestamp, "datetime.datetime"),
    (_types.is_date, "datetime.date"), (_types.is_time, "datetime.time"), (_types.is_duration, "datetime.timedelta"),
    (_is_binary, "bytes"),
    (_types.is_map, "dict"), (_types.is_struct, "a msgspec.Struct"), (is_list, "list"),
)  # fmt: skip
"""The Python type that a column is declared as."""

_PLAIN: dict[type, tuple[Check, str]] = {
    inspect.IntType: (_types.is_integer, "int"),
    inspect.FloatType: (lambda of: _types.is_floating(of) or _types.is_integer(of), "float"),
    inspect.BoolType: (_types.is_boolean, "bool"),
    inspect.StrType: (is_text, "str"),
    inspect.BytesType: (_is_binary, "bytes"),
    inspect.ByteArrayType: (_is_binary, "bytearray"),
    inspect.DateTimeType: (lambda of: _types.is_timestamp(of) or is_text(of), "datetime.datetime"),
    inspect.DateType: (lambda of: _types.is_date(of) or is_text(of), "datetime.date"),
    inspect.TimeType: (lambda of: _types.is_time(of) or is_text(of), "datetime.time"),
    inspect.TimeDeltaType: (lambda of: _types.is_duration(of) or is_text(of), "datetime.timedelta"),
    inspect.UUIDType: (lambda of: _is_fixed(of) or is_text(of), "uuid.UUID"),
    inspect.DecimalType: (lambda of: _is_number(of) or is_text(of), "decimal.Decimal"),
}
_OBJECTS: dict[str, inspect.Type] = {"datetime": inspect.DateTimeType(), "decimal": inspect.DecimalType()}
_OBJECTS |= {
    name: inspect.ListType(item)
    for item, name in (
        (inspect.IntType(), "ints"), (inspect.FloatType(), "floats"), (inspect.BoolType(), "bools"),
        (inspect.StrType(), "texts"),
    )
}  # fmt: skip
_ITEMS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)


def refusal(name: str, info: inspect.Type, of: Any) -> str | None:
    """Why a field does not take a column of a type of Arrow: column, type and what to declare; None: it does.

    A column of the null type is taken by each field: its rows are null. Other values are msgspec's to judge.
    """
    info, of = _bare(info), value_type(of)
    if _types.is_null(of):
        return None
    if _types.is_union(of):
        found = (refusal(name, info, of.field(at).type) for at in range(of.num_fields))
        return next((reason for reason in found if reason is not None), None)
    if isinstance(info, inspect.UnionType):
        found = [refusal(name, one, of) for one in info.types if not isinstance(one, inspect.NoneType)]
        reasons = [reason for reason in found if reason is not None]
        return reasons[0] if reasons and len(reasons) == len(found) else None
    plain = _PLAIN.get(type(info))
    if plain is not None:
        return None if plain[0](of) else mismatch(name, of, plain[1])
    if isinstance(info, _ITEMS):
        return refusal(f"{name}[]", info.item_type, of.value_type) if is_list(of) else mismatch(name, of, "list")
    if isinstance(info, inspect.DictType):
        if _types.is_map(of):
            keys, values = refusal(f"keys of {name}", info.key_type, of.key_type), of.item_type
            return keys or refusal(f"values of {name}", info.value_type, values)
        return None if _types.is_struct(of) else mismatch(name, of, "dict")
    if isinstance(info, inspect.StructType | inspect.TypedDictType | inspect.DataclassType):
        return (
            _refusal_of_fields(name, info, of) if _types.is_struct(of) else mismatch(name, of, str(info.cls.__name__))
        )
    return None


def _refusal_of_fields(name: str, info: Any, of: Any) -> str | None:
    if getattr(info, "array_like", False):
        return f"column {name} is {of}, and {info.cls.__name__} is array_like: it has no names for its fields"
    for field in info.fields:
        at = of.get_field_index(field.encode_name)
        if at >= 0:
            reason = refusal(f"{name}.{field.encode_name}", field.type, of.field(at).type)
        elif field.required:
            reason = f"no column {name}.{field.encode_name}, or more than one: write it, or give the field a default"
        else:
            reason = None
        if reason is not None:
            return reason
    return None


def mismatch(name: str, of: Any, declared: str) -> str:
    """The reason where a column of a type is not read as what it was declared as."""
    fits = next((python for check, python in _PYTHON if check(value_type(of))), "typing.Any")
    return f"column {name} is {of}, and {declared} is declared: declare {fits}, or write another type"


def kind_refusal(name: str, kind: Any, of: Any) -> str | None:
    """As ``refusal``, for columns that are read as numbers or texts."""
    if kind in _OBJECTS:
        return refusal(name, _OBJECTS[kind], of) or (mismatch(name, of, "list") if _has_union(of) else None)
    names = {"text": "str", "time": "datetime.datetime"}
    return None if is_read_as(of, kind) else mismatch(name, of, names.get(kind) or str(kind))


def _has_union(of: Any) -> bool:
    """Whether lists of numbers or texts would be made of values of several types."""
    of = value_type(of)
    return _types.is_union(of) or (is_list(of) and _has_union(of.value_type))


def _bare(info: inspect.Type) -> inspect.Type:
    return _bare(info.type) if isinstance(info, inspect.Metadata) else info


class LightRows:
    """Objects with converted values as attributes: as good as a Struct of them where only attributes are read.

    The garbage collector passes over them, where it would walk through a dict for each row again and again.
    """

    def __init__(self, of: type[msgspec.Struct]) -> None:
        fields = msgspec.structs.fields(of)
        self._types = [list[field.type] for field in fields]
        self._row = msgspec.defstruct("Row", [(field.name, Any) for field in fields], gc=False)

    def made(self, columns: Sequence[list[Any]]) -> list[Any] | None:
        """The rows of values by field; None where a value does not fit."""
        try:
            found = [msgspec.convert(values, of) for values, of in zip(columns, self._types, strict=True)]
        except (msgspec.ValidationError, RecursionError):
            return None
        return list(map(self._row, *found))
