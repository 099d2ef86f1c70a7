"""The parts of Bytewax's programs that know Kafka and standard output.

Run by the environment of ``requirements.txt``, never by Holon's.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

BATCH = 20_000
CONSUMER = {
    "enable.auto.commit": "false",
    "enable.partition.eof": "true",
    "fetch.queue.backoff.ms": "5",
    "queued.min.messages": "200000",
    "fetch.message.max.bytes": "4194304",
    "check.crcs": "false",
}


class Partition(StatefulSourcePartition[bytes, int]):
    """One partition, from its first record to its end: batches of payloads; its snapshot is the next offset."""

    def __init__(self, bootstrap: str, topic: str, number: int) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bytewax", **CONSUMER})
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING)])
        self._over = self._was_polled = False
        self._next = 0

    def next_batch(self) -> list[bytes]:
        """Up to ``BATCH`` payloads."""
        if not self._was_polled:
            self._was_polled = True
            print(f"began {time.time()}", flush=True)
        if self._over:
            raise StopIteration
        found = []
        messages = self._consumer.consume(BATCH, 0.001)
        for message in messages:
            error = message.error()
            if error is None:
                found.append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                self._over = True
            else:
                raise RuntimeError(error)
        self._next = next((one.offset() + 1 for one in reversed(messages) if one.error() is None), self._next)
        return found

    def snapshot(self) -> int:
        """Where to go on."""
        return self._next

    def close(self) -> None:
        """At the end."""
        self._consumer.close()


class Source(FixedPartitionedSource[bytes, int]):
    """All partitions of a topic."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._bootstrap, self._topic, self._count = bootstrap, topic, partitions

    def list_parts(self) -> list[str]:
        """Their names."""
        return [f"{number:04d}" for number in range(self._count)]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Partition:
        """One of them."""
        return Partition(self._bootstrap, self._topic, int(for_part))


class Printed(DynamicSink[Any], StatelessSinkPartition[Any]):
    """Results are lines of standard output."""

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Printed:
        """One for each worker."""
        return self

    def write_batch(self, items: list[Any]) -> None:
        """Print them."""
        sys.stdout.write("".join(f"row {item}\n" for item in items))
        sys.stdout.flush()
