"""The watermarks of a job's partitions as a process outside of the job sees them."""

from __future__ import annotations

from nodes.fleet.monitor import Monitor
from nodes.log.contract import LogError
from nodes.machine import messages as m
from wcrdt.windows.assigners import BEFORE_TIME_MS


class Watermarks:
    """``known``: by partition, in ms; none of a partition that never had a record with an event time."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._broadcast_at = dict.fromkeys(range(monitor.run.partitions), -1)
        self.known: dict[int, int] = {}

    def read(self) -> dict[int, int]:
        """The newest watermark of each partition: from its last broadcast, or from its last checkpoint."""
        monitor = self._monitor
        for partition in range(monitor.run.partitions):
            saved = monitor.ownership.checkpoint(partition)
            found = [] if saved is None else [saved.watermark_ms]
            found += self._broadcast(partition)
            for watermark in found:
                if watermark > BEFORE_TIME_MS:
                    self.known[partition] = max(watermark, self.known.get(partition, watermark))
        return self.known

    def _broadcast(self, partition: int) -> list[int]:
        """Of the newest message alone; one that cannot be read, or is about the other track, has no effect."""
        log, topic = self._monitor.log, self._monitor.topics.broadcast
        try:
            end = log.end_offset(topic, partition)
            if end == self._broadcast_at[partition] or end == log.start_offset(topic, partition):
                return []
            self._broadcast_at[partition] = end
            message = m.decode_broadcast(log.read(topic, partition, end - 1, max_records=1).values[0])
        except (LogError, m.BadMessage, IndexError):
            return []
        if isinstance(message, m.PunctuationSent):
            return [message.punctuation.watermark_ms]
        if isinstance(message, m.PieceSent):
            return []
        record = message.delta.record
        return [] if record is None else [record.watermark_ms]
