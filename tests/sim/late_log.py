"""A shared log as one node meets it whose records arrive late: what a killed node has sent may be lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from random import Random

from nodes.log.contract import Appended, FetchedRecords, Log, Record, TopicPartition


class LateLog(Log):
    """Records sent to one partition arrive in order, ``delay_ms()`` later; their acknowledgements after that."""

    def __init__(self, log: Log, now_ms: Callable[[], int], delay_ms: Callable[[], int]) -> None:
        self._log = log
        self._now_ms = now_ms
        self._delay_ms = delay_ms
        self._sent: dict[TopicPartition, deque[tuple[int, Callable[[], Callable[[], None]]]]] = {}
        self._acknowledged: deque[tuple[int, Callable[[], None]]] = deque()

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
        def arrive() -> Callable[[], None]:
            appended = self._arrive(topic, partition, values, headers, keys)
            return partial(done, appended.first_offset + appended.count)

        queue = self._sent.setdefault(TopicPartition(topic, partition), deque())
        due_ms = self._now_ms() + self._delay_ms()
        queue.append((max(due_ms, queue[-1][0]) if queue else due_ms, arrive))

    def _arrive(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        headers: Sequence[bytes] | None,
        keys: Sequence[bytes | None] | None,
    ) -> Appended:
        """Sent records get to the log."""
        return self._log.append(topic, partition, values, headers=headers, keys=keys)

    def go_on(self, *, all_of_it: bool = False) -> None:
        """Due records arrive."""
        for queue in self._sent.values():
            while queue and (all_of_it or queue[0][0] <= self._now_ms()):
                self._acknowledged.append((self._now_ms() + self._delay_ms(), queue.popleft()[1]()))

    def dies(self, draw: Random) -> None:
        """Some of what was sent is under way, and arrives; the rest is lost."""
        for queue in self._sent.values():
            for _ in range(draw.randrange(len(queue) + 1)):
                queue.popleft()[1]()
            queue.clear()

    def poll_acks(self, *, wait: bool = False) -> None:
        if wait:
            self.go_on(all_of_it=True)
        while self._acknowledged and (wait or self._acknowledged[0][0] <= self._now_ms()):
            self._acknowledged.popleft()[1]()

    def append(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        *,
        headers: Sequence[bytes] | None = None,
        keys: Sequence[bytes | None] | None = None,
    ) -> Appended:
        return self._log.append(topic, partition, values, headers=headers, keys=keys)

    def append_records(self, topic: str, partition: int, records: Sequence[Record]) -> Appended:
        return self._log.append_records(topic, partition, records)

    def use_record_parts(self, topic: str, headers: Collection[str]) -> None:
        self._log.use_record_parts(topic, headers)

    # --- as it is ---------------------------------------------------------------------------------------------------

    def create_topic(self, topic: str, partitions: int, *, retention_ms: int | None = None) -> None:
        self._log.create_topic(topic, partitions, retention_ms=retention_ms)

    def add_partitions(self, topic: str, partitions: int) -> None:
        self._log.add_partitions(topic, partitions)

    def topics(self) -> dict[str, int]:
        return self._log.topics()

    def read(
        self, topic: str, partition: int, offset: int, *, max_records: int = 10_000, max_bytes: int = 8 << 20
    ) -> FetchedRecords:
        return self._log.read(topic, partition, offset, max_records=max_records, max_bytes=max_bytes)

    def start_offset(self, topic: str, partition: int) -> int:
        return self._log.start_offset(topic, partition)

    def end_offset(self, topic: str, partition: int) -> int:
        return self._log.end_offset(topic, partition)

    def wait(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> list[TopicPartition]:
        return self._log.wait(positions, timeout_s)

    def delete_before(self, topic: str, partition: int, offset: int) -> int:
        return self._log.delete_before(topic, partition, offset)

    def flush(self) -> None:
        self._log.flush()

    def close(self) -> None:
        self._log.close()
