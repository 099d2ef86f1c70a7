"""The format for atoms of Arrow: ``from holon.arrow import ArrowColumns``. Needs the extra ``arrow``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from holon.columnar.atom_columns import Kind, Layout
from holon.columnar.atoms import AtomReader, single, write_atom
from holon.errors import JobError
from holon.formats.batch import take_columns
from holon.formats.formats import Decoded

__all__ = ["ArrowColumns", "write_atom"]

_KINDS: dict[type, Kind] = {int: "int", float: "float", bool: "bool", str: "text", datetime: "time"}


class ArrowColumns:
    """Each record is an atom: an Arrow IPC stream of one batch; one event a row.

    ``ArrowColumns({"price": int, "bid.at": datetime})`` names the columns to read, by their path where they are within
    structs: int64, double, bool, string and timestamp[ms] without a zone (as epoch ms). An atom that is damaged, or
    lacks one, is one dead letter; so is each row in which one of them is null or a text that is not UTF-8.
    """

    compiled = True

    def __init__(self, columns: Mapping[str, type]) -> None:
        for name, of in columns.items():
            if of not in _KINDS:
                raise JobError(f"column {name!r} cannot be {of!r}: int, float, bool, str and datetime are read")
        self.columns = dict(columns)
        self._reader = AtomReader(Layout({name: (tuple(name.split(".")), _KINDS[of]) for name, of in columns.items()}))

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint."""
        return "arrow " + ", ".join(f"{name} {of.__name__}" for name, of in sorted(self.columns.items()))

    def decode(self, payloads: Sequence[bytes]) -> Decoded[Any]:
        """Decode a run of payloads."""
        found = self._reader.read(payloads)
        columns: dict[str, Any] = {}
        missing: dict[int, str] = {}
        for name, column in found.columns().items():
            columns[name] = column.numbers if column.texts is None else column.texts
            if column.valid is not None:
                for row in np.flatnonzero(~column.valid).tolist():
                    missing.setdefault(row, f"column {name} is null, or not UTF-8")
        rows, places = found.rows, found.places
        unfit = [(int(rows[row]), int(places[row]), reason) for row, reason in sorted(missing.items())]
        if missing:
            keep = np.delete(np.arange(len(found)), list(missing))
            rows, places, columns = rows[keep], places[keep], take_columns(columns, keep)
        return Decoded(rows, columns=columns, bad=found.bad, places=places, bad_events=unfit)

    def events_in(self, payload: bytes) -> int:
        """How many rows an atom has; 1 if it is dead as a whole."""
        return self._reader.events_in(payload)

    def single(self, payload: bytes, place: int) -> bytes:
        """An atom of one row."""
        return single(self._reader.batch_of(payload), place)
