"""How many events the input of a job holds: its records, unless these are atoms, which hold many each."""

from __future__ import annotations

from collections.abc import Sequence

from holon.formats.formats import AtomFormat, count_events
from holon.input_layout import InputLayout
from holon.job import Job
from nodes.log.contract import Log


class EventCounts:
    """Counts of a job's input up to given offsets; what was counted once is not read again."""

    def __init__(self, log: Log, layout: InputLayout, start_offsets: Sequence[int]) -> None:
        self._log = log
        self._inputs = list(layout)
        self._start = start_offsets
        self._known = [(start, 0) for start in start_offsets]

    def reads(self, partition: int) -> bool:
        """Whether the records have to be read to be counted."""
        return isinstance(self._inputs[partition].source.format, AtomFormat)

    def up_to(self, partition: int, end: int) -> int:
        """Events in the records below ``end``: of a partition whose beginning is gone, of those that are left."""
        if not self.reads(partition):
            return end - self._start[partition]
        source, place = self._inputs[partition].source, self._inputs[partition].place
        offset, events = self._known[partition]
        if end < offset:
            offset, events = self._start[partition], 0
        offset = max(offset, self._log.start_offset(*place))
        while offset < end:
            chunk = self._log.read(*place, offset).before(end)
            if chunk.next_offset <= offset:
                break
            events += count_events(source.format, chunk.values)
            offset = chunk.next_offset
        self._known[partition] = (offset, events)
        return events


def events_on_log(log: Log, job: Job) -> list[int]:
    """By partition of its input: the events that are on the log now."""
    layout = InputLayout(job.sources, [log.partitions(topic) for topic in job.topics])
    counts = EventCounts(log, layout, [log.start_offset(*place) for place in layout.places()])
    return [counts.up_to(partition, log.end_offset(*place)) for partition, place in enumerate(layout.places())]
