"""Reading on the output partitions that standbys follow: the identities that have appeared, not the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holon.identity import ascents
from nodes.jobs import Topics
from nodes.log.contract import Log, OffsetOutOfRange
from nodes.machine.config import JobRun
from nodes.machine.events import Followed, OutputPartition

FOLLOW_BATCH = 10_000


@dataclass(slots=True)
class Read:
    """``at_end``: no output partition has more."""

    news: list[Followed] = field(default_factory=list)
    at_end: bool = True


def follow(log: Log, topics: Topics, run: JobRun, places: Mapping[OutputPartition, int]) -> Read:
    """Look once at each of these output partitions, from these offsets on."""
    read = Read()
    for to, start in places.items():
        topic, partition = topics.outputs[to[0]], to[1]
        try:
            chunk = log.follow(topic, partition, start, max_records=FOLLOW_BATCH)
        except OffsetOutOfRange:  # deleted before anybody here was concerned with it; or a broker has lost its end
            end = max(log.start_offset(topic, partition), min(start, log.end_offset(topic, partition)))
            read.news.append(Followed(to, start, end, {}))
            read.at_end = False
            continue
        if chunk.next_offset > start:
            found = ascents(chunk.headers, run.job.name, run.incarnation)
            read.news.append(Followed(to, start, chunk.next_offset, found))
            read.at_end &= len(chunk) < FOLLOW_BATCH
    return read
