"""Nexmark events out of atoms of Arrow: the columns that ``NexmarkColumns`` gives, read in place.

An event is dead unless its ``event_type`` is 0, 1 or 2, the struct of its kind is there, and the fields that the query
needs are not null; times are those of the years 1 to 9999. What an event has of other kinds does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holon import Decoded
from holon.batch import take_columns
from holon.columnar.atoms import AtomReader, Atoms, Kind, Path, single
from holon.columnar.payloads import PAD_BYTES, Texts
from nexmark.queries.columns import TIME, TIMES, Column, NexmarkColumns
from nexmark.queries.parsing import SUBJECTS
from nexmark.times import MAX_TIME_MS, MIN_TIME_MS, time_cells

Mask = NDArray[np.bool_]
_TYPE: Path = ("event_type",)


class NexmarkAtoms:
    """As ``columns``, but a record is an atom: ``nexmark.generator.arrow_columns`` says what is in it."""

    compiled = True

    def __init__(self, columns: NexmarkColumns) -> None:
        self.asked = columns.asked
        self._described = columns.describe()
        wanted: dict[Path, Kind] = {_TYPE: "int8"}
        for kind, subject in enumerate(SUBJECTS):
            wanted[(subject,)] = "struct"
            wanted |= {(subject, name): _kind_of(name, of) for name, of in {**self.asked[kind], **TIME}.items()}
        self._reader = AtomReader(wanted)

    def describe(self) -> str:
        """Canonical text, part of the job's fingerprint."""
        return self._described.replace("nexmark json", "nexmark arrow", 1)

    def events_in(self, payload: bytes) -> int:
        """How many events an atom holds; 1 if it is dead as a whole."""
        return self._reader.events_in(payload)

    def single(self, payload: bytes, place: int) -> bytes:
        """An atom of one event."""
        return single(self._reader.batch_of(payload), place)

    def decode(self, payloads: Sequence[bytes]) -> Decoded[Any]:
        """Decode a run of payloads."""
        found = self._reader.read(payloads)
        kinds = found.columns[_TYPE].numbers
        assert kinds is not None
        of_kind = [kinds == kind for kind in range(len(SUBJECTS))]
        good = self._good(found, kinds, of_kind)
        columns: dict[str, Any] = {"kind": kinds, "time_ms": self._times(found, of_kind)}
        for kind, subject in enumerate(SUBJECTS):
            for name in self.asked[kind]:
                columns[f"{subject}.{name}"] = _column(found, (subject, name), of_kind[kind] & good)
        if good.all():
            return Decoded(found.rows, columns=columns, bad=found.bad, places=found.places)
        unfit = [(int(found.rows[row]), int(found.places[row]), _WHY) for row in np.flatnonzero(~good).tolist()]
        keep = np.flatnonzero(good)
        rows, places = found.rows[keep], found.places[keep]
        return Decoded(rows, columns=take_columns(columns, keep), bad=found.bad, places=places, bad_events=unfit)

    def _good(self, found: Atoms, kinds: NDArray[np.int8], of_kind: list[Mask]) -> Mask:
        """The events that can be used."""
        known = found.columns[_TYPE].valid
        good = (kinds >= 0) & (kinds < len(SUBJECTS))
        if known is not None:
            good &= known
        for kind, subject in enumerate(SUBJECTS):
            for path in ((subject,), *((subject, name) for name in {**self.asked[kind], **TIME})):
                column = found.columns[path]
                if column.valid is not None:
                    good &= column.valid | ~of_kind[kind]
                if column.numbers is not None and path[-1] in (*TIMES, *TIME):
                    times = column.numbers
                    if len(times) and (times.min() < MIN_TIME_MS or times.max() > MAX_TIME_MS):
                        good &= ((times >= MIN_TIME_MS) & (times <= MAX_TIME_MS)) | ~of_kind[kind]
        return good

    def _times(self, found: Atoms, of_kind: list[Mask]) -> NDArray[np.int64]:
        """Of each event the time of its kind."""
        persons, auctions, bids = (found.columns[subject, "dateTime"].numbers for subject in SUBJECTS)
        assert persons is not None and auctions is not None and bids is not None
        return np.where(of_kind[2], bids, np.where(of_kind[1], auctions, persons))


_WHY = "no event of the kind that its event_type names, or a field that the query needs is null or no such value"


def _kind_of(name: str, of: type) -> Kind:
    return "time" if name in (*TIMES, *TIME) else "int" if of is int else "text"


def _column(found: Atoms, path: Path, mine: Mask) -> Column:
    """The column where the events are of its kind, 0 or "" elsewhere."""
    column = found.columns[path]
    if column.texts is not None:
        texts = column.texts
        return texts if mine.all() else Texts(texts.buffer, texts.starts, np.where(mine, texts.ends, texts.starts))
    assert column.numbers is not None
    if path[-1] in TIME:
        return _time_texts(column.numbers, mine)
    return np.where(mine, column.numbers, 0)


def _time_texts(times_ms: NDArray[np.int64], mine: Mask) -> Texts:
    """Times as texts with three digits of fraction."""
    rows = np.flatnonzero(mine)
    cells = time_cells(times_ms[rows])
    width = cells.shape[1]
    buffer = np.concatenate([cells.ravel(), np.zeros(PAD_BYTES, np.uint8)])
    starts = np.zeros(len(times_ms), np.int64)
    starts[rows] = np.arange(len(rows)) * width
    return Texts(buffer, starts, starts + np.where(mine, width, 0))
