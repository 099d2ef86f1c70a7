"""Parquet: types of Arrow for the types of rows, and files of them. It needs the extra ``arrow``."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import inspect

from nodes.errors import SettingsError
from nodes.file_sinks.rows import VALUE, Misfit, names_in, objects_of, struct_info, surplus

DECIMAL = pa.decimal128(38, 18)
"""As Spark has it for Python's Decimal. A value that it does not hold is refused, never rounded."""
_PLAIN: dict[type, pa.DataType] = {
    inspect.IntType: pa.int64(),
    inspect.FloatType: pa.float64(),
    inspect.BoolType: pa.bool_(),
    inspect.StrType: pa.string(),
    inspect.BytesType: pa.binary(),
    inspect.ByteArrayType: pa.binary(),
    inspect.DateTimeType: pa.timestamp("us", tz="UTC"),
    inspect.DateType: pa.date32(),
    inspect.TimeType: pa.time64("us"),
    inspect.TimeDeltaType: pa.string(),
    inspect.UUIDType: pa.string(),
    inspect.DecimalType: DECIMAL,
}
_KEPT = (datetime.datetime, datetime.date, datetime.time, decimal.Decimal, bytes)
_LISTS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)
_REFUSED = (pa.ArrowException, OverflowError, TypeError, ValueError)


class Parquet:
    """Columns are those of the type of rows, or what the first rows have."""

    suffix = "parquet"
    has_columns = True

    def __init__(self, row: Any) -> None:
        self._decoder = None if row is None else msgspec.json.Decoder(row)
        self._declared = None if row is None else schema_of(row)
        self._schema = pa.schema([])

    def declared(self) -> bytes | None:
        """As ``RowFormat.declared``."""
        return None if self._declared is None else self._declared.serialize().to_pybytes()

    def inferred(self, payloads: Sequence[bytes]) -> bytes:
        """As ``RowFormat.inferred``."""
        rows = objects_of(payloads)
        columns = [(name, _without_null(_inferred(name, rows).type)) for name in names_in(rows)]
        return pa.schema(columns).serialize().to_pybytes()

    def use(self, columns: bytes) -> None:
        """As ``RowFormat.use``."""
        self._schema = pa.ipc.read_schema(pa.py_buffer(columns))
        if self._declared is not None and not self._declared.equals(self._schema):
            raise SettingsError(
                f"files there have the columns {_shown(self._schema)}; rows have {_shown(self._declared)}"
            )

    def encode(self, payloads: Sequence[bytes]) -> bytes:
        """As ``RowFormat.encode``."""
        rows = objects_of(payloads) if self._decoder is None else self._typed(payloads)
        if self._decoder is None:
            self._check(rows)
        try:
            columns = [pa.array([row.get(one.name) for row in rows], one.type) for one in self._schema]
        except _REFUSED as error:
            if len(payloads) == 1:
                raise Misfit(0, f"{error}; columns are {_shown(self._schema)}") from error
            self._find(payloads)
            raise AssertionError(f"rows fit alone, and not together: {error}") from error
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_arrays(columns, schema=self._schema), sink)
        return sink.getvalue().to_pybytes()

    def _find(self, payloads: Sequence[bytes]) -> None:
        for place, payload in enumerate(payloads):
            try:
                self.encode([payload])
            except Misfit as misfit:
                raise Misfit(place, str(misfit)) from misfit

    def _typed(self, payloads: Sequence[bytes]) -> list[Mapping[str, Any]]:
        assert self._decoder is not None
        rows = []
        for place, payload in enumerate(payloads):
            try:
                value = self._decoder.decode(payload)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise Misfit(place, f"it is no {_name(self._decoder.type)} ({error})") from error
            # Members of sets come in an order of their own in each process.
            row = msgspec.to_builtins(value, builtin_types=_KEPT, order="deterministic")
            rows.append(row if isinstance(value, msgspec.Struct) else {VALUE: row})
        return rows

    def _check(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Raise ``Misfit`` where a value would lose something: Arrow makes 1 of 1.5, and leaves unknown fields out."""
        names = self._schema.names
        known = set(names)
        for place, row in enumerate(rows):
            if not row.keys() <= known:
                raise Misfit(place, surplus(row, names))
        for one in self._schema:
            if not _fits(_inferred(one.name, rows).type, one.type):
                place = next(at for at, row in enumerate(rows) if not _fits(_inferred(one.name, [row]).type, one.type))
                shown = repr(rows[place].get(one.name))[:50]
                raise Misfit(place, f"{one.name} is {shown}, and its column {one.type}; declare it: Files(row=STRUCT)")


def schema_of(row: Any) -> pa.Schema:
    """The columns of a type of rows. Raises ``SettingsError`` for one that has none."""
    info = struct_info(row)
    if info is None:
        return pa.schema([(VALUE, _type(inspect.type_info(row), VALUE, ()))])
    return pa.schema(list(_struct(info, "", ())))


def _struct(info: Any, place: str, outer: tuple[type, ...]) -> pa.StructType:
    if info.cls in outer:
        raise SettingsError(f"{place}: {info.cls.__name__} lies in itself, and Parquet has no such type")
    tag = getattr(info, "tag_field", None)
    fields = [] if tag is None else [(tag, pa.int64() if isinstance(info.tag, int) else pa.string())]
    for field in info.fields:
        at = f"{place}.{field.encode_name}" if place else field.encode_name
        fields.append((field.encode_name, _type(field.type, at, (*outer, info.cls))))
    return pa.struct(fields)


def _type(info: inspect.Type, place: str, outer: tuple[type, ...]) -> pa.DataType:
    if isinstance(info, inspect.Metadata):
        return _type(info.type, place, outer)
    if isinstance(info, inspect.UnionType):
        found = _one_of([one for one in info.types if not isinstance(one, inspect.NoneType)], place, outer)
    elif isinstance(info, inspect.StructType | inspect.DataclassType | inspect.TypedDictType):
        found = None if getattr(info, "array_like", False) else _struct(info, place, outer)
    elif isinstance(info, _LISTS):
        found = pa.list_(_type(info.item_type, f"{place}[]", outer))
    elif isinstance(info, inspect.DictType):
        key, value = _type(info.key_type, f"keys of {place}", outer), _type(info.value_type, f"{place}[]", outer)
        found = pa.map_(key, value)
    elif isinstance(info, inspect.EnumType):
        found = _of_values([one.value for one in info.cls])
    else:
        found = _of_values(info.values) if isinstance(info, inspect.LiteralType) else _PLAIN.get(type(info))
    if found is None:
        raise SettingsError(
            f"{place} has a type without a column of Parquet; use ints, floats, texts, times, Decimals, Structs, "
            f"lists, dicts, each of one type or None"
        )
    return found


def _one_of(kinds: Sequence[inspect.Type], place: str, outer: tuple[type, ...]) -> pa.DataType | None:
    if len(kinds) == 1:
        return _type(kinds[0], place, outer)
    numbers = all(isinstance(one, inspect.IntType | inspect.FloatType) for one in kinds)
    return pa.float64() if numbers and kinds else None


def _of_values(values: Sequence[Any]) -> pa.DataType | None:
    kinds = {type(value) for value in values}
    return {frozenset([str]): pa.string(), frozenset([int]): pa.int64()}.get(frozenset(kinds))


def _inferred(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Array:
    try:
        return pa.array([row.get(name) for row in rows])
    except _REFUSED as error:
        if len(rows) == 1:
            raise Misfit(0, f"{name}: {error}") from error
        for place, row in enumerate(rows):
            try:
                _inferred(name, [row])
            except Misfit as misfit:
                raise Misfit(place, str(misfit)) from misfit
        raise Misfit(len(rows) - 1, f"{name} has values of several types in these rows: {error}") from error


def _without_null(of: pa.DataType) -> pa.DataType:
    """A column of nulls alone is one of texts."""
    if pa.types.is_null(of):
        return pa.string()
    if pa.types.is_list(of):
        return pa.list_(_without_null(of.value_type))
    if pa.types.is_struct(of):
        return pa.struct([(field.name, _without_null(field.type)) for field in of.fields])
    return of


def _fits(found: pa.DataType, of: pa.DataType) -> bool:
    if pa.types.is_null(found) or found.equals(of):
        return True
    if pa.types.is_list(found) and pa.types.is_list(of):
        return _fits(found.value_type, of.value_type)
    if pa.types.is_struct(found) and pa.types.is_struct(of):
        known = {field.name: field.type for field in of.fields}
        return all(one.name in known and _fits(one.type, known[one.name]) for one in found.fields)
    return pa.types.is_int64(found) and pa.types.is_float64(of)


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{one.name}: {one.type}" for one in schema)


def _name(row: Any) -> str:
    return getattr(row, "__name__", str(row))
