"""``MapOf`` and ``ColumnsOf``: maps from keys to values of any one lattice, joined key by key."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, ClassVar, Generic, Self, TypeVar

from wcrdt.codec import element_from_wire, element_to_wire, require, rows_from_wire
from wcrdt.column_memory import may_stay
from wcrdt.elements import Distinct, identity, ordered, precedes
from wcrdt.lattice import Lattice, hands_over, type_of_wire
from wcrdt.lattices.columns import Groups, height, take
from wcrdt.lattices.folding import Folding, require_combining, require_same
from wcrdt.lattices.keyed.columns import KeyedColumns, columns_from_wire, combined
from wcrdt.lattices.keyed.elements import (
    FEW_ROWS,
    check_rows,
    few_folded,
    few_inserted,
    grouped_keys,
    key_of,
    pair_of,
    two_columns,
)
from wcrdt.lattices.keyed.keys import KeyIndex, Keys, Unfit, grouped
from wcrdt.lattices.keyed.records import leaf_of
from wcrdt.lattices.keyed.view import KeyedView

K = TypeVar("K")
IE = TypeVar("IE")
IV = TypeVar("IV")
V = TypeVar("V")

LEAST_KEYS = 64
"""A map with fewer keys stays one of objects, which is quicker then."""
LEAST_KEYS_ON_WIRE = 16
"""With so many keys a map is written as columns, whatever form it has."""


class KeyedMap(Lattice[tuple[K, IE], V], Generic[K, IE, IV, V]):
    """Key -> lattice of the shape of ``inner``; what is read, V, is up to the subclass.

    A key is there once something was inserted under it, also where its value is still at the bottom. Keys are None,
    ints, text, bytes and tuples of these. Bools, floats and Decimals are refused: the value is a dict, to which
    ``True``, ``1.0`` and ``1`` are one key.

    Where the values under the keys can be columns (``keyed/records.py``), and many columns of elements come, the map is
    arrays in place of an object a key. Its entries then hold the keys that came one by one since, and lie above the
    columns. The form changes neither values nor bytes.
    """

    __slots__ = ("_columns", "_entries", "_leaf", "_mixed", "_shape", "_wire", "inner")
    tag: ClassVar[str] = "map"

    def __init__(self, inner: Lattice[IE, IV]) -> None:
        self.inner = inner.bottom()
        self._shape = [inner.tag, inner.shape()]
        self._leaf = leaf_of(self.inner)
        self._entries: dict[Hashable, Lattice[IE, IV]] = {}
        self._columns: KeyedColumns | None = None
        self._mixed = False  # has held what columns cannot hold
        self._wire: list[type_of_wire] | None = None  # of columns that have not changed since: not to be written

    def bottom(self) -> Self:
        fresh = type(self).__new__(type(self))
        fresh.inner = self.inner  # never inserted into, so it may be shared
        fresh._shape, fresh._leaf = self._shape, self._leaf
        fresh._entries, fresh._columns = {}, None
        fresh._mixed, fresh._wire = False, None
        return fresh

    def shape(self) -> type_of_wire:
        return self._shape

    @property
    def gathers(self) -> bool:  # type: ignore[override]  # narrower than the class's default
        return self.inner.gathers

    # --- inserting ------------------------------------------------------------------------------------------------

    def check(self, element: tuple[K, IE]) -> None:
        raw, part = pair_of(element)
        self._entries.get(key_of(raw), self.inner).check(part)

    def insert(self, element: tuple[K, IE], *, actor: int = 0) -> Self:
        raw, part = pair_of(element)
        entry = self._found(key := key_of(raw))
        if entry is None:
            entry = self.inner.bottom()
        delta = self.bottom()
        delta._entries[key] = entry.insert(part, actor=actor)
        self._wire = None
        self._entries[key] = entry  # only now: a refused element leaves no key behind
        return delta

    def insert_many(self, elements: Any, *, actor: int = 0) -> Self:
        """Add columns ``(keys, parts)`` or rows of pairs, grouped by key.

        The delta has the keys that changed: of types that fold their whole contribution, of others what was added.
        """
        key_column, parts = two_columns(elements)
        if not (rows := height((key_column, parts))):
            return self.bottom()
        self._wire = None
        if self._columns is None and rows <= FEW_ROWS and len(self._entries) + rows < LEAST_KEYS:
            if isinstance(self.inner, Folding) and self.inner.folds:
                return self._absorb(few_folded(self.inner, key_column, parts), actor)
            return self.of_entries(few_inserted(self.inner, self._entries, (key_column, parts), actor))
        known = grouped(key_column) if self._leaf is not None and not self._mixed else None
        if known is not None and (self._columns or len(self._entries) + known[0].rows >= LEAST_KEYS):
            delta = self._insert_columns(*known, parts, actor)
            if delta is not None:
                return delta
            self.check_many((key_column, parts))
        if self._columns is not None:
            self._to_objects()
        return self._insert_objects(key_column, parts, known, actor)

    def _insert_columns(self, keys: Keys, groups: Groups, parts: Any, actor: int) -> Self | None:
        """The delta; None where columns cannot hold that, or refuse it."""
        assert self._leaf is not None
        try:
            columns = self._settled() or KeyedColumns(KeyIndex(keys.form), self._leaf.empty(), 0)
            changes = columns.insert_many(keys, groups, parts, actor)
        except Unfit:
            return None
        self._columns = columns
        return self.of_columns(changes) if changes.height else self.bottom()

    def _insert_objects(self, key_column: Any, parts: Any, known: tuple[Keys, Groups] | None, actor: int) -> Self:
        folds = isinstance(self.inner, Folding) and self.inner.folds
        keys, groups = grouped_keys(key_column, stable=not folds) if known is None else (known[0].tolist(), known[1])
        partials = self.inner.fold_groups(parts, groups) if isinstance(self.inner, Folding) and folds else None
        if partials is not None:
            return self._absorb(zip(keys, partials, strict=True), actor)
        grouped_parts = [(key, take(parts, rows)) for key, rows in zip(keys, groups.members(), strict=True)]
        for key, part in grouped_parts:
            self._entries.get(key, self.inner).check_many(part)
        return self.of_entries({key: self._entry(key).insert_many(part, actor=actor) for key, part in grouped_parts})

    def check_many(self, elements: Any) -> None:
        check_rows(self._entries, self.inner, *two_columns(elements))

    def _absorb(self, folded: Iterable[tuple[Hashable, Any]], actor: int) -> Self:
        """Add one partial to each key."""
        entries, bottom, delta = self._entries, self.inner.bottom, self.bottom()
        changed_entries = delta._entries
        for key, partial in folded:
            entry: Any = entries.get(key)
            if entry is None:
                entry = entries[key] = bottom()
                entry.absorb(partial, actor)
            elif not entry.absorb(partial, actor):
                continue
            changed_entries[key] = entry.own(actor)
        return delta

    def _entry(self, key: Hashable) -> Lattice[IE, IV]:
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = self.inner.bottom()
        return entry

    # --- forms ----------------------------------------------------------------------------------------------------

    @property
    def held_as_columns(self) -> bool:
        """Whether arrays hold it, but for keys that came one by one since."""
        return self._columns is not None

    @property
    def hands_over(self) -> bool:  # type: ignore[override]
        return not self._entries or hands_over(self.inner)

    def _found(self, key: Hashable) -> Lattice[IE, IV] | None:
        """The entry of a key, a new one where it is in columns."""
        entry = self._entries.get(key)
        if entry is None and self._columns is not None:
            rows = self._columns.row_of(key)
            return self._columns.leaf.lattices(rows)[0] if len(rows) else None
        return entry

    def _settled(self) -> KeyedColumns | None:
        """All that the map holds, as columns, which it goes on with; None while empty. Raises ``Unfit``."""
        if not self._entries:
            return self._columns
        if self._leaf is None or self._mixed:
            raise Unfit
        try:
            above = KeyedColumns.of_objects(self._entries, self._leaf)
            if self._columns is None:
                self._columns = above
            else:
                self._columns.merge(above)
        except Unfit:
            self._mixed = True
            raise
        self._entries = {}
        return self._columns

    def as_columns(self) -> KeyedColumns | None:
        """All of it, not to be written; a small map stays one of objects. None while empty; raises ``Unfit``."""
        if self._columns is not None or self._leaf is None or not self._entries:
            return self._settled()
        return KeyedColumns.of_objects(self._entries, self._leaf)

    def _objects(self) -> dict[Any, Lattice[IE, IV]]:
        """All that the map holds, as objects; those of columns are new ones."""
        return self._entries if self._columns is None else {**self._columns.objects(), **self._entries}

    def entries(self) -> dict[Any, Lattice[IE, IV]]:
        """A lattice for each key; not to be written."""
        return self._objects()

    def entries_where(self, chosen: Callable[[K], bool]) -> dict[K, Lattice[IE, IV]]:
        """A lattice for each of the chosen keys; not to be written. Those of other keys are not made."""
        found = {} if self._columns is None else self._columns.objects(chosen)
        return found | {key: entry for key, entry in self._entries.items() if chosen(key)}  # type: ignore[arg-type]

    def of_columns(self, columns: KeyedColumns) -> Self:
        """A map of the same shape that takes over these columns."""
        fresh = self.bottom()
        fresh._columns = columns
        return fresh

    def of_entries(self, entries: dict[Any, Lattice[IE, IV]]) -> Self:
        """A map of the same shape that takes over these entries, whose keys are plain."""
        fresh = self.bottom()
        fresh._entries = entries
        return fresh

    def _to_objects(self) -> None:
        self._entries, self._columns = self._objects(), None

    # --- joining --------------------------------------------------------------------------------------------------

    def merge(self, other: Self) -> bool:
        require_same(self, other)
        changed = self._merge(other)
        if changed:
            self._wire = None
        return changed

    def _merge(self, other: Self) -> bool:
        if self._columns is not None or other._columns is not None:
            try:
                theirs = other.as_columns()
                if theirs is None:
                    return False
                mine = self._settled()
                if mine is not None:
                    return mine.merge(theirs)
                self._columns = theirs.copy()
                return True
            except Unfit:
                self._to_objects()
        changed = False
        for key, theirs in other._objects().items():
            mine = self._entries.get(key)
            if mine is None:
                self._entries[key] = theirs.copy()
                changed = True
            elif mine.merge(theirs):
                changed = True
        return changed

    @property
    def combines(self) -> bool:  # type: ignore[override]
        return self.inner.combines

    def combine(self, other: Self) -> None:
        """Key by key; the keys of a counter have one actor then."""
        require_combining(self, other)
        self._wire = None
        if self._columns is not None or other._columns is not None:
            try:
                self._columns = combined(self._settled(), other.as_columns())
                return
            except Unfit:
                pass
        entries = self._objects()
        self._entries, self._columns = {}, None
        for key, part in [*entries.items(), *other._objects().items()]:
            self._entry(key).combine(part)

    def leq(self, other: Self) -> bool:
        if self._columns is not None or other._columns is not None:
            try:
                mine, theirs = self.as_columns(), other.as_columns()
                return mine is None or (theirs is not None and mine.leq(theirs))
            except Unfit:
                pass
        others = other._objects()
        for key, mine in self._objects().items():
            theirs = others.get(key)
            if theirs is None or not mine.leq(theirs):
                return False
        return True

    # --- reading --------------------------------------------------------------------------------------------------

    def _read(self) -> dict[K, IV]:
        """Key -> value, in the order of keys."""
        entries = self._entries
        if self._columns is not None:
            try:
                columns = self._settled()
                return {} if columns is None else columns.value()
            except Unfit:
                entries = self._objects()
        return {key: entries[key].value for key in ordered(entries)}

    def get(self, key: K) -> IV | None:
        """The value under a key, None if there is none."""
        entry = self._found(key_of(key))
        return None if entry is None else entry.value

    def __len__(self) -> int:
        if self._columns is None:
            return len(self._entries)
        return self._columns.height + sum(not len(self._columns.row_of(key)) for key in self._entries)

    def __contains__(self, key: object) -> bool:
        return self._found(key_of(key)) is not None

    def restricted(self, keys: Iterable[K]) -> Self:
        """An independent map with those of these keys that are there."""
        part = self.bottom()
        for key in keys:
            entry = self._found(key_of(key))
            if entry is not None:
                part._entries[key_of(key)] = entry.copy()
        return part

    # --- wire -----------------------------------------------------------------------------------------------------

    def to_wire(self) -> type_of_wire:
        """Columns where there are many keys and columns can hold them, else a list of keys with their values.

        Columns are made once until they change: a checkpoint pays for the windows that have changed since the last one.
        """
        if self._wire is not None:
            return self._wire
        if self._leaf is not None and (self._columns or len(self._entries) >= LEAST_KEYS_ON_WIRE):
            try:
                columns = self.as_columns()
                if columns is not None and columns.height >= LEAST_KEYS_ON_WIRE:
                    wire = columns.to_wire()
                    self._wire = wire if may_stay(columns.size_bytes) else None
                    return wire
            except Unfit:
                pass
        entries = self._objects()
        return [[element_to_wire(key), entries[key].to_wire()] for key in ordered(entries)]

    def former_wire(self) -> type_of_wire:
        entries = self._objects()
        return [[element_to_wire(key), entries[key].former_wire()] for key in ordered(entries)]

    def from_wire(self, wire: type_of_wire) -> Self:
        fresh = self.bottom()
        if self._leaf is not None and type(wire) is list and len(wire) > 0 and type(wire[0]) is int:
            fresh._columns = columns_from_wire(wire, self._leaf)
            require(fresh._columns.height >= LEAST_KEYS_ON_WIRE, "so few keys are no columns")
            return fresh
        keys: list[Any] = []
        for key, value in rows_from_wire(wire, 2):
            keys.append(element_from_wire(key))
            require(type(identity(keys[-1])) is not Distinct, "a bool, float or Decimal cannot be a key")
            fresh._entries[keys[-1]] = self.inner.from_wire(value)
        require(all(map(precedes, keys, keys[1:])), "keys must ascend, each once")
        return fresh


class MapOf(KeyedMap[K, IE, IV, dict[K, IV]]):
    """Key -> lattice of the shape of ``inner``: ``MapOf(Max()).insert((auction, price))``."""

    __slots__ = ()

    @property
    def value(self) -> dict[K, IV]:
        """Key -> value, in the order of keys."""
        return self._read()


class ColumnsOf(KeyedMap[K, IE, IV, KeyedView[K, IV]]):
    """A ``MapOf`` that is read as columns: ``keys, counts = value.columns()``; of the same state and bytes."""

    __slots__ = ()

    @property
    def value(self) -> KeyedView[K, IV]:
        """Key -> value, in the order of keys, and both as columns."""
        try:
            columns = self.as_columns()
        except Unfit:
            return KeyedView(None, self._read())
        if columns is None:
            return KeyedView(None, {})
        return KeyedView(columns.copy() if columns is self._columns else columns)
