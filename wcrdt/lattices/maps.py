"""``MapOf``: a map from keys to values of any one lattice, joined key by key."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, ClassVar, Generic, Self, TypeVar

from wcrdt.codec import element_from_wire, element_to_wire, require, rows_from_wire
from wcrdt.elements import Distinct, element_of, identity, ordered, plain, precedes
from wcrdt.lattice import Lattice, type_of_wire
from wcrdt.lattices.columns import Groups, group_by, height, int_column, rows_of, take
from wcrdt.lattices.folding import Folding, require_same

K = TypeVar("K")
IE = TypeVar("IE")
IV = TypeVar("IV")


class MapOf(Lattice[tuple[K, IE], dict[K, IV]], Generic[K, IE, IV]):
    """Key -> lattice of the shape of ``inner``: ``MapOf(Max()).insert((auction, price))``.

    A key is there once something was inserted under it, also where its value is still at the bottom. Keys are None,
    ints, text, bytes and tuples of these. Bools, floats and Decimals are refused: the value is a dict, to which
    ``True``, ``1.0`` and ``1`` are one key.
    """

    __slots__ = ("_entries", "_shape", "inner")
    tag: ClassVar[str] = "map"

    def __init__(self, inner: Lattice[IE, IV]) -> None:
        self.inner = inner.bottom()
        self._shape = [inner.tag, inner.shape()]
        self._entries: dict[Hashable, Lattice[IE, IV]] = {}

    def bottom(self) -> Self:
        fresh = type(self).__new__(type(self))
        fresh.inner = self.inner  # never inserted into, so it may be shared
        fresh._shape = self._shape
        fresh._entries = {}
        return fresh

    def shape(self) -> type_of_wire:
        return self._shape

    @property
    def gathers(self) -> bool:  # type: ignore[override]  # narrower than the class's default
        return self.inner.gathers

    def check(self, element: tuple[K, IE]) -> None:
        key, part = element
        self._entries.get(_key(key), self.inner).check(part)

    def insert(self, element: tuple[K, IE], *, actor: int = 0) -> Self:
        raw, part = element
        key = _key(raw)
        entry = self._entries.get(key)
        if entry is None:
            entry = self.inner.bottom()
        delta = self.bottom()
        delta._entries[key] = entry.insert(part, actor=actor)
        self._entries[key] = entry  # only now: a refused element leaves no key behind
        return delta

    def insert_many(self, elements: Any, *, actor: int = 0) -> Self:
        """Add columns ``(keys, parts)`` or rows of pairs, grouped by key.

        The delta has the keys that changed. Types that fold give their whole contribution there, others what was
        added; both give the state after when they are merged into the state before.
        """
        key_column, parts = _two_columns(elements)
        if height((key_column, parts)) == 0:
            return self.bottom()
        folds = isinstance(self.inner, Folding) and self.inner.folds
        keys, groups = _group(key_column, stable=not folds)
        if isinstance(self.inner, Folding) and folds:
            partials = self.inner.fold_groups(parts, groups)
            if partials is not None:
                return self._absorb(zip(keys, partials, strict=True), actor)
        grouped = [(key, take(parts, rows)) for key, rows in zip(keys, groups.members(), strict=True)]
        for key, part in grouped:
            self._entries.get(key, self.inner).check_many(part)
        delta = self.bottom()
        for key, part in grouped:
            delta._entries[key] = self._entry(key).insert_many(part, actor=actor)
        return delta

    def check_many(self, elements: Any) -> None:
        key_column, parts = _two_columns(elements)
        if height((key_column, parts)):
            keys, groups = _group(key_column)
            for key, rows in zip(keys, groups.members(), strict=True):
                self._entries.get(key, self.inner).check_many(take(parts, rows))

    def _absorb(self, folded: Iterable[tuple[Hashable, Any]], actor: int) -> Self:
        """Add one partial to each key."""
        entries, bottom = self._entries, self.inner.bottom
        delta = self.bottom()
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

    def merge(self, other: Self) -> bool:
        require_same(self, other)
        changed = False
        for key, theirs in other._entries.items():
            mine = self._entries.get(key)
            if mine is None:
                self._entries[key] = theirs.copy()
                changed = True
            elif mine.merge(theirs):
                changed = True
        return changed

    def leq(self, other: Self) -> bool:
        for key, mine in self._entries.items():
            theirs = other._entries.get(key)
            if theirs is None or not mine.leq(theirs):
                return False
        return True

    @property
    def value(self) -> dict[K, IV]:
        """Key -> value, in the order of keys."""
        return {key: self._entries[key].value for key in ordered(self._entries)}

    def get(self, key: K) -> IV | None:
        """The value under a key, None if there is none."""
        entry = self._entries.get(_key(key))
        return None if entry is None else entry.value

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return _key(key) in self._entries

    def restricted(self, keys: Iterable[K]) -> Self:
        """An independent map with those of these keys that are there."""
        part = self.bottom()
        for key in keys:
            entry = self._entries.get(_key(key))
            if entry is not None:
                part._entries[_key(key)] = entry.copy()
        return part

    def to_wire(self) -> type_of_wire:
        return [[element_to_wire(key), self._entries[key].to_wire()] for key in ordered(self._entries)]

    def from_wire(self, wire: type_of_wire) -> Self:
        fresh = self.bottom()
        keys: list[Any] = []
        for key, value in rows_from_wire(wire, 2):
            keys.append(element_from_wire(key))
            require(type(identity(keys[-1])) is not Distinct, "a bool, float or Decimal cannot be a key")
            fresh._entries[keys[-1]] = self.inner.from_wire(value)
        require(all(map(precedes, keys, keys[1:])), "keys must ascend, each once")
        return fresh


def _key(x: Any) -> Hashable:
    """The plain key, or ``TypeError`` for one that a dict would take for another."""
    key = identity(plain(x))
    if type(key) is Distinct:
        raise TypeError(f"{x!r} cannot be a key of a map: use ints, text, bytes or tuples of these (int(flag), str(x))")
    return key


def _group(column: Any, stable: bool = True) -> tuple[list[Hashable], Groups]:
    """Distinct keys of a column and their rows."""
    keys, groups = group_by(column, stable=stable)
    if int_column(column) is None:
        for key in keys:
            _key(element_of(key))
    return keys, groups


def _two_columns(elements: Any) -> tuple[Any, Any]:
    """Columns of keys and parts, from these or from rows of pairs."""
    if not isinstance(elements, tuple):
        rows = rows_of(elements)
        return [key for key, _ in rows], [part for _, part in rows]
    if len(elements) != 2:
        raise ValueError(f"a map takes a column of keys and a column of parts, not {len(elements)} columns")
    return elements
