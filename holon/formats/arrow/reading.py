"""How both formats of Arrow read atoms: which columns, where they lie, and what is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from holon.columnar.atoms.columns import ABSENT, Column, Kind, Layout, Path
from holon.columnar.atoms.reader import AtomReader, Atoms
from holon.columnar.atoms.writing import single
from holon.formats.arrow.fields import LightRows, kind_refusal, refusal
from holon.formats.arrow.nested import columns_of
from holon.formats.arrow.plan import (
    KINDS,
    Plain,
    Rest,
    Unfit,
    check_struct,
    has_known_default,
    info_of,
    is_read_whole,
    plain_column,
    plain_kind,
    without_unfit,
)
from holon.formats.arrow.structs import (
    Inner,
    Items,
    NotInPlace,
    Part,
    columns_in_place,
    is_in_place,
    layout_of,
    part_of,
    part_of_field,
)
from holon.formats.formats import Decoded, converted
from holon.formats.json_columns import JsonColumns
from holon.formats.record_fields import without_fields

E = TypeVar("E")

ROWS = "rows"
"""The name of the column that is all of a row."""


class ReadsAtoms:
    """The part that both formats of atoms share: which columns they read, and atoms as such."""

    def __init__(self, plain: Sequence[Plain], rest: Sequence[Rest], inner: Sequence[Inner | Items] = ()) -> None:
        self._plain, self._rest, self.inner = tuple(plain), tuple(rest), tuple(inner)
        self._inside: dict[str, tuple[Part, str]] = {
            part.name: (part, one.name) for one in inner for part in one.parts()
        }
        known = layout_of([*plain, *inner])
        objects: dict[str, tuple[Path, Kind]] = {one.name: (one.path, "object") for one in rest}
        absent = {one.name: ABSENT for one in rest if one.may_lack}
        self._reader = AtomReader(
            Layout(
                {**known.columns, **objects},
                refusal=self._refusal,
                defaults={**known.defaults, **absent},
                inside=known.inside,
            )
        )

    def events_in(self, payload: bytes) -> int:
        """How many rows an atom has; 1 if it is dead as a whole."""
        return self._reader.events_in(payload)

    def single(self, payload: bytes, place: int) -> bytes:
        """An atom of one row."""
        return single(self._reader.batches_of(payload), place)

    def _refusal(self, name: str, of: Any) -> str | None:
        """Why a column of a type cannot be read; raises ``NotInPlace`` for parts that are read otherwise."""
        if name in self._inside:
            part, whole = self._inside[name]
            if not is_in_place(part, of):
                raise NotInPlace(whole)
            return None
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


class ColumnsOfAtoms(ReadsAtoms, Generic[E]):
    """Rows as columns of a Struct, or of names.

    Structs, lists and maps are read where they lie, or ``NotInPlace`` is raised; but msgspec makes those named in
    ``by_msgspec`` (None: all).
    """

    def __init__(self, columns: Mapping[str, Any] | type[E] | Any, by_msgspec: frozenset[str] | None) -> None:
        self.type: Any = None if isinstance(columns, Mapping) else columns
        self.columns: dict[str, Any] = dict(columns) if isinstance(columns, Mapping) else {}
        self._by_msgspec = by_msgspec
        self._objects_as: Any = None
        self._names: dict[str, str] = {}
        if self.type is None:
            plain, inner, rest = self._of_mapping()
        else:
            check_struct(self.type)
            plain, inner, rest = self._of_struct()
        self._made = None if self._objects_as is None else JsonColumns[Any](self._objects_as)
        self._light: LightRows | None = None
        if self._objects_as is not None and rest[0].path != () and not hasattr(self._objects_as, "__post_init__"):
            self._light = LightRows(self._objects_as)
        self._lazy = frozenset(one.name for one in plain if one.is_lazy)
        super().__init__(plain, rest, inner)

    def _is_in_place(self, name: str) -> bool:
        return self._by_msgspec is not None and name not in self._by_msgspec

    def _of_mapping(self) -> tuple[list[Plain], list[Inner | Items], list[Rest]]:
        plain: list[Plain] = []
        inner: list[Inner | Items] = []
        rest: list[Rest] = []
        fields: list[Any] = []
        for name, of in self.columns.items():
            path = tuple(name.split("."))
            kind, nullable = plain_kind(of, {**KINDS, datetime: "time"})
            if kind is not None:
                plain.append(Plain(name, path, kind, nullable))
                continue
            if self._is_in_place(name) and (part := part_of(name, path, of)) is not None:
                inner.append(part)
                continue
            number = f"column_{len(fields)}"
            fields.append((number, of, msgspec.field(name=name)))
            self._names[number] = name
            rest.append(Rest(name, path, info_of(name, of)))
        if fields:
            self._objects_as = msgspec.defstruct("Columns", fields)
        return plain, inner, rest

    def _of_struct(self) -> tuple[list[Plain], list[Inner | Items], list[Rest]]:
        if is_read_whole(self.type):
            self._objects_as = self.type
            return [], [], [Rest(ROWS, ())]
        plain: list[Plain] = []
        inner: list[Inner | Items] = []
        rest: list[Rest] = []
        checks_itself = hasattr(self.type, "__post_init__")
        for field in msgspec.structs.fields(self.type):
            kind, nullable = (None, False) if checks_itself else plain_kind(field.type, KINDS)
            if kind is not None and has_known_default(field, kind, nullable):
                default = field.default if field.default_factory is msgspec.NODEFAULT else ()
                plain.append(Plain(field.name, (field.encode_name,), kind, nullable, default))
                continue
            part = None
            if self._is_in_place(field.name) and not checks_itself:
                part = part_of_field(field.name, (field.encode_name,), field)
            if part is not None:
                inner.append(part)
            else:
                info = info_of(field.name, field.type)
                rest.append(Rest(field.encode_name, (field.encode_name,), info, not field.required))
        if rest:
            others = {one.name for one in (*plain, *inner)}
            self._objects_as = without_fields(self.type, others) if others else self.type
        return plain, inner, rest

    def columns_read(self) -> list[tuple[str, str, bool]]:
        """Name and kind of each column, and whether it is read where it lies."""
        made = [] if self._made is None else self._made.columns_read()
        return [
            *((one.name, one.kind, True) for one in self._plain),
            *(each for part in self.inner for each in columns_in_place(part)),
            *((self._full(name), kind, False) for name, kind, _ in made),
        ]

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
                found_column, more = plain_column(one, column)
                columns[one.name] = found_column.column
                unfit = more | unfit
            else:
                columns[one.name] = column.numbers if column.texts is None else column.texts
        for part in self.inner:
            inside, more = columns_of(part, read)
            columns |= {name: one.column for name, one in inside.items()}
            unfit = more | unfit
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
