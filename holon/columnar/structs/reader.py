"""Records of a Struct to columns: by the compiled loop where it can, by msgspec where it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.columnar.loops import Loops
from holon.columnar.payloads import PAD_BYTES, BinaryColumn, Texts
from holon.columnar.structs import powers
from holon.columnar.structs.decimals import Decimals
from holon.columnar.structs.kinds import (
    DECIMAL,
    FIELD,
    FITS,
    FLOAT,
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
from holon.columnar.structs.plan import PlannedField, PlannedStruct, fields_of
from holon.columnar.structs.times import Datetimes

Cells = NDArray[np.int64]
Rows = NDArray[np.intp]

_NONE = -1
_WIDE = TEXT, SPAN, OBJECT, DECIMAL, TIME, LIST
"""Slots that have two numbers."""


class StructReader:
    """Reads records of one type; what it has learned of the order of fields changes its speed and never its results."""

    def __init__(self, loops: Loops, plan: PlannedStruct) -> None:
        self._loops = loops
        self._plan = plan
        self._cells: dict[tuple[str, ...], tuple[int, int]] = {}  # path -> its first column, and that of its mark
        self._height = 0
        self._literals = b""
        fields: list[tuple[int, ...]] = []
        structs: list[tuple[int, ...]] = []
        self._number([plan], fields, structs)
        self._fields = np.array(fields, np.int64).reshape(-1, FIELD)
        self._structs = np.array(structs, np.int64)
        self._text = np.frombuffer(self._literals + bytes(PAD_BYTES), np.uint8)
        self._decoders = {
            field.path: msgspec.json.Decoder(field.type).decode
            for field in fields_of(plan)
            if field.slot in (SPAN, OBJECT, LIST, UNION, MEMBER)
        }

    def _number(
        self, structs: list[PlannedStruct], fields: list[tuple[int, ...]], found: list[tuple[int, ...]]
    ) -> None:
        """Tables of the loop; Structs inside come behind those that have them as fields."""
        for struct in structs:
            first, required = len(fields), sum(field.required for field in struct.fields)
            found.append(
                (first, len(struct.fields), required, struct.forbids_others, first if struct.fields else _NONE)
            )
            for place, field in enumerate(struct.fields):
                inside = field.item
                nested = [one.struct for one in (field, *field.members) if one.struct is not None]
                if nested:
                    inside = len(structs)
                    structs += nested
                after = len(fields) + 1 if place + 1 < len(struct.fields) else _NONE
                name, tag = _quoted(field.encoded), _tag_text(field.tag)
                column, mark = self._placed(field)
                if field.slot == TAG:
                    column = len(tag)
                start = len(self._literals)
                self._literals += name + tag
                fields.append((start, len(name), field.slot, column, mark, inside, field.required, after,
                               field.nullable, len(nested) if field.members else start + len(name)))  # fmt: skip

    def _placed(self, field: PlannedField) -> tuple[int, int]:
        """The field's first column, and that of its mark."""
        if field.slot == TAG:
            return _NONE, _NONE
        column = self._height
        self._height += 3 if field.slot == UNION else 2 if field.slot in _WIDE else 1
        mark = _NONE
        if field.nullable or not field.required:
            mark = self._height
            self._height += 1
        self._cells[field.path] = column, mark
        self._cells.update((member.path, (column, _NONE)) for member in field.members)
        return column, mark

    def read(self, payloads: BinaryColumn) -> tuple[dict[str, Any], NDArray[np.bool_]]:
        """Columns of the fields by their paths, and which rows they hold; values at other rows mean nothing."""
        count = len(payloads)
        cells = np.zeros((self._height, count), np.int64)
        fits = np.zeros(count, np.int64)
        side = np.empty(payloads.size + PAD_BYTES, np.uint8)
        used = self._call(payloads, cells, side, fits)
        buffer = (
            np.concatenate([payloads.buffer, side[:used], np.zeros(PAD_BYTES, np.uint8)]) if used else payloads.buffer
        )
        good = fits == FITS
        columns: dict[str, Any] = {}
        marks: dict[tuple[str, ...], Cells | None] = {(): None}
        for field in fields_of(self._plan):
            if field.slot != TAG:
                marks[field.path] = here = self._marks(field, cells, marks[field.path[:-1]])
                columns[".".join(field.path)] = self._column(field, cells, here, buffer, good)
        return columns, good

    def _marks(self, field: PlannedField, cells: Cells, parents: Cells | None) -> Cells | None:
        """Marks of a field's rows, None if all have it: null where the Struct that it is a field of is not there."""
        column, mark = self._cells[field.path]
        own = None if mark == _NONE else cells[mark]
        if field.slot == MEMBER:
            own = np.where(cells[column + 2] == field.item, PRESENT, NULL)
        if not field.may_lack_parent or parents is None:
            return own
        return np.where(parents == PRESENT, PRESENT if own is None else own, NULL)

    def _call(self, payloads: BinaryColumn, cells: Cells, side: NDArray[np.uint8], fits: Cells) -> int:
        """Call the loop; whatever it is given an address of is held here meanwhile."""
        starts, ends = np.ascontiguousarray(payloads.starts), np.ascontiguousarray(payloads.ends)
        scratch = np.zeros(1 + 3 * MAX_OPEN + len(self._fields), np.int64)
        table, count = powers.table(), len(payloads)
        assert payloads.buffer.flags.c_contiguous
        self._loops.read_structs(
            payloads.buffer.ctypes.data, starts.ctypes.data, ends.ctypes.data, count, self._text.ctypes.data,
            self._fields.ctypes.data, self._structs.ctypes.data, cells.ctypes.data, count, side.ctypes.data,
            len(payloads.buffer), table.ctypes.data, scratch.ctypes.data, fits.ctypes.data,
        )  # fmt: skip
        return int(scratch[0])

    def _column(
        self,
        field: PlannedField,
        cells: Cells,
        marks: Cells | None,
        buffer: NDArray[np.uint8],
        good: NDArray[np.bool_],
    ) -> Any:
        column = self._cells[field.path][0]
        if field.slot == SPAN:
            spans = BinaryColumn(buffer, cells[column], cells[column + 1])
            return self._decoded(field, spans, marks, good)
        values: LazyValues
        if field.slot in (OBJECT, LIST, UNION, MEMBER):
            values = BinaryColumn(buffer, cells[column], cells[column + 1])
        elif field.slot == TEXT:
            values = Texts(buffer, cells[column], cells[column + 1])
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
            return lazy if field.factory is None else self._with_defaults(field, lazy, marks, good)
        return self._with_defaults(field, values, marks, good)

    def _with_defaults(self, field: PlannedField, values: Any, marks: Cells | None, good: NDArray[np.bool_]) -> Any:
        """The column where some rows lack the field."""
        if marks is None:
            return values
        lacking = np.flatnonzero((marks == MISSING) & good)
        return with_values(values, lacking, [_default(field) for _ in lacking]) if len(lacking) else values

    def _decoded(self, field: PlannedField, spans: BinaryColumn, marks: Cells | None, good: NDArray[np.bool_]) -> Any:
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


def as_column(kind: str, values: list[Any], good: NDArray[np.bool_]) -> Any:
    """A column of Python values; rows that are not good hold nothing."""
    if kind == "list":
        return values
    nothing: Any = {"int": 0, "float": 0.0, "bool": False, "text": ""}[kind]
    filled = [value if whole else nothing for value, whole in zip(values, good.tolist(), strict=True)]
    if kind == "text":
        return Texts.of(filled)
    return np.array(filled, {"int": np.int64, "float": np.float64, "bool": np.bool_}[kind])


def with_values(column: Any, rows: Rows, values: Sequence[Any]) -> Any:
    """The column with other values at some rows."""
    if isinstance(column, Texts | LazyColumn):
        return column.replaced(rows, values)
    if isinstance(column, np.ndarray):
        column[rows] = values
        return column
    for row, value in zip(rows.tolist(), values, strict=True):
        column[row] = value
    return column


def _default(field: PlannedField) -> Any:
    return field.default if field.factory is None else field.factory()


def _numbers(slot: int, column: Cells) -> Any:
    if slot == FLOAT:
        return column.view(np.float64)
    return column if slot == INTEGER else column.astype(np.bool_)


def _keep_bounds(field: PlannedField, numbers: Any, marks: Cells | None, good: NDArray[np.bool_]) -> None:
    """Rows whose number is beyond the bounds of its type are not good."""
    if field.accepts is not None:
        kept = field.accepts(numbers)
        good &= kept if marks is None else kept | (marks != PRESENT)


def _tag_text(tag: str | int) -> bytes:
    return _quoted(tag) if isinstance(tag, str) else str(tag).encode()


def _quoted(text: str) -> bytes:
    return b'"' + text.encode() + b'"'
