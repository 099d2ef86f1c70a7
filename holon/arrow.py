"""The formats for atoms of Arrow: ``from holon.arrow import Arrow, ArrowColumns``. They need the extra ``arrow``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from types import UnionType
from typing import Any, Generic, NamedTuple, TypeVar, Union, cast, get_args, get_origin

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.columnar.atom_columns import ABSENT, SCALED, Column, Kind, Layout, Path
from holon.columnar.atoms import AtomReader, Atoms, single, write_atom
from holon.columnar.structs.decimals import Decimals
from holon.columnar.structs.kinds import NULL, PRESENT
from holon.columnar.structs.lazy import LazyColumn
from holon.columnar.structs.plan import structs_of
from holon.columnar.structs.times import Datetimes
from holon.errors import JobError
from holon.formats.arrow_fields import LightRows, converted, kind_refusal, refusal
from holon.formats.batch import take_columns
from holon.formats.formats import Decoded
from holon.formats.json_columns import JsonColumns
from holon.formats.record_fields import RecordFields, refuse_marks, without_fields

__all__ = ["Arrow", "ArrowColumns", "write_atom"]

E = TypeVar("E")

_KINDS: dict[Any, Kind] = {
    int: "int", float: "float", bool: "bool", str: "text", datetime: "datetime", Decimal: "decimal",
}  # fmt: skip
_ROWS = "rows"
_UNFIT = dict[int, str]


class _Plain(NamedTuple):
    """A column of numbers or texts. ``default``: that of its field, which batches may lack then."""

    name: str
    path: Path
    kind: Kind
    nullable: bool
    default: Any = msgspec.NODEFAULT

    @property
    def is_lazy(self) -> bool:
        """Whether its values are objects, made when they are read."""
        return self.nullable or self.kind in SCALED


class _Rest(NamedTuple):
    """Columns whose values are msgspec's to check; together they are a Struct."""

    name: str
    path: Path
    info: msgspec.inspect.Type | None = None
    may_lack: bool = False


class _Reads:
    """The part that both formats of atoms share: which columns they read, and atoms as such."""

    compiled = True

    def __init__(self, plain: Sequence[_Plain], rest: Sequence[_Rest]) -> None:
        self._plain, self._rest = tuple(plain), tuple(rest)
        columns: dict[str, tuple[Path, Kind]] = {one.name: (one.path, one.kind) for one in plain}
        columns |= {one.name: (one.path, "object") for one in rest}
        defaults = {one.name: one.default for one in plain if one.default is not msgspec.NODEFAULT}
        defaults |= {one.name: ABSENT for one in rest if one.may_lack}
        self._reader = AtomReader(Layout(columns, refusal=self._refusal, defaults=defaults))

    def events_in(self, payload: bytes) -> int:
        """How many rows an atom has; 1 if it is dead as a whole."""
        return self._reader.events_in(payload)

    def single(self, payload: bytes, place: int) -> bytes:
        """An atom of one row."""
        return single(self._reader.batches_of(payload), place)

    def _refusal(self, name: str, of: Any) -> str | None:
        """Why a column of a type cannot be read."""
        for plain in self._plain:
            if plain.name == name:
                return kind_refusal(name, plain.kind, of)
        info = next(one.info for one in self._rest if one.name == name)
        return None if info is None else refusal(name, info, of)

    def _objects(self, columns: Mapping[str, Column], count: int, of: Any) -> tuple[list[Any], _UNFIT]:
        """The objects that the rest of the columns are, of each row that is fit; and the other rows."""
        unfit: _UNFIT = {}
        lists: list[list[Any]] = []
        for one in self._rest:
            column = columns[one.name]
            assert column.objects is not None
            lists.append(column.objects)
            unfit = {row: f"column {one.name}: {why}" for row, why in (column.unfit or {}).items()} | unfit
        good = [row for row in range(count) if row not in unfit] if unfit else range(count)
        if self._rest and self._rest[0].path == ():
            rows = [lists[0][row] for row in good] if unfit else lists[0]
        else:
            rows = self._dicts(lists, good, bool(unfit))
        objects, refused = converted(rows, of)
        return objects, unfit | {good[at]: why for at, why in refused.items()}

    def _dicts(self, lists: list[list[Any]], good: Sequence[int], some: bool) -> list[dict[str, Any]]:
        names = [one.name for one in self._rest]
        if some:
            lists = [[values[row] for row in good] for values in lists]
        if any(one.may_lack for one in self._rest):
            return [
                {name: value for name, value in zip(names, row, strict=True) if value is not ABSENT}
                for row in zip(*lists, strict=True)
            ]
        return [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]


class ArrowColumns(_Reads, Generic[E]):
    """Each record is an atom, an Arrow IPC stream; one event a row of its batches, given as columns.

    ``ArrowColumns(Bid)`` gives the columns that ``JsonColumns(Bid)`` gives, for a Struct or a union of Structs with
    tags. ``ArrowColumns({"price": int, "bid.at": datetime})`` names the columns to read, by their path where they are
    within structs. Types may be any that msgspec knows; a ``datetime`` alone is given as epoch ms.

    Values are those of JSON with the same values: null is None, dictionaries and runs are their values, a time with a
    zone is UTC. An atom that is damaged, lacks a column, or has one of a type that its field does not take, is one dead
    letter. So is each row with a value that the field does not take: null without ``| None``, an int beyond 64 bits.
    """

    def __init__(self, columns: Mapping[str, Any] | type[E] | Any) -> None:
        self.type: Any = None if isinstance(columns, Mapping) else columns
        self.columns: dict[str, Any] = dict(columns) if isinstance(columns, Mapping) else {}
        self._objects_as: Any = None
        self._names: dict[str, str] = {}
        if self.type is None:
            plain, rest = self._of_mapping()
        else:
            _check_struct(self.type)
            plain, rest = self._of_struct()
        self._made = None if self._objects_as is None else JsonColumns[Any](self._objects_as)
        self._light: LightRows | None = None
        if self._objects_as is not None and rest[0].path != () and not hasattr(self._objects_as, "__post_init__"):
            self._light = LightRows(self._objects_as)
        super().__init__(plain, rest)

    def _of_mapping(self) -> tuple[list[_Plain], list[_Rest]]:
        plain: list[_Plain] = []
        rest: list[_Rest] = []
        fields: list[Any] = []
        for name, of in self.columns.items():
            path = tuple(name.split("."))
            kind, nullable = _plain_kind(of, {**_KINDS, datetime: "time"})
            if kind is not None:
                plain.append(_Plain(name, path, kind, nullable))
                continue
            number = f"column_{len(fields)}"
            fields.append((number, of, msgspec.field(name=name)))
            self._names[number] = name
            rest.append(_Rest(name, path, _info(name, of)))
        if fields:
            self._objects_as = msgspec.defstruct("Columns", fields)
        return plain, rest

    def _of_struct(self) -> tuple[list[_Plain], list[_Rest]]:
        if _is_read_whole(self.type):
            self._objects_as = self.type
            return [], [_Rest(_ROWS, ())]
        plain: list[_Plain] = []
        rest: list[_Rest] = []
        checks_itself = hasattr(self.type, "__post_init__")
        for field in msgspec.structs.fields(self.type):
            kind, nullable = (None, False) if checks_itself else _plain_kind(field.type, _KINDS)
            constant = field.default_factory is msgspec.NODEFAULT and (
                field.default is msgspec.NODEFAULT or type(field.default) in _DEFAULTS.get((kind, nullable), ())
            )
            if kind is not None and constant:
                plain.append(_Plain(field.name, (field.encode_name,), kind, nullable, field.default))
            else:
                info = _info(field.name, field.type)
                rest.append(_Rest(field.encode_name, (field.encode_name,), info, not field.required))
        if rest:
            self._objects_as = without_fields(self.type, {one.name for one in plain}) if plain else self.type
        return plain, rest

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint."""
        if self.type is not None:
            return f"arrow columns {self.type!r}"
        named = {name: of.__name__ if of in _KINDS else repr(of) for name, of in self.columns.items()}
        return "arrow " + ", ".join(f"{name} {of}" for name, of in sorted(named.items()))

    def by_columns(self) -> ArrowColumns[E]:
        """As ``TypedFormat`` has it."""
        return self

    def by_events(self) -> Arrow[E]:
        """As ``TypedFormat`` has it."""
        return Arrow(self.type)

    def check_column(self, name: str) -> None:
        """Raise ``JobError`` if there is no such column."""
        made = [] if self._made is None else [known for known, _, _ in self._made.columns_read()]
        names = [*(one.name for one in self._plain), *map(self._full, made)]
        if name not in names:
            raise JobError(f"the format reads no column {name!r}; it reads {', '.join(names)}")

    def _full(self, name: str) -> str:
        """The name of a column that the Struct of the rest has."""
        top, dot, inner = name.partition(".")
        return f"{self._names.get(top, top)}{dot}{inner}"

    def decode(self, payloads: Sequence[bytes]) -> Decoded[E]:
        """Decode a run of payloads."""
        found = self._reader.read(payloads)
        read = found.columns()
        columns: dict[str, Any] = {}
        unfit: _UNFIT = {}
        for one in self._plain:
            column = read[one.name]
            if one.is_lazy or column.valid is not None or column.unfit or column.beyond:
                columns[one.name], more = _plain_column(one, column)
                unfit = more | unfit
            else:
                columns[one.name] = column.numbers if column.texts is None else column.texts
        if self._made is None and not unfit:
            return Decoded(found.rows, columns=columns, bad=found.bad, places=found.places)
        return self._with_rest(found, read, columns, unfit)

    def _with_rest(
        self, found: Atoms, read: Mapping[str, Column], columns: dict[str, Any], unfit: _UNFIT
    ) -> Decoded[E]:
        """With the columns that msgspec makes, and without the rows that are unfit."""
        made: dict[str, Any] = {}
        of_rest: _UNFIT = {}
        if self._made is not None:
            light = self._light_rows(read)
            objects, of_rest = (
                (light, of_rest) if light is not None else self._objects(read, len(found), self._objects_as)
            )
            made, large = self._made.columns_of(objects)
            if large:
                good = [row for row in range(len(found)) if row not in of_rest]
                of_rest |= {good[at]: why for at, why in large.items()}
        return _decoded(found, columns, {self._full(n): column for n, column in made.items()}, unfit, of_rest)

    def _light_rows(self, read: Mapping[str, Column]) -> list[Any] | None:
        """The rows whose columns msgspec's are made of; None where some row may be unfit, or lacks a column."""
        columns = [read[one.name] for one in self._rest]
        if self._light is None or any(column.unfit for column in columns):
            return None
        lists = [column.objects or [] for column in columns]
        if any(one.may_lack and ABSENT in values for one, values in zip(self._rest, lists, strict=True)):
            return None
        return self._light.made(lists)


class Arrow(_Reads, Generic[E]):
    """Each record is an atom, an Arrow IPC stream; one event a row of its batches, given as an object.

    ``Arrow(Bid)`` gives the events that ``Json(Bid)`` gives; ``Arrow(dict[str, Any])`` takes all columns as they come.
    Rows and atoms that cannot be read become dead letters as ``ArrowColumns`` has it.
    """

    compiled = False

    def __init__(self, type: type[E] | Any) -> None:
        self.type = type
        _check_marks(type)
        rest = [_Rest(_ROWS, ())]
        if structs_of(type) and not _is_read_whole(type):
            _check_struct(type)
            fields: Any = msgspec.structs.fields(type)  # type: ignore[arg-type]
            rest = [
                _Rest(field.encode_name, (field.encode_name,), _info(field.name, field.type), not field.required)
                for field in fields
            ] or rest
        super().__init__([], rest)

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint."""
        return f"arrow {self.type!r}"

    def by_columns(self) -> ArrowColumns[E]:
        """As ``TypedFormat`` has it."""
        return ArrowColumns(self.type)

    def by_events(self) -> Arrow[E]:
        """As ``TypedFormat`` has it."""
        return self

    def decode(self, payloads: Sequence[bytes]) -> Decoded[E]:
        """Decode a run of payloads."""
        found = self._reader.read(payloads)
        events, unfit = self._objects(found.columns(), len(found), self.type)
        rows, places, bad = _fit(found, unfit)
        return Decoded(rows, events=cast(list[E], events), bad=found.bad, places=places, bad_events=bad)


_DEFAULTS: dict[Any, tuple[type, ...]] = {
    (kind, nullable): (*(() if kind in SCALED else (of,)), *((type(None),) if nullable else ()))
    for of, kind in _KINDS.items()
    for nullable in (False, True)
}
"""The types of defaults that a column of numbers or texts has a value for."""


def _plain_kind(of: Any, kinds: Mapping[Any, Kind]) -> tuple[Kind | None, bool]:
    """The kind of a column of numbers or texts, and whether it may be null; None where values are msgspec's."""
    if get_origin(of) in (Union, UnionType):
        options = [one for one in get_args(of) if one is not type(None)]
        if len(options) == 1 and len(get_args(of)) == 2:
            return _plain_kind(options[0], kinds)[0], True
        return None, False
    return (kinds.get(of), False) if isinstance(of, type) else (None, False)


def _info(name: str, of: Any) -> msgspec.inspect.Type:
    refuse_marks(of)
    try:
        info = msgspec.inspect.type_info(of)
    except TypeError as error:
        raise JobError(f"column {name!r} cannot be {of!r}: {error}") from error
    if isinstance(info, _WITHOUT_VALUES):
        raise JobError(f"column {name!r} cannot be {of!r}: msgspec makes no such object of Arrow's values")
    return info


_WITHOUT_VALUES = (msgspec.inspect.CustomType, msgspec.inspect.RawType, msgspec.inspect.ExtType)


def _is_read_whole(of: Any) -> bool:
    """Whether all columns of a batch matter: where a row is one of several Structs, has a tag, or forbids others."""
    kinds = structs_of(of)
    configs = [kind.__struct_config__ for kind in kinds]
    return len(kinds) > 1 or any(one.tag is not None or one.forbid_unknown_fields for one in configs)


def _check_struct(of: Any) -> None:
    kinds = structs_of(of)
    if not kinds:
        raise JobError(f"ArrowColumns needs types by the names of columns, or a msgspec.Struct, got {of!r}")
    for kind in kinds:
        if kind.__struct_config__.array_like:
            raise JobError(f"{kind.__name__} is array_like: it has no names for its fields, which columns are read by")
    _check_marks(of)


def _check_marks(of: Any) -> None:
    if RecordFields.of(of) is not None:
        raise JobError(f"{of.__name__} has marked fields: Json and JsonColumns know them, formats of Arrow do not")


def _plain_column(one: _Plain, column: Column) -> tuple[Any, _UNFIT]:
    """The column as users get it, and the rows that are none."""
    values: Any = column.numbers if column.texts is None else column.texts
    unfit = {row: f"column {one.name} is {why}" for row, why in (column.unfit or {}).items()}
    beyond = column.beyond or {}
    if not one.nullable and column.valid is not None:
        names = {"text": "str", "time": "datetime", "decimal": "Decimal"}
        why = f"column {one.name} is null: declare it as {names.get(one.kind, one.kind)} | None"
        unfit = dict.fromkeys(np.flatnonzero(~column.valid).tolist(), why) | unfit
    if not one.is_lazy:
        return values, unfit | dict.fromkeys(beyond, f"column {one.name} does not fit in 64 bits")
    marks = np.full(column.height, PRESENT, np.int64)
    if column.valid is not None:
        marks[~column.valid] = NULL
    if column.scales is not None:
        values = (Datetimes if one.kind == "datetime" else Decimals)(values, column.scales)
    found = LazyColumn(values, marks)
    return (found.replaced(np.array(list(beyond), np.intp), list(beyond.values())) if beyond else found), unfit


def _fit(found: Atoms, unfit: _UNFIT) -> tuple[NDArray[np.intp], NDArray[np.int64], list[tuple[int, int, str]]]:
    """Records and places of the other rows, and those that are unfit."""
    rows, places = found.rows, found.places
    bad = [(int(rows[row]), int(places[row]), reason) for row, reason in sorted(unfit.items())]
    if unfit:
        keep = np.delete(np.arange(len(found)), list(unfit))
        rows, places = rows[keep], places[keep]
    return rows, places, bad


def _decoded(found: Atoms, plain: dict[str, Any], made: dict[str, Any], unfit: _UNFIT, of_rest: _UNFIT) -> Decoded[Any]:
    """Columns of all rows, and those made of all rows but ``of_rest``, without the unfit rows."""
    rows, places, bad = _fit(found, of_rest | unfit)
    if unfit or of_rest:
        rest = np.delete(np.arange(len(found)), list(of_rest))
        keep = np.delete(np.arange(len(found)), list(of_rest | unfit))
        plain = take_columns(plain, keep)
        made = take_columns(made, np.searchsorted(rest, keep))
    return Decoded(rows, columns={**plain, **made}, bad=found.bad, places=places, bad_events=bad)
