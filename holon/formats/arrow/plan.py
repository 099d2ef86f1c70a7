"""How columns of Arrow are planned for the fields of a format, and made of what was read of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.columnar.atoms.columns import ITEMS, SCALED, Column, Kind, Path, Valid
from holon.columnar.atoms.reader import Atoms
from holon.columnar.structs.columns import Lists
from holon.columnar.structs.decimals import Decimals
from holon.columnar.structs.kinds import NULL, PRESENT
from holon.columnar.structs.lazy import LazyColumn
from holon.columnar.structs.plan import structs_of
from holon.columnar.structs.times import Datetimes
from holon.errors import JobError
from holon.formats.batch import take_columns
from holon.formats.formats import Decoded
from holon.formats.record_fields import RecordFields, refuse_marks

KINDS: dict[Any, Kind] = {
    int: "int", float: "float", bool: "bool", str: "text", datetime: "datetime", Decimal: "decimal",
    list[int]: "ints", list[float]: "floats", list[bool]: "bools", list[str]: "texts",
}  # fmt: skip
"""Types whose columns are numbers, texts, or lists of these."""
Unfit = dict[int, str]
Places = NDArray[np.int64]


class Plain(NamedTuple):
    """A column of numbers or texts. ``default``: that of its field, which batches may lack then."""

    name: str
    path: Path
    kind: Kind
    nullable: bool
    default: Any = msgspec.NODEFAULT

    @property
    def is_lazy(self) -> bool:
        """Whether its values are objects, made when they are read."""
        return self.nullable or self.kind in SCALED or self.kind in ITEMS


class Rest(NamedTuple):
    """Columns whose values are msgspec's to check; together they are a Struct."""

    name: str
    path: Path
    info: msgspec.inspect.Type | None = None
    may_lack: bool = False


_CONSTANT: tuple[Kind, ...] = ("int", "float", "bool", "text")
DEFAULTS: dict[Any, tuple[type, ...]] = {
    (kind, nullable): (*((of,) if kind in _CONSTANT else ()), *((type(None),) if nullable else ()))
    for of, kind in KINDS.items()
    for nullable in (False, True)
}
"""The types of defaults that a column of numbers or texts has a value for."""


def has_known_default(field: msgspec.structs.FieldInfo, kind: Kind, nullable: bool) -> bool:
    """Whether a column of its default can be made: there is none, it is a constant of its type, or an empty list."""
    if field.default_factory is not msgspec.NODEFAULT:
        return kind in ITEMS and field.default_factory is list
    return field.default is msgspec.NODEFAULT or type(field.default) in DEFAULTS[kind, nullable]


def plain_kind(of: Any, kinds: Mapping[Any, Kind]) -> tuple[Kind | None, bool]:
    """The kind of a column of numbers or texts, and whether it may be null; None where values are msgspec's."""
    if get_origin(of) in (Union, UnionType):
        options = [one for one in get_args(of) if one is not type(None)]
        if len(options) == 1 and len(get_args(of)) == 2:
            return plain_kind(options[0], kinds)[0], True
        return None, False
    try:
        return kinds.get(of), False
    except TypeError:  # no hash: it is none of them
        return None, False


def info_of(name: str, of: Any) -> msgspec.inspect.Type:
    """The type as msgspec has it; raises ``JobError`` where no column can be of it."""
    refuse_marks(of)
    try:
        info = msgspec.inspect.type_info(of)
    except TypeError as error:
        raise JobError(f"column {name!r} cannot be {of!r}: {error}") from error
    if isinstance(info, _WITHOUT_VALUES):
        raise JobError(f"column {name!r} cannot be {of!r}: msgspec makes no such object of Arrow's values")
    return info


_WITHOUT_VALUES = (msgspec.inspect.CustomType, msgspec.inspect.RawType, msgspec.inspect.ExtType)


def is_read_whole(of: Any) -> bool:
    """Whether all columns of a batch matter: where a row is one of several Structs, has a tag, or forbids others."""
    kinds = structs_of(of)
    configs = [kind.__struct_config__ for kind in kinds]
    return len(kinds) > 1 or any(one.tag is not None or one.forbid_unknown_fields for one in configs)


def check_struct(of: Any) -> None:
    """Raise ``JobError`` unless it is a Struct, or a union of these, that columns can be of."""
    kinds = structs_of(of)
    if not kinds:
        raise JobError(f"ArrowColumns needs types by the names of columns, or a msgspec.Struct, got {of!r}")
    for kind in kinds:
        if kind.__struct_config__.array_like:
            raise JobError(f"{kind.__name__} is array_like: it has no names for its fields, which columns are read by")
    check_marks(of)


def check_marks(of: Any) -> None:
    """Raise ``JobError`` if fields are marked."""
    if RecordFields.of(of) is not None:
        raise JobError(f"{of.__name__} has marked fields: Json and JsonColumns know them, formats of Arrow do not")


class Shaped(NamedTuple):
    """A column of values that lie in ``depth`` lists, of a kind as ``Lists`` has it; in none, it is any column.

    ``beyond``: ints of more than 64 bits, which lists have in place of the numbers at these rows.
    """

    column: Any
    kind: str = "list"
    depth: int = 0
    beyond: Mapping[int, Any] = MappingProxyType({})

    def objects(self) -> Any:
        """The column with the right value in each row."""
        if not self.beyond:
            return self.column
        marks = np.full(len(self.column), PRESENT, np.int64)
        rows = np.array(list(self.beyond), np.intp)
        return LazyColumn(self.column, marks).replaced(rows, list(self.beyond.values()))

    def in_lists(self, starts: Places, ends: Places, there: NDArray[np.bool_]) -> Shaped:
        """The column of lists of these values, None where no list is there."""
        others: list[Any] = [None]
        places = np.where(there, starts, -1)
        for row, _ in rows_with(self.beyond, starts, ends):
            items = range(int(starts[row]), int(ends[row]))
            others.append([self.beyond.get(at, int(self.column[at])) for at in items])
            places[row] = -len(others)
        return Shaped(Lists(self.kind, self.depth + 1, self.column, places, ends, others), self.kind, self.depth + 1)


def plain_column(
    one: Plain, column: Column, above: Valid = None, lacks: bool = False, in_list: bool = False
) -> tuple[Shaped, Unfit]:
    """The column as users get it, and the rows that are none.

    ``above``: the rows in which the Struct around it is there (None: all); ``lacks``: whether that one may be None.
    ``in_list``: ints of any size are values.
    """
    unfit = {row: f"column {one.name} is {why}" for row, why in (column.unfit or {}).items()}
    if not one.nullable and column.valid is not None:
        unfit = dict.fromkeys(nulls(column.valid, above), _null(one)) | unfit
    if one.kind in ITEMS:
        found, more = _lists(one, column, above)
        return found, unfit | more
    values = _values(column)
    beyond = column.beyond or {}
    if not (one.is_lazy or lacks):
        if in_list:
            return Shaped(values, one.kind, 0, beyond), unfit
        return Shaped(values, one.kind), unfit | dict.fromkeys(beyond, f"column {one.name} does not fit in 64 bits")
    marks = marks_of(column)
    if above is not None:
        marks[~above] = NULL
    if column.scales is not None:
        values = (Datetimes if one.kind == "datetime" else Decimals)(values, column.scales)
    lazy = LazyColumn(values, marks)
    return Shaped(lazy.replaced(np.array(list(beyond), np.intp), list(beyond.values())) if beyond else lazy), unfit


def marks_of(column: Column) -> NDArray[np.int64]:
    """Marks of rows as ``LazyColumn`` takes them: there, or null."""
    marks = np.full(column.height, PRESENT, np.int64)
    if column.valid is not None:
        marks[~column.valid] = NULL
    return marks


def _null(one: Plain) -> str:
    names = {"text": "str", "time": "datetime", "decimal": "Decimal"}
    of = ITEMS.get(one.kind, one.kind)
    declared = names.get(of, of) if of == one.kind else f"list[{names.get(of, of)}]"
    return f"column {one.name} is null: declare it as {declared} | None"


def _values(column: Column) -> Any:
    return column.numbers if column.texts is None else column.texts


def nulls(valid: NDArray[np.bool_], above: Valid) -> list[int]:
    """The rows that are null, and no Struct above them is."""
    return np.flatnonzero(~valid if above is None else ~valid & above).tolist()


def _lists(one: Plain, column: Column, above: Valid) -> tuple[Shaped, Unfit]:
    """A column of lists of numbers or texts, and the rows that have an item that is none."""
    items, spans = column.items, column.spans
    assert items is not None and spans is not None
    there = np.ones(column.height, np.bool_) if column.valid is None else column.valid
    why = dict.fromkeys([] if items.valid is None else np.flatnonzero(~items.valid).tolist(), "null") | dict(
        items.unfit or {}
    )
    unfit = {row: f"column {one.name} has an item that is {why[item]}" for row, item in rows_with(why, *spans)}
    inner = Shaped(_values(items), ITEMS[one.kind], 0, items.beyond or {})
    return inner.in_lists(*spans, there if above is None else there & above), unfit


def rows_with(items: Mapping[int, Any], starts: Places, ends: Places) -> list[tuple[int, int]]:
    """The rows whose lists have one of these items, and the first that each has."""
    if not items:
        return []
    known = np.array(sorted(items), np.int64)
    first = np.searchsorted(known, starts)
    rows = np.flatnonzero(np.searchsorted(known, ends) > first)
    return [(row, int(known[first[row]])) for row in rows.tolist()]


def fit_rows(found: Atoms, unfit: Unfit) -> tuple[NDArray[np.intp], NDArray[np.int64], list[tuple[int, int, str]]]:
    """Records and places of the other rows, and those that are unfit."""
    rows, places = found.rows, found.places
    bad = [(int(rows[row]), int(places[row]), reason) for row, reason in sorted(unfit.items())]
    if unfit:
        keep = np.delete(np.arange(len(found)), list(unfit))
        rows, places = rows[keep], places[keep]
    return rows, places, bad


def without_unfit(
    found: Atoms, plain: dict[str, Any], made: dict[str, Any], unfit: Unfit, of_rest: Unfit
) -> Decoded[Any]:
    """Columns of all rows, and those made of all rows but ``of_rest``, without the unfit rows."""
    rows, places, bad = fit_rows(found, of_rest | unfit)
    if unfit or of_rest:
        rest = np.delete(np.arange(len(found)), list(of_rest))
        keep = np.delete(np.arange(len(found)), list(of_rest | unfit))
        plain = take_columns(plain, keep)
        made = take_columns(made, np.searchsorted(rest, keep))
    return Decoded(rows, columns={**plain, **made}, bad=found.bad, places=places, bad_events=bad)
