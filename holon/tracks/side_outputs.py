"""Late and dead events on their way to their outputs."""

from __future__ import annotations

from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from holon.columnar.payloads import BinaryColumn
from holon.formats.formats import AtomFormat
from holon.formats.input_run import Input
from holon.input_layout import InputPartition
from holon.job import encode_json_column
from holon.outputs.letters import Diverted
from holon.outputs.outbox import Outbox
from holon.tracks.admission import RefusedEvent, place_in_run


class Diversion:
    """Writes the letters of one partition."""

    def __init__(self, input: InputPartition, outbox: Outbox) -> None:
        self._place = input.place
        self._format = input.source.format
        self._outbox = outbox

    def divert(self, output: str, run: Input, *refused: list[RefusedEvent]) -> None:
        """Of each event a letter, in the order of their places; those of one record are numbered.

        One event has one letter for each state that it is late for.
        """
        found = {place_in_run(one): one for each in refused for one in each}
        if not found:
            return
        events = [one for _, one in sorted(found.items())]
        index = np.array([one.record for one in events])
        offsets, numbers = run.offsets[index].tolist(), _counted(index)
        times, given = run.timestamps_ms[index].tolist(), run.payloads
        payloads = given.take(index) if isinstance(given, BinaryColumn) else [given[one.record] for one in events]
        letters = list(map(self._letter, repeat(run), events, offsets, times, payloads))
        self._outbox.divert(output, offsets, numbers, encode_json_column(letters))

    def _letter(self, run: Input, event: RefusedEvent, offset: int, ts: int, payload: bytes) -> Diverted:
        index, place, reason, state = event
        if place is not None:
            assert isinstance(self._format, AtomFormat), "places, but no atoms"
            payload = self._format.single(payload, place)
        letter = Diverted(*self._place, offset, ts, reason, payload, place, state=state or None)
        if run.parts is not None:
            letter.key, letter.headers = run.parts.key(index), run.parts.headers_of(index)
            letter.null = run.parts.is_null(index)
        return letter.shortened()


def _counted(index: NDArray[np.int64]) -> list[int]:
    """How many rows before each have the same number; equal ones are next to each other."""
    first = np.flatnonzero(np.diff(index, prepend=-1))
    return (np.arange(len(index)) - np.repeat(first, np.diff(first, append=len(index)))).tolist()
