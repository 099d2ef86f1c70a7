"""Keys as columns: ints of 64 bits, texts, byte strings, and tuples of these, all of one form in one map.

``form`` names it: ``i``, ``s`` or ``b``, or for tuples the forms of their parts in parentheses. Keys of any other kind,
or of several, are no columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wcrdt.codec import require
from wcrdt.column_memory import kept
from wcrdt.distinct import numbered
from wcrdt.lattice import type_of_wire
from wcrdt.lattices.columns import Groups, Indices, Ints, bounds, group_ints, int_column, rows_of, take
from wcrdt.lattices.keyed.int_index import IntIndex, IntStore, factor
from wcrdt.lattices.keyed.packing import narrow, widened
from wcrdt.lattices.keyed.spans import KeySpans, SpanStore, equal, hashes, sort_columns

Part = Ints | KeySpans
_FORMS = "isb"
_INT64_MAX = 2**63 - 1
_COUNTED = 4
"""Codes up to so many times their number are grouped by counting, others by sorting."""
_WIDE, _SORTED = 2, 1 << 16
"""The order of an index is kept where it has at most so many times the keys that are read, and at most so many."""
_MIX = np.int64(0x2545_F491_4F6C_DD1D)


class Unfit(Exception):
    """Columns cannot hold this; objects can, or refuse it."""


class Keys(NamedTuple):
    """A column of keys."""

    form: str
    parts: list[Part]

    @property
    def rows(self) -> int:
        return _rows(self.parts[0])

    @property
    def size_bytes(self) -> int:
        """Memory of its arrays."""
        return sum(part.nbytes for part in self.parts)

    def take(self, rows: Indices) -> Keys:
        return Keys(self.form, [part.take(rows) if isinstance(part, KeySpans) else part[rows] for part in self.parts])

    def held(self) -> Keys:
        return Keys(self.form, [part.held() if isinstance(part, KeySpans) else kept(part) for part in self.parts])

    def tolist(self) -> list[Any]:
        columns = [_objects(form, part) for form, part in zip(self.form.strip("()"), self.parts, strict=True)]
        return columns[0] if len(self.form) == 1 else list(zip(*columns, strict=True))

    def order(self) -> Indices | None:
        """The rows in the order of keys; None where they are in order and differ."""
        columns = self.sort_columns()
        if ascend(columns):
            return None
        return np.argsort(columns[0]) if len(columns) == 1 else np.lexsort(columns[::-1])

    def sort_columns(self) -> list[Any]:
        """Columns to sort by, the first one first."""
        columns: list[Any] = []
        for part in self.parts:
            columns += sort_columns(part) if isinstance(part, KeySpans) else [part]
        return columns

    def joined(self, other: Keys) -> Keys:
        """The rows of both, in columns of their own. Raises ``Unfit`` for keys of another form."""
        if self.form != other.form:
            raise Unfit
        return Keys(self.form, [_joined(mine, theirs) for mine, theirs in zip(self.parts, other.parts, strict=True)])

    def to_wire(self, *, ascend: bool = False) -> list[type_of_wire]:
        """``[form, columns ...]``; ``ascend``: the caller knows that they are in their order."""
        wire: list[type_of_wire] = [self.form]
        ascend = ascend and self.form == "i"
        for part in self.parts:
            wire += [narrow(part.lengths), part.joined()] if isinstance(part, KeySpans) else [narrow(part, ascend)]
        return wire


def _joined(mine: Part, theirs: Part) -> Part:
    if not isinstance(mine, KeySpans) or not isinstance(theirs, KeySpans):
        return np.concatenate([mine, theirs])  # type: ignore[list-item]
    ends = np.cumsum(np.concatenate([mine.lengths, theirs.lengths]))
    buffer = np.frombuffer(mine.joined() + theirs.joined() + bytes(8), np.uint8)
    return KeySpans(buffer, np.concatenate([np.zeros(1, np.int64), ends[:-1]]), ends)


def keys_from_wire(wire: list[type_of_wire]) -> Keys:
    """Inverse of ``Keys.to_wire``, for at least one row, in any order. Raises as decoders do."""
    require(len(wire) > 0 and type(wire[0]) is str, "a form of keys was expected")
    form, rest = wire[0], list(wire[1:])
    forms = form.strip("()")
    require(form in (*_FORMS, f"({forms})") and set(forms) <= set(_FORMS) and len(forms) > 0, "no form of keys")
    parts: list[Part] = []
    for one in forms:
        require(len(rest) >= (1 if one == "i" else 2), "a column of keys is missing")
        column = widened(rest.pop(0))
        if one == "i":
            parts.append(column)
            continue
        data = rest.pop(0)
        require(type(data) is bytes and bool((column >= 0).all()), "lengths of keys are negative")
        ends = np.cumsum(column)
        require(len(ends) > 0 and int(ends[-1]) == len(data), "the keys are not as long as they are to be")
        spans = KeySpans(np.frombuffer(data + bytes(8), np.uint8), ends - column, ends)
        if one == "s":
            check_texts(spans)
        parts.append(spans)
    keys = Keys(form, parts)
    require(not rest and all(_rows(part) == keys.rows for part in parts), "columns of keys differ in length")
    require(keys.rows > 0, "no keys are no columns")
    return keys


def _rows(part: Part) -> int:
    return part.rows if isinstance(part, KeySpans) else len(part)


def _objects(form: str, part: Part) -> list[Any]:
    if not isinstance(part, KeySpans):
        return part.tolist()
    return [row.decode() for row in part.tolist()] if form == "s" else part.tolist()


def ascend(columns: list[Any]) -> bool:
    """Whether each row is above the one before it."""
    if len(columns) == 1:
        return bool((columns[0][1:] > columns[0][:-1]).all())
    tied: Any = True
    rises: Any = False
    for column in columns:
        rises = rises | (tied & (column[1:] > column[:-1]))
        tied = tied & (column[1:] == column[:-1])
    return bool(np.all(rises))


def check_texts(spans: KeySpans) -> None:
    """Raise ``UnicodeDecodeError``, a ``ValueError``, unless each row is a text of its own."""
    if not spans.rows or spans.are_texts or spans.surroundings_are_ascii():
        return
    data = spans.joined()
    if not data.isascii():
        for row in spans.tolist():
            row.decode()


def check_all_texts(keys: Keys) -> None:
    """Raise ``Unfit`` unless each text among these keys is one: objects refuse the element that it is not."""
    for form, part in zip(keys.form.strip("()"), keys.parts, strict=True):
        if form == "s" and isinstance(part, KeySpans):
            try:
                check_texts(part)
            except UnicodeDecodeError as error:
                raise Unfit from error


def key_columns(column: Any) -> Keys | None:
    """A column of keys of any sort as columns, row by row; None where they are of other kinds, or of several."""
    numbers = int_column(column)
    if numbers is not None:
        return Keys("i", [numbers])
    if isinstance(column, tuple):
        found = [key_columns(part) for part in column]
        if not found or any(part is None or len(part.form) > 1 for part in found):
            return None
        known = [part for part in found if part is not None]
        return Keys(f"({''.join(part.form for part in known)})", [part.parts[0] for part in known])
    if (utf8 := getattr(column, "utf8", None)) is not None:
        return Keys("s", [KeySpans(*utf8())])
    return _of_rows(rows_of(column))


def _of_rows(rows: Sequence[Any]) -> Keys | None:
    kinds = set(map(type, rows))
    if kinds == {int}:
        try:
            return Keys("i", [np.array(rows, np.int64)])
        except OverflowError:
            return None
    if kinds == {str}:
        try:
            return Keys("s", [KeySpans.of([row.encode() for row in rows])])
        except UnicodeEncodeError:
            return None
    if kinds == {bytes}:
        return Keys("b", [KeySpans.of(rows)])
    if kinds == {tuple} and {len(row) for row in rows} == {len(rows[0])} and len(rows[0]):
        return key_columns(tuple(map(list, zip(*rows, strict=True))))
    return None


def grouped(column: Any) -> tuple[Keys, Groups] | None:
    """The distinct keys of a column of at least one row, and the groups of its rows in the same order.

    None where the keys are no columns. Rows of a group are in any order.
    """
    numbers = int_column(column)
    if numbers is not None:
        low, high = bounds(numbers)
        if high - low < _COUNTED * len(numbers):
            groups, present = Groups.of_codes(numbers - low if low else numbers)
            return Keys("i", [present + low]), groups
    elif (known := _numbered_rows(column)) is not None:
        keys = key_columns(take(column, known[1]))
        return None if keys is None else (keys, Groups.of_codes(known[0])[0])
    else:
        coded = _codes(column)
        if coded is None:
            return None
        numbers = coded[0]
        if coded[1] <= _COUNTED * len(numbers):
            groups, _ = Groups.of_codes(numbers)
            keys = key_columns(take(column, groups.one_of_each()))
            return None if keys is None else (keys, groups)
    groups = group_ints(numbers, stable=False)
    keys = key_columns(take(column, groups.one_of_each()))
    return None if keys is None else (keys, groups)


def numbered_keys(column: Any) -> tuple[Keys, Ints] | None:
    """The distinct keys of a column of at least one row, in any order, and for each row the place of its key there.

    None where the keys are no columns.
    """
    numbers = int_column(column)
    if numbers is not None:
        low, high = int(numbers.min()), int(numbers.max())
        if high - low >= _COUNTED * len(numbers):
            values, places = numbered(numbers)
            return Keys("i", [values]), places
        codes, size = numbers - low, high - low + 1
    else:
        coded = _codes(column)
        if coded is None:
            return None
        codes, size = coded
        if size > _COUNTED * len(codes):
            values, codes = numbered(codes)
            size = len(values)
    row_of = np.full(size, -1)
    row_of[codes] = np.arange(len(codes))
    present = row_of >= 0
    keys = key_columns(take(column, row_of[present]))
    return None if keys is None else (keys, (np.cumsum(present) - 1)[codes])


def _codes(column: Any) -> tuple[Ints, int] | None:
    """A number for each row, the same for equal keys alone, and one that is above all of them."""
    if isinstance(column, tuple):
        return _codes_of_tuples(column)
    numbers = int_column(column)
    if numbers is not None:
        low, high = int(numbers.min()), int(numbers.max())
        if high - low < 2**31:
            return numbers - low, high - low + 1
        return numbered(numbers)[1], len(numbers)
    if (known := _numbered_rows(column)) is not None:
        return known[0], len(known[1])
    rows = rows_of(column)
    kinds = set(map(type, rows))
    if kinds == {tuple}:
        return _codes_of_tuples(tuple(map(list, zip(*rows, strict=True)))) if len(set(map(len, rows))) == 1 else None
    if len(kinds) != 1 or not kinds <= {str, int, bytes}:
        return None
    found: dict[Any, int] = {}
    return np.fromiter((found.setdefault(row, len(found)) for row in rows), np.int64, len(rows)), len(found)


def _numbered_rows(column: Any) -> tuple[Ints, Ints] | None:
    """A number from 0 for each row, and the first row of each number, where the column knows them."""
    rows_numbered = getattr(column, "numbered_rows", None)
    return None if rows_numbered is None else rows_numbered()


def _codes_of_tuples(columns: tuple[Any, ...]) -> tuple[Ints, int] | None:
    codes, size = np.zeros(1, np.int64), 1
    for column in columns:
        coded = None if isinstance(column, tuple) else _codes(column)
        if coded is None:
            return None
        if size * coded[1] > _INT64_MAX:
            distinct, codes = numbered(codes)
            size = len(distinct)
        codes, size = codes * coded[1] + coded[0], size * coded[1]
    return (codes, size) if columns else None


class KeyIndex:
    """Distinct keys of one form, by the place at which each was added; nothing is ever removed."""

    __slots__ = ("_factor", "_numbers", "_order", "_stores", "form", "shards")

    def __init__(self, form: str) -> None:
        self.form = form
        self._factor = factor()
        self._stores = [IntStore() if one == "i" else SpanStore() for one in form.strip("()")] if form != "i" else []
        self._numbers = IntIndex() if form == "i" else None  # the keys where they are ints, else made when needed
        self._order: Ints | None = None  # all places in the order of their keys, as far as they were sorted
        self.shards: Any = None  # ``KnownShards`` of its keys, where they were asked for

    @classmethod
    def of(cls, keys: Keys) -> KeyIndex:
        """An index of distinct keys, in their order."""
        made = cls(keys.form)
        if made._numbers is not None:
            made._numbers = IntIndex(_numbers_of(keys, made._factor))
        for store, part in zip(made._stores, keys.parts, strict=False):
            store.add(part)  # type: ignore[arg-type]
        return made

    def _known(self) -> IntIndex:
        if self._numbers is None:
            self._numbers = IntIndex(_numbers_of(self.take(slice(None)), self._factor))
        return self._numbers

    @property
    def count(self) -> int:
        return self._stores[0].count if self._stores else self._known().count

    @property
    def size_bytes(self) -> int:
        """Memory of its arrays."""
        numbers = 0 if self._numbers is None else self._numbers.size_bytes
        order = 0 if self._order is None else self._order.nbytes
        shards = 0 if self.shards is None else self.shards.column.nbytes
        return numbers + order + shards + sum(store.size_bytes for store in self._stores)

    def take(self, rows: Any) -> Keys:
        """The keys at an index or a slice of places."""
        if self.form == "i":
            return Keys("i", [self._known().keys[rows]])
        return Keys(self.form, [store.take(rows) for store in self._stores])

    def ascending(self, rows: int) -> Ints | None:
        """All places in the order of their keys, if ``rows`` of them are sorted more cheaply by that than alone."""
        if self.form == "i":
            return self._known().ascending()
        count = self.count
        if count > min(_WIDE * rows, _SORTED):
            return None
        if self._order is None or len(self._order) != count:
            order = self.take(slice(None)).order()
            self._order = np.arange(count) if order is None else order
        return self._order

    def find(self, keys: Keys) -> tuple[Ints, Ints]:
        """The place of each key, -1 where it is not there, and the numbers by which ``add`` adds those.

        Where two keys have the same number, the later one has one of the next.
        """
        numbers = _numbers_of(keys, self._factor)
        known = self._known()
        places = known.find(numbers)
        if self.form == "i":
            return places, numbers
        rows = np.flatnonzero(places >= 0)
        while len(rows):
            rows = rows[~self._holds(places[rows], keys.take(rows))]
            if not len(rows):
                break
            numbers[rows] += 1
            places[rows] = known.find(numbers[rows])
            rows = rows[places[rows] >= 0]
        return places, numbers

    def _holds(self, places: Ints, keys: Keys) -> Any:
        same: Any = True
        for store, part in zip(self._stores, keys.parts, strict=True):
            mine = store.take(places)
            same = same & (equal(mine, part) if isinstance(part, KeySpans) else mine == part)  # type: ignore[arg-type]
        return same

    def add(self, keys: Keys, numbers: Ints) -> None:
        """Add keys that are not there, each once, at the next places."""
        known = self._known()
        for store, part in zip(self._stores, keys.parts, strict=False):
            store.add(part)  # type: ignore[arg-type]
        known.add(numbers)


def _numbers_of(keys: Keys, factor: np.uint64) -> Ints:
    """The key where it is an int, else a number that equal keys share; a new column."""
    numbers: Ints | None = None
    for part in keys.parts:
        own = hashes(part, factor) if isinstance(part, KeySpans) else part
        numbers = own.copy() if numbers is None else (numbers ^ (numbers >> 29)) * _MIX + own
    assert numbers is not None
    return numbers
