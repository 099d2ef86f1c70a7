"""Atoms of events and of lines of JSON, as tests, the simulation and profiles write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from holon.columnar.atoms.types import REFUSALS
from holon.columnar.atoms.writing import write_atom

_KEPT = (bytes, bytearray, datetime, date, time, timedelta, Decimal)
"""Types that Arrow has itself; others, as enums and UUIDs, are written as JSON has them."""
_NO_EVENT = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, AttributeError, *REFUSALS)
ROWS_OF_ATOM = 1_000


class WritesAtoms:
    """The methods of ``WritableFormat``. ``type``: of events; None: ``columns`` are the types of columns by path."""

    type: Any
    columns: dict[str, Any]

    def record_of(self, event: Any) -> bytes:
        """An atom of one event: an object of the type, or the values of its columns by name."""
        return _atom([self._values(event)])

    def from_json(self, line: bytes) -> bytes:
        """An atom of an event as JSON; the line itself if it is none."""
        try:
            return _atom([self._values(self._parsed(line))])
        except _NO_EVENT:
            return line

    def atoms_of(self, lines: Sequence[bytes]) -> list[bytes]:
        """The events of lines in atoms of up to ``ROWS_OF_ATOM``; lines that are no event stay as they are."""
        records: list[bytes] = []
        rows: list[dict[str, Any]] = []
        for line in lines:
            try:
                values = self._values(self._parsed(line))
            except _NO_EVENT:
                records += [*_atoms(rows), line]
                rows = []
                continue
            if rows and (len(rows) == ROWS_OF_ATOM or values.keys() != rows[0].keys()):
                records += _atoms(rows)
                rows = []
            rows.append(values)
        return records + _atoms(rows)

    def _parsed(self, line: bytes) -> Any:
        if self.type is not None:
            return msgspec.json.decode(line, type=self.type)
        found = msgspec.json.decode(line)
        for name, of in self.columns.items():
            *above, last = name.split(".")
            inner = found
            for part in above:
                inner = None if inner is None else inner[part]
            if inner is not None and last in inner:
                inner[last] = msgspec.convert(inner[last], of)
        return found

    def _values(self, event: Any) -> dict[str, Any]:
        values = msgspec.to_builtins(event, builtin_types=_KEPT, str_keys=True)
        if not isinstance(values, dict):
            raise TypeError(f"{type(event).__name__} has no columns")
        return values


def _atom(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Raises what pyarrow raises for values of which no column can be made."""
    columns = {name: pa.array([row[name] for row in rows]) for name in rows[0]}
    return write_atom(pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns)))


def _atoms(rows: list[dict[str, Any]]) -> list[bytes]:
    """One atom of all rows; one of each where the values of a column are not of one type of Arrow."""
    if not rows:
        return []
    try:
        return [_atom(rows)]
    except REFUSALS:
        return [_atom([row]) for row in rows]
