"""Late and dead events on their way to their outputs."""

from __future__ import annotations

from holon.formats.formats import AtomFormat
from holon.formats.input_run import Input
from holon.input_layout import InputPartition
from holon.job import encode_json
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
        last, n, record = -1, 0, b""
        found = {place_in_run(one): one for each in refused for one in each}
        for _, (index, place, reason, state) in sorted(found.items()):
            n, record = (n + 1, record) if index == last else (0, run.payloads[index])
            last = index
            offset, ts, payload = int(run.offsets[index]), int(run.timestamps_ms[index]), record
            if place is not None:
                assert isinstance(self._format, AtomFormat), "places, but no atoms"
                payload = self._format.single(record, place)
            letter = Diverted(*self._place, offset, ts, reason, payload, place, state=state or None)
            if run.parts is not None:
                letter.key, letter.headers = run.parts.key(index), run.parts.headers_of(index)
                letter.null = run.parts.is_null(index)
            self._outbox.divert(output, offset, n, encode_json(letter.shortened()))
