"""A sender on librdkafka itself: records go there, and reports come back, without a call of Python for each."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from confluent_kafka import KafkaError, KafkaException

from nodes.compiled import Compiled
from nodes.log.contract import LogUnavailable
from nodes.log.kafka_append import HEADER
from nodes.log.kafka_errors import Connection, reason
from nodes.log.kafka_library import PRODUCER, new_client, partition_count
from nodes.log.kafka_records import Records
from nodes.log.kafka_send import SLICE_S, Sender
from nodes.log.kafka_table import VARIABLE

_REPORTS, _ERRORS = 0x1, 0x8
"""The events that are asked for."""
_TOPIC, _PARTITION, _VALUE, _KEY, _OPAQUE, _FLAGS, _HEADER = 2, 3, 4, 5, 6, 7, 9
"""Kinds of ``rd_kafka_vu_t``."""
_PARTS = (_TOPIC, _PARTITION, _FLAGS, _OPAQUE, _VALUE, _KEY, _HEADER)
_COPY = 2
_ALL = 3
"""Of what is purged: what waits, and what is on its way."""
_WORDS = VARIABLE // 8
_CLOSE_S = 1.0


class Producer:
    """One client. Raises ``KafkaException`` for what is refused. Belongs to one thread."""

    def __init__(self, library: ctypes.CDLL, loops: Compiled, config: Mapping[str, Any]) -> None:
        self._lib = library
        self._loops = loops
        self._on_error: Callable[[KafkaError], None] = config.get("error_cb", lambda error: None)
        self._client = new_client(library, PRODUCER, config, events=_REPORTS | _ERRORS)
        self._queue = library.rd_kafka_queue_get_main(self._client)
        self._topics: dict[str, int] = {}
        self._known: dict[str, int] = {}
        self._produce = ctypes.cast(library.rd_kafka_produceva, ctypes.c_void_p).value or 0
        self._name = ctypes.create_string_buffer(HEADER.encode() + b"\0")
        self._parts = np.zeros((len(_PARTS), _WORDS), np.int64)
        self._parts[:, 0] = _PARTS
        self._parts[_PARTS.index(_FLAGS), 1] = _COPY
        self._parts[_PARTS.index(_HEADER), 1] = ctypes.addressof(self._name)
        self._failure = np.zeros(1, np.int64)

    def learn(self, name: str, partition: int, timeout_s: float) -> None:
        """To be called before the first record: the library asks for leaders late, and at leisure."""
        if name not in self._topics:
            self._topics[name] = self._lib.rd_kafka_topic_new(self._client, name.encode(), None)
        if partition >= self._known.get(name, 0):
            self._known[name] = partition_count(self._lib, self._client, self._topics[name], timeout_s)

    def hand_over(self, name: str, partition: int, records: Records, first: int, ticket: int) -> int:
        """Hand over records ``first`` and those after it; returns how many of all the library has then.

        Raises the error of a record that is refused, but for a lack of room.
        """
        self._parts[0, 1], self._parts[1, 1] = self._topics[name], partition
        parts, columns, failure = self._parts.ctypes.data, records.table.ctypes.data, self._failure.ctypes.data
        handed = self._loops.hand_over(
            self._client, self._produce, parts, columns, first, records.count, ticket, failure
        )
        if handed < records.count:
            refused = int(self._failure[0])
            code, text = self._lib.rd_kafka_error_code(refused), self._lib.rd_kafka_error_string(refused).decode()
            self._lib.rd_kafka_error_destroy(refused)
            if code != KafkaError._QUEUE_FULL:
                raise KafkaException(KafkaError(code, text))
        return handed

    def reports(self, timeout_s: float) -> list[list[int]]:
        """Error, ticket and offset of what was reported meanwhile: of each last record, and of each that failed.

        Waits at most so long for the first of them.
        """
        rows: list[list[int]] = []
        wait_ms = math.ceil(timeout_s * 1000)
        while event := self._lib.rd_kafka_queue_poll(self._queue, wait_ms):
            wait_ms = 0
            try:
                kind = self._lib.rd_kafka_event_type(event)
                if kind == _REPORTS:
                    rows += self._of_event(event)
                elif kind == _ERRORS:
                    said = (self._lib.rd_kafka_event_error_string(event) or b"").decode("utf-8", "replace")
                    self._on_error(KafkaError(self._lib.rd_kafka_event_error(event), said))
            finally:
                self._lib.rd_kafka_event_destroy(event)
        return rows

    def _of_event(self, event: int) -> list[list[int]]:
        room = self._lib.rd_kafka_event_message_count(event)
        messages = np.empty(room, np.int64)
        count = self._lib.rd_kafka_event_message_array(event, messages.ctypes.data, room)
        found = np.empty((count, 3), np.int64)
        rows = self._loops.reported(messages.ctypes.data, count, found.ctypes.data)
        return found[:rows].tolist()

    def close(self) -> None:
        """Forget what was not delivered, and leave the brokers; safe to call twice."""
        if not self._client:
            return
        client, self._client = self._client, 0
        self._lib.rd_kafka_purge(client, _ALL)
        deadline = time.monotonic() + _CLOSE_S
        while self._lib.rd_kafka_outq_len(client) and time.monotonic() < deadline:
            self.reports(SLICE_S)
        for topic in self._topics.values():
            self._lib.rd_kafka_topic_destroy(topic)
        self._lib.rd_kafka_queue_destroy(self._queue)
        self._lib.rd_kafka_destroy(client)


class _Sent(NamedTuple):
    name: str
    partition: int
    done: Callable[[int], None]


class NativeSender(Sender):
    """As ``Sender``, by the compiled loops; a batch that is given as columns never becomes objects of Python."""

    def __init__(
        self,
        library: ctypes.CDLL,
        loops: Compiled,
        config: Mapping[str, Any],
        connection: Connection,
        timeout_s: float,
    ) -> None:
        super().__init__(config, connection, timeout_s)
        self._library = library
        self._loops = loops
        self._native: Producer | None = None
        self._sent: dict[int, _Sent] = {}
        self._ticket = 0

    def send(
        self,
        name: str,
        partition: int,
        values: Sequence[bytes],
        headers: Sequence[bytes] | None,
        keys: Sequence[bytes | None] | None,
        done: Callable[[int], None],
    ) -> None:
        """Hand records over; where too much is on its way, wait until some of it has arrived."""
        self._raise_failure()
        producer = self._opened(name, partition)
        records, handed = Records(values, headers, keys), 0
        self._ticket += 1
        self._sent[self._ticket] = _Sent(name, partition, done)
        deadline = time.monotonic() + self._timeout_s + 1.0
        while True:
            try:
                taken = producer.hand_over(name, partition, records, handed, self._ticket)
            except KafkaException as error:
                self._failed = self._failed or self._failure(reason(error), name, partition)
                raise self._failed from error
            if taken == records.count:
                return
            if taken > handed:
                deadline = time.monotonic() + self._timeout_s + 1.0
            elif time.monotonic() > deadline:
                self._failed = self._failure(KafkaError(KafkaError._QUEUE_FULL), name, partition)
            handed = taken
            self._hear(producer, SLICE_S)
            self._raise_failure()

    @property
    def used(self) -> bool:
        """True once it has a client."""
        return self._native is not None

    def delivered(self, wait: bool) -> None:
        """Call what waits for acknowledgements; raises if a record was not delivered."""
        if self._native is not None:
            self._hear(self._native, 0)
            deadline = time.monotonic() + self._timeout_s + 1.0
            while wait and self._sent and self._failed is None and time.monotonic() < deadline:
                self._hear(self._native, SLICE_S)  # in slices, so that signals get their turn
        self._raise_failure()

    def close(self) -> None:
        """What is still on its way may arrive, but nobody will hear of it."""
        self._failed = LogUnavailable("the log is closed")
        if self._native is not None:
            self._native.close()

    def _hear(self, producer: Producer, timeout_s: float) -> None:
        for error, ticket, offset in producer.reports(timeout_s):
            if error:
                code = error - (1 << 32 if error >= 1 << 31 else 0)
                name, partition, _ = self._sent[ticket]
                self._failed = self._failed or self._failure(KafkaError(code), name, partition)
            else:
                self._sent.pop(ticket).done(offset + 1)

    def _opened(self, name: str, partition: int) -> Producer:
        if self._native is None:
            self._native = Producer(self._library, self._loops, self._config)
        try:
            self._native.learn(name, partition, self._timeout_s)
        except KafkaException as error:
            raise self._connection.translated(reason(error), f"asking for topic {name!r}") from error
        return self._native
