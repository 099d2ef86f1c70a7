"""The reader of Kafka by confluent-kafka's public interface, and what any reader gives: pieces and events."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from holon.columnar.record_parts import RecordParts
from nodes.log.kafka.append import HEADER
from nodes.log.kafka.columns import RecordRun

Address = tuple[str, int]
Where = tuple[str, int]
"""Topic, as the broker names it, and partition."""
AT_END = KafkaError(KafkaError._PARTITION_EOF)
_TAKE = 10_000
_PIECE = 500  # room for so many is made each time
BUSY_BYTES = 1 << 20
"""Where so many arrive at once, a partition may wait until others have had their turn."""


class PartitionEvent:
    """The end of a partition, or an error, with the methods of ``confluent_kafka.Message``."""

    def __init__(self, topic: str | None, partition: int, offset: int, error: KafkaError) -> None:
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._error = error

    def topic(self) -> str | None:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError:
        return self._error


RequestedHeaders = Mapping[str, Collection[str]]
"""Topics, as the broker names them, whose records are wanted with parts: names of headers. It may grow."""
Arrived = tuple[str, int, RecordRun] | PartitionEvent


class Reader(Protocol):
    """A client that follows the partitions given to it. Raises ``KafkaException`` where the broker refuses."""

    def list_topics(self, name: str, timeout: float) -> object:
        """Request a topic's leaders, so that the reader knows them."""

    def incremental_assign(self, partitions: Sequence[KafkaPartition]) -> None:
        """Read these too, each from its offset on."""

    def incremental_unassign(self, partitions: Sequence[KafkaPartition]) -> None:
        """Read these no longer."""

    def pause(self, partitions: Sequence[KafkaPartition]) -> None:
        """Request no more of these until they are assigned again; records on their way may still be given."""

    def restart(self, partition: KafkaPartition) -> None:
        """Begin its reading anew at this offset, with as little as possible of what was known of it."""

    def held_s(self, where: Where) -> float:
        """When its records last had to wait for a quota, or for those of others, by ``time.monotonic``."""
        ...

    def take(self, timeout_s: float) -> list[Arrived]:
        """Wait at most so long for the first record or event, and take what is there then, in order."""
        ...

    def close(self) -> None:
        """Leave the brokers; safe to call twice."""


class Throttle:
    """Until when the broker holds answers back, by ``time.monotonic``; long past where it has never done so."""

    def __init__(self) -> None:
        self.until_s = float("-inf")

    def note(self, event: Any) -> None:
        """Called by confluent-kafka while a client is polled."""
        self.until_s = max(self.until_s, time.monotonic() + event.throttle_time)


class ConfluentReader:
    """One consumer. ``without_headers``: a topic whose identities are not read; ``throttle``: noted by the consumer."""

    def __init__(
        self,
        consumer: Consumer,
        requested_headers: RequestedHeaders,
        without_headers: str | None = None,
        throttle: Throttle | None = None,
    ) -> None:
        self._consumer: Any = consumer
        self._requested_headers = requested_headers
        self._bare = without_headers
        self._epochs: dict[Where, int] = {}
        self._paused: set[Where] = set()
        self._throttle = Throttle() if throttle is None else throttle
        self._busy_s = float("-inf")

    @classmethod
    def connect(
        cls, config: Mapping[str, Any], requested_headers: RequestedHeaders, without_headers: str | None = None
    ) -> Self:
        """With a consumer of its own; raises ``KafkaException`` where its properties are refused."""
        throttle = Throttle()
        return cls(Consumer({**config, "throttle_cb": throttle.note}), requested_headers, without_headers, throttle)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def list_topics(self, name: str, timeout: float) -> Mapping[int, Address]:
        """Partition -> where it is led, of those that are led."""
        found = self._consumer.list_topics(name, timeout=timeout)
        if found is None or name not in found.topics:
            return {}
        brokers = {number: (one.host, one.port) for number, one in found.brokers.items()}
        partitions = found.topics[name].partitions
        return {number: brokers[one.leader] for number, one in partitions.items() if one.leader in brokers}

    def incremental_assign(self, partitions: Sequence[KafkaPartition]) -> None:
        self._paused -= {(one.topic, one.partition) for one in partitions}
        self._consumer.incremental_assign(list(partitions))

    def incremental_unassign(self, partitions: Sequence[KafkaPartition]) -> None:
        assigned = [one for one in partitions if (one.topic, one.partition) not in self._paused]
        self._paused -= {(one.topic, one.partition) for one in partitions}
        if assigned:
            self._consumer.incremental_unassign(assigned)
        for one in partitions:
            self._epochs.pop((one.topic, one.partition), None)

    def pause(self, partitions: Sequence[KafkaPartition]) -> None:
        """See ``Reader``; the client drops its records on their way."""
        self.incremental_unassign(partitions)
        self._paused |= {(one.topic, one.partition) for one in partitions}

    def restart(self, partition: KafkaPartition) -> None:
        """See ``Reader``; a leader that has lost what was read is found out by the epoch, as before."""
        epoch = self.epoch_at(partition.topic, partition.partition)
        with contextlib.suppress(KafkaException):  # the client may have lost it
            self.incremental_unassign([partition])
        if epoch >= 0:
            partition = KafkaPartition(partition.topic, partition.partition, partition.offset, leader_epoch=epoch)
        self.incremental_assign([partition])
        self._consumer.resume([partition])  # the client keeps pauses over assignments

    def held_s(self, where: Where) -> float:
        """See ``Reader``; of all partitions alike."""
        return max(self._busy_s, self._throttle.until_s)

    def epoch_at(self, topic: str, partition: int) -> int:
        """The leader's epoch of the last record that was taken; -1 if it is not known."""
        return self._epochs.get((topic, partition), -1)

    def take(self, timeout_s: float) -> list[Arrived]:
        # The client cuts the time to whole milliseconds: who waits for less than one would turn as quickly as it can.
        messages: list[Any] = self._consumer.consume(1, math.ceil(timeout_s * 1000) / 1000)
        full = bool(messages)
        while full and len(messages) < _TAKE:
            more = self._consumer.consume(_PIECE, 0)
            messages += more
            full = len(more) == _PIECE
        found: list[Arrived] = []
        first, where = 0, None
        for row, message in enumerate(messages):
            error = message.error()
            its = None if error is not None else (message.topic(), message.partition())
            if its != where or row - first >= _PIECE:
                if where is not None:
                    found.append(self._piece(messages[first:row], where))
                first, where = row, its
            if error is not None:
                found.append(PartitionEvent(message.topic(), message.partition() or 0, message.offset() or 0, error))
        if where is not None:
            found.append(self._piece(messages[first:], where))
        if len(messages) >= _TAKE or sum(one[2].size for one in found if isinstance(one, tuple)) >= BUSY_BYTES:
            self._busy_s = time.monotonic()
        return found

    def _piece(self, messages: Sequence[Any], where: Where) -> tuple[str, int, RecordRun]:
        last = messages[-1]
        epoch = getattr(last, "leader_epoch", lambda: None)()
        self._epochs[where] = -1 if epoch is None else epoch
        offsets = np.array([message.offset() for message in messages], np.int64)
        stamps = np.array([message.timestamp()[1] for message in messages], np.int64)
        values = [message.value() or b"" for message in messages]
        headers = None
        if where[0] != self._bare:
            found = [_header(message) for message in messages]
            headers = found if any(found) else None
        keys = [message.key() for message in messages]
        some = any(key is not None for key in keys)
        size = sum(map(len, values)) + sum(map(len, headers or ())) + sum(len(key or b"") for key in keys if some)
        names = self._requested_headers.get(where[0])
        parts = None if names is None else _parts(messages, keys if some else None, names)
        return *where, RecordRun(offsets, stamps, values, headers, keys if some else None, size, parts)


def _parts(messages: Sequence[Any], keys: list[bytes | None] | None, names: Collection[str]) -> RecordParts:
    columns: dict[str, list[bytes | None]] = {name: [None] * len(messages) for name in names}
    for row, message in enumerate(messages):
        for name, value in (message.headers() or ()) if columns else ():
            if name in columns:
                columns[name][row] = value
    nulls = np.array([message.value() is None for message in messages], np.bool_)
    return RecordParts(keys, columns, nulls if nulls.any() else None)


def _header(message: Any) -> bytes:
    """The last header of ours; other programs' headers are theirs."""
    found = b""
    for name, value in message.headers() or ():
        if name == HEADER and value is not None:
            found = value
    return found
