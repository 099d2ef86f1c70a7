"""Reading the topic of shards: the contributions for the partitions that this node processes, and for no others.

Two rules for this file. A partition is read from where the log ends when that is first asked, and what was before is
requested. Nothing that is written later is passed over.
"""

from __future__ import annotations

from collections.abc import Collection

from nodes.log.contract import Log, LogTruncated, OffsetOutOfRange, TopicPartition
from nodes.machine import effects as x
from nodes.machine import events as e
from nodes.machine.workload import Workload
from nodes.streams.io.joining import Joining

CONTRIBUTIONS_BATCH = 1000


class ShardReading:
    """``topic`` None: the job has no shards."""

    def __init__(self, log: Log, work: Workload, topic: str | None, joining: Joining) -> None:
        self._log = log
        self._work = work
        self._topic = topic
        self._joining = joining
        self._at: dict[int, tuple[int, int]] = {}  # key of the runner, and the next offset

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Where each one is read on. Nothing before that is needed: a later reader of the partition requests it."""
        return {TopicPartition(self._topic, p): offset for p, (_, offset) in self._at.items() if self._topic}

    def poll(self, ready: Collection[TopicPartition] | None) -> list[e.ContributionsRead]:
        """The new records; ``ready`` None: of all partitions."""
        if self._topic is None:
            return []
        runners = {p: runner.key for p, runner in sorted(self._work.runners.items()) if runner.shard is not None}
        self._at = {p: at for p, at in self._at.items() if runners.get(p) == at[0]}
        found: list[e.ContributionsRead] = []
        for partition, key in runners.items():
            if partition not in self._at:
                self._at[partition] = key, self._log.high_watermark(self._topic, partition)
                found.append(e.ContributionsRead(partition, key, []))
            elif ready is None or TopicPartition(self._topic, partition) in ready:
                found += self._read(self._topic, partition, key)
        return found

    def _read(self, topic: str, partition: int, key: int) -> list[e.ContributionsRead]:
        offset = self._at[partition][1]
        try:
            chunk = self._log.poll(topic, partition, offset, max_records=CONTRIBUTIONS_BATCH)
        except (LogTruncated, OffsetOutOfRange):  # what is missing is requested
            start, end = self._log.start_offset(topic, partition), self._log.high_watermark(topic, partition)
            self._at[partition] = key, max(start, min(offset, end))
            return []
        if not chunk.values:
            return []
        self._at[partition] = key, chunk.next_offset
        return [e.ContributionsRead(partition, key, chunk.values)]

    def rewind(self, effect: x.RewindShard) -> None:
        """Read all contributions again. Raises ``FellBehind`` where the first ones are gone."""
        assert self._topic is not None
        start = self._log.start_offset(self._topic, effect.partition)
        if start > 0:
            raise self._joining.fell_behind(self._topic, effect.partition, 0, start)
        if effect.partition in self._at:
            self._at[effect.partition] = effect.version, 0
