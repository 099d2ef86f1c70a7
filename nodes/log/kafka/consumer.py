"""Reading Kafka: one reader follows the partitions that are being read, and keeps what arrived for each."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from nodes.log.checks import out_of_range
from nodes.log.contract import FetchedRecords, LogError, LogTruncated, TopicPartition
from nodes.log.kafka.columns import Tail, TakenPieces
from nodes.log.kafka.confluent_reader import PartitionEvent, Reader, Where
from nodes.log.kafka.errors import DAMAGED, OUT_OF_RANGE, Connection, is_truncation, reason
from nodes.log.kafka.retry_policy import Remedy, remedy
from nodes.log.kafka.stalled_partitions import STALL_TIMEOUT_S, StallWatch
from nodes.log.kafka.topics import TopicAdmin

END_MAX_AGE_S = 0.005
"""How old the broker's word about the end of a partition may be when an empty chunk is given for it."""
UNUSED_S = 2.0
PUMP_INTERVAL_S = 0.0005
"""A caller that polls many partitions in turn takes the arrived records of all of them at the first."""
FETCHES_OF_DAMAGED = 3
_SLICE_S = 0.25
_NO_NUMBERS = np.empty(0, np.int64)


class Follower:
    """Belongs to one thread at a time. ``prefix`` precedes the topics' names on the broker.

    ``columns``: values are given as ``BinaryColumn``. ``stalls``: notices partitions of which nothing arrives.
    """

    def __init__(
        self,
        reader: Reader,
        topics: TopicAdmin,
        connection: Connection,
        prefix: str,
        timeout_s: float,
        stalls: StallWatch | None = None,
        columns: bool = False,
    ) -> None:
        self._reader = reader
        self._columns = columns
        self._topics = topics
        self._connection = connection
        self._prefix = prefix
        self._timeout_s = timeout_s
        self._stalls = StallWatch(topics.request_ends, STALL_TIMEOUT_S) if stalls is None else stalls
        self._tails: dict[TopicPartition, Tail] = {}
        self._places: dict[tuple[str, int], TopicPartition] = {}  # by the topics' names on the broker
        self._learned: set[str] = set()
        self._swept_s = 0.0
        self._pumped_s = 0.0

    # --- what the log offers ----------------------------------------------------------------------------------------

    def read(self, where: TopicPartition, offset: int, max_records: int, max_bytes: int) -> FetchedRecords:
        """See ``Log.read``; the partition is known to exist."""
        tail = self._tail_at(where, offset)
        tail.drop_before(offset)
        taken = TakenPieces(max(max_records, 1), max_bytes, self._columns)
        deadline, refreshed = time.monotonic() + self._timeout_s, False
        while not taken.fill(tail):
            if tail.fetched < tail.end:
                self._fetch_more(tail, deadline)
            elif taken.offsets or refreshed or time.monotonic() - tail.end_s < END_MAX_AGE_S:
                break
            else:
                self._fetch_ends(tail)
                refreshed = True
        next_offset = tail.start if tail.has_some() else tail.fetched
        return taken.chunk(max(next_offset, offset))

    def poll(self, where: TopicPartition, offset: int, max_records: int, max_bytes: int) -> FetchedRecords:
        """See ``Log.poll``: the records that have arrived, without a request for the end."""
        tail = self._tail_at(where, offset)
        tail.drop_before(offset)
        if not tail.attached and not tail.is_full():
            self._attach(tail)
        if not tail.has_some() and tail.problem is None:
            if time.monotonic() - self._pumped_s > PUMP_INTERVAL_S:
                self._pump(0)
            if not tail.has_some() and tail.problem is None:
                return FetchedRecords(_NO_NUMBERS, _NO_NUMBERS, [], [], None, max(tail.fetched, offset))
        taken = TakenPieces(max(max_records, 1), max_bytes, self._columns)
        taken.fill(tail)
        if tail.problem is not None and not taken.offsets and not self._fetches_again(tail):
            self._raise_problem(tail)
        next_offset = tail.start if tail.has_some() else tail.fetched
        return taken.chunk(max(next_offset, offset))

    def wait(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> list[TopicPartition]:
        """See ``Log.wait``; the partitions are known to exist."""
        began_s = time.monotonic()
        deadline = began_s + timeout_s
        tails = [(self._tail_for_waiting(where, position, began_s), position) for where, position in positions.items()]
        pumped = False
        while True:
            ready = [tail.where for tail, position in tails if self._is_ready(tail, position)]
            now_s = time.monotonic()
            left_s = deadline - now_s
            for tail, _ in tails:
                tail.used_s = now_s
            if pumped and (ready or left_s <= 0):
                return ready
            self._pump(0 if ready else max(0.0, min(left_s, _SLICE_S)))
            pumped = True

    def bounds(self, where: TopicPartition) -> tuple[int, int]:
        """First retained offset and end, fetched from the broker now."""
        return self.start(where), self.end(where)

    def end(self, where: TopicPartition) -> int:
        """The end, fetched from the broker now. Its caller can read up to it."""
        end = self._topics.offsets([where], at_end=True)[where]
        tail = self._tails.get(where)
        if tail is not None:
            tail.end = max(tail.end, end)
        return end

    def appended(self, where: TopicPartition) -> None:
        """After an append of this process the known end is stale, however lately it was fetched."""
        tail = self._tails.get(where)
        if tail is not None:
            tail.end_s = float("-inf")

    def start(self, where: TopicPartition) -> int:
        """The first retained offset, fetched from the broker now."""
        return self._topics.offsets([where], at_end=False)[where]

    def forget(self, where: TopicPartition) -> None:
        """Nothing that was fetched of this partition counts any more."""
        tail = self._tails.pop(where, None)
        if tail is not None:
            self._detach(tail)

    def forget_before(self, where: TopicPartition, offset: int) -> None:
        """The records below ``offset`` were deleted; a reader behind it is not disturbed."""
        tail = self._tails.get(where)
        if tail is not None and tail.start < offset:
            self.forget(where)

    def close(self) -> None:
        """Leave the brokers."""
        self._reader.close()

    # --- following --------------------------------------------------------------------------------------------------

    def _tail_at(self, where: TopicPartition, offset: int) -> Tail:
        """The tail that goes on at the offset; ``OffsetOutOfRange`` where there is no such offset."""
        tail = self._tails.get(where)
        if tail is not None and tail.covers(offset) and (tail.problem is None or self._fetches_again(tail)):
            tail.used_s = time.monotonic()
            return tail
        problem = tail.problem if tail is not None and tail.covers(offset) else None
        if problem is not None and is_truncation(problem):
            raise self._lost_its_end(where, offset, problem.str())
        self.forget(where)
        start, end = self.bounds(where)
        now_s = time.monotonic()
        if not start <= offset <= end:
            raise out_of_range(f"topic {where.topic!r} partition {where.partition}", offset, start, end)
        if problem is not None and problem.code() not in (
            KafkaError._AUTO_OFFSET_RESET,
            KafkaError.OFFSET_OUT_OF_RANGE,
        ):
            raise self._connection.translated(problem, _reading(where, offset))
        tail = self._tails[where] = Tail(where, offset)
        tail.end, tail.end_s = end, now_s
        self._attach(tail)
        return tail

    def _tail_for_waiting(self, where: TopicPartition, position: int, now_s: float) -> Tail:
        tail = self._tails.get(where)
        if tail is None or not tail.start <= position <= tail.fetched:
            self.forget(where)
            tail = self._tails[where] = Tail(where, position)
            tail.end = self.end(where)
        tail.used_s = now_s
        if not tail.attached and tail.problem is None and not tail.is_full():
            self._attach(tail)
        return tail

    def _is_ready(self, tail: Tail, position: int) -> bool:
        """Whether something is there; of an offset that the broker refused, whether the end is beyond it."""
        if tail.problem is not None:
            return self.end(tail.where) > position
        return tail.has_some() and tail.last_offset() >= position

    def _fetch_more(self, tail: Tail, deadline: float) -> None:
        """Take what arrives while something of this partition is known to be on its way."""
        if not tail.attached:
            self._attach(tail)
        before = tail.fetched
        self._pump(_SLICE_S)
        if tail.problem is not None and not self._fetches_again(tail):
            self._raise_problem(tail)
        if tail.fetched == before and time.monotonic() > deadline:
            where = _reading(tail.where, tail.fetched)
            raise self._connection.unavailable(f"{where}: nothing arrived for {self._timeout_s:.0f} s")

    def _fetches_again(self, tail: Tail) -> bool:
        """Fetch damaged records again: they may be intact on the log. False where that has not helped."""
        if tail.problem is None or tail.problem.code() not in DAMAGED or tail.damaged >= FETCHES_OF_DAMAGED:
            return False
        tail.damaged += 1
        tail.problem = None
        self._detach(tail)
        self._attach(tail)
        return True

    def _raise_problem(self, tail: Tail) -> None:
        self.forget(tail.where)
        problem = tail.problem
        assert problem is not None
        if is_truncation(problem):
            self._tails[tail.where] = tail  # it stays so: a further read here would return other records
            raise self._lost_its_end(tail.where, tail.fetched, problem.str())
        if problem.code() in OUT_OF_RANGE:
            start, end = self.bounds(tail.where)
            where = f"topic {tail.where.topic!r} partition {tail.where.partition}"
            raise out_of_range(where, tail.fetched, start, end)
        raise self._connection.translated(problem, _reading(tail.where, tail.fetched))

    def _fetch_ends(self, wanted: Tail) -> None:
        """Fetch the ends of all partitions that are followed: that costs no more than fetching one."""
        tails = [tail for tail in self._tails.values() if tail.problem is None]
        requested_s = time.monotonic()
        wanted.used_s = requested_s  # it may have waited long for the broker on its way here
        ends = self._topics.offsets([tail.where for tail in tails], at_end=True)
        for tail in tails:
            tail.end, tail.end_s = ends[tail.where], requested_s
        if wanted.end < wanted.fetched and self.end(wanted.where) < wanted.fetched:
            self.forget(wanted.where)
            raise self._lost_its_end(wanted.where, wanted.fetched, f"it ends at {wanted.end}")
        self._sweep(requested_s)

    def _lost_its_end(self, where: TopicPartition, offset: int, how: str) -> LogTruncated:
        return LogTruncated(
            f"Kafka {self._connection.bootstrap}: topic {where.topic!r} partition {where.partition} was cut off before "
            f"offset {offset}, up to which it had been read ({how}): a broker lost acknowledged records (unclean "
            "leader election, lost disk, topic made anew). Results may rest on them: start again with --reset"
        )

    def _sweep(self, now_s: float) -> None:
        """Stop to follow what nobody has read for a while: what is appended there would be fetched for nothing."""
        if now_s - self._swept_s > UNUSED_S / 2:
            self._swept_s = now_s
            for tail in [tail for tail in self._tails.values() if now_s - tail.used_s > UNUSED_S]:
                self.forget(tail.where)

    # --- the reader -------------------------------------------------------------------------------------------------

    def _name(self, tail: Tail) -> Where:
        return self._prefix + tail.where.topic, tail.where.partition

    def _kafka(self, where: TopicPartition, offset: int) -> KafkaPartition:
        return KafkaPartition(self._prefix + where.topic, where.partition, offset)

    def _attach(self, tail: Tail) -> None:
        name = self._prefix + tail.where.topic
        if (
            name not in self._learned
        ):  # else librdkafka requests a new topic's leaders when it comes round to it, in 1 s
            try:
                self._reader.list_topics(name, timeout=self._timeout_s)
            except KafkaException as error:
                raise self._connection.translated(reason(error), f"requesting topic {tail.where.topic!r}") from error
            self._learned.add(name)
        self._reader.incremental_assign([self._kafka(tail.where, tail.fetched)])
        tail.attached, tail.paused = True, False

    def _detach(self, tail: Tail) -> None:
        if tail.attached or tail.paused:
            self._reader.incremental_unassign([self._kafka(tail.where, tail.fetched)])
            tail.attached = tail.paused = False

    def _pause(self, tail: Tail) -> None:
        """Enough has arrived; records on their way would have been sent for nothing."""
        self._reader.pause([self._kafka(tail.where, tail.fetched)])
        tail.attached, tail.paused = False, True

    def _pump(self, timeout_s: float) -> None:
        """Wait for a record or an event at most so long, and take all that are there then."""
        try:
            arrived = self._reader.take(timeout_s)
        except KafkaException as error:
            raise self._connection.translated(reason(error), "reading") from error
        failed: LogError | None = None
        for one in arrived:
            if isinstance(one, PartitionEvent):
                failed = self._noted(one, one.error()) or failed
                continue
            topic, partition, piece = one
            tail = self._tail_at_place(topic, partition)
            # Records behind an error wait until that is mended, or it would be skipped.
            if tail is not None and tail.problem is None:
                tail.add_piece(piece)
                if tail.is_full() and not tail.paused:
                    self._pause(tail)
        self._pumped_s = now_s = time.monotonic()
        if failed is not None:  # only now: what came with it would be passed over
            raise failed
        if self._stalls.is_due(now_s):
            self._begin_stalled_anew(now_s)

    def _begin_stalled_anew(self, now_s: float) -> None:
        """Reading of partitions of which nothing arrives, although the log has more, begins anew where it was."""
        used = [tail for tail in self._tails.values() if now_s - tail.used_s < UNUSED_S]
        tails = [tail for tail in used if tail.problem is None and not tail.is_full()]
        for tail in self._stalls.check(now_s, tails, lambda tail: self._reader.held_s(self._name(tail))):
            if not tail.attached:
                self._attach(tail)
                continue
            try:
                self._reader.restart(self._kafka(tail.where, tail.fetched))
            except KafkaException as error:
                raise self._connection.translated(reason(error), _reading(tail.where, tail.fetched)) from error

    def _tail_at_place(self, topic: str, partition: int) -> Tail | None:
        where = self._places.get((topic, partition))
        if where is None:
            where = self._places[topic, partition] = TopicPartition(topic[len(self._prefix) :], partition)
        tail = self._tails.get(where)
        return tail if tail is not None and (tail.attached or tail.paused) else None

    def _noted(self, event: PartitionEvent, error: KafkaError) -> LogError | None:
        """An event that comes as a message. Without a partition it concerns the connection, and may be its end."""
        topic = event.topic()
        if topic is None:
            ends = error.fatal() or remedy(error.code()) is not Remedy.WAIT
            return self._connection.translated(error, "reading") if ends else None
        tail = self._tail_at_place(topic, event.partition())
        if tail is None or (remedy(error.code()) is Remedy.WAIT and not is_truncation(error)):
            return None
        if error.code() == KafkaError._PARTITION_EOF:  # control records and aborted ones leave no message behind
            tail.fetched = max(tail.fetched, event.offset())
        else:
            tail.problem = error
        return None


def _reading(where: TopicPartition, offset: int) -> str:
    return f"reading topic {where.topic!r} partition {where.partition} from offset {offset} on"
