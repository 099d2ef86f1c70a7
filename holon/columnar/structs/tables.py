"""The tables of numbers that the compiled loop reads a plan from, and where each field's values go."""

from __future__ import annotations

import numpy as np

from holon.columnar.structs.kinds import DECIMAL, FIELD, LIST, OBJECT, SPAN, TAG, TEXT, TIME, UNION, VALUES
from holon.columnar.structs.plan import PlannedField, PlannedStruct

Path = tuple[str, ...]
Cell = tuple[int, int, int]

NONE = -1
_WIDE = {TEXT: 2, SPAN: 2, OBJECT: 2, DECIMAL: 2, TIME: 2, UNION: 3, LIST: 4}
"""Slots that have several numbers. A list has its first item and what is behind its last one, then its own place."""
_CONTAINERS = (OBJECT, UNION, LIST)


class Tables:
    """``fields`` and ``structs`` as ``read_structs`` takes them, with the ``literals`` that they refer to.

    ``widths`` are the columns of each table of rows, ``lists`` the table that the lists of its rows are in, and their
    column; ``unsure`` are ranges of columns that a good record may leave as they are. ``cells`` are the table, the
    first column and that of the mark of each field, by its path.
    """

    def __init__(self, plan: PlannedField) -> None:
        self.literals = b""
        self.widths = [0]
        self.lists = [(NONE, NONE)]
        self.unsure: list[list[slice]] = [[]]
        self.cells: dict[Path, Cell] = {}
        self._fields: list[tuple[int, ...]] = [()]
        self._structs: list[tuple[int, ...]] = []
        self._fill(0, plan, 0, NONE, True)
        self.fields = np.array(self._fields, np.int64).reshape(-1, FIELD)
        self.structs = np.array(self._structs, np.int64)

    def _fill(self, number: int, field: PlannedField, table: int, after: int, sure: bool) -> None:
        """The numbers of a field whose rows are those of a table, and of all that is inside of it.

        ``sure``: each record or item has what it is in.
        """
        name, tag = _quoted(field.encoded), _tag_text(field.tag)
        start = len(self.literals)
        self.literals += name + tag
        slot, inside, last = field.slot, NONE, start + len(name)
        column, mark = (len(tag), NONE) if field.slot == TAG else self._placed(field, table, sure)
        if field.items is not None:
            inside, last = len(self._fields), self._new_table(table, column)
            if field.items.slot not in _CONTAINERS:
                slot = VALUES
            self._fields.append(())
            self._fill(inside, field.items, last, NONE, True)
        structs = [one.struct for one in (field, *field.members) if one.struct is not None]
        if structs:
            inside = self._add(structs, table, sure and mark == NONE and not field.members)
        if field.members:
            last = len(structs)
        self._fields[number] = (
            start, len(name), slot, column, mark, inside, field.required, after, field.nullable, last,
            _is_noted(field),
        )  # fmt: skip

    def _add(self, structs: list[PlannedStruct], table: int, sure: bool) -> int:
        """Add Structs one behind the other; returns the number of the first."""
        first_struct = len(self._structs)
        self._structs += [()] * len(structs)
        for number, struct in enumerate(structs, first_struct):
            first, count = len(self._fields), len(struct.fields)
            required = sum(field.required for field in struct.fields)
            self._structs[number] = first, count, required, struct.forbids_others, first if count else NONE
            self._fields += [()] * count
            for place, field in enumerate(struct.fields, first):
                self._fill(place, field, table, place + 1 if place + 1 < first + count else NONE, sure)
        return first_struct

    def _placed(self, field: PlannedField, table: int, sure: bool) -> tuple[int, int]:
        """The field's first column, and that of its mark."""
        column, mark = self.widths[table], NONE
        if _is_noted(field):
            self.widths[table] += _WIDE.get(field.slot, 1)
        elif field.slot == LIST:
            self.widths[table] += 2
        if field.nullable or not field.required:
            mark = self.widths[table]
            self.widths[table] += 1
        if mark != NONE or not sure:
            self.unsure[table].append(slice(column, self.widths[table]))
        self.cells[field.path] = table, column, mark
        self.cells.update((member.path, (table, column, NONE)) for member in field.members)
        return column, mark

    def _new_table(self, parent: int, column: int) -> int:
        """A table for the items of the lists of a column."""
        self.widths.append(0)
        self.unsure.append([])
        self.lists.append((parent, column))
        return len(self.widths) - 1


def _is_noted(field: PlannedField) -> bool:
    """Whether its place is needed: Structs of records, and lists of values, are not made of their bytes."""
    return (bool(field.path) or field.slot == UNION) and not field.is_list_of_values


def _tag_text(tag: str | int) -> bytes:
    return _quoted(tag) if isinstance(tag, str) else str(tag).encode()


def _quoted(text: str) -> bytes:
    return b'"' + text.encode() + b'"'
