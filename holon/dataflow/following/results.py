"""Results of functions that were followed, as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from holon.dataflow.expressions import Constant, Decision, Field, Fields, Indices, Leaf, decided, joined, leaf_column
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.following.path import expressions_of
from holon.dataflow.rows import OBJECTS, VALUE, Rows
from holon.formats.batch import Column


def struct_of(decision: Decision, *, without_none: bool = False) -> Any:
    """The Struct that all ways give; None if they give other values; objects if some do."""
    found = [leaf.struct for leaf in _leaves(decision) if not (without_none and _is_none(leaf))]
    return found[0] if found and all(other is found[0] for other in found) else OBJECTS


def _leaves(decision: Decision) -> list[Leaf]:
    if isinstance(decision, Leaf):
        return [decision]
    return _leaves(decision.then) + _leaves(decision.otherwise)


def _is_none(leaf: Leaf) -> bool:
    return isinstance(leaf.result, Constant) and leaf.result.value is None


def gives_rows(decision: Decision) -> bool:
    """Whether a result holds the row itself, as an object."""
    leaves = map(expressions_of, _leaves(decision))
    return any(isinstance(one, Field) and not one.path for made in leaves for one in made)


Ends = list[tuple[Indices, Leaf, Fields]]
"""The rows of each leaf: their places, and themselves."""


def mapped(decision: Decision, row_type: Any, rows: Rows) -> Rows:
    """The results of a function, as the columns of a Struct or of values, or as objects."""
    return _made(decided(decision, rows), row_type, rows)


def filter_mapped(decision: Decision, row_type: Any, rows: Rows) -> Rows:
    """As ``mapped``, without the rows of which the result is None."""
    ends = [(index, leaf, taken) for index, leaf, taken in decided(decision, rows) if not _is_none(leaf)]
    if not ends:
        return rows.take(np.empty(0, np.intp))
    kept = np.sort(np.concatenate([index for index, _, _ in ends]))
    if len(kept) < len(rows):
        rows = rows.take(kept)
        ends = [(np.searchsorted(kept, index), leaf, taken) for index, leaf, taken in ends]
    made = _made(ends, row_type, rows)
    if row_type is not OBJECTS and row_type is not None:
        return made
    values = made.field(())
    if isinstance(values, np.ndarray):
        return made
    there = [place for place, value in enumerate(as_list(values)) if value is not None]
    return made if len(there) == len(made) else made.take(np.array(there, np.intp))


def _made(ends: Ends, row_type: Any, rows: Rows) -> Rows:
    if row_type is OBJECTS or row_type is None:
        parts = [(index, leaf_column(leaf, taken)) for index, leaf, taken in ends]
        column = parts[0][1] if len(parts) == 1 else joined(parts, len(rows))
        return rows.replaced(objects=as_list(column)) if row_type is OBJECTS else rows.replaced(columns={VALUE: column})
    names: Sequence[str] = row_type.__struct_fields__
    return rows.replaced(columns={name: _joined_field(name, ends, rows) for name in names}, struct=row_type)


def _joined_field(name: str, ends: Ends, rows: Rows) -> Column:
    """One field of the Struct that all ways give; a field of the rows that each gives as it is stays as it is."""
    if len(ends) == 1:
        return leaf_column(ends[0][1].result[name], rows)  # type: ignore[index]
    leaves = [leaf.result[name] for _, leaf, _ in ends]  # type: ignore[index]
    paths = {one.result.path if isinstance(one.result, Field) else None for one in leaves}
    if len(paths) == 1 and None not in paths:
        return leaf_column(leaves[0], rows)
    return joined(
        [(index, leaf_column(one, taken)) for one, (index, _, taken) in zip(leaves, ends, strict=True)], len(rows)
    )
