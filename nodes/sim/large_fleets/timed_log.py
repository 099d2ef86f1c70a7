"""The log of a timed fleet: what is sent in a turn is on the log once the turn's cost and the way there have passed.

Two rules for this file: it counts what a turn reads and writes and knows no costs; nothing appears on the log before
its time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nodes.log.contract import FetchedRecords
from nodes.log.memory import MemoryLog
from nodes.sim.large_fleets.costs import TurnCounts
from nodes.streams.jobs import JobTopics


@dataclass(slots=True)
class Sent:
    """On its way to the log."""

    topic: str
    partition: int
    values: Sequence[bytes]
    headers: Sequence[bytes] | None
    keys: Sequence[bytes | None] | None
    done: Callable[[int], None]


class TimedLog(MemoryLog):
    """``topics`` is set once the job is open; ``written`` counts bytes by topic."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        super().__init__(clock_ms=clock_ms)
        self.topics_of: JobTopics | None = None
        self.written: dict[str, int] = {}
        self.records: dict[str, int] = {}
        self._counts: TurnCounts | None = None
        self._outbox: list[Sent] = []

    def begin(self, counts: TurnCounts) -> None:
        """A turn begins, which is counted there."""
        self._counts = counts

    def end(self) -> list[Sent]:
        """The turn is over; what it has sent."""
        self._counts = None
        sent, self._outbox = self._outbox, []
        return sent

    def send(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        *,
        headers: Sequence[bytes] | None = None,
        keys: Sequence[bytes | None] | None = None,
        done: Callable[[int], None] = lambda end: None,
    ) -> None:
        assert self._counts is not None and self.topics_of is not None
        if topic == self.topics_of.broadcast:
            self._counts.deltas_out += 1
        else:
            self._counts.sends += 1
        self._outbox.append(Sent(topic, partition, values, headers, keys, done))

    def arrive(self, sent: Sent) -> None:
        """It is on the log now, and its sender may know."""
        self.written[sent.topic] = self.written.get(sent.topic, 0) + sum(map(len, sent.values))
        self.records[sent.topic] = self.records.get(sent.topic, 0) + len(sent.values)
        done = self.append(sent.topic, sent.partition, sent.values, headers=sent.headers, keys=sent.keys)
        sent.done(done.first_offset + done.count)

    def read(
        self, topic: str, partition: int, offset: int, *, max_records: int = 10_000, max_bytes: int = 8 << 20
    ) -> FetchedRecords:
        chunk = super().read(topic, partition, offset, max_records=max_records, max_bytes=max_bytes)
        counts, topics = self._counts, self.topics_of
        if counts is None or topics is None:
            return chunk
        if topic == topics.broadcast:
            counts.deltas_in += len(chunk)
        elif topic in topics.layout.topics and len(chunk):
            counts.batches += 1
            counts.events += len(chunk)
        elif topic == topics.control:
            counts.control += len(chunk)
        elif topic in (topics.heartbeats, topics.group_heartbeats):
            counts.heartbeats += len(chunk)
        return chunk
