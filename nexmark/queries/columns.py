"""Nexmark records of a topic as columns: kind, event time, and the fields that a query names.

A record is dead unless ``parsing.py`` takes it and its times are valid. Where the process has compiled loops, they read
what has a layout that they know; the rest, and everything else, is msgspec's. Both give the same for every record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon import Decoded
from holon.columnar.loops import Loops, installed
from holon.columnar.payloads import BinaryColumn, Texts
from holon.columnar.projection import Kind, Projector
from holon.formats.batch import take_columns
from nexmark.model import AUCTION
from nexmark.queries.parsing import SUBJECTS, Parsed, Parser
from nexmark.times import INVALID_TIME, parse_times_ms

TIME = {"dateTime": str}
TIMES = ("expires",)
"""Fields beside ``dateTime`` whose columns hold epoch ms."""
FEW = 24
"""Records of a run below which msgspec is as quick."""

Column = NDArray[np.int64] | Texts | list[str]


class NexmarkColumns:
    """Columns ``kind`` (int8), ``time_ms`` (int64), and one for each requested field: ``bid.price``, ``auction.id``...

    Integers are int64, 0 where a row is of another kind; texts are sequences of str, "" there; ``auction.expires`` is
    epoch ms. Only what is requested is decoded.

    Args: ``bid``, ``auction``, ``person``: field name -> ``int`` or ``str``, on the wire names; ``dateTime`` is always
    decoded, and is a column too where it is requested.
    """

    compiled = True

    def __init__(
        self,
        bid: Mapping[str, type] | None = None,
        auction: Mapping[str, type] | None = None,
        person: Mapping[str, type] | None = None,
    ) -> None:
        self.requested = [wanted or {} for wanted in (person, auction, bid)]
        self.fields = tuple({**wanted, **TIME} for wanted in self.requested)
        self._parser = Parser(self.fields)
        self._projector: Projector | None = None

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint."""
        requested = [f"{name}({', '.join(sorted(fields))})" for name, fields in zip(SUBJECTS, self.fields, strict=True)]
        return f"nexmark json {' '.join(requested)}"

    def projector(self, loops: Loops) -> Projector:
        """The reader of records by these loops."""
        if self._projector is None:
            fields = {kind: self._projected(kind) for kind in range(len(SUBJECTS))}
            self._projector = Projector(loops, fields, ("event_type",))
        return self._projector

    def _projected(self, kind: int) -> list[tuple[tuple[str, ...], str, Kind]]:
        """The fields of records of this kind that the compiled loops read: path, column, what it becomes."""
        subject = SUBJECTS[kind]
        found: list[tuple[tuple[str, ...], str, Kind]] = [((subject, "dateTime"), "time_ms", "time")]
        for name, of in self.requested[kind].items():
            becomes: Kind = "time" if name in TIMES else "int" if of is int else "text"
            found.append(((subject, name), f"{subject}.{name}", becomes))
        return found

    def decode(self, payloads: Sequence[bytes]) -> Decoded[Any]:
        """Decode a run of payloads."""
        loops = installed()
        if loops is not None and len(payloads) >= FEW:
            return self._decode_projected(self.projector(loops), BinaryColumn.of(payloads))
        parsed = self._parser.parse(payloads)
        index = None if parsed.rows is None else np.array(parsed.rows, dtype=np.intp)
        kinds = np.array(parsed.kinds, dtype=np.int8)
        columns = self._columns_of(parsed, kinds)
        return self._timed(kinds, columns, index, parsed.bad, len(payloads))

    def _columns_of(self, parsed: Parsed, kinds: NDArray[np.int8]) -> dict[str, Column]:
        """The columns of what msgspec has read."""
        subjects = parsed.subjects
        columns: dict[str, Column] = {"time_ms": parse_times_ms([subject.dateTime for subject in subjects])}
        for kind, requested in enumerate(self.requested):
            if not requested:
                continue
            rows = np.flatnonzero(kinds == kind)
            mine = subjects if len(rows) == len(subjects) else [subjects[row] for row in rows.tolist()]
            for name, of in requested.items():
                values = [getattr(subject, name) for subject in mine]
                columns[f"{SUBJECTS[kind]}.{name}"] = _spread(name, of, values, rows, len(subjects))
        return columns

    def _decode_projected(self, projector: Projector, payloads: BinaryColumn) -> Decoded[Any]:
        found = projector.project(payloads)
        kinds = found.case.astype(np.int8)
        columns: dict[str, Column] = {**found.integers, **found.texts}
        if not len(found.rest):
            return self._timed(kinds, columns, None, [], len(payloads))
        parsed = self._parser.parse_each(payloads, found.rest.tolist())
        rows = np.array(parsed.rows, dtype=np.intp)
        kinds[rows] = parsed.kinds
        for name, column in self._columns_of(parsed, kinds[rows]).items():
            into = columns[name]
            if isinstance(into, Texts):
                columns[name] = into.replaced(rows, column)  # type: ignore[arg-type]
            else:
                into[rows] = column  # type: ignore[index]
        index = None
        if parsed.bad:
            index = np.delete(np.arange(len(payloads)), [row for row, _ in parsed.bad])
            kinds, columns = kinds[index], take_columns(columns, index)
        return self._timed(kinds, columns, index, parsed.bad, len(payloads))

    def _timed(
        self,
        kinds: NDArray[np.int8],
        columns: dict[str, Column],
        index: NDArray[np.intp] | None,
        bad: list[tuple[int, str]],
        count: int,
    ) -> Decoded[Any]:
        """Leave out the rows whose times are none."""
        good = columns["time_ms"] != INVALID_TIME
        if "auction.expires" in columns:
            good &= (kinds != AUCTION) | (columns["auction.expires"] != INVALID_TIME)
        if np.count_nonzero(good) < len(good):  # type: ignore[arg-type]
            index = np.arange(count) if index is None else index
            bad = sorted([*bad, *((int(row), "not a valid time") for row in index[~good])])
            keep = np.flatnonzero(good)
            index, kinds, columns = index[keep], kinds[keep], take_columns(columns, keep)
        return Decoded(index, columns={"kind": kinds, **columns}, bad=bad)


def _spread(name: str, of: type, values: list[Any], rows: NDArray[np.intp], height: int) -> Column:
    """A column of the values at some rows, nothing at the others."""
    if of is str and name not in TIMES:
        if len(rows) == height:
            return values
        texts = [""] * height
        for row, value in zip(rows.tolist(), values, strict=True):
            texts[row] = value
        return texts
    column = np.zeros(height, np.int64)
    column[rows] = parse_times_ms(values) if name in TIMES else values
    return column
