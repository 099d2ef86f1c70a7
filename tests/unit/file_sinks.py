"""A topic of outputs, a store in memory that lets a test in before and after each change, and what files hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from holon.files import Files
from holon.outputs.identity import OutputId, Track
from nodes.file_sinks.sink import FileSink
from nodes.file_sinks.stores import FileStore
from nodes.log import MemoryLog

TOPIC, JOB = "totals", "shop"
HOUR_MS = 3_600_000


class Killed(BaseException):
    """In place of a kill -9: nothing of the sink catches it."""


class HookedStore:
    """``hook`` is called with the number of the change, and whether it is done, before and after each."""

    def __init__(self, values: dict[str, bytes] | None = None) -> None:
        self.where = "memory"
        self.values = {} if values is None else values
        self.hook: Callable[[int, bool], object] = lambda number, done: None
        self.changes = 0

    def _changed(self, change: Callable[[], bool]) -> bool:
        number, self.changes = self.changes, self.changes + 1
        self.hook(number, False)
        result = change()
        self.hook(number, True)
        return result

    def create(self, name: str, data: bytes) -> bool:
        return self._changed(lambda: self.values.setdefault(name, data) is data)

    def put(self, name: str, data: bytes) -> None:
        self._changed(lambda: bool(self.values.update({name: data})))

    def read(self, name: str) -> bytes | None:
        return self.values.get(name)

    def names(self, folder: str) -> list[str]:
        return sorted(name for name in self.values if name.startswith(f"{folder}/"))

    def delete(self, name: str) -> None:
        self._changed(lambda: self.values.pop(name, None) is not None)

    def killed_at(self, number: int, *, done: bool) -> HookedStore:
        """The same values for a process that is killed before or behind one of its changes."""
        store = HookedStore(self.values)

        def hook(at: int, is_done: bool) -> None:
            if (at, is_done) == (number, done):
                raise Killed

        store.hook = hook
        return store


def output_log(partitions: int = 2) -> MemoryLog:
    log = MemoryLog()
    log.create_topic(TOPIC, partitions)
    return log


def row_of(position: int, partition: int = 0, n: int = 0) -> bytes:
    return msgspec.json.encode({"end_ms": position, "partition": partition, "n": n, "shop": f"s{position % 3}"})


def emit(log: MemoryLog, partition: int, ends: range, incarnation: int = 0) -> None:
    """Rows of windows that end at these hours, as the owner of the partition writes them."""
    places = [end * HOUR_MS for end in ends]
    headers = [OutputId(JOB, incarnation, partition, Track.WINDOW, place, 0).to_bytes() for place in places]
    log.append(TOPIC, partition, [row_of(place, partition) for place in places], headers=headers)


def sink_of(
    log: MemoryLog, store: FileStore, path: str = "out", batch_rows: int = 4, batch_bytes: int = 1 << 20, **files: Any
) -> FileSink:
    given = Files(path, **files)
    return FileSink(log, store, JOB, TOPIC, given, batch_rows=batch_rows, batch_bytes=batch_bytes)


def rows_in(store: HookedStore) -> Counter[bytes]:
    """The rows of all files of JSON lines, each file's once for each time it holds them."""
    found: Counter[bytes] = Counter()
    for name, data in store.values.items():
        if name.endswith(".jsonl"):
            found.update(data.splitlines())
    return found


def expected(partitions: int, ends: range) -> Counter[bytes]:
    return Counter(row_of(end * HOUR_MS, partition) for partition in range(partitions) for end in ends)
