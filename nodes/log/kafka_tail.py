"""What has arrived of one partition and was not read yet, and how it becomes columns."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import numpy as np
from confluent_kafka import KafkaError, Message

from nodes.log.contract import Chunk, TopicPartition
from nodes.log.kafka_append import HEADER

BUFFER_RECORDS = 50_000
BUFFER_BYTES = 32 << 20


class Tail:
    """One partition that is followed. ``messages`` are all up to ``fetched``, where the next one will come from."""

    __slots__ = (
        "attached",
        "buffered",
        "damaged",
        "end",
        "end_s",
        "fetched",
        "messages",
        "problem",
        "start",
        "used_s",
        "where",
    )

    def __init__(self, where: TopicPartition, offset: int) -> None:
        self.where = where
        self.start = offset
        self.fetched = offset
        self.messages: deque[Message] = deque()
        self.buffered = 0
        self.attached = False
        self.problem: KafkaError | None = None
        self.damaged = 0
        self.end, self.end_s = -1, float("-inf")
        self.used_s = time.monotonic()

    def covers(self, offset: int) -> bool:
        """Whether reading on from there needs no jump."""
        return self.start <= offset <= self.fetched

    def drop_before(self, offset: int) -> None:
        """Nobody reads what is below."""
        while self.messages and self.messages[0].offset() < offset:  # type: ignore[operator]
            self.buffered -= len(self.messages.popleft())
        self.start = max(self.start, offset)

    def has_some(self) -> bool:
        """Whether something has arrived that was not read."""
        return bool(self.messages)

    def last_offset(self) -> int:
        """Of the last record that has arrived; there is one."""
        return self.messages[-1].offset()  # type: ignore[return-value]

    def new_taken(self, max_records: int, max_bytes: int) -> Any:
        """What its records are to be moved to."""
        return Taken(max_records, max_bytes)

    def is_full(self) -> bool:
        """Whether enough has arrived for now: a partition that nobody reads on must not fill the memory."""
        return len(self.messages) > BUFFER_RECORDS or self.buffered > BUFFER_BYTES


class Taken:
    """Columns that fill up to a limit."""

    def __init__(self, max_records: int, max_bytes: int) -> None:
        self._max_records = max_records
        self._bytes_left = max_bytes
        self.offsets: list[int] = []
        self.timestamps_ms: list[int] = []
        self.values: list[bytes] = []
        self.headers: list[bytes] = []
        self.keys: list[bytes | None] = []

    def fill(self, tail: Tail) -> bool:
        """Move records out of the tail; True if no more are to be taken."""
        messages = tail.messages
        while messages:
            if len(self.offsets) >= self._max_records:
                return True
            message: Any = messages[0]
            value, key, header = message.value() or b"", message.key(), _header(message)
            self._bytes_left -= len(value) + len(header) + len(key or b"")
            if self._bytes_left < 0 and self.offsets:
                return True
            messages.popleft()
            tail.buffered -= len(message)
            offset = message.offset()
            tail.start = offset + 1
            self.offsets.append(offset)
            self.timestamps_ms.append(message.timestamp()[1])
            self.values.append(value)
            self.headers.append(header)
            self.keys.append(key)
        return len(self.offsets) >= self._max_records

    def chunk(self, next_offset: int) -> Chunk:
        """The columns."""
        return Chunk(
            offsets=np.array(self.offsets, np.int64),
            timestamps_ms=np.array(self.timestamps_ms, np.int64),
            values=self.values,
            headers=self.headers,
            keys=self.keys if any(key is not None for key in self.keys) else None,
            next_offset=next_offset,
        )


def _header(message: Any) -> bytes:
    """The last header of ours; other programs' headers are theirs."""
    found = b""
    for name, value in message.headers() or ():
        if name == HEADER and value is not None:
            found = value
    return found
