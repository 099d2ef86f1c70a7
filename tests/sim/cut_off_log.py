"""A log that one node does not reach for a while: it sees the log as it was, or what it writes is held up, or both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nodes.log.contract import Appended, FetchedRecords, Log, LogUnavailable, TopicPartition
from tests.sim.late_log import LateLog


class CutOffLog(LateLog):
    """As ``LateLog``; ``cut_off`` and ``rejoin`` begin and end a split. ``arrived``: what was sent is on the log."""

    def __init__(
        self,
        log: Log,
        now_ms: Callable[[], int],
        delay_ms: Callable[[], int],
        arrived: Callable[[str, Sequence[bytes]], None],
    ) -> None:
        super().__init__(log, now_ms, delay_ms)
        self._arrived = arrived
        self._writes_held = False
        self._seen: dict[TopicPartition, tuple[int, int]] | None = None  # start and end of what it still sees

    @property
    def is_cut_off(self) -> bool:
        return self._writes_held or self._seen is not None

    def cut_off(self, *, reads: bool, writes: bool) -> None:
        """``reads``: of what comes from now on it sees nothing. ``writes``: what it sends arrives after the split."""
        self._writes_held = writes
        if reads:
            places = [TopicPartition(topic, p) for topic, count in self._log.topics().items() for p in range(count)]
            self._seen = {each: (self._log.start_offset(*each), self._log.end_offset(*each)) for each in places}

    def rejoin(self) -> None:
        self._writes_held, self._seen = False, None

    def go_on(self, *, all_of_it: bool = False) -> None:
        if not self._writes_held:
            super().go_on(all_of_it=all_of_it)

    def _arrive(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        headers: Sequence[bytes] | None,
        keys: Sequence[bytes | None] | None,
    ) -> Appended:
        appended = super()._arrive(topic, partition, values, headers, keys)
        self._arrived(topic, values)
        return appended

    def append(self, topic: str, partition: int, values: Sequence[bytes], **more: Any) -> Appended:
        self._check_writes()
        return super().append(topic, partition, values, **more)

    def delete_before(self, topic: str, partition: int, offset: int) -> int:
        self._check_writes()
        return super().delete_before(topic, partition, offset)

    def read(
        self, topic: str, partition: int, offset: int, *, max_records: int = 10_000, max_bytes: int = 8 << 20
    ) -> FetchedRecords:
        if self._seen is None:
            return super().read(topic, partition, offset, max_records=max_records, max_bytes=max_bytes)
        end = self._seen.get(TopicPartition(topic, partition), (0, 0))[1]
        start = self._log.start_offset(topic, partition)
        if offset < start:  # trimmed meanwhile, which it does not see either
            return super().read(topic, partition, start, max_records=1).before(offset)
        return super().read(topic, partition, offset, max_records=max_records, max_bytes=max_bytes).before(end)

    def start_offset(self, topic: str, partition: int) -> int:
        if self._seen is None:
            return super().start_offset(topic, partition)
        return self._seen.get(TopicPartition(topic, partition), (0, 0))[0]

    def end_offset(self, topic: str, partition: int) -> int:
        if self._seen is None:
            return super().end_offset(topic, partition)
        return self._seen.get(TopicPartition(topic, partition), (0, 0))[1]

    def _check_writes(self) -> None:
        if self._writes_held:
            raise LogUnavailable("cut off by the simulator")
