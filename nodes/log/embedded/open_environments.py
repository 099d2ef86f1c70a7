"""Which partitions this process has open: each LMDB environment once, shared by all logs and threads."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from pathlib import Path

from nodes.log.contract import LogError
from nodes.log.embedded.disk_syncer import DiskSyncer
from nodes.log.embedded.environment import Environment
from nodes.log.embedded.errors import damaged, translate
from nodes.log.embedded.lock_watcher import LockWatcher
from nodes.log.embedded.partition import Partition

FSYNC_POLICIES = ("none", "interval", "batch")
"""From weak to strong."""


_log = logging.getLogger("holon.log")


class _Entry:
    def __init__(self, partition: Partition, fsync: str) -> None:
        self.partition = partition
        self.fsync = fsync
        self.users = 0


class Registry:
    """Open partitions by the identity of their file, with a count of users."""

    def __init__(self, inherited: frozenset[tuple[int, int]] = frozenset()) -> None:
        self._inherited = inherited
        """Environments that were open in the process that this one was forked from."""
        self._lock = threading.Lock()
        self._entries: dict[tuple[int, int], _Entry] = {}
        self._syncer = DiskSyncer()
        self._watcher = LockWatcher()

    def acquire(self, path: Path, where: str, fsync: str, interval_s: float) -> Partition:
        """Open it or share it; ``release`` it once for each call."""
        try:
            status = (path / "data.mdb").stat()
        except FileNotFoundError:
            raise damaged(path / "data.mdb", where, "the file is missing") from None
        except OSError as error:
            raise translate(error, path, where) from error
        with self._lock:
            key = (status.st_dev, status.st_ino)
            entry = self._entries.get(key)
            if key in self._inherited:
                raise LogError(
                    f"{where}: this process was forked from one that had the partition open, so it cannot open it; "
                    "start processes with 'spawn' or as programs, or open the log only after the fork"
                )
            if entry is None:
                entry = self._entries[key] = _Entry(self._open(path, where, fsync, interval_s), fsync)
            elif FSYNC_POLICIES.index(fsync) > FSYNC_POLICIES.index(entry.fsync):
                raise LogError(
                    f"{where}: open in this process with fsync={entry.fsync!r}, so it cannot give {fsync!r}; "
                    "open the log with the stronger policy first, or close the other one"
                )
            entry.users += 1
            return entry.partition

    def release(self, partition: Partition) -> None:
        """Give it back; the last user closes it."""
        try:
            with self._lock:
                key, entry = next(item for item in self._entries.items() if item[1].partition is partition)
                entry.users -= 1
                if entry.users == 0:
                    del self._entries[key]
                    _close(entry)
        finally:
            if not self._entries:
                self._stop_threads()

    def close_all(self) -> None:
        """At the end of the process."""
        with self._lock:
            entries, self._entries = list(self._entries.values()), {}
            for entry in entries:
                try:
                    _close(entry)
                except LogError as error:
                    _log.error("%s", error)
        self._stop_threads()

    def keys(self) -> frozenset[tuple[int, int]]:
        """Everything that a child of a fork must leave alone."""
        return self._inherited | frozenset(self._entries)

    def _open(self, path: Path, where: str, fsync: str, interval_s: float) -> Partition:
        env = Environment(path, where, sync_commits=fsync == "batch", watcher=self._watcher)

        def committed() -> None:
            env.dirty = True
            if fsync == "interval":
                self._syncer.committed(env, interval_s)

        return Partition(env, (lambda: None) if fsync == "batch" else committed)

    def _stop_threads(self) -> None:
        self._watcher.stop()
        self._syncer.stop()


def _close(entry: _Entry) -> None:
    try:
        if entry.fsync == "interval":
            entry.partition.env.sync()
    finally:
        entry.partition.env.close()


_registry = Registry()
_of_parents: list[Registry] = []


def registry() -> Registry:
    """The one of this process."""
    return _registry


def _forget_after_fork() -> None:
    # Kept for ever and never closed: LMDB would give back the parent's place among the readers.
    global _registry
    _of_parents.append(_registry)
    _registry = Registry(_registry.keys())


os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(lambda: _registry.close_all())
