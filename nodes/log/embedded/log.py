"""The embedded log: topics and partitions in a folder, used by several processes of one machine at once."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

from nodes.log.checks import check_topic_name
from nodes.log.contract import (
    MAX_RECORD_BYTES,
    Appended,
    FetchedRecords,
    Log,
    LogError,
    LogFull,
    Record,
    TopicPartition,
    UnknownTopic,
)
from nodes.log.embedded.block import Body, encode_bodies, encode_records
from nodes.log.embedded.chunk import empty_chunk, make_chunk
from nodes.log.embedded.columns import Gatherer
from nodes.log.embedded.damage.after_reboot import verify_once_a_boot
from nodes.log.embedded.folder import LogFolder, TopicMeta
from nodes.log.embedded.notifier import SLICE_S, Notifier
from nodes.log.embedded.open_environments import FSYNC_POLICIES, registry
from nodes.log.embedded.partition import Partition, decode_each
from nodes.log.own_process import OWN

Fsync = Literal["none", "interval", "batch"]

_SPURIOUS_PAUSE_S = 0.001


def wall_clock_ms() -> int:
    """Milliseconds since 1970. Log timestamps come from it; nothing else does."""
    return time.time_ns() // 1_000_000


class EmbeddedLog(Log):
    """A log in a folder. Safe to use from several threads, and from as many processes as open the same folder.

    ``fsync``: ``none`` leaves it to the operating system, ``interval`` syncs within ``fsync_interval_ms`` of an append,
    ``batch`` before each append returns. A killed process loses nothing under any of them; for the losses of a power
    failure see docs/log.md. Not to be used after a fork, and a forked child cannot open what its parent had open: start
    processes with ``spawn``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fsync: Fsync = "interval",
        fsync_interval_ms: int = 1000,
        *,
        max_record_bytes: int = MAX_RECORD_BYTES,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        if fsync not in FSYNC_POLICIES:
            raise ValueError(f"fsync is {fsync!r}; use one of {', '.join(FSYNC_POLICIES)}")
        self.path = Path(path).absolute()
        self._fsync: Fsync = fsync
        self._interval_s = fsync_interval_ms / 1000
        self._max_record_bytes = max_record_bytes
        self._clock_ms = clock_ms
        self._folder = LogFolder(self.path)
        verify_once_a_boot(self._folder)
        self._notifier = Notifier(self._folder.notifier)
        self._topics: dict[str, TopicMeta] = {}
        self._open: dict[tuple[str, int], Partition] = {}
        self._opening = threading.Lock()
        self._gatherer: Gatherer | None = None
        self._requested_headers: dict[str, Collection[str]] = {}
        self._pid = OWN.id
        self._finalizer = weakref.finalize(self, _release, self._open, self._notifier, self._pid)

    def create_topic(self, topic: str, partitions: int, *, retention_ms: int | None = None) -> None:
        self._check()
        self._folder.create_topic(topic, TopicMeta(partitions, retention_ms))

    def add_partitions(self, topic: str, partitions: int) -> None:
        self._check()
        self._meta(topic)  # raises where there is no such topic
        self._folder.add_partitions(topic, partitions)
        self._meta(topic, fresh=True)

    def topics(self) -> dict[str, int]:
        self._check()
        return {name: self._meta(name, fresh=True).partitions for name in self._folder.topic_names()}

    def append(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        *,
        headers: Sequence[bytes] | None = None,
        keys: Sequence[bytes | None] | None = None,
    ) -> Appended:
        store = self._partition(topic, partition)
        if not values:
            return Appended(store.bounds()[1], 0, self._clock_ms())
        limit = self._max_record_bytes
        return self._append(
            topic, store, encode_bodies(values, headers, keys, max_record_bytes=limit, where=store.env.where)
        )

    def append_records(self, topic: str, partition: int, records: Sequence[Record]) -> Appended:
        store = self._partition(topic, partition)
        if not records:
            return Appended(store.bounds()[1], 0, self._clock_ms())
        bodies = encode_records(records, max_record_bytes=self._max_record_bytes, where=store.env.where)
        return self._append(topic, store, bodies)

    def use_record_parts(self, topic: str, headers: Collection[str]) -> None:
        self._requested_headers[topic] = headers

    def _append(self, topic: str, store: Partition, bodies: list[Body]) -> Appended:
        retention_ms = self._topics[topic].retention_ms
        try:
            done = store.append(bodies, self._clock_ms, retention_ms)
        except LogFull:
            if retention_ms is None:
                raise
            with self._folder.reserve.released():
                store.expire(self._clock_ms() - retention_ms)
                store.recycle()
            done = store.append(bodies, self._clock_ms, retention_ms)
        self._notifier.notify()
        return done

    def max_record_bytes(self, topic: str) -> int:
        return self._max_record_bytes

    def read(
        self, topic: str, partition: int, offset: int, *, max_records: int = 10_000, max_bytes: int = 8 << 20
    ) -> FetchedRecords:
        gather = decode_each if self._gatherer is None else self._gatherer.gather
        blocks = self._partition(topic, partition).read(offset, max_records, max_bytes, gather)
        if not blocks:
            return empty_chunk(offset)
        return make_chunk(blocks, offset, max_records, max_bytes, self._requested_headers.get(topic))

    def use_columns(self, without_headers: str | None = None) -> bool:
        """Large reads of records without headers and keys; other records cost an object each all the same."""
        self._gatherer = Gatherer()
        return True

    def start_offset(self, topic: str, partition: int) -> int:
        return self._partition(topic, partition).bounds()[0]

    def end_offset(self, topic: str, partition: int) -> int:
        return self._partition(topic, partition).bounds()[1]

    def wait(self, positions: Mapping[TopicPartition, int], timeout_s: float) -> list[TopicPartition]:
        deadline = time.monotonic() + timeout_s
        watched = [(where, self._partition(*where), position) for where, position in positions.items()]
        woken = float("-inf")
        while True:
            seen = self._notifier.sample()  # before the check: a later append notifies
            ready = [where for where, store, position in watched if store.bounds()[1] > position]
            now = time.monotonic()
            if ready or now >= deadline:
                return ready
            if now - woken < _SPURIOUS_PAUSE_S:  # others are busy; do not run with each of their appends
                time.sleep(_SPURIOUS_PAUSE_S)
            self._notifier.wait(seen, min(SLICE_S, deadline - now))
            woken = time.monotonic()
            self._check()

    def delete_before(self, topic: str, partition: int, offset: int) -> int:
        store = self._partition(topic, partition)
        try:
            return store.delete_before(offset)
        except LogFull:
            with self._folder.reserve.released():
                start = store.delete_before(offset)
                store.recycle()
                return start

    def flush(self) -> None:
        self._check()
        for store in list(self._open.values()):
            store.env.sync()

    def close(self) -> None:
        if self._pid == OWN.id:
            self._finalizer()

    def _partition(self, topic: str, partition: int) -> Partition:
        store = self._open.get((topic, partition))
        if store is not None and self._finalizer.alive and self._pid == OWN.id:
            return store
        self._check()
        with self._opening:
            store = self._open.get((topic, partition))
            if store is None:
                store = self._open_partition(topic, partition)
            return store

    def _open_partition(self, topic: str, partition: int) -> Partition:
        meta = self._meta(topic)
        if partition >= meta.partitions:
            meta = self._meta(topic, fresh=True)
        if not 0 <= partition < meta.partitions:
            raise UnknownTopic(f"topic {topic!r} has no partition {partition}; it has 0 to {meta.partitions - 1}")
        path = self._folder.partition_path(topic, partition)
        where = f"topic {topic!r} partition {partition}"
        store = registry().acquire(path, where, self._fsync, self._interval_s)
        self._open[topic, partition] = store
        return store

    def _meta(self, topic: str, *, fresh: bool = False) -> TopicMeta:
        """``fresh``: another process may have added partitions."""
        meta = None if fresh else self._topics.get(topic)
        if meta is None:
            check_topic_name(topic)
            meta = self._folder.read_topic(topic)
            if meta is None:
                self.partitions(topic)  # raises, with the nearest names
                raise UnknownTopic(f"no topic {topic!r} in {self.path}")
            self._topics[topic] = meta
        return meta

    def _check(self) -> None:
        if self._pid != OWN.id:
            raise LogError(
                f"embedded log {self.path}: opened by process {self._pid} and used by {OWN.id} after a fork; "
                "start processes with 'spawn' and open the log there"
            )
        if not self._finalizer.alive:
            raise LogError(f"embedded log {self.path}: it is closed; open it again")


def _release(partitions: dict[tuple[str, int], Partition], notifier: Notifier, pid: int) -> None:
    if pid != OWN.id:
        return
    failed = None
    for store in partitions.values():
        try:
            registry().release(store)
        except LogError as error:  # a last sync that failed; the others are closed all the same
            failed = failed or error
    partitions.clear()
    notifier.close()
    if failed is not None:
        raise failed
