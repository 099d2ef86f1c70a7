"""Reading output partitions for the identities on them, not for the results: their tails, and what standbys follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holon.job import UNSTABLE
from holon.outputs.identity import LastSeen, Track, ascents
from nodes.log.contract import Log, LogTruncated, OffsetOutOfRange
from nodes.machine import effects as x
from nodes.machine import events as e
from nodes.machine.config import JobRun
from nodes.machine.events import Followed, OutputPartition
from nodes.streams.jobs import JobTopics
from nodes.streams.truncation import Truncation

FOLLOW_BATCH = 10_000


@dataclass(slots=True)
class IdentitiesRead:
    """``at_end``: no output partition has more."""

    followed: list[Followed] = field(default_factory=list)
    at_end: bool = True


def follow(log: Log, topics: JobTopics, run: JobRun, places: Mapping[OutputPartition, int]) -> IdentitiesRead:
    """Poll each of these output partitions once, from these offsets on."""
    read = IdentitiesRead()
    for to, start in places.items():
        topic, partition = topics.outputs[to[0]], to[1]
        try:
            chunk = log.poll(topic, partition, start, max_records=FOLLOW_BATCH)
        except OffsetOutOfRange as error:
            if start > log.high_watermark(topic, partition):
                raise LogTruncated(
                    f"job {run.job.name!r}: {error}. Results are gone; start again with --reset"
                ) from error
            # Deleted before anybody here was concerned with it.
            read.followed.append(Followed(to, start, log.start_offset(topic, partition), {}))
            read.at_end = False
            continue
        if chunk.next_offset > start:
            found = ascents(chunk.headers, run.job.name, run.origin)
            read.followed.append(Followed(to, start, chunk.next_offset, found))
            read.at_end &= len(chunk) < FOLLOW_BATCH
    return read


def read_tail(log: Log, topics: JobTopics, run: JobRun, effect: x.ReadTail, truncation: Truncation) -> e.TailRead:
    """Scan what other owners may have written after the checkpoint.

    Raises ``LogTruncated`` where less is there than the checkpoint knew of.
    """
    last: dict[e.OutputPartition, dict[int, LastSeen]] = {}
    ends: dict[e.OutputPartition, int] = {}
    for output, declared in run.job.outputs.items():
        if output == UNSTABLE:
            continue
        topic = topics.outputs[output]
        partitions = range(run.output_partitions[output]) if declared.route_by_key else [effect.partition]
        for partition in partitions:
            start = effect.since.get(output, {}).get(partition, 0)
            known = effect.known.get(output, {}).get(partition, 0)
            to = (output, partition)
            try:
                last[to], ends[to] = _scan(log, run, topic, partition, start, effect.partition)
            except OffsetOutOfRange as error:
                if (lost := truncation.beyond_end(topic, partition, start)) is not None:
                    raise lost from error
                last[to], ends[to] = {}, start  # it is there, behind another's open transaction
            # The scan has just learned the end, so the next owner does not wait for it again.
            if ends[to] < known and (lost := truncation.beyond_end(topic, partition, known)) is not None:
                raise lost
            if (seen := last[to].get(int(Track.RECORD))) is not None:
                truncation.saw_tail(effect.partition, seen[0])
    return e.TailRead(effect.partition, effect.version, last, ends)


def _scan(
    log: Log, run: JobRun, topic: str, partition: int, start: int, source: int
) -> tuple[dict[int, LastSeen], int]:
    last: dict[int, LastSeen] = {}
    offset = max(start, log.start_offset(topic, partition))
    while True:
        chunk = log.read(topic, partition, offset)
        for (partition_of, track), runs in ascents(chunk.headers, run.job.name, run.origin).items():
            if partition_of == source:
                seen = max(end for _, end in runs)
                last[track] = max(seen, last.get(track, seen))
        if chunk.next_offset == offset:
            return last, offset
        offset = chunk.next_offset
