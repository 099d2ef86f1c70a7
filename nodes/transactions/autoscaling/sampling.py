"""Samples of a running job, from its log alone: nodes do nothing for it but report in heartbeats how busy they are.

A rule for this file: a read is bounded. Of a job that does more than that between two samples, the newest counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from nodes.log.contract import FetchedRecords, Log
from nodes.machine import messages as m
from nodes.transactions.autoscaling.deciding import Sample
from nodes.transactions.control_history import at_work, counted_heartbeats
from nodes.transactions.layouts.cpu import MOST_HEARTBEATS, RecentCpu, bucket_shares, cpu_of
from nodes.transactions.layouts.halves import Bucket
from nodes.transactions.layouts.heat import Recent, chunks, whole
from nodes.transactions.layouts.repartitioning import Repartitioning
from nodes.transactions.metrics.node import BUSY_STAT
from nodes.transactions.topics import TransactionTopics
from transactional.epochs.messages import BadRecord, Cut, epoch_message, epoch_messages, reply_message
from transactional.epochs.pieces import RecordPieces
from transactional.layout import Layout

MOST_EPOCH_RECORDS, MOST_REPLY_RECORDS, MOST_REQUEST_RECORDS, MOST_COMMITS = 5_000, 1_000, 20_000, 300
FIRST_EPOCH_RECORDS = 500
"""Before the first sample, so that the newest cut of each request partition is known."""
CPU_S = 15
"""Skew is that of the CPU of so many seconds: of fewer, the sample of steps behind it is rough."""
FEWEST_REPLIES = 20
"""Of fewer there is no p99."""


class _Answered(NamedTuple):
    sequencer: int
    offset: int
    at_ms: int


class Sampler:
    """Of one job. A sample counts from the one before on, the first one from here on.

    ``wall_ms``: since 1970. ``keys_from``: the skew from which the hottest key matters.
    """

    def __init__(
        self,
        log: Log,
        topics: TransactionTopics,
        requests: Repartitioning,
        wall_ms: Callable[[], int],
        keys_from: float = 1.0,
    ) -> None:
        self._log = log
        self._topics = topics
        self._requests = requests
        self._wall_ms = wall_ms
        self._heartbeats = log.end_offset(topics.heartbeats, 0)
        self._epochs = max(log.start_offset(topics.epochs, 0), log.end_offset(topics.epochs, 0) - FIRST_EPOCH_RECORDS)
        self._replies = {
            place: log.end_offset(topics.replies, place) for place in range(log.partitions(topics.replies))
        }
        self._reported: deque[tuple[int, m.Heartbeat]] = deque(maxlen=MOST_HEARTBEATS)
        self._layout: int | None = None
        self._keys_from = keys_from
        self._pieces = RecordPieces()
        self._cut_to: dict[int, int] = {}

    def take(self) -> Sample:
        """The next one. Raises ``LogError``."""
        ownership, layout = self._requests.read(), self._requests.layout()
        heard = self._heard()
        busy = {node: heard[node].get(BUSY_STAT) for node in at_work(heard, ownership)}
        known = [each for each in busy.values() if each is not None]
        if self._layout not in (None, layout.number):
            self._reported.clear()  # of other homes
        self._layout = layout.number
        cpu = cpu_of(self._reported)
        by_cpu = cpu is not None and cpu.compares(layout.partitions)
        skew = self._skew_by_cpu(cpu, layout) if cpu is not None and by_cpu else self._skew_by_heat(layout)
        return Sample(
            at_ms=self._wall_ms(),
            nodes=len(busy),
            partitions=layout.partitions,
            settled=ownership.layouts.open is None,
            busy=sum(known) / len(known) if known else None,
            p99_ms=self._p99_ms(),
            lag_s=self._lag_s(),
            skew_by="cpu" if by_cpu else "heat",
            **skew._asdict(),
        )

    def _skew_by_cpu(self, cpu: RecentCpu, layout: Layout) -> _Skew:
        """Keys are looked for only where that may matter: it takes more CPU than all the rest of a sample."""
        works = [cpu.share(partition) for partition in range(layout.partitions)]

        def key_of(hottest: int) -> float:
            if works[hottest] * len(works) < self._keys_from:
                return 0.0
            work = self._requests.recent(MOST_COMMITS)
            heats = work.heats(layout)
            shares = bucket_shares(cpu, layout, self._requests.groups, heats)
            return _hottest_key(work, heats, layout, hottest, shares)

        return _skew(works, key_of)

    def _skew_by_heat(self, layout: Layout) -> _Skew:
        work = self._requests.recent(MOST_COMMITS)
        heats = work.heats(layout)
        works = [float(each.heat) for each in work.by_partition(layout)]
        return _skew(works, lambda hottest: _hottest_key(work, heats, layout, hottest, heats))

    def _heard(self) -> dict[str, dict[str, float]]:
        """The newest figures of all nodes that have sent a heartbeat meanwhile."""
        found: dict[str, dict[str, float]] = {}
        for chunk in self._chunks(self._topics.heartbeats, 0, self._heartbeats):
            self._heartbeats = chunk.next_offset
            for at_ms, value in zip(chunk.timestamps_ms.tolist(), chunk.values, strict=True):
                for each in counted_heartbeats([value]):
                    found[each.node] = each.stats or found.get(each.node, {})  # a watchdog's has none
                    self._reported.append((at_ms, each))
        while self._reported and self._reported[0][0] < self._reported[-1][0] - 1000 * CPU_S:
            self._reported.popleft()
        return found

    def _lag_s(self) -> float:
        """Age of the oldest request that is in no epoch."""
        topics, lags = self._topics, [0.0]
        self._read_cuts()
        for number in range(self._log.partitions(topics.requests)):
            at = self._cut_to.get(number)
            if at is None and self._log.end_offset(topics.epochs, 0) == 0:
                at = self._log.start_offset(topics.requests, number)
            if at is not None and at < self._log.end_offset(topics.requests, number):
                for chunk in self._chunks(topics.requests, number, at, most=1):
                    lags.append((self._wall_ms() - int(chunk.timestamps_ms[0])) / 1000)
                    break
        return max(lags)

    def _read_cuts(self) -> None:
        end = self._log.end_offset(self._topics.epochs, 0)
        for chunk in self._chunks(self._topics.epochs, 0, max(self._epochs, end - MOST_EPOCH_RECORDS)):
            self._epochs = chunk.next_offset
            for value in chunk.values:
                try:
                    for each in epoch_messages(value):
                        message = whole(each, self._pieces, epoch_message)
                        if isinstance(message, Cut):
                            self._cut_to[message.sequencer] = message.to_offset
                            self._pieces.forget(message.epoch - 1)
                except BadRecord:
                    continue

    def _p99_ms(self) -> float | None:
        """From the append of a request's record to that of its reply's, by the log's own clock."""
        answered = [each for place in range(self._log.partitions(self._topics.replies)) for each in self._new(place)]
        if len(answered) < FEWEST_REPLIES:
            return None
        asked_ms: dict[tuple[int, int], int] = {}
        for sequencer in sorted({each.sequencer for each in answered}):
            offsets = [each.offset for each in answered if each.sequencer == sequencer]
            self._read_times(sequencer, max(min(offsets), max(offsets) - MOST_REQUEST_RECORDS), max(offsets), asked_ms)
        times = sorted(
            each.at_ms - asked_ms[each.sequencer, each.offset]
            for each in answered
            if (each.sequencer, each.offset) in asked_ms
        )
        return float(times[len(times) * 99 // 100]) if len(times) >= FEWEST_REPLIES else None

    def _new(self, place: int) -> Iterator[_Answered]:
        start = max(self._replies.get(place, 0), self._log.end_offset(self._topics.replies, place) - MOST_REPLY_RECORDS)
        for chunk in self._chunks(self._topics.replies, place, start):
            self._replies[place] = chunk.next_offset
            for at_ms, value in zip(chunk.timestamps_ms.tolist(), chunk.values, strict=True):
                try:
                    record = reply_message(value)
                except BadRecord:
                    continue
                for each in record.replies:
                    yield _Answered(each.sequencer, each.offset, at_ms)

    def _read_times(self, sequencer: int, first: int, last: int, into: dict[tuple[int, int], int]) -> None:
        for chunk in self._chunks(self._topics.requests, sequencer, first):
            for offset, at_ms in zip(chunk.offsets.tolist(), chunk.timestamps_ms.tolist(), strict=True):
                into[sequencer, offset] = at_ms
            if chunk.next_offset > last:
                return

    def _chunks(self, topic: str, partition: int, offset: int, most: int = 10_000) -> Iterator[FetchedRecords]:
        """To the end as it is now, those that hold something."""
        end = self._log.end_offset(topic, partition)
        return (chunk for chunk in chunks(self._log, topic, partition, offset, end, most) if chunk.values)


class _Skew(NamedTuple):
    """As ``Sample`` has it."""

    hottest: int | None = None
    skew: float = 1.0
    hottest_key: float = 0.0
    coldest: int | None = None
    coldest_part: float = 1.0


def _skew(works: Sequence[float], key_of: Callable[[int], float]) -> _Skew:
    """Of the work of each partition. ``key_of``: that of the hottest key of a partition."""
    if not any(works):
        return _Skew()
    hottest, coldest = works.index(max(works)), works.index(min(works))
    highest = works[hottest]
    skew = highest * len(works) / sum(works)
    return _Skew(hottest, skew, key_of(hottest) / highest, coldest, works[coldest] / highest)


def _hottest_key(
    work: Recent, heats: Mapping[Bucket, int], layout: Layout, partition: int, shares: Mapping[Bucket, float]
) -> float:
    """By keys' parts of the heat of their buckets. ``shares``: the work of buckets; one without heat may be one key."""
    most: dict[Bucket, int] = {}
    for (place, part), mine in work.by_part.items():
        bucket = Bucket(place, layout.groups[place].group.bucket(part))
        most[bucket] = max(most.get(bucket, 0), mine.heat)
    return max(
        (
            share * (most[bucket] / heats[bucket] if heats.get(bucket) else 1.0)
            for bucket, share in shares.items()
            if layout.groups[bucket.place].homes[bucket.number] == partition
        ),
        default=0.0,
    )
