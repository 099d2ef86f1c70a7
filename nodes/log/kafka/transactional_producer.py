"""Sending to Kafka in transactions, for readers that are not Holon's; docs/kafka.md names the limits of this."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException, Producer

from nodes.log.kafka.errors import Connection, reason
from nodes.log.kafka.producer import Sender

TRANSACTION_TIMEOUT_MS = 10_000
"""After so long the broker aborts the open transaction of a node that has vanished; until then readers of committed
records wait at it."""


class TransactionalSender(Sender):
    """As ``Sender``, but what is sent between two calls of ``poll_acks`` becomes visible at once, or not at all.

    An acknowledgement means that the transaction is committed. After the first failure nothing is sent any more.
    """

    def __init__(self, config: Mapping[str, Any], connection: Connection, timeout_s: float) -> None:
        super().__init__(config, connection, timeout_s)
        self._open = False
        self._acknowledged: list[tuple[Callable[[int], None], int]] = []

    def send(
        self,
        name: str,
        partition: int,
        values: Sequence[bytes],
        headers: Sequence[bytes] | None,
        keys: Sequence[bytes | None] | None,
        done: Callable[[int], None],
    ) -> None:
        """Hand records over, as part of the open transaction or as the first of a new one."""
        self._raise_failure()
        producer = self._ready(name, partition)
        if not self._open:
            producer.begin_transaction()
            self._open = True
        super().send(name, partition, values, headers, keys, lambda end: self._acknowledged.append((done, end)))

    def poll_acks(self, wait: bool) -> None:
        """Commit the open transaction, then call back for its records."""
        super().poll_acks(wait or self._open)
        if self._open:
            self._commit()
            self._open = False
            callbacks, self._acknowledged = self._acknowledged, []
            for done, end in callbacks:
                done(end)

    def close(self) -> None:
        """Take back what is not committed."""
        if self._producer is not None and self._open:
            try:
                self._producer.abort_transaction(1.0)
            except KafkaException as error:  # then the broker does it when the time is over
                self._connection.note(reason(error))
        super().close()

    def _ready(self, name: str, partition: int) -> Producer:
        fresh = self._producer is None
        producer = super()._ready(name, partition)
        if fresh:
            try:
                producer.init_transactions(self._timeout_s)
            except KafkaException as error:
                raise self._connection.translated(reason(error), "initializing transactions") from error
        return producer

    def _commit(self) -> None:
        assert self._producer is not None
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                self._producer.commit_transaction(max(deadline - time.monotonic(), 0.1))
                return
            except KafkaException as error:
                problem = reason(error)
                if problem.retriable() and time.monotonic() < deadline:
                    continue
                what = "a transaction of outputs was not committed, as far as this node knows, and nothing follows it"
                self._failed = self._connection.translated(problem, what)
                raise self._failed from error
