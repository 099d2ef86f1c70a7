"""The formats for atoms of Arrow: ``from holon.arrow import Arrow, ArrowColumns``. They need the extra ``arrow``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar, cast

import msgspec

from holon.columnar.atoms.columns import ABSENT, Column, Kind, Layout, Path
from holon.columnar.atoms.reader import AtomReader, Atoms, single, write_atom
from holon.columnar.structs.plan import structs_of
from holon.errors import JobError
from holon.formats.arrow_fields import LightRows, kind_refusal, refusal
from holon.formats.arrow_plan import (
    KINDS,
    Plain,
    Rest,
    Unfit,
    check_marks,
    check_struct,
    fit_rows,
    has_known_default,
    info_of,
    is_read_whole,
    plain_column,
    plain_kind,
    without_unfit,
)
from holon.formats.formats import Decoded, converted
from holon.formats.json_columns import JsonColumns
from holon.formats.record_fields import without_fields

__all__ = ["Arrow", "ArrowColumns", "write_atom"]

E = TypeVar("E")

_ROWS = "rows"


class _Reads:
    """The part that both formats of atoms share: which columns they read, and atoms as such."""

    compiled = True

    def __init__(self, plain: Sequence[Plain], rest: Sequence[Rest]) -> None:
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

    def _objects(self, columns: Mapping[str, Column], count: int, of: Any) -> tuple[list[Any], Unfit]:
        """The objects that the rest of the columns are, of each row that is fit; and the other rows."""
        unfit: Unfit = {}
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
            check_struct(self.type)
            plain, rest = self._of_struct()
        self._made = None if self._objects_as is None else JsonColumns[Any](self._objects_as)
        self._light: LightRows | None = None
        if self._objects_as is not None and rest[0].path != () and not hasattr(self._objects_as, "__post_init__"):
            self._light = LightRows(self._objects_as)
        self._lazy = frozenset(one.name for one in plain if one.is_lazy)
        super().__init__(plain, rest)

    def _of_mapping(self) -> tuple[list[Plain], list[Rest]]:
        plain: list[Plain] = []
        rest: list[Rest] = []
        fields: list[Any] = []
        for name, of in self.columns.items():
            path = tuple(name.split("."))
            kind, nullable = plain_kind(of, {**KINDS, datetime: "time"})
            if kind is not None:
                plain.append(Plain(name, path, kind, nullable))
                continue
            number = f"column_{len(fields)}"
            fields.append((number, of, msgspec.field(name=name)))
            self._names[number] = name
            rest.append(Rest(name, path, info_of(name, of)))
        if fields:
            self._objects_as = msgspec.defstruct("Columns", fields)
        return plain, rest

    def _of_struct(self) -> tuple[list[Plain], list[Rest]]:
        if is_read_whole(self.type):
            self._objects_as = self.type
            return [], [Rest(_ROWS, ())]
        plain: list[Plain] = []
        rest: list[Rest] = []
        checks_itself = hasattr(self.type, "__post_init__")
        for field in msgspec.structs.fields(self.type):
            kind, nullable = (None, False) if checks_itself else plain_kind(field.type, KINDS)
            if kind is not None and has_known_default(field, kind, nullable):
                default = field.default if field.default_factory is msgspec.NODEFAULT else ()
                plain.append(Plain(field.name, (field.encode_name,), kind, nullable, default))
            else:
                info = info_of(field.name, field.type)
                rest.append(Rest(field.encode_name, (field.encode_name,), info, not field.required))
        if rest:
            self._objects_as = without_fields(self.type, {one.name for one in plain}) if plain else self.type
        return plain, rest

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint."""
        if self.type is not None:
            return f"arrow columns {self.type!r}"
        named = {name: of.__name__ if of in KINDS else repr(of) for name, of in self.columns.items()}
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
        unfit: Unfit = {}
        for one in self._plain:
            column = read[one.name]
            if one.name in self._lazy or column.valid is not None or column.unfit or column.beyond:
                columns[one.name], more = plain_column(one, column)
                unfit = more | unfit
            else:
                columns[one.name] = column.numbers if column.texts is None else column.texts
        if self._made is None and not unfit:
            return Decoded(found.rows, columns=columns, bad=found.bad, places=found.places)
        return self._with_rest(found, read, columns, unfit)

    def _with_rest(self, found: Atoms, read: Mapping[str, Column], columns: dict[str, Any], unfit: Unfit) -> Decoded[E]:
        """With the columns that msgspec makes, and without the rows that are unfit."""
        made: dict[str, Any] = {}
        of_rest: Unfit = {}
        if self._made is not None:
            light = self._light_rows(read)
            objects, of_rest = (
                (light, of_rest) if light is not None else self._objects(read, len(found), self._objects_as)
            )
            made, large = self._made.columns_of(objects)
            if large:
                good = [row for row in range(len(found)) if row not in of_rest]
                of_rest |= {good[at]: why for at, why in large.items()}
        return without_unfit(found, columns, {self._full(n): column for n, column in made.items()}, unfit, of_rest)

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
        check_marks(type)
        rest = [Rest(_ROWS, ())]
        if structs_of(type) and not is_read_whole(type):
            check_struct(type)
            fields: Any = msgspec.structs.fields(type)  # type: ignore[arg-type]
            rest = [
                Rest(field.encode_name, (field.encode_name,), info_of(field.name, field.type), not field.required)
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
        rows, places, bad = fit_rows(found, unfit)
        return Decoded(rows, events=cast(list[E], events), bad=found.bad, places=places, bad_events=bad)
