"""Results of functions that were followed, as rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from holon.columnar.event_types import field_names
from holon.dataflow.dict_rows import TupleRow, in_common, tuples_in_common
from holon.dataflow.expressions import (
    Constant,
    Decision,
    Field,
    Fields,
    Indices,
    Leaf,
    decided,
    evaluate,
    in_order,
    joined,
    leaf_column,
)
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.following.loops.ends import turns_of
from holon.dataflow.following.loops.loop import (
    CarriedOf,
    Carries,
    Computed,
    Effects,
    ItemOf,
    Loop,
    PlaceOf,
    Yield,
    notes_in,
)
from holon.dataflow.following.path import expressions_of
from holon.dataflow.rows import OBJECTS, VALUE, Rows
from holon.formats.batch import Column


def struct_of(decision: Decision, *, without_none: bool = False) -> Any:
    """The Struct or the tuple that all ways give; None if they give other values; objects if some do."""
    leaves = [leaf for leaf in _leaves(decision) if not (without_none and _is_none(leaf))]
    found = [leaf.struct for leaf in leaves]
    if not found or (any(found) and not all(found)):
        return OBJECTS
    if not any(found):
        return tuples_in_common([TupleRow(leaf.types) if leaf.types else None for leaf in leaves])
    common = in_common(found)
    return OBJECTS if common is None else common


def _leaves(decision: Decision) -> list[Leaf]:
    if isinstance(decision, Effects):
        return [note.value for note in notes_in(decision) if isinstance(note, Yield)]
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
    if row_type is not OBJECTS and row_type is not None:  # no tuple is None either
        return made
    values = made.field(())
    if isinstance(values, np.ndarray):
        return made
    there = [place for place, value in enumerate(as_list(values)) if value is not None]
    return made if len(there) == len(made) else made.take(np.array(there, np.intp))


class _Results(NamedTuple):
    """Results in order: ``rows`` has the row of each, which ascend; ``ends`` has their places among all results."""

    rows: Indices
    ends: Ends


def flat_mapped(decision: Decision, row_type: Any, rows: Rows) -> Rows:
    """All results of a function that yields any number of them, row by row, those of a row in their order."""
    found = _yields(decision, rows)
    if not found.ends:
        return rows.take(np.empty(0, np.intp))
    return _made(found.ends, row_type, rows, found.rows)


def _yields(decision: Decision, rows: Fields) -> _Results:
    blocks: list[_Results] = []
    for places, leaf, taken in decided(decision, rows):
        assert isinstance(leaf, Effects)
        for note in leaf.notes if len(taken) else ():
            match note:
                case Computed():
                    for one in note.expressions:
                        evaluate(one, taken)
                case Yield():
                    blocks.append(_Results(places, [(np.arange(len(places)), note.value, taken)]))
                case Loop():
                    if not note.is_silent:
                        items, index = turns_of(note, taken)
                        inner = _yields(note.body, items)
                        blocks.append(_Results(places[index[inner.rows]], inner.ends))
                case Carries():
                    pass
                case _:
                    raise AssertionError(note)
    if len(blocks) < 2:
        return blocks[0] if blocks else _Results(np.empty(0, np.intp), [])
    index, cuts = in_order([block.rows for block in blocks])
    ends = [
        (cut[places], leaf, taken)
        for cut, block in zip(cuts, blocks, strict=True)
        for places, leaf, taken in block.ends
    ]
    return _Results(index, ends)


def _made(ends: Ends, row_type: Any, rows: Rows, origin: Indices | None = None) -> Rows:
    """``origin``: the row of each result, where there is not one of each row."""
    count = len(rows) if origin is None else len(origin)
    if isinstance(row_type, TupleRow) and len(ends) > 1:
        each = [(index, leaf_column(leaf, taken)) for index, leaf, taken in ends]
        found = [joined([(index, one[at]) for index, one in each], count) for at in range(len(row_type.types))]
        return rows.replaced(origin, columns={VALUE: tuple(found)})
    if row_type is OBJECTS or row_type is None or isinstance(row_type, TupleRow):
        parts = [(index, leaf_column(leaf, taken)) for index, leaf, taken in ends]
        column = parts[0][1] if len(parts) == 1 else joined(parts, count)
        if row_type is OBJECTS:
            return rows.replaced(origin, objects=as_list(column))
        return rows.replaced(origin, columns={VALUE: column})
    names = field_names(row_type)
    fields = {name: _joined_field(name, ends, None if origin is not None else rows, count) for name in names}
    return rows.replaced(origin, columns=fields, struct=row_type)


def _joined_field(name: str, ends: Ends, rows: Rows | None, count: int) -> Column:
    """One field of the Struct that all ways give; a field of the rows that each gives as it is stays as it is."""
    if len(ends) == 1:
        return leaf_column(ends[0][1].result[name], ends[0][2])  # type: ignore[index]
    leaves = [leaf.result[name] for _, leaf, _ in ends]  # type: ignore[index]
    paths = {one.result.path if isinstance(one.result, Field) and _is_of_rows(one.result) else None for one in leaves}
    if rows is not None and len(paths) == 1 and None not in paths:
        return leaf_column(leaves[0], rows)
    return joined(
        [(index, leaf_column(one, taken)) for one, (index, _, taken) in zip(leaves, ends, strict=True)], count
    )


def _is_of_rows(field: Field) -> bool:
    """Whether it is no field of an item, which each way has for itself."""
    return not any(isinstance(part, CarriedOf | ItemOf | PlaceOf) for part in field.path)
