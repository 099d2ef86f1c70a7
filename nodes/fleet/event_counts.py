"""How many events the input of a job holds: its records, unless these are atoms, which hold many each."""

from __future__ import annotations

from collections.abc import Sequence

from holon.formats.formats import AtomFormat, count_events
from holon.job import Job
from nodes.log.contract import Log


class EventCounts:
    """Counts of a job's input up to given offsets; what was counted once is not read again."""

    def __init__(self, log: Log, job: Job, start_offsets: Sequence[int]) -> None:
        self._log = log
        self._topic = job.source.topic
        self._format = job.source.format
        self._start = start_offsets
        self._known = [(start, 0) for start in start_offsets]

    @property
    def reads(self) -> bool:
        """Whether the records have to be read to be counted."""
        return isinstance(self._format, AtomFormat)

    def up_to(self, partition: int, end: int) -> int:
        """Events in the records below ``end``: of a partition whose beginning is gone, of those that are left."""
        if not self.reads:
            return end - self._start[partition]
        offset, events = self._known[partition]
        if end < offset:
            offset, events = self._start[partition], 0
        offset = max(offset, self._log.start_offset(self._topic, partition))
        while offset < end:
            chunk = self._log.read(self._topic, partition, offset).before(end)
            if chunk.next_offset <= offset:
                break
            events += count_events(self._format, chunk.values)
            offset = chunk.next_offset
        self._known[partition] = (offset, events)
        return events


def events_on_log(log: Log, job: Job) -> list[int]:
    """By partition of its input: the events that are on the log now."""
    topic = job.source.topic
    parts = range(log.partitions(topic))
    counts = EventCounts(log, job, [log.start_offset(topic, part) for part in parts])
    return [counts.up_to(part, log.end_offset(topic, part)) for part in parts]
