"""Sending to Kafka without waiting: acknowledgements arrive later, in order, and the first failure ends it all."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from nodes.log.contract import LogError, LogUnavailable
from nodes.log.kafka.append import HEADER, AcknowledgedEnds, Leaders
from nodes.log.kafka.errors import Connection, reason

SLICE_S = 0.05
_Row = tuple[bytes, bytes | None, bytes]
"""Value, key and header."""


class Sender:
    """A pipeline: belongs to one thread. Its client is made with the first record that is sent.

    The client joins records to batches of at most ``batch.size``, which the topics have to take. The producer is
    idempotent and gapless: after a record that cannot be delivered it takes nothing any more, so a partition holds a
    prefix of what was sent to it.
    """

    def __init__(self, config: Mapping[str, Any], connection: Connection, timeout_s: float) -> None:
        self._config = dict(config)
        self._connection = connection
        self._timeout_s = timeout_s
        self._producer: Producer | None = None
        self._leaders: Leaders | None = None
        self._waiting = 0
        self._ends = AcknowledgedEnds()
        self._failed: LogError | None = None

    def send(
        self,
        name: str,
        partition: int,
        values: Sequence[bytes],
        headers: Sequence[bytes] | None,
        keys: Sequence[bytes | None] | None,
        done: Callable[[int], None],
    ) -> None:
        """Hand records over; ``name`` is the topic in the broker's words."""
        self._raise_failure()
        producer = self._ready(name, partition)

        def reported(error: KafkaError | None, message: Message) -> None:
            self._waiting -= 1
            if error is None:
                done(self._ends.after(name, partition, message.offset(), len(values)))
            elif self._failed is None:
                self._failed = self._failure(error, name, partition)

        rows = list(zip(values, keys or repeat(None), headers or repeat(b""), strict=False))
        taken = self._produce_many(producer, name, partition, rows[:-1])
        for number in range(taken, len(rows)):
            # One report is enough: where one fails, those after it fail too.
            report = {"on_delivery": reported} if number == len(rows) - 1 else {}
            value, key, header = rows[number]
            named = [(HEADER, header)] if header else None
            self._produce(producer, name, value, key, partition=partition, headers=named, **report)
        self._waiting += 1

    def gather(self) -> None:
        """Records handed over from now on may wait until ``release``, where that saves requests."""

    def release(self) -> None:
        """The gathered records leave."""

    @property
    def used(self) -> bool:
        """True once it has a client."""
        return self._producer is not None

    @property
    def stuck(self) -> bool:
        """Whether something stays here until ``poll_acks`` is called again; the library has a thread that sends."""
        return False

    def poll_acks(self, wait: bool) -> None:
        """Call what waits for acknowledgements; raises if a record was not delivered."""
        if self._producer is not None and self._waiting:
            self._poll(self._producer, 0)
            deadline = time.monotonic() + self._timeout_s + 1.0
            while wait and self._waiting and self._failed is None and time.monotonic() < deadline:
                self._poll(self._producer, SLICE_S)  # in slices, so that signals get their turn
        self._raise_failure()

    def _poll(self, producer: Producer, timeout_s: float) -> None:
        try:
            producer.poll(timeout_s)
        except KafkaException as error:  # a delivery report, if there is one, has more detail
            self._failed = self._failed or self._connection.translated(reason(error), "sending")
        except SystemError as error:  # how the client raises what its producer cannot go on from
            fatal = KafkaError(KafkaError._FATAL, str(error))
            self._failed = self._failed or self._connection.translated(fatal, "sending")

    def close(self) -> None:
        """Records still on their way may arrive, unheard of."""
        self._failed = LogUnavailable("the log is closed")
        if self._producer is not None:
            with contextlib.suppress(KafkaException):  # it has failed before, which was reported
                self._producer.purge()
                self._producer.flush(1.0)

    def _ready(self, name: str, partition: int) -> Producer:
        if self._producer is None or self._leaders is None:
            self._producer = Producer(self._config)
            self._leaders = Leaders(self._producer, self._connection, self._timeout_s)
        self._leaders.learn(name, partition)
        return self._producer

    def _produce_many(self, producer: Producer, name: str, partition: int, rows: Sequence[_Row]) -> int:
        """Hand over as many as are taken at once, without a check of each; returns how many these are."""
        produce, taken = producer.produce, 0
        with contextlib.suppress(BufferError, KafkaException):  # the slow path takes the rest, and raises the reason
            for value, key, header in rows:
                if header:
                    produce(name, value, key, partition, headers=[(HEADER, header)])
                else:
                    produce(name, value, key, partition)
                taken += 1
        return taken

    def _produce(self, producer: Producer, name: str, value: bytes, key: bytes | None, **options: Any) -> None:
        """Hand one record over; where too much is on its way, wait until some of it has arrived."""
        deadline = time.monotonic() + self._timeout_s + 1.0
        while True:
            try:
                producer.produce(name, value, key, **options)
                return
            except BufferError:
                if time.monotonic() > deadline:
                    self._failed = self._failure(KafkaError(KafkaError._QUEUE_FULL), name, options["partition"])
                self._poll(producer, SLICE_S)
            except KafkaException as error:
                self._failed = self._failed or self._failure(reason(error), name, options["partition"])
            self._raise_failure()

    def _failure(self, error: KafkaError, name: str, partition: int) -> LogError:
        return self._connection.translated(
            error,
            f"topic {name!r} partition {partition}: records were not acknowledged, so that nobody knows whether they "
            f"are on the log, and nothing is sent after them",
        )

    def _raise_failure(self) -> None:
        if self._failed is not None:
            raise self._failed
