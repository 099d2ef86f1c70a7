"""Keys and parts of the elements of a map, from rows of pairs or from two columns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from wcrdt.elements import Distinct, element_of, identity, plain
from wcrdt.lattice import Lattice
from wcrdt.lattices.columns import Groups, are_known_elements, group_by, height, int_column, rows_of, take
from wcrdt.lattices.folding import Folding

FEW_ROWS = 16
"""So many rows cost less one by one than grouped."""


def key_of(x: Any) -> Hashable:
    """The plain key, or ``TypeError`` for one that a dict would take for another."""
    key = identity(plain(x))
    if type(key) is Distinct:
        raise TypeError(f"{x!r} cannot be a key of a map: use ints, text, bytes or tuples of these (int(flag), str(x))")
    return key


def pair_of(element: Any) -> tuple[Any, Any]:
    """Key and element of what is inserted into a map; ``TypeError`` for anything but a pair."""
    try:
        key, part = element
    except (TypeError, ValueError):
        raise TypeError(f"a map takes a pair, as (key, 1), not {element!r:.200}") from None
    return key, part


def grouped_keys(column: Any, stable: bool = True) -> tuple[list[Hashable], Groups]:
    """Distinct keys of a column and their rows."""
    keys, groups = group_by(column, stable=stable)
    if int_column(column) is None:
        for key in keys:
            key_of(element_of(key))
    return keys, groups


def few_folded(inner: Folding[Any, Any], keys: Any, parts: Any) -> list[tuple[Hashable, Any]]:
    """Of each row its key and its part as a partial."""
    return list(zip(map(key_of, rows_of(keys)), map(inner.fold, rows_of(parts)), strict=True))


def few_inserted(
    inner: Lattice[Any, Any], entries: dict[Hashable, Any], elements: tuple[Any, Any], actor: int
) -> dict[Hashable, Any]:
    """Insert rows without columns of them, all or none; returns what was added, by key."""
    by_key: dict[Hashable, list[Any]] = {}
    for key, part in zip(map(key_of, rows_of(elements[0])), rows_of(elements[1]), strict=True):
        by_key.setdefault(key, []).append(part)
    for key, few in by_key.items():
        entry = entries.get(key, inner)
        if len(few) == 1:
            entry.check(few[0])
        else:
            entry.check_many(few)  # one may only be right behind another, as edits of a text
    added: dict[Hashable, Any] = {}
    for key, few in by_key.items():
        entry = entries.get(key)
        if entry is None:
            entry = entries[key] = inner.bottom()
        added[key] = entry.insert(few[0], actor=actor) if len(few) == 1 else entry.insert_many(few, actor=actor)
    return added


def check_rows(entries: Mapping[Hashable, Lattice[Any, Any]], inner: Lattice[Any, Any], keys: Any, parts: Any) -> None:
    """Raise what inserting columns of keys and parts into these entries would."""
    if not height((keys, parts)):
        return
    if inner.gathers and are_known_elements(keys):  # then neither a key nor what is there already matters
        inner.check_many(parts)
        return
    each, groups = grouped_keys(keys)
    for key, rows in zip(each, groups.members(), strict=True):
        entries.get(key, inner).check_many(take(parts, rows))


def two_columns(elements: Any) -> tuple[Any, Any]:
    """Columns of keys and parts, from these or from rows of pairs."""
    if not isinstance(elements, tuple):
        rows = rows_of(elements)
        return [key for key, _ in rows], [part for _, part in rows]
    if len(elements) != 2:
        raise ValueError(f"a map takes a column of keys and a column of parts, not {len(elements)} columns")
    return elements
