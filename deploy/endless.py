"""A topic without end that nobody stores: the same events again and again, each time at later event times."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from holon.columnar.payloads import PAD_BYTES, BinaryColumn
from nexmark.generator import GeneratorConfig, encode_json, generate_slice
from nexmark.model import BASE_TIME_MS, EVENTS_PER_S
from nexmark.times import format_times_ms
from nodes.log import Log, TopicPartition
from nodes.log.contract import FetchedRecords

BATCH = 20_000
WIDTH = 23
_TIME = re.compile(rb'"dateTime":"')


class Endless:
    """``records`` of each partition of a topic: those of the generator's first ``BATCH`` events, over and over.

    Only their times differ: record k of partition p has the time of event p + k P. ``made_s`` is the CPU time that
    making them took, which is none of the node's.
    """

    def __init__(self, topic: str, partitions: int, records: int) -> None:
        self.topic, self.partitions, self.records = topic, partitions, records
        made = encode_json(generate_slice(GeneratorConfig(seed=7), 0, BATCH))
        lengths = np.array([len(value) for value in made])
        self._ends = np.cumsum(lengths)
        self._starts = self._ends - lengths
        found = [match.end() for value in made if (match := _TIME.search(value))]
        assert len(found) == BATCH, "every event has a time"
        self._places = (self._starts + np.array(found))[:, None] + np.arange(WIDTH)
        self._data = np.frombuffer(b"".join([*made, bytes(PAD_BYTES)]), np.uint8)
        self.made_s = 0.0

    def chunk(self, partition: int, offset: int, max_records: int) -> FetchedRecords:
        """Records from ``offset`` on."""
        began_s = time.thread_time()
        at = offset % BATCH
        count = min(max_records, BATCH - at, self.records - offset)
        numbers = partition + (offset + np.arange(count, dtype=np.int64)) * self.partitions
        texts = format_times_ms(BASE_TIME_MS + numbers * 1000 // EVENTS_PER_S) if count else []
        data, rows = self._data.copy(), slice(at, at + count)
        data[self._places[rows]] = np.frombuffer("".join(texts).encode(), np.uint8).reshape(-1, WIDTH)
        offsets = offset + np.arange(count, dtype=np.int64)
        values = BinaryColumn(data, self._starts[rows], self._ends[rows])
        self.made_s += time.thread_time() - began_s
        return FetchedRecords(offsets, np.zeros(count, np.int64), values, [b""] * count, None, offset + count)

    def on(self, log: Log) -> None:
        """Let ``log`` have these records; it must know the topic, empty."""
        inside: Any = log
        read, end_offset, wait = log.read, log.end_offset, log.wait

        def reading(
            topic: str, partition: int, offset: int, *, max_records: int = 10_000, **more: int
        ) -> FetchedRecords:
            if topic == self.topic:
                return self.chunk(partition, offset, max_records)
            return read(topic, partition, offset, max_records=max_records, **more)

        def ending(topic: str, partition: int) -> int:
            return self.records if topic == self.topic else end_offset(topic, partition)

        def waiting(positions: Mapping[TopicPartition, int], timeout_s: float) -> list[TopicPartition]:
            ready = [where for where, at in positions.items() if where.topic == self.topic and at < self.records]
            others = {where: at for where, at in positions.items() if where.topic != self.topic}
            return ready + wait(others, 0.0 if ready else timeout_s)

        inside.read = inside.poll = reading
        inside.end_offset = inside.high_watermark = ending
        inside.wait = waiting
