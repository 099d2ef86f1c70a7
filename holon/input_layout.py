"""The partitions of a job over those of its topics: numbered densely, in the order in which it lists its sources.

This is the one mapping between a partition of a job and its place on the log. Claims, slots, checkpoints, identities
and outputs have the job's numbers; the topic's own are used where the log is read, and where people are told of places.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from holon.source import Source


class InputPlace(NamedTuple):
    """A partition on the log."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


@dataclass(frozen=True, slots=True)
class InputPartition:
    """A partition of a job: its source, and where that has it."""

    source: Source[Any]
    place: InputPlace


class InputLayout:
    """``partitions`` are those of each source's topic, in the order of the sources."""

    def __init__(self, sources: Sequence[Source[Any]], partitions: Sequence[int]) -> None:
        assert len(sources) == len(partitions), f"{len(sources)} sources, {len(partitions)} numbers of partitions"
        self.sources = tuple(sources)
        self.counts = tuple(partitions)
        self._firsts = (0, *accumulate(partitions))
        self.topics = {source.topic: count for source, count in zip(self.sources, self.counts, strict=True)}
        """The partitions of each topic, in the order of the sources."""

    @property
    def partitions(self) -> int:
        """How many the job has."""
        return self._firsts[-1]

    def __getitem__(self, partition: int) -> InputPartition:
        """A partition of the job."""
        assert 0 <= partition < self.partitions, f"partition {partition} of {self.partitions}"
        number = bisect_right(self._firsts, partition) - 1
        source = self.sources[number]
        return InputPartition(source, InputPlace(source.topic, partition - self._firsts[number]))

    def __iter__(self) -> Iterator[InputPartition]:
        return (self[partition] for partition in range(self.partitions))

    def places(self) -> list[InputPlace]:
        """Where each partition of the job is."""
        return [partition.place for partition in self]

    def number_of(self, topic: str, partition: int) -> int | None:
        """The job's number of a partition of one of its topics; None: it reads no such partition."""
        for first, source, count in zip(self._firsts, self.sources, self.counts, strict=False):
            if source.topic == topic:
                return first + partition if 0 <= partition < count else None
        return None

    def idle_timeout_ms(self, partitions: Iterable[int]) -> int | None:
        """The time after which none of these partitions holds windows open; None: one does for ever."""
        timeouts = [self[partition].source.idle_timeout_ms for partition in partitions]
        known = [timeout_ms for timeout_ms in timeouts if timeout_ms is not None]
        return None if len(known) < len(timeouts) else max(known, default=None)

    def name(self, partition: int) -> str:
        """The partition for people: its number, and where it is if the job reads several topics."""
        return str(partition) if len(self.sources) == 1 else f"{partition} ({self[partition].place})"
