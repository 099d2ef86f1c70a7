"""The log contract: what Holon needs of a partitioned, ordered, durable log, and its named errors.

Three implementations: embedded (LMDB), in memory (simulation), Kafka. One test suite runs on all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from holon.columnar.record_parts import RecordParts


class TopicPartition(NamedTuple):
    """One ordered sequence of records. Partitions count from 0."""

    topic: str
    partition: int


class Appended(NamedTuple):
    """The log's acknowledgement of a batch: it is in the log, in order, without a gap."""

    first_offset: int
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]  # hides tuple.count, which nobody needs here
    timestamp_ms: int


class Record(NamedTuple):
    """A record as others write it. ``value`` None: a tombstone, whose value is null."""

    value: bytes | None
    key: bytes | None = None
    headers: Mapping[str, bytes] = {}


class FetchedRecords(msgspec.Struct, frozen=True):
    """A run of records of one partition as columns, all of the same length.

    ``offsets`` ascend but may have gaps (control records, compaction, retention); go on at ``next_offset``, which is
    at least the last offset + 1 even when the chunk is empty. ``timestamps_ms`` are the log's own append times.
    ``headers`` is one opaque byte string a record (empty: none); ``keys`` is None where no record has a key. ``bare``:
    no record has a header, known without a check of each. A null value is empty; ``parts``: which ones are null, with
    keys and headers by name, if ``use_record_parts`` has requested them; None: it has not, or no record has any.
    """

    offsets: NDArray[np.int64]
    timestamps_ms: NDArray[np.int64]
    values: Sequence[bytes]
    headers: list[bytes]
    keys: list[bytes | None] | None
    next_offset: int
    bare: bool = False
    parts: RecordParts | None = None

    def __len__(self) -> int:
        return len(self.values)

    def before(self, limit: int) -> FetchedRecords:
        """Without what lies at or beyond the offset ``limit``."""
        if self.next_offset <= limit:
            return self
        keep = int((self.offsets < limit).sum())
        return FetchedRecords(
            self.offsets[:keep],
            self.timestamps_ms[:keep],
            self.values[:keep],
            self.headers[:keep],
            None if self.keys is None else self.keys[:keep],
            limit,
            self.bare,
            None if self.parts is None else self.parts.cut(0, keep),
        )

    @property
    def found_headers(self) -> list[bytes] | None:
        """The headers; None where no record has one."""
        return None if self.bare or not any(self.headers) else self.headers


class Stalls:
    """Partitions of which nothing arrives although they have more records."""

    count: int = 0
    """How often the reading of one has begun anew."""

    def is_behind(self, topic: str, partition: int) -> bool:
        """Whether the log is known to go on behind what has arrived, and nothing has for a while."""
        return False


NO_STALLS = Stalls()
MAX_RECORD_BYTES = 16 << 20


class LogError(Exception):
    """Any failure of the log; the message names the failure, topic, partition and offset, and the remedy."""


class UnknownTopic(LogError):
    """The topic does not exist, or has no such partition."""


class TopicExists(LogError):
    """The topic exists with another number of partitions."""


class OffsetOutOfRange(LogError):
    """The offset is below the first retained record or beyond the end."""


class RecordTooLarge(LogError):
    """A record is above the limit; the message names its size, key and the limit. Nothing was appended."""


class LogFull(LogError):
    """No space on the device or in the map; nothing of the batch was appended."""


class AddressSpaceFull(LogFull):
    """The process may map no more memory: free space on the device does not help."""


class LogDamaged(LogError):
    """Stored records cannot be read (truncated or overwritten file, unknown format version)."""


class LogTruncated(LogDamaged):
    """Acknowledged records at the end of a partition are gone."""


TRUNCATION_CAUSES = "unclean leader election, lost disk, topic made anew"
"""Possible causes, for messages."""


class LogUnavailable(LogError):
    """The log cannot be reached or opened (no permission, broker gone)."""


class LogInterrupted(LogUnavailable):
    """A writer has lost its place: what was on its way may be on the log or not, and it writes nothing any more.

    A node that opens the log again and goes on from a checkpoint is not affected by it.
    """


class Log(ABC):
    """A set of topics. Instances belong to one thread unless the implementation allows more; close them."""

    topics_can_change: bool = False
    """Others may delete topics or add partitions at any time; ``topics`` may then be called from any thread."""

    @property
    def topic_spread_s(self) -> float:
        """So long a topic that another client has made may be unknown here."""
        return 0.0

    @property
    def stalls(self) -> Stalls:
        """Those of its partitions; a log that reads files or memory has none."""
        return NO_STALLS

    @abstractmethod
    def create_topic(self, topic: str, partitions: int, *, retention_ms: int | None = None) -> None:
        """Create it; does nothing if it exists with the same number of partitions, else ``TopicExists``.

        Safe when several processes do it at once. ``retention_ms`` None keeps everything.
        """

    @abstractmethod
    def add_partitions(self, topic: str, partitions: int) -> None:
        """Enlarge it to so many in all: the new ones are empty, the others as they were.

        Does nothing if it has as many; ``TopicExists`` if it has more, since no partition can be taken away. Safe when
        several processes do it at once. Other instances find the new ones where they ask for them.
        """

    @abstractmethod
    def topics(self) -> dict[str, int]:
        """Topic name -> number of partitions, sorted by name."""

    @abstractmethod
    def append(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        *,
        headers: Sequence[bytes] | None = None,
        keys: Sequence[bytes | None] | None = None,
    ) -> Appended:
        """Append a batch, all or nothing, at consecutive offsets; returns when the log has acknowledged it.

        Values, headers and keys are ``bytes``, else ``TypeError``. An empty batch changes nothing.
        """

    @abstractmethod
    def append_records(self, topic: str, partition: int, records: Sequence[Record]) -> Appended:
        """As ``append``, for few records: such as have headers with names, or are tombstones."""

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
        """Append in order without waiting; ``done`` gets the offset behind the last record once it is acknowledged.

        ``done`` is called here, or in ``poll_acks``. Of a batch that fails a beginning may be on the log; nothing that
        was sent after it gets there. Here: an ``append`` that waits.
        """
        appended = self.append(topic, partition, values, headers=headers, keys=keys)
        done(appended.first_offset + appended.count)

    def batched(self) -> AbstractContextManager[None]:
        """Records sent inside may leave at the end, all at once, where that saves requests to another machine."""
        return nullcontext()

    def prefer_latency(self, *, build: bool = False) -> None:  # noqa: B027  # nothing to do where each send is cheap
        """From now on little is sent, and often: the least work for each request counts, not for each byte.

        The same records; to be called before anything is sent. It is for long-running processes: the compiled loops
        are loaded, and with ``build`` compiled on this machine's first use.
        """

    def tolerate_loss(  # noqa: B027  # nothing to do where a writer has no place
        self, topics: Collection[str], essential: Collection[str] = ()
    ) -> None:
        """Records of these topics may be lost, repeated or reordered: where that helps, a writer begins anew there.

        A failure to ``send`` to them concerns nothing else, and is not reported. They are not written at all while
        other writes, or those to ``essential`` topics, time out: a heartbeat has to prove that the node works.
        """

    def poll_acks(self, *, wait: bool = False) -> None:  # noqa: B027  # nothing to do where ``send`` waits
        """Call ``done`` for what was acknowledged meanwhile, or ``wait`` for all that was sent.

        Raises the error of what could not be delivered.
        """

    @abstractmethod
    def read(
        self, topic: str, partition: int, offset: int, *, max_records: int = 10_000, max_bytes: int = 8 << 20
    ) -> FetchedRecords:
        """Records from ``offset`` on, at most so many (at least one if there is one); empty at the end, never waits.

        ``max_bytes`` counts values, headers and keys.
        Raises ``OffsetOutOfRange`` below ``start_offset`` or above ``end_offset``.
        """

    def poll(
        self, topic: str, partition: int, offset: int, *, max_records: int = 10_000, max_bytes: int = 8 << 20
    ) -> FetchedRecords:
        """As ``read``, but may give nothing although there is something; a ``wait`` from there ends when it is here.

        Tailing reads skip the high-watermark request, which costs a round trip where the log is on another machine.
        """
        return self.read(topic, partition, offset, max_records=max_records, max_bytes=max_bytes)

    def use_columns(self, without_headers: str | None = None) -> bool:
        """Give values as ``BinaryColumn`` from now on, where this log can: the same records, no object for each.

        ``without_headers``: a topic whose headers nobody reads; they are empty from now on.
        """
        return False

    @abstractmethod
    def use_record_parts(self, topic: str, headers: Collection[str]) -> None:
        """From now on chunks of this topic have ``parts``: keys, the headers of these names, and nulls."""

    @abstractmethod
    def start_offset(self, topic: str, partition: int) -> int:
        """Offset of the first retained record (the end offset if there is none)."""

    @abstractmethod
    def end_offset(self, topic: str, partition: int) -> int:
        """The offset that the next record will get."""

    def high_watermark(self, topic: str, partition: int) -> int:
        """As ``end_offset``, but never below what was acknowledged: somebody's open transaction holds that back."""
        return self.end_offset(topic, partition)

    def high_watermarks(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """``high_watermark`` of several partitions, in one request where each costs a round trip."""
        return {place: self.high_watermark(*place) for place in places}

    @abstractmethod
    def wait(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> list[TopicPartition]:
        """Block until some partition has a record at or after its position, or the time is over.

        Returns those that have, so an empty list where the time was over.
        A wake-up within 5 ms of the append, without busy waiting; at once if there is a record already.
        """

    @abstractmethod
    def delete_before(self, topic: str, partition: int, offset: int) -> int:
        """Drop records below ``offset`` (retention, tests of it); returns the new start offset."""

    @abstractmethod
    def flush(self) -> None:
        """Make everything acknowledged to this process survive a power failure, whatever the fsync policy."""

    @abstractmethod
    def close(self) -> None:
        """Release everything; safe to call twice."""

    def max_record_bytes(self, topic: str) -> int:
        """The most bytes of value, header and key that a record of this topic may have."""
        return MAX_RECORD_BYTES

    def partitions(self, topic: str) -> int:
        """Number of partitions; raises ``UnknownTopic`` with the nearest names."""
        known = self.topics()
        if topic not in known:
            import difflib

            near = difflib.get_close_matches(topic, known, n=3)
            hint = f"; nearest: {', '.join(near)}" if near else ""
            raise UnknownTopic(f"no topic {topic!r} in this log{hint}")
        return known[topic]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
