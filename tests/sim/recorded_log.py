"""A log in memory that knows a digest of all that was written to it and deleted from it, in order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from nodes.log.contract import Appended
from nodes.log.memory import MemoryLog


class RecordedLog(MemoryLog):
    """Equal runs have equal digests, whatever was trimmed meanwhile; ``written``: how many appends there were."""

    made: ClassVar[list[RecordedLog]] = []
    """Those that were made within ``recorded``."""
    recording: ClassVar[bool] = False

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        if self.recording:
            self.made.append(self)
        self._digest = hashlib.blake2b(digest_size=16)
        self.written = 0

    @property
    def digest(self) -> str:
        """Of everything so far."""
        return self._digest.hexdigest()

    def create_topic(self, topic: str, partitions: int, *, retention_ms: int | None = None) -> None:
        self.note("created", topic, partitions, retention_ms)
        super().create_topic(topic, partitions, retention_ms=retention_ms)

    def add_partitions(self, topic: str, partitions: int) -> None:
        self.note("partitions", topic, partitions)
        super().add_partitions(topic, partitions)

    def append(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        *,
        headers: Sequence[bytes] | None = None,
        keys: Sequence[bytes | None] | None = None,
    ) -> Appended:
        appended = super().append(topic, partition, values, headers=headers, keys=keys)
        self.written += 1
        self.note("append", topic, partition, appended.timestamp_ms, *values)
        for each in (headers, keys):
            if each is not None:
                self.note("with", *each)
        return appended

    def delete_before(self, topic: str, partition: int, offset: int) -> int:
        self.note("delete", topic, partition, offset)
        return super().delete_before(topic, partition, offset)

    def note(self, *parts: object) -> None:
        """Anything else that a run makes."""
        self._digest.update(repr(parts).encode())


@contextmanager
def recorded() -> Iterator[list[RecordedLog]]:
    """The logs that are made meanwhile, in order."""
    RecordedLog.made, RecordedLog.recording = (found := list[RecordedLog]()), True
    try:
        yield found
    finally:
        RecordedLog.made, RecordedLog.recording = [], False
