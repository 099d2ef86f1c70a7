"""Inserts that closed windows refuse: how many, and which rows no window of a state takes any more."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wcrdt.windows.assigners import END_OF_TIME_MS, Assigner

IN_HAND = -1
"""In place of the row of a batch: the record in hand."""


class LateRow(NamedTuple):
    """A row that no window of a state takes. ``letter``: its record goes to the late output for that."""

    state: str
    row: int
    ts_ms: int
    letter: bool


class LateInserts:
    """The late inserts of one partition.

    ``refusals``: how often a closed window has refused a row of the record track since they were taken last; ``rows``:
    those rows that no window of their state takes. ``of_handlers``: how often one has refused a handler, in all.
    """

    def __init__(self, lateness_ms: int) -> None:
        self.refusals = 0
        self.rows: list[LateRow] = []
        self.of_handlers = 0
        self._lateness_ms = lateness_ms

    def add(
        self,
        state: str,
        windows: Assigner,
        times: NDArray[np.int64],
        watermarks_ms: NDArray[np.int64] | int,
        rows: NDArray[np.intp] | None,
        letters: bool,
        judged: NDArray[np.int64] | None = None,
    ) -> NDArray[np.intp]:
        """Find and keep the times that no window of the state takes; gives their places. ``judged``: by other times.

        ``watermarks_ms``: those before their rows of the batch, or of the record in hand. ``rows`` None: all.
        """
        by = times if judged is None else judged
        if isinstance(watermarks_ms, int):
            late = late_places(windows, by, np.full(len(times), watermarks_ms), self._lateness_ms)
            places = [IN_HAND] * len(late)
        else:
            late = late_places(windows, by, watermarks_ms, self._lateness_ms)
            places = (late if rows is None else np.asarray(rows)[late]).tolist()
        found = zip(places, times[late].tolist(), strict=True)
        self.rows += [LateRow(state, row, ts, letters) for row, ts in found]
        return late

    def count(self, refusals: int, track: str) -> None:
        """So many rows of a track were refused, each once for each closed window."""
        if track == "record":
            self.refusals += refusals
        else:
            self.of_handlers += refusals

    def take(self) -> tuple[int, list[LateRow]]:
        """``refusals`` and ``rows`` since the last call."""
        taken = self.refusals, self.rows
        self.refusals, self.rows = 0, []
        return taken


def late_places(
    windows: Assigner, times: NDArray[np.int64], watermarks_ms: NDArray[np.int64], lateness_ms: int
) -> NDArray[np.intp]:
    """The places of the times that no window takes at these watermarks, which are those before their rows."""
    behind = np.flatnonzero(times < watermarks_ms)  # each window ends after the times that it takes
    if not len(behind):
        return behind
    late = [
        place
        for place, ts, at_ms in zip(
            behind.tolist(), times[behind].tolist(), watermarks_ms[behind].tolist(), strict=True
        )
        if at_ms >= END_OF_TIME_MS or all(w.end_ms + lateness_ms <= at_ms for w in windows.windows_for(ts))
    ]
    return np.array(late, np.intp)
