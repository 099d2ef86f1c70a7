"""Writing to topics that need no order and no memory: what cannot be delivered is dropped, the next record goes out.

Two rules for this file: nothing that fails here concerns anything that is written elsewhere; no call waits for a broker
that is away longer than its caller's timeout.

The producer is not idempotent, so a broker that has forgotten it (a restart behind a topic's short retention) refuses
nothing; one that has failed all the same is replaced.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from nodes.log.contract import LogUnavailable
from nodes.log.kafka.append import HEADER, AcknowledgedEnds, Appender
from nodes.log.kafka.errors import Connection, reason
from nodes.log.kafka.retry_policy import Remedy, remedy
from nodes.log.kafka.unacknowledged_writes import Unanswered

logger = logging.getLogger(__name__)

KEPT_MS = 5_000
"""A record that could not be sent for so long is of no use any more."""


class LooseWriter:
    """Belongs to one thread, but for its ``appender``. ``topics`` are those that it writes to.

    Its clients are made with the first record.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        connection: Connection,
        new_appender: Callable[[], Appender],
        unanswered: Unanswered,
        new_producer: Callable[[dict[str, Any]], Producer] = Producer,
    ) -> None:
        self.topics: set[str] = set()
        self.dropped = 0
        self.renewed = 0
        self._config = without_memory(config) | {"message.timeout.ms": KEPT_MS}
        self._connection = connection
        self._new_producer = new_producer
        self._new_appender = new_appender
        self._unanswered = unanswered
        self._appender: Appender | None = None
        self._lock = threading.Lock()
        self._ends = AcknowledgedEnds()
        self._producer: Producer | None = None
        self._broken = False

    def send(
        self,
        name: str,
        partition: int,
        values: Sequence[bytes],
        headers: Sequence[bytes] | None,
        keys: Sequence[bytes | None] | None,
        done: Callable[[int], None],
    ) -> None:
        """Hand records over, without waiting; ``done`` is called if the last of them arrives.

        They are dropped while other writes wait in vain.
        """
        if self._unanswered.in_vain:
            self.dropped += len(values)
            return
        producer = self._ready()

        def reported(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._failed(error)

        def reported_last(error: KafkaError | None, message: Message) -> None:
            reported(error, message)
            if error is None:
                done(self._ends.after(name, partition, message.offset(), len(values)))

        for number, value in enumerate(values):
            callback = reported_last if number == len(values) - 1 else reported
            header = headers[number] if headers is not None else b""
            named: Any = [(HEADER, header)] if header else None
            key = keys[number] if keys is not None else None
            try:
                producer.produce(name, value, key, partition, headers=named, on_delivery=callback)
            except BufferError:
                self.dropped += 1
            except KafkaException as error:
                self._failed(reason(error))

    def appender(self) -> Appender:
        """For appends that wait, from any thread. Raises ``LogUnavailable`` while other writes wait in vain."""
        if self._unanswered.in_vain:
            raise LogUnavailable("other writes to Kafka wait in vain for an answer")
        with self._lock:
            if self._appender is None:
                self._appender = self._new_appender()
            return self._appender

    def poll(self) -> None:
        """Take what was reported meanwhile."""
        if self._producer is not None:
            try:
                self._producer.poll(0)
            except (KafkaException, SystemError):  # the client raises so what its producer cannot go on from
                self._broken = True

    def close(self) -> None:
        """Records still on their way may arrive."""
        self._leave()
        with self._lock:
            if self._appender is not None:
                self._appender.close()

    def _leave(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(KafkaException, SystemError):
                producer.purge()
                producer.flush(1.0)

    def _ready(self) -> Producer:
        if self._broken:
            self._leave()
            self._broken = False
            self.renewed += 1
        if self._producer is None:
            self._producer = self._new_producer(self._config)
        return self._producer

    def _failed(self, error: KafkaError) -> None:
        self.dropped += 1
        self._connection.note(error)
        if error.fatal() or remedy(error.code()) is Remedy.RENEW:
            self._broken = True  # not replaced in here, since this is a callback of its own call
        logger.debug("dropped: %s", error)


def without_memory(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same client without a place at the broker that could be lost."""
    kept = {key: value for key, value in config.items() if key != "enable.gapless.guarantee"}
    return kept | {"enable.idempotence": False, "acks": "1"}
