"""Records of a Struct to columns: by the compiled loop where it can, by msgspec where it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.columnar.loops import Loops
from holon.columnar.payloads import PAD_BYTES, BinaryColumn, Texts
from holon.columnar.structs import powers
from holon.columnar.structs.columns import Lists, as_column, with_values
from holon.columnar.structs.decimals import Decimals
from holon.columnar.structs.kinds import (
    DECIMAL,
    FITS,
    FLOAT,
    FRAME,
    INTEGER,
    LIST,
    MAX_OPEN,
    MEMBER,
    MEMBER_TAG,
    MISSING,
    NULL,
    OBJECT,
    PRESENT,
    SPAN,
    TAG,
    TEXT,
    TIME,
    UNION,
)
from holon.columnar.structs.lazy import LazyColumn, LazyValues
from holon.columnar.structs.members import Members, members_of
from holon.columnar.structs.plan import ITEM, PlannedField, fields_of
from holon.columnar.structs.tables import NONE, Tables
from holon.columnar.structs.times import Datetimes

Cells = NDArray[np.int64]
Good = NDArray[np.bool_]
Rows = NDArray[np.intp]
Path = tuple[str, ...]
Decode = Callable[[bytes], Any]

_MIN_ROOM, _MOST_CELLS = 1024, 8
"""Items of a table that there is always room for, and cells of a table for a byte of records; more are msgspec's."""


class StructReader:
    """Reads records of one type.

    Orders of fields and lengths of lists that it has met change its speed and never its results.
    """

    def __init__(self, loops: Loops, plan: PlannedField) -> None:
        self._loops = loops
        self._tables = Tables(plan)
        self._fields = _Fields(plan, self._tables)
        self._text = np.frombuffer(self._tables.literals + bytes(PAD_BYTES), np.uint8)
        self._items_a_byte = [0.0] * len(self._tables.widths)
        self._decoders = {
            field.path: msgspec.json.Decoder(field.type).decode
            for field in fields_of(plan)
            if field.has_column and field.slot in (SPAN, OBJECT, LIST, UNION, MEMBER)
        }

    def read(self, payloads: BinaryColumn) -> tuple[dict[str, Any], Good]:
        """Columns of the fields by their paths, and which rows they hold; values at other rows mean nothing."""
        size, widths = payloads.size, self._tables.widths
        most = [0, *(max(_MIN_ROOM, _MOST_CELLS * size // max(width, 1)) for width in widths[1:])]
        while True:
            wished = [max(_MIN_ROOM, int(size * each)) for each in self._items_a_byte]
            heights = [len(payloads), *map(min, most[1:], wished[1:])]
            cells = _new_tables(self._tables, heights)
            side, fits = np.empty(size + PAD_BYTES, np.uint8), np.zeros(len(payloads), np.int64)
            written, used = self._call(payloads, cells, side, fits)
            full = [number for number, count in enumerate(used) if heights[number] < count and number]
            for number in range(1, len(used)):
                seen = 1.25 * max(used[number], heights[number] * (3 if number in full else 0)) / max(size, 1)
                self._items_a_byte[number] = max(self._items_a_byte[number], seen)
            if not any(heights[number] < most[number] for number in full):
                break
        buffer = payloads.buffer
        if written:
            buffer = np.concatenate([buffer, side[:written], np.zeros(PAD_BYTES, np.uint8)])
        kept = [cells[0], *(table[:, :count] for table, count in zip(cells[1:], used[1:], strict=True))]
        batch = _Batch(self._fields, self._tables, self._decoders, kept, buffer, fits == FITS)
        return batch.columns(), batch.good[0]

    def _call(
        self, payloads: BinaryColumn, cells: list[Cells], side: NDArray[np.uint8], fits: Cells
    ) -> tuple[int, list[int]]:
        """Call the loop; whatever it is given an address of is held here meanwhile.

        Returns how far ``side`` is used, and how many rows of each table were wished for.
        """
        starts, ends = np.ascontiguousarray(payloads.starts), np.ascontiguousarray(payloads.ends)
        fields, structs = self._tables.fields, self._tables.structs
        scratch = np.zeros(1 + FRAME * MAX_OPEN + len(fields), np.int64)
        rows = np.array([(table.ctypes.data, table.shape[1], 0) for table in cells], np.int64)
        table = powers.table()
        assert payloads.buffer.flags.c_contiguous
        self._loops.read_structs(
            payloads.buffer.ctypes.data, starts.ctypes.data, ends.ctypes.data, len(payloads), self._text.ctypes.data,
            fields.ctypes.data, structs.ctypes.data, rows.ctypes.data, side.ctypes.data, len(payloads.buffer),
            table.ctypes.data, scratch.ctypes.data, fits.ctypes.data,
        )  # fmt: skip
        return int(scratch[0]), rows[:, 2].tolist()


class _Fields:
    """The fields of a plan by their needs of a batch, in the order of the plan."""

    def __init__(self, plan: PlannedField, tables: Tables) -> None:
        fields = list(fields_of(plan))
        cells = [(field, tables.cells[field.path]) for field in fields if field.slot != TAG]
        self.marked = [
            field for field, (_, _, mark) in cells if mark != NONE or field.slot == MEMBER or field.may_lack_parent
        ]
        self.lists = [field for field in fields if field.slot == LIST]
        self.named = [(field.name, field) for field in fields if field.has_column]


class _Batch:
    """Cells of all tables, which the loop has read of some records. ``good``: the rows of each that hold values."""

    def __init__(
        self,
        fields: _Fields,
        tables: Tables,
        decoders: Mapping[Path, Decode],
        cells: list[Cells],
        buffer: NDArray[np.uint8],
        fits: Good,
    ) -> None:
        self._fields, self._tables, self._decoders, self._cells, self._buffer = fields, tables, decoders, cells, buffer
        self.good = [fits]
        whole = bool(fits.all())
        for number, table in enumerate(cells):
            if number:
                items = table.shape[1]
                self.good.append(np.ones(items, np.bool_) if whole else self._good_items(number, items))
            if not whole:
                table[:, ~self.good[number]] = 0  # no records have written these
        self._marks: dict[Path, Cells | None] = {}
        self._places: dict[Path, tuple[Cells, Cells, list[Any]]] = {}

    def columns(self) -> dict[str, Any]:
        """The columns of all fields; takes from ``good`` what is beyond the bounds of its type."""
        for field in self._fields.marked:
            self._marks[field.path] = self._marks_of(field)
        for field in self._fields.lists:
            self._places[field.path] = self._places_of(field)
        columns: dict[str, Any] = {}
        for name, field in self._fields.named:
            column = self._column(field)
            columns[name] = self._in_lists(field, column) if len(self.good) > 1 else column
        for number in range(len(self.good) - 1, 0, -1):
            if not self.good[number].all():
                parent, items = self._tables.lists[number][0], np.flatnonzero(~self.good[number])
                self.good[parent][self._rows_of(items, number)] = False
        return columns

    def _lists(self, number: int) -> tuple[Rows, Cells, Cells]:
        """The rows whose lists have the items of a table, and where these start and end; one behind the other."""
        parent, column = self._tables.lists[number]
        starts, ends = self._cells[parent][column : column + 2]
        rows = np.flatnonzero(self.good[parent] & (starts < ends))
        return rows, starts[rows], ends[rows]

    def _rows_of(self, items: Rows, number: int) -> Rows:
        """The good rows that have a list with one of these items of a table."""
        rows, starts, ends = self._lists(number)
        lists = np.searchsorted(starts, items, "right") - 1
        items, lists = items[lists >= 0], lists[lists >= 0]
        return rows[lists[items < ends[lists]]]

    def _good_items(self, number: int, items: int) -> Good:
        """Which items of a table are of a list whose row is good."""
        _, starts, ends = self._lists(number)
        changes = np.zeros(items + 1, np.int8)
        changes[starts] = 1
        changes[ends] -= 1
        return np.cumsum(changes[:-1], dtype=np.int8).view(np.bool_)

    def _marks_of(self, field: PlannedField) -> Cells | None:
        """Marks of a field's rows, None if all have it: null where the Struct that it is a field of is not there."""
        table, column, mark = self._tables.cells[field.path]
        cells = self._cells[table]
        own = None if mark == NONE else cells[mark]
        if field.slot == MEMBER:
            own = np.where(cells[column + 2] == field.number, PRESENT, NULL)
        parents = self._marks.get(field.path[:-1])
        if not field.may_lack_parent or parents is None:
            return own
        return np.where(parents == PRESENT, PRESENT if own is None else own, NULL)

    def _places_of(self, field: PlannedField) -> tuple[Cells, Cells, list[Any]]:
        """Starts and ends of lists among their items, and what rows have that are no lists, as ``Lists`` takes them."""
        table, column, _ = self._tables.cells[field.path]
        marks, good = self._marks.get(field.path), self.good[table]
        starts, ends = self._cells[table][column : column + 2]
        if field.accepts is not None:
            _keep_bounds(field, ends - starts, marks, good)
        has_nulls = field.nullable or field.may_lack_parent
        if marks is None or (field.factory is list and not has_nulls):
            return starts, ends, []
        others: list[Any] = [None]
        starts = np.where(marks == NULL, -1, starts)
        if field.factory is not list:  # where it is, the list is empty as it stands
            lacking = np.flatnonzero((marks == MISSING) & good)
            starts[lacking] = -1 - len(others) - np.arange(len(lacking))
            others += [_default(field) for _ in lacking]
        return starts, ends, others

    def _in_lists(self, field: PlannedField, column: Any) -> Any:
        """The column of a field of items: lists of what the items have."""
        kind, depth = field.shape
        depth -= field.lists
        for end in range(len(field.path) - 1, 0, -1):
            if field.path[end] == ITEM:
                depth += 1
                column = Lists(kind, depth, column, *self._places[field.path[:end]])
        return column

    def _column(self, field: PlannedField) -> Any:
        """A column of the rows of the field's own table."""
        table, column, _ = self._tables.cells[field.path]
        cells, good, marks = self._cells[table], self.good[table], self._marks.get(field.path)
        if field.is_list_of_values:
            assert field.items is not None
            kind, depth = field.shape
            return Lists(kind, depth - field.lists, self._column(field.items), *self._places[field.path])
        if field.slot == SPAN:
            spans = BinaryColumn(self._buffer, cells[column], cells[column + 1])
            return self._decoded(field, spans, marks, good)
        values: LazyValues
        if field.slot in (OBJECT, LIST, UNION, MEMBER):
            begin = column + 2 if field.slot == LIST else column
            values = BinaryColumn(self._buffer, cells[begin], cells[begin + 1])
        elif field.slot == TEXT:
            values = Texts(self._buffer, cells[column], cells[column + 1], are_unicode=True)
        elif field.slot == MEMBER_TAG:
            values = Members(cells[column + 2].astype(np.intp), field.tags)
        elif field.slot in (DECIMAL, TIME):
            values = (Decimals if field.slot == DECIMAL else Datetimes)(cells[column], cells[column + 1])
        else:
            values = _numbers(field.slot, cells[column])
            _keep_bounds(field, values, marks, good)
        if field.choices is not None:
            assert isinstance(values, Texts | np.ndarray)
            rows = np.flatnonzero(good if marks is None else good & (marks == PRESENT))
            values, unknown = members_of(values, rows, field.choices)
            good[unknown] = False
        if field.kind == "list":
            here = np.full(len(good), PRESENT) if marks is None else marks
            lazy = LazyColumn(values, here, field.default, self._decoders.get(field.path))
            return lazy if field.factory is None else _with_defaults(field, lazy, marks, good)
        return _with_defaults(field, values, marks, good)

    def _decoded(self, field: PlannedField, spans: BinaryColumn, marks: Cells | None, good: Good) -> Any:
        """The objects that msgspec makes of spans; a row of which it makes none is not good."""
        rows = np.flatnonzero(good if marks is None else good & (marks == PRESENT))
        values: list[Any] = [None] * len(spans)
        decode = self._decoders[field.path]
        for row, span in zip(rows.tolist(), spans.take(rows), strict=True):
            try:
                values[row] = value = decode(span)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                good[row] = False
                continue
            if field.kind == "int" and not -(2**63) <= value < 2**63:
                good[row] = False
        if marks is not None:
            for row in np.flatnonzero(good & (marks == MISSING)).tolist():
                values[row] = _default(field)
        return as_column(field.kind, values, good)


def _with_defaults(field: PlannedField, values: Any, marks: Cells | None, good: Good) -> Any:
    """The column where some rows lack the field."""
    if marks is None:
        return values
    lacking = np.flatnonzero((marks == MISSING) & good)
    return with_values(values, lacking, [_default(field) for _ in lacking]) if len(lacking) else values


def _new_tables(tables: Tables, heights: list[int]) -> list[Cells]:
    """Tables with zeros where records may leave them.

    They are one piece of memory: an allocator may give several ones back to the machine, and each then is paged anew.
    """
    ends = list(accumulate(width * height for width, height in zip(tables.widths, heights, strict=True)))
    memory = np.empty(ends[-1], np.int64)
    parts = zip([0, *ends[:-1]], ends, tables.widths, heights, strict=True)
    found = [memory[start:end].reshape(width, height) for start, end, width, height in parts]
    for cells, unsure in zip(found, tables.unsure, strict=True):
        for columns in unsure:
            cells[columns] = 0
    return found


def _default(field: PlannedField) -> Any:
    return field.default if field.factory is None else field.factory()


def _numbers(slot: int, column: Cells) -> Any:
    if slot == FLOAT:
        return column.view(np.float64)
    return column if slot == INTEGER else column.astype(np.bool_)


def _keep_bounds(field: PlannedField, numbers: Any, marks: Cells | None, good: Good) -> None:
    """Rows whose number is beyond the bounds of its type are not good."""
    if field.accepts is not None:
        kept = field.accepts(numbers)
        good &= kept if marks is None else kept | (marks != PRESENT)
