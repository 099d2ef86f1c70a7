"""A consumer on librdkafka itself: the library inside of confluent-kafka, called by its public C interface.

It does what the follower needs of ``confluent_kafka.Consumer``, but gives what has arrived as pieces of columns: no
Python object for each record. Two rules for this file: every message that the library gives is given back; what the
library may call from its threads touches nothing of Python.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from holon.columnar.payloads import PAD_BYTES, Payloads, Places
from nodes.compiled import Compiled
from nodes.log import kafka_table as table
from nodes.log.kafka_append import HEADER
from nodes.log.kafka_blocks import Blocks, Where
from nodes.log.kafka_columns import Piece
from nodes.log.kafka_library import CONSUMER, ERROR_CALLBACK, new_client, partition_leaders

_ADDRESSES = ("rd_kafka_message_timestamp", "rd_kafka_message_headers", "rd_kafka_header_get_last",
              "rd_kafka_message_destroy")  # fmt: skip
_NAME = HEADER.encode() + b"\0"
AT_END = KafkaError(KafkaError._PARTITION_EOF)
TAKE = 10_000
FEW = 32
"""Up to so many messages are read one by one."""


class Event:
    """A message that is none: the end of a partition, or an error; as ``confluent_kafka.Message`` says it."""

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


class NativeConsumer:
    """One client. ``config`` as for ``confluent_kafka.Consumer``; raises ``KafkaException`` for what is refused.

    ``without_headers``: a topic whose headers are not looked at. The library makes a list for each message that is
    asked for its headers, also where it has none: 160 ns.
    """

    def __init__(
        self, library: ctypes.CDLL, loops: Compiled, config: Mapping[str, Any], without_headers: str | None = None
    ) -> None:
        self._lib = library
        self._loops = loops
        self._on_error: Callable[[KafkaError], None] = config.get("error_cb", lambda error: None)
        self._error_callback = ERROR_CALLBACK(self._failed)  # lives as long as the client
        self._functions = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in _ADDRESSES]
        self._name = ctypes.create_string_buffer(_NAME)
        self._room = (ctypes.c_int64 * 4)()
        self._blocks = Blocks()
        self._messages = np.empty(TAKE, np.int64)
        self._messages_at = self._messages.ctypes.data
        self._few = np.empty(table.WIDTH * FEW, np.int64)
        self._few_at = self._few.ctypes.data
        self._client = new_client(library, CONSUMER, config, self._error_callback)
        library.rd_kafka_poll_set_consumer(self._client)
        self._queue = library.rd_kafka_queue_get_consumer(self._client)
        # Held until the end, so that no other topic ever gets its address.
        self._bare = library.rd_kafka_topic_new(self._client, without_headers.encode(), None) if without_headers else 0

    def _failed(self, client: int, code: int, reason: bytes, opaque: int) -> None:
        """Called by the library, in the thread that takes messages."""
        self._on_error(KafkaError(code, reason.decode("utf-8", "replace")))

    def close(self) -> None:
        """Leave the brokers; safe to call twice."""
        if self._client:
            client, self._client = self._client, 0
            self._lib.rd_kafka_consumer_close(client)
            self._lib.rd_kafka_queue_destroy(self._queue)
            if self._bare:
                self._lib.rd_kafka_topic_destroy(self._bare)
            self._lib.rd_kafka_destroy(client)

    # --- which partitions --------------------------------------------------------------------------------------------

    def list_topics(self, name: str, timeout: float) -> list[tuple[str, int] | None]:
        """Ask for a topic's leaders, so that the client knows them."""
        topic = self._lib.rd_kafka_topic_new(self._client, name.encode(), None)
        try:
            return partition_leaders(self._lib, self._client, topic, timeout)
        finally:
            self._lib.rd_kafka_topic_destroy(topic)

    def incremental_assign(self, partitions: Sequence[KafkaPartition]) -> None:
        self._change(self._lib.rd_kafka_incremental_assign, partitions)

    def incremental_unassign(self, partitions: Sequence[KafkaPartition]) -> None:
        self._change(self._lib.rd_kafka_incremental_unassign, partitions)

    def _change(self, call: Callable[[Any, Any], int | None], partitions: Sequence[KafkaPartition]) -> None:
        listed = self._lib.rd_kafka_topic_partition_list_new(len(partitions))
        for one in partitions:
            added = self._lib.rd_kafka_topic_partition_list_add(listed, one.topic.encode(), one.partition)
            added.contents.offset = one.offset
            if one.leader_epoch is not None:  # then the broker is asked whether it has lost what was read
                self._lib.rd_kafka_topic_partition_set_leader_epoch(added, one.leader_epoch)
        failed = call(self._client, listed)
        self._lib.rd_kafka_topic_partition_list_destroy(listed)
        if failed:
            error = KafkaError(self._lib.rd_kafka_error_code(failed), self._lib.rd_kafka_error_string(failed).decode())
            self._lib.rd_kafka_error_destroy(failed)
            raise KafkaException(error)

    def wake_by(self, pipe: int) -> None:
        """Write a byte to that file when something arrives and nothing was there; -1: no longer."""
        self._lib.rd_kafka_queue_io_event_enable(self._queue, pipe, b"!", 1)

    def epoch_at(self, topic: str, partition: int, offset: int) -> int:
        """The leader's epoch of the last record that was taken, if that is the one before the offset; else -1."""
        listed = self._lib.rd_kafka_topic_partition_list_new(1)
        found = self._lib.rd_kafka_topic_partition_list_add(listed, topic.encode(), partition)
        failed = self._lib.rd_kafka_position(self._client, listed) or found.contents.offset != offset
        epoch = -1 if failed else self._lib.rd_kafka_topic_partition_get_leader_epoch(found)
        self._lib.rd_kafka_topic_partition_list_destroy(listed)
        return epoch

    # --- what has arrived --------------------------------------------------------------------------------------------

    def take(self, timeout_s: float) -> list[tuple[str, int, Piece] | Event]:
        """Wait for a message at most so long, and take what is there then, in order; at most ``TAKE`` of them."""
        at, consume = self._messages_at, self._lib.rd_kafka_consume_batch_queue
        found = consume(self._queue, math.ceil(timeout_s * 1000), at, 1)
        if found <= 0:
            return []
        try:
            found += max(0, consume(self._queue, 0, at + 8, TAKE - 1))
            if found <= FEW:
                self._scan(found, self._few_at)
                return list(self._few_of(self._few[: table.WIDTH * found].reshape(table.WIDTH, found).T.tolist()))
            fields = np.empty((table.WIDTH, found), np.int64)
            beside = self._scan(found, fields.ctypes.data)
            return list(self._read(fields, found, beside > 0))
        finally:
            self._loops.release(at, found, self._functions[3])

    def _scan(self, count: int, fields: int) -> int:
        stamp, headers, last, _ = self._functions
        name, room = ctypes.addressof(self._name), ctypes.addressof(self._room)
        return self._loops.scan(self._messages_at, count, fields, stamp, headers, last, name, room, self._bare)

    def _few_of(self, rows: list[list[int]]) -> Iterator[tuple[str, int, Piece] | Event]:
        """As ``_read``, with an object for each record: of a few, arrays cost more than what is in them."""
        first = 0
        while first < len(rows):
            row, end = rows[first], first + 1
            if row[table.ERROR]:
                yield self._event(int(self._messages[first]), row)
            else:
                while end < len(rows) and not rows[end][table.BEGINS]:
                    end += 1
                yield self._topic_name(row[table.TOPIC]), row[table.PARTITION], _small_piece(rows[first:end])
            first = end

    def _read(self, fields: Places, count: int, beside: bool) -> Iterator[tuple[str, int, Piece] | Event]:
        """``beside``: whether some message has a header or a key."""
        bounds = [*np.flatnonzero(fields[table.BEGINS]).tolist(), count]
        for first, end in pairwise(bounds):
            if fields[table.ERROR, first]:
                yield from (self._event(int(self._messages[row]), fields[:, row].tolist()) for row in range(first, end))
            else:
                pointer, partition = int(fields[table.TOPIC, first]), int(fields[table.PARTITION, first])
                topic = self._topic_name(pointer)
                sizes, at = fields[table.VALUE_BYTES, first:end], first
                while at < end:
                    to = at + self._blocks.fits((topic, partition), sizes[at - first :])
                    yield topic, partition, self._piece(fields[:, at:to], (topic, partition), beside)
                    at = to

    def _topic_name(self, pointer: int) -> str:
        return self._lib.rd_kafka_topic_name(pointer).decode()

    def _event(self, message: int, row: list[int]) -> Event:
        code = row[table.ERROR] - (1 << 32 if row[table.ERROR] >= 1 << 31 else 0)
        error = AT_END
        if code != KafkaError._PARTITION_EOF:
            said = self._lib.rd_kafka_message_errstr(message) or b""
            error = KafkaError(code, said.decode("utf-8", "replace"))
        topic = self._topic_name(row[table.TOPIC]) if row[table.TOPIC] else None
        return Event(topic, row[table.PARTITION], row[table.OFFSET], error)

    def _piece(self, rows: Places, where: Where, beside: bool) -> Piece:
        """Of columns of the table."""
        values = self._gathered(rows[table.VALUE], rows[table.VALUE_BYTES], where)
        size = int(rows[table.VALUE_BYTES].sum())
        headers = keys = None
        if beside and rows[table.HEADER_BYTES].any():
            headers = self._gathered(rows[table.HEADER], rows[table.HEADER_BYTES])
            size += int(rows[table.HEADER_BYTES].sum())
        if beside and rows[table.KEY].any():
            found = self._gathered(rows[table.KEY], rows[table.KEY_BYTES])
            keys = [key if at else None for key, at in zip(found, rows[table.KEY].tolist(), strict=True)]
            size += int(rows[table.KEY_BYTES].sum())
        return Piece(rows[table.OFFSET].copy(), rows[table.STAMP].copy(), values, headers, keys, size)

    def _gathered(self, pointers: Places, sizes: Places, where: Where | None = None) -> Payloads:
        count, total = len(sizes), int(sizes.sum())
        if where is None:
            buffer, at = np.empty(total + PAD_BYTES, np.uint8), 0
        else:
            buffer, at = self._blocks.place(where, count, total)
        ends = np.empty(count + 1, np.int64)
        addresses = pointers.ctypes.data, sizes.ctypes.data
        self._loops.gather(*addresses, count, buffer.ctypes.data, at, ends.ctypes.data)
        return Payloads(buffer, ends[:-1], ends[1:])


def _small_piece(rows: list[list[int]]) -> Piece:
    values = [ctypes.string_at(row[table.VALUE], row[table.VALUE_BYTES]) for row in rows]
    headers = keys = None
    if any(row[table.HEADER_BYTES] for row in rows):
        headers = [ctypes.string_at(row[table.HEADER], row[table.HEADER_BYTES]) for row in rows]
    if any(row[table.KEY] for row in rows):
        keys = [ctypes.string_at(row[table.KEY], row[table.KEY_BYTES]) if row[table.KEY] else None for row in rows]
    size = sum(row[table.VALUE_BYTES] + row[table.HEADER_BYTES] + row[table.KEY_BYTES] for row in rows)
    offsets = np.array([row[table.OFFSET] for row in rows], np.int64)
    return Piece(offsets, np.array([row[table.STAMP] for row in rows], np.int64), values, headers, keys, size)
