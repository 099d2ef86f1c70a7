"""Projection: the fields that a job names, out of a run of JSON records, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from holon.columnar.layout import Layout, Path, Wanted, learn
from holon.columnar.loops import Loops
from holon.columnar.payloads import PAD_BYTES, BinaryColumn, Texts

Kind = Literal["int", "text", "time"]
"""A time is a text ``yyyy-MM-dd HH:mm:ss[.f{1,3}]``, in UTC; its column holds epoch ms."""

Numbers = NDArray[np.int64]
Rows = NDArray[np.intp]

MAX_LAYOUTS = 16
MAX_LESSONS = 8
"""Records of one run that are read to learn a layout: more would cost more than a parser."""


@dataclass(slots=True)
class Projected:
    """Columns by name; ``rest`` are the rows that a parser must read: their values mean nothing.

    ``case`` is what each row is about. Where a row is about something that has not a certain column, there is 0 or "".
    """

    case: NDArray[np.int64]
    integers: dict[str, NDArray[np.int64]]
    texts: dict[str, Texts]
    rest: NDArray[np.intp]


class Projector:
    """Reads these fields of records; what it has learned of their layout changes its speed and never its results.

    Args: ``fields``: case -> path -> (column, kind); a text and a time of one path go to two columns.
    ``discriminator``: path of the integer that holds a record's case, None if all are case 0.
    """

    def __init__(
        self,
        loops: Loops,
        fields: Mapping[int, Iterable[tuple[Path, str, Kind]]],
        discriminator: Path | None = None,
    ) -> None:
        self._loops = loops
        self._discriminator = discriminator
        columns = [(column, kind) for wanted in fields.values() for _, column, kind in wanted]
        self._integers = sorted({column for column, kind in columns if kind != "text"})
        self._texts = sorted({column for column, kind in columns if kind == "text"})
        self._wanted = {case: self._targets(wanted) for case, wanted in fields.items()}
        self._layouts: list[Layout] = []
        self._tables = _tables([])

    def _targets(self, wanted: Iterable[tuple[Path, str, Kind]]) -> dict[Path, Wanted]:
        targets: dict[Path, Wanted] = {}
        for path, column, kind in wanted:
            found = targets.get(path, Wanted())
            if kind == "text":
                targets[path] = found._replace(text=self._texts.index(column))
            else:
                targets[path] = found._replace(integer=self._integers.index(column), time=kind == "time")
        return targets

    def project(self, payloads: BinaryColumn) -> Projected:
        """Read a run of records."""
        count = len(payloads)
        integers = np.zeros((len(self._integers), count), np.int64)
        texts = np.zeros((len(self._texts), 2, count), np.int64)
        which = np.empty(count, np.int64)
        rest = np.arange(count)
        lessons = MAX_LESSONS
        while True:
            misfits = self._fit(payloads, rest, integers, texts, which)
            rest = rest[which[rest] < 0] if misfits else rest[:0]
            lessons, learned = self._learn(payloads, rest, lessons)
            if not learned:
                break
        cases = np.array([*(layout.case for layout in self._layouts), 0], np.int64)[which]
        return Projected(
            cases,
            dict(zip(self._integers, integers, strict=True)),
            {
                name: Texts(payloads.buffer, *places, are_unicode=True)
                for name, places in zip(self._texts, texts, strict=True)
            },
            rest,
        )

    def _fit(self, payloads: BinaryColumn, rows: Rows, integers: Numbers, texts: Numbers, which: Numbers) -> int:
        """Call the loop; whatever it is given an address of is held here meanwhile."""
        literals, pieces, layouts = self._tables
        starts, ends = np.ascontiguousarray(payloads.starts), np.ascontiguousarray(payloads.ends)
        count, height, day = len(rows), len(payloads), np.zeros(3, np.int64)
        assert payloads.buffer.flags.c_contiguous and rows.flags.c_contiguous
        return self._loops.project(
            payloads.buffer.ctypes.data, starts.ctypes.data, ends.ctypes.data, rows.ctypes.data, count,
            literals.ctypes.data, pieces.ctypes.data, layouts.ctypes.data, len(layouts),
            integers.ctypes.data, texts.ctypes.data, height, which.ctypes.data, day.ctypes.data,
        )  # fmt: skip

    def _learn(self, payloads: BinaryColumn, rest: NDArray[np.intp], lessons: int) -> tuple[int, bool]:
        """Learn from the first that no layout fits; (lessons left, whether there is one more layout)."""
        for row in rest[:lessons].tolist():
            lessons -= 1
            layout = learn(payloads[row], self._discriminator, self._wanted)
            if layout is not None and layout not in self._layouts and len(self._layouts) < MAX_LAYOUTS:
                self._layouts.append(layout)
                self._tables = _tables(self._layouts)
                return lessons, True
        return lessons, False


def _tables(layouts: list[Layout]) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """The parts of the layouts that the loop reads: constant pieces, pieces, layouts."""
    literals, at = [], 0
    pieces: list[tuple[int, int, int, int, int]] = []
    places: list[tuple[int, int]] = []
    for layout in layouts:
        places.append((len(pieces), len(layout.pieces)))
        for piece in layout.pieces:
            pieces.append((at, len(piece.literal), piece.slot, piece.integer, piece.text))
            literals.append(piece.literal)
            at += len(piece.literal)
    return (
        np.frombuffer(b"".join([*literals, bytes(PAD_BYTES)]), np.uint8),
        np.array(pieces, np.int64).reshape(-1, 5),
        np.array(places, np.int64).reshape(-1, 2),
    )
