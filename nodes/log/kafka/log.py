"""The log on Apache Kafka: the same contract on a cluster, for as many machines as there are."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
from confluent_kafka import KafkaException
from numpy.typing import NDArray

from nodes.compiled import loading as compiled
from nodes.log.checks import are_small, check_batch, check_new_topic, check_records, out_of_range
from nodes.log.contract import (
    MAX_RECORD_BYTES,
    Appended,
    FetchedRecords,
    Log,
    LogError,
    Record,
    TopicPartition,
    UnknownTopic,
)
from nodes.log.kafka import client_config, transactional_producer
from nodes.log.kafka.append import BATCH_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES, Appender
from nodes.log.kafka.confluent_reader import ConfluentReader
from nodes.log.kafka.consumer import Follower
from nodes.log.kafka.direct.chosen_sender import ChosenSender
from nodes.log.kafka.direct.consumer import DirectReader
from nodes.log.kafka.errors import Connection
from nodes.log.kafka.producer import Sender
from nodes.log.kafka.stalled_partitions import STALL_TIMEOUT_S, StallWatch
from nodes.log.kafka.topics import SPREAD_S, TopicAdmin
from nodes.log.kafka.unacknowledged_writes import Unanswered
from nodes.log.kafka.unordered_producer import LooseWriter, without_memory
from nodes.log.own_process import OWN

CONNECT_TIMEOUT_S = 5.0
TIMEOUT_S = 15.0
STUCK_WAIT_S = 0.002
"""As long as something that was sent could not leave, a wait ends after this, so that ``poll_acks`` is called."""
_BATCH_MARGIN_BYTES = 64 << 10


class KafkaLog(Log):
    """Topics of a Kafka cluster. Partitions are assigned by the reader, never by a consumer group.

    Several threads may append; everything else takes turns. ``prefix`` precedes the topics' names on the broker,
    so that several logs share a cluster. After ``timeout_s`` without an answer a call raises ``LogUnavailable``.
    ``stall_timeout_s``: after so long without records of a partition its end is requested; 0: never.

    Kafka keeps the contract, with these limits (docs/design/kafka-log.md). A batch above the topic's
    ``max.message.bytes`` goes out in pieces. An append that fails for want of an answer may be on the log all the same.
    An empty fetch may be 5 ms old. Where foreign transactions are open, the end is that of the decided records.
    """

    topics_can_change = True

    def __init__(
        self,
        bootstrap: str,
        properties: Mapping[str, str] | None = None,
        *,
        prefix: str = "",
        max_record_bytes: int = MAX_RECORD_BYTES,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        timeout_s: float = TIMEOUT_S,
        stall_timeout_s: float = STALL_TIMEOUT_S,
    ) -> None:
        self._connection = connection = Connection(bootstrap)
        self.prefix = prefix
        self._max_record_bytes, self._timeout_s = max_record_bytes, timeout_s
        self._batch_bytes = max_record_bytes + _BATCH_MARGIN_BYTES
        self._pid, self._lock = OWN.id, threading.RLock()
        self._writes_directly = client_config.writes_directly(properties or {})
        self._not_directly = client_config.not_read_directly(properties or {})
        base = client_config.common(bootstrap, properties or {})
        try:
            spread_s = max(SPREAD_S, connect_timeout_s)  # as patient as the opening: a node is more so than a command
            self._topics = TopicAdmin(
                client_config.admin(base, connection.note), connection, prefix, timeout_s, spread_s
            )
            self._consuming = client_config.consumer(base, connection.note)
            self._requested_headers: dict[str, Collection[str]] = {}
            reader = ConfluentReader.connect(self._consuming, self._requested_headers)
            writer = client_config.producer(base, connection.note, self._batch_bytes, timeout_s)
            self._appender = Appender(writer, connection, timeout_s)
            self._sending = client_config.sender(base, connection.note, self._batch_bytes, timeout_s)
            self._sender: Sender = Sender(self._sending, connection, timeout_s)
        except KafkaException as error:  # a property that librdkafka does not know, a certificate that is not there
            raise LogError(f"Kafka {bootstrap}: the properties are refused: {error.args[0].str()}") from None
        self._stalls = StallWatch(self._topics.request_ends, stall_timeout_s)
        self._follower = Follower(reader, self._topics, connection, prefix, timeout_s, self._stalls)
        self._new_sender: Callable[[Mapping[str, Any]], Sender] = lambda config: Sender(config, connection, timeout_s)
        self._transactional: dict[str, Sender] = {}
        self._limited: dict[int, Sender] = {}
        loose_appender = partial(Appender, without_memory(writer), connection, timeout_s, renews=True)
        self._unanswered = Unanswered()
        self._loose = LooseWriter(self._sending, connection, loose_appender, self._unanswered)
        self._release_at_end()
        try:
            self._known = self._topics.listed(connect_timeout_s)
        except LogError:
            self.close()
            raise connection.unavailable(f"no answer within {connect_timeout_s:.0f} s") from None
        connection.opened = True

    @property
    def topic_spread_s(self) -> float:
        return self._topics.spread_s

    @property
    def stalls(self) -> StallWatch:
        return self._stalls

    def create_topic(self, topic: str, partitions: int, *, retention_ms: int | None = None) -> None:
        self._check()
        check_new_topic(topic, partitions, retention_ms)
        with self._lock:
            self._topics.create(topic, partitions, retention_ms, self._batch_bytes)
            self._known[topic] = partitions

    def add_partitions(self, topic: str, partitions: int) -> None:
        have = self._topics.count(lambda: self.partitions(topic))
        with self._lock:
            self._known[topic] = self._topics.enlarge(topic, have, partitions)

    def delete_topics(self, topics: Sequence[str]) -> None:
        """Drop these topics with all their records; those that do not exist are passed over."""
        self._check()
        with self._lock:
            for where in [TopicPartition(name, p) for name in topics for p in range(self._known.pop(name, 0))]:
                self._follower.forget(where)
            self._topics.delete(topics)

    def topics(self) -> dict[str, int]:
        self._check()
        self._known = known = self._topics.listed(TIMEOUT_S)  # without the lock: no reader waits for this answer
        return dict(known)

    def use_transactions(
        self, topics: Collection[str], name: str, *, timeout_ms: int = transactional_producer.TRANSACTION_TIMEOUT_MS
    ) -> None:
        """Records sent to these topics between two calls of ``poll_acks`` go out in one Kafka transaction.

        ``name`` is the ``transactional.id``, which must be this writer's own: it ends those of others with that name.
        """
        smallest = min((self._topics.limit(topic) for topic in topics), default=self._batch_bytes)
        batch_bytes = min(self._sending["batch.size"], smallest - BATCH_OVERHEAD_BYTES)  # one client for all of them
        config = client_config.in_transactions({**self._sending, "batch.size": batch_bytes}, name, timeout_ms)
        sender = transactional_producer.TransactionalSender(config, self._connection, self._timeout_s)
        self._transactional.update(dict.fromkeys(topics, sender))

    def use_columns(self, without_headers: str | None = None) -> bool:
        found, why = compiled.loops(), self._not_directly
        client_config.log_reader(self._connection.bootstrap, "the compiled loops are missing" if found is None else why)
        if found is None:
            return False
        with self._lock:
            bare = None if without_headers is None else self.prefix + without_headers
            library = ConfluentReader.connect(self._consuming, self._requested_headers, bare)
            direct = None if why else DirectReader(library, found, self._consuming, self._requested_headers, bare)
            old, shared = self._follower, (self._topics, self._connection, self.prefix, self._timeout_s, self._stalls)
            self._follower = Follower(direct or library, *shared, columns=True)
            self._write_directly(found)
            self._finalizer.detach()
            self._release_at_end()
            old.close()
        return True

    def prefer_latency(self, *, build: bool = False) -> None:
        if not self._writes_directly or not compiled.ensure(build=build):
            return
        found = compiled.loops()
        assert found is not None, "ensured"
        with self._lock:
            self._write_directly(found)
            self._finalizer.detach()
            self._release_at_end()

    def _write_directly(self, found: compiled.Compiled) -> None:
        """Where that is wanted, and nothing is on its way that would lose its place."""
        if self._sender.used or not self._writes_directly:
            return
        connection, timeout_s, plain = self._connection, self._timeout_s, self._new_sender

        def direct(config: Mapping[str, Any]) -> Sender:
            return ChosenSender(found, config, connection, timeout_s, lambda: plain(config))

        self._new_sender = direct
        self._sender = direct(self._sending)

    def _release_at_end(self) -> None:
        """The parts of now."""
        parts = (self._topics, self._follower, self._appender, self._sender, self._transactional, self._limited)
        self._finalizer = weakref.finalize(self, _release, *parts, self._loose, self._pid)

    def append(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        *,
        headers: Sequence[bytes] | None = None,
        keys: Sequence[bytes | None] | None = None,
    ) -> Appended:
        where = self._found(topic, partition)
        sizes, limit_bytes = self._checked(where, values, headers, keys)
        if not values:
            return Appended(self.end_offset(*where), 0, time.time_ns() // 1_000_000)
        loose = topic in self._loose.topics
        appender = self._loose.appender() if loose else self._appender
        with nullcontext() if loose else self._unanswered.waits(topic):
            appended = appender.append(self.prefix + topic, partition, values, headers, keys, sizes, limit_bytes)
        self._follower.appended(where)
        return appended

    def append_records(self, topic: str, partition: int, records: Sequence[Record]) -> Appended:
        where, limit_bytes = self._found(topic, partition), self._topics.limit(topic)
        sizes = check_records(records, self._largest(limit_bytes), f"topic {topic!r} partition {partition}")
        if not records:
            return Appended(self.end_offset(*where), 0, time.time_ns() // 1_000_000)
        with self._unanswered.waits(topic):
            appended = self._appender.append_records(self.prefix + topic, partition, records, sizes, limit_bytes)
        self._follower.appended(where)
        return appended

    def use_record_parts(self, topic: str, headers: Collection[str]) -> None:
        self._requested_headers[self.prefix + topic] = headers

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
        where = self._found(topic, partition)
        limit_bytes = self._topics.limit(topic)
        if headers is not None or keys is not None or not are_small(values, self._largest(limit_bytes)):
            self._checked(where, values, headers, keys)
        if values:
            loose = self._loose if topic in self._loose.topics else None
            sender = loose or self._transactional.get(topic) or self._sender_for(limit_bytes)
            acknowledged = done if loose else self._unanswered.then(topic, done)
            sender.send(self.prefix + topic, partition, values, headers, keys, acknowledged)
        else:
            done(self.end_offset(*where))

    def _sender_for(self, limit_bytes: int) -> Sender:
        """A broker refuses a batch above its topic's limit: topics with small ones have a client for each limit."""
        batch_bytes = limit_bytes - BATCH_OVERHEAD_BYTES
        if batch_bytes >= self._sending["batch.size"]:
            return self._sender
        if limit_bytes not in self._limited:
            self._limited[limit_bytes] = self._new_sender({**self._sending, "batch.size": batch_bytes})
        return self._limited[limit_bytes]

    @contextmanager
    def batched(self) -> Iterator[None]:
        senders = (self._sender, *self._limited.values())
        for sender in senders:
            sender.gather()
        try:
            yield
        finally:
            for sender in senders:
                sender.release()

    def tolerate_loss(self, topics: Collection[str], essential: Collection[str] = ()) -> None:
        self._loose.topics.update(topics)
        self._unanswered.watch(essential)

    def poll_acks(self, *, wait: bool = False) -> None:
        self._check()
        self._loose.poll()
        self._sender.poll_acks(wait)
        for sender in dict.fromkeys([*self._limited.values(), *self._transactional.values()]):
            sender.poll_acks(wait)

    def read(
        self, topic: str, partition: int, offset: int, *, max_records: int = 10_000, max_bytes: int = 8 << 20
    ) -> FetchedRecords:
        where = self._found(topic, partition)
        with self._lock:
            return self._follower.read(where, offset, max_records, max_bytes)

    def poll(
        self, topic: str, partition: int, offset: int, *, max_records: int = 10_000, max_bytes: int = 8 << 20
    ) -> FetchedRecords:
        where = self._found(topic, partition)
        with self._lock:
            return self._follower.poll(where, offset, max_records, max_bytes)

    def start_offset(self, topic: str, partition: int) -> int:
        where = self._found(topic, partition)
        with self._lock:
            return self._follower.start(where)

    def end_offset(self, topic: str, partition: int) -> int:
        where = self._found(topic, partition)
        with self._lock:
            return self._follower.end(where)

    def high_watermark(self, topic: str, partition: int) -> int:
        where = self._found(topic, partition)
        return self._topics.offsets([where], at_end=True, committed=False)[where]

    def high_watermarks(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = [self._found(*place) for place in places]
        return self._topics.offsets(found, at_end=True, committed=False)

    def wait(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> list[TopicPartition]:
        self._check()
        if any(sender.stuck for sender in (self._sender, *self._limited.values())):
            timeout_s = min(timeout_s, STUCK_WAIT_S)
        if not positions:
            time.sleep(timeout_s)
            return []
        for where in positions:
            if not 0 <= where.partition < self._known.get(where.topic, 0):
                self._found(*where)
        with self._lock:
            return self._follower.wait(positions, timeout_s)

    def delete_before(self, topic: str, partition: int, offset: int) -> int:
        where = self._found(topic, partition)
        start, end = self._follower.bounds(where)
        if offset > end:
            raise out_of_range(f"topic {topic!r} partition {partition}", offset, start, end)
        if offset <= start:
            return start
        start = self._topics.delete_before(topic, partition, offset)  # others read on meanwhile
        with self._lock:
            self._follower.forget_before(where, start)
        return start

    def flush(self) -> None:
        """Nothing to do: what is acknowledged is on all in-sync replicas. How they sync their disks is theirs."""
        self._check()

    def close(self) -> None:
        if self._pid == OWN.id:
            with self._lock:
                self._finalizer()

    def max_record_bytes(self, topic: str) -> int:
        self._check()
        with self._lock:
            return self._largest(self._topics.limit(topic))

    def _largest(self, limit_bytes: int) -> int:
        """That a record may be, where a batch may have so many bytes."""
        return min(self._max_record_bytes, limit_bytes - RECORD_OVERHEAD_BYTES - BATCH_OVERHEAD_BYTES)

    def _checked(
        self,
        where: TopicPartition,
        values: Sequence[bytes],
        headers: Sequence[bytes] | None,
        keys: Sequence[bytes | None] | None,
    ) -> tuple[NDArray[np.int64], int]:
        """The records' sizes, and the limit of a batch there; raises ``RecordTooLarge``."""
        limit_bytes = self._topics.limit(where.topic)
        text = f"topic {where.topic!r} partition {where.partition}"
        return check_batch(values, headers, keys, self._largest(limit_bytes), text), limit_bytes

    def _found(self, topic: str, partition: int) -> TopicPartition:
        self._check()
        count = self._known.get(topic, 0)
        if not 0 <= partition < count:  # unknown, or with more partitions than before
            count = self._topics.count(lambda: self.partitions(topic))
            if not 0 <= partition < count:
                raise UnknownTopic(f"topic {topic!r} has no partition {partition}; it has 0 to {count - 1}")
        return TopicPartition(topic, partition)

    def _check(self) -> None:
        if self._pid != OWN.id:
            raise LogError(
                f"Kafka {self._connection.bootstrap}: opened by process {self._pid} and used by {OWN.id} after a "
                "fork; start processes with 'spawn' and open the log there"
            )
        if not self._finalizer.alive:
            raise LogError(f"Kafka {self._connection.bootstrap}: the log is closed; open it again")


def _release(*parts: Any) -> None:
    topics, follower, appender, sender, transactional, limited, loose, pid = parts
    if pid == OWN.id:
        writers = dict.fromkeys([appender, loose, sender, *transactional.values(), *limited.values()])
        for one in (follower, *writers, topics):
            one.close()
