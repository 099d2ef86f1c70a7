"""Columns of Structs, lists and maps of Arrow as users get them, and the rows that are none."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from holon.columnar.atoms.columns import Column, Valid
from holon.columnar.structs.lazy import LazyColumn
from holon.columnar.structs.members import BuiltDicts, BuiltStructs
from holon.formats.arrow.plan import Plain, Shaped, Unfit, marks_of, nulls, plain_column, rows_with
from holon.formats.arrow.structs import Inner, Items, Part, named_in

Named = dict[str, Shaped]


def columns_of(
    part: Part, read: Mapping[str, Column], above: Valid = None, lacks: bool = False, in_list: bool = False
) -> tuple[Named, Unfit]:
    """The columns of a part and of everything inside by their names, its own first, and the rows that are none.

    ``above``: the rows in which the Struct around it is there (None: all); ``lacks``: whether that one may be None;
    ``in_list``: whether these are items.
    """
    column = read[part.name]
    if isinstance(part, Plain):
        found, unfit = plain_column(part, column, above, lacks, in_list)
        return {part.name: found}, unfit
    unfit = {row: f"column {part.name} is {why}" for row, why in (column.unfit or {}).items()}
    if not part.nullable and column.valid is not None:
        declared = part.of.__name__ if isinstance(part, Inner) else "list" if part.key is None else "dict"
        why = f"column {part.name} is null: declare it as {declared} | None"
        unfit = dict.fromkeys(nulls(column.valid, above), why) | unfit
    if isinstance(part, Items):
        found_inside, more = _items(part, column)
    else:
        found_inside, more = _fields(part, column, read, lacks or part.nullable, in_list)
    return found_inside, more | unfit


def _fields(part: Inner, column: Column, read: Mapping[str, Column], lacks: bool, in_list: bool) -> tuple[Named, Unfit]:
    columns: Named = {}
    unfit: Unfit = {}
    for one in part.fields.values():
        more, wrong = columns_of(one, read, column.valid, lacks, in_list)
        columns |= more
        unfit = wrong | unfit
    fields = {name: columns[one.name].objects() for name, one in part.fields.items()}
    own = LazyColumn(BuiltStructs(part.of, fields, column.height), marks_of(column))
    return {part.name: Shaped(own), **columns}, unfit


def _items(part: Items, column: Column) -> tuple[Named, Unfit]:
    """Columns of lists, or one of dicts."""
    assert column.spans is not None and column.inside is not None
    starts, ends = column.spans
    there = np.ones(column.height, np.bool_) if column.valid is None else column.valid
    found, wrong = columns_of(part.item, column.inside, in_list=True)
    own = found.pop(part.item.name).in_lists(starts, ends, there)
    if part.key is not None:
        key, wrong_keys = plain_column(part.key, column.inside[part.key.name], in_list=True)
        found, wrong = {}, wrong_keys | wrong
        keys = key.in_lists(starts, ends, there).column
        own = Shaped(LazyColumn(BuiltDicts(keys, own.column), marks_of(column)))
    elif not part.is_of_values:
        own = Shaped(LazyColumn(own.column, marks_of(column)))
    unfit = {row: wrong[item] for row, item in rows_with(wrong, starts, ends)}
    inside = {named_in(part, name): one.in_lists(starts, ends, there) for name, one in found.items()}
    return {part.name: own, **inside}, unfit
