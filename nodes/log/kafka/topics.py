"""Topics of a Kafka cluster: which there are, making them, and dropping their beginnings."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (  # pyright: ignore[reportPrivateImportUsage]
    AdminClient,
    ConfigResource,  # pyright: ignore[reportPrivateImportUsage]
    NewPartitions,  # pyright: ignore[reportPrivateImportUsage]
    NewTopic,  # pyright: ignore[reportPrivateImportUsage]
    OffsetSpec,  # pyright: ignore[reportPrivateImportUsage]
    ResourceType,  # pyright: ignore[reportPrivateImportUsage]
)

from nodes.log.checks import check_more_partitions, check_same_partitions
from nodes.log.contract import LogError, LogUnavailable, TopicPartition, UnknownTopic
from nodes.log.kafka.errors import Connection, reason

INTERNAL = "__"
"""Beginning of the names that Kafka keeps for itself."""
DEFAULT_MESSAGE_BYTES = 1_048_588
"""Kafka's own limit of a batch, taken where this user may not read the topic's."""
SPREAD_S = 2.0
"""So long at least a broker may not know a topic that another one has made."""
POLL_INTERVAL_S = 0.02
_REQUEST_S = 5.0
"""A request that a broker does not answer for so long is retried at another one."""


class EndsRequest:
    """Ends that were requested and are not waited for."""

    def __init__(self, answers: Mapping[TopicPartition, Future[Any]]) -> None:
        self._answers = answers

    def found(self) -> dict[TopicPartition, int] | None:
        """The ends; without those that the brokers have not given. None as long as an answer may come."""
        if not all(answer.done() for answer in self._answers.values()):
            return None
        given = {where: answer.result() for where, answer in self._answers.items() if answer.exception() is None}
        return {where: one.offset for where, one in given.items() if one.offset >= 0}


class TopicAdmin:
    """Describes and changes topics. ``prefix`` precedes every name on the broker and is seen by nobody else.

    A client of its own: Kafka answers the requests of one connection in their order, so behind a fetch that waits for
    records each would wait as long. Safe to use from several threads.
    """

    def __init__(
        self,
        admin: Mapping[str, Any],
        connection: Connection,
        prefix: str,
        timeout_s: float,
        spread_s: float | None = None,
    ) -> None:
        self._admin = AdminClient(dict(admin))
        self._spread_s = SPREAD_S if spread_s is None else spread_s
        self._connection = connection
        self._prefix = prefix
        self._timeout_s = timeout_s
        self._limits: dict[str, int] = {}
        self.are_several = False
        """Whether there was more than one broker in the last answer."""

    def close(self) -> None:
        """Leave the brokers now: a client that outlives the interpreter may call into it, and crash the process."""
        del self._admin

    def listed(self, timeout_s: float) -> dict[str, int]:
        """Topic -> number of partitions, sorted; only those that begin with the prefix."""
        try:
            found = self._admin.list_topics(timeout=timeout_s)
        except KafkaException as error:
            self._admin.poll(0)  # so that the connection's own words are known
            raise self._connection.translated(reason(error), "listing the topics") from error
        known, self.are_several = found.topics, len(found.brokers) > 1
        return {
            name.removeprefix(self._prefix): len(known[name].partitions)
            for name in sorted(known)
            if name.startswith(self._prefix) and not name.startswith(INTERNAL) and known[name].error is None
        }

    def create(self, topic: str, partitions: int, retention_ms: int | None, max_batch_bytes: int) -> None:
        """Create it and wait until it can be used; ``TopicExists`` if there is another one of that name."""
        config = {
            # By the log's own time: event times of records that are replayed would delete them at once.
            "message.timestamp.type": "LogAppendTime",
            "cleanup.policy": "delete",
            "retention.ms": str(-1 if retention_ms is None else retention_ms),
            "retention.bytes": "-1",
            "max.message.bytes": str(max_batch_bytes),
        }
        name = self._prefix + topic
        new_topic = NewTopic(name, num_partitions=partitions, replication_factor=-1, config=config)
        try:
            made = self._admin.create_topics([new_topic], request_timeout=self._timeout_s)
            _answer(made[name], self._timeout_s)
        except KafkaException as error:
            if reason(error).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._connection.translated(reason(error), f"creating topic {topic!r}") from error
        check_same_partitions(topic, self._when_ready(topic), partitions)

    def enlarge(self, topic: str, have: int, partitions: int) -> int:
        """Give it so many partitions in all, and wait until they can be used; ``TopicExists`` if it has more."""
        if not check_more_partitions(topic, have, partitions):
            return have
        name = self._prefix + topic
        try:
            more = self._admin.create_partitions([NewPartitions(name, partitions)], request_timeout=self._timeout_s)
            _answer(more[name], self._timeout_s)
        except KafkaException as error:
            if reason(error).code() != KafkaError.INVALID_PARTITIONS:  # another process was first
                raise self._connection.translated(reason(error), f"enlarging topic {topic!r}") from error
        deadline = time.monotonic() + self._timeout_s
        while check_more_partitions(topic, have := self._when_ready(topic), partitions):
            if time.monotonic() > deadline:
                raise LogError(f"Kafka {self._connection.bootstrap}: topic {topic!r} was enlarged, and is as it was")
            time.sleep(POLL_INTERVAL_S)
        return have

    def delete(self, topics: Iterable[str]) -> None:
        """Drop them; those that do not exist are passed over."""
        names = [self._prefix + topic for topic in topics]
        if not names:
            return
        for name, deleted in self._admin.delete_topics(names, request_timeout=self._timeout_s).items():
            try:
                _answer(deleted, self._timeout_s)
            except KafkaException as error:
                if reason(error).code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._connection.translated(reason(error), f"deleting topic {name!r}") from error

    def limit(self, topic: str) -> int:
        """Bytes that a batch of this topic may have."""
        known = self._limits.get(topic)
        if known is not None:
            return known
        requested_s = time.monotonic()
        deadline = requested_s + self._timeout_s
        while topic not in self._limits:
            resource = ConfigResource(ResourceType.TOPIC, self._prefix + topic)
            left_s = min(max(deadline - time.monotonic(), 0.1), _REQUEST_S)
            try:
                requested = self._admin.describe_configs([resource], request_timeout=left_s)
                self._limits[topic] = int(_answer(requested[resource], left_s + 1.0)["max.message.bytes"].value)
            except KafkaException as error:
                if reason(error).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    self._limits[topic] = DEFAULT_MESSAGE_BYTES
                    break
                problem = self._connection.translated(reason(error), f"requesting limits of {topic!r}")
                if not self._may_pass(problem, requested_s) or time.monotonic() > deadline:
                    raise problem from error
                time.sleep(POLL_INTERVAL_S)
        return self._limits[topic]

    def delete_before(self, topic: str, partition: int, offset: int) -> int:
        """Drop what is below; gives the new start."""
        before = KafkaPartition(self._prefix + topic, partition, offset)
        try:
            requested = self._admin.delete_records([before], request_timeout=self._timeout_s)
            return _answer(requested[before], self._timeout_s).low_watermark
        except KafkaException as error:
            what = f"deleting before offset {offset} in topic {topic!r} partition {partition}"
            raise self._connection.translated(reason(error), what) from error

    def offsets(
        self, wheres: Iterable[TopicPartition], *, at_end: bool, committed: bool = True
    ) -> dict[TopicPartition, int]:
        """The ends, or the first retained offsets, as of now; of many partitions in one request to each broker.

        Where transactions are open, the end is that of what is ``committed``, or else of all that is there.
        """
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        which = OffsetSpec.latest() if at_end else OffsetSpec.earliest()
        requested = {where: KafkaPartition(self._prefix + where.topic, where.partition) for where in wheres}
        requested_s = time.monotonic()
        deadline = requested_s + self._timeout_s
        while True:
            try:
                return self._offsets(requested, which, isolation, deadline)
            except KafkaException as error:
                problem = self._connection.translated(reason(error), "requesting offsets")
                if not self._may_pass(problem, requested_s) or time.monotonic() > deadline:
                    raise problem from error
            time.sleep(POLL_INTERVAL_S)
            self._learn_leaders()

    def request_ends(self, wheres: Iterable[TopicPartition]) -> EndsRequest:
        """Request the ends of what is committed; the answers come beside the caller."""
        requested = {where: KafkaPartition(self._prefix + where.topic, where.partition) for where in wheres}
        queries: dict[Any, Any] = dict.fromkeys(requested.values(), OffsetSpec.latest())
        try:
            answers = self._admin.list_offsets(
                queries, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_REQUEST_S
            )
        except KafkaException:  # the client itself refuses; what needs it more names the reason
            return EndsRequest({})
        return EndsRequest({where: answers[partition] for where, partition in requested.items()})

    def count(self, partitions: Callable[[], int]) -> int:
        """The result of ``partitions``. Passes on ``UnknownTopic`` once a topic has had time to reach all brokers."""
        requested_s = time.monotonic()
        while True:
            try:
                return partitions()
            except UnknownTopic:
                if not self.are_several or time.monotonic() - requested_s > self.spread_s:
                    raise
            time.sleep(POLL_INTERVAL_S)

    def _may_pass(self, problem: LogError, requested_s: float) -> bool:
        """Whether to retry. A new topic reaches one broker after the other, so the next may not know it yet."""
        if isinstance(problem, UnknownTopic):
            return time.monotonic() - requested_s < self.spread_s
        return isinstance(problem, LogUnavailable) and self._connection.refused is None

    @property
    def spread_s(self) -> float:
        """How long requests of an unknown topic are retried; of several brokers one may be far behind the others."""
        return self._spread_s if self.are_several else min(self._spread_s, SPREAD_S)

    def _learn_leaders(self) -> None:
        """Refresh the leaders: the client caches them for minutes, even after an answer that names another leader."""
        with contextlib.suppress(KafkaException):  # the next request raises the reason
            self._admin.list_topics(timeout=1.0)

    def _offsets(
        self, requested: Mapping[TopicPartition, KafkaPartition], which: Any, isolation: IsolationLevel, deadline: float
    ) -> dict[TopicPartition, int]:
        left_s = max(deadline - time.monotonic(), 0.1)
        queries: dict[Any, Any] = dict.fromkeys(requested.values(), which)
        answers = self._admin.list_offsets(queries, isolation_level=isolation, request_timeout=min(left_s, _REQUEST_S))
        found = {where: _answer(answers[partition], left_s + 1.0).offset for where, partition in requested.items()}
        if min(found.values(), default=0) < 0:  # where the connection breaks meanwhile, "no offset" comes as an answer
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "no offset was returned"))
        return found

    def _when_ready(self, topic: str) -> int:
        """Its partitions, once each has a leader: before that it cannot be read or written."""
        deadline, name = time.monotonic() + self._timeout_s, self._prefix + topic
        while True:
            try:
                found = self._admin.list_topics(name, timeout=self._timeout_s).topics[name]
            except KafkaException as error:
                raise self._connection.translated(reason(error), f"requesting topic {topic!r}") from error
            if found.error is None and all(one.leader >= 0 for one in found.partitions.values()):
                return len(found.partitions)
            if time.monotonic() > deadline:
                raise LogError(f"Kafka {self._connection.bootstrap}: topic {topic!r} was created and has no leader yet")
            time.sleep(POLL_INTERVAL_S)


def _answer(requested: Future[Any], timeout_s: float) -> Any:
    """The broker's answer. Raises ``KafkaException`` also after so long without one."""
    try:
        return requested.result(timeout_s)
    except TimeoutError as error:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from error
