"""LMDB's lock file, looked at from outside: how many commits there were, who holds which lock, and who of us waits.

Written for LMDB 0.9's layout (struct MDB_txninfo, 64-bit, pthread mutexes). A robust mutex starts with its futex word,
and the kernel demands the owner's thread id there. Nothing is believed before it was seen to agree with LMDB; where it
does not (another platform), commits are read through LMDB and owners stay unknown.
"""

from __future__ import annotations

import mmap
import threading
import time
from collections.abc import Callable
from pathlib import Path

READER_LOCK, WRITER_LOCK = 8 // 4, 64 // 4
_MAGIC = 0xBEEFC0DE
_COMMITS = 48 // 8
_OWNER_MASK = 0x3FFFFFFF
_VIEW_BYTES = 256


class LockFile:
    """A mapped lock file. Made before LMDB opens it: closing a descriptor of it later would drop LMDB's own locks."""

    def __init__(self, path: Path, where: str) -> None:
        self.path = path
        self.where = where
        self.waiting: dict[int, float] = {}
        """Lock -> monotonic seconds since when a thread of this process waits for it."""
        with open(path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ)
        view = memoryview(self._map)[:_VIEW_BYTES]
        self._halfs, self._words = view.cast("I"), view.cast("Q")
        self._commits_known = False
        self._owners_known: bool | None = None  # None: no own write yet that could prove it

    def recorded_commits(self) -> int:
        """Number of the last commit that any process has noted here, 0 if none: to be read before LMDB opens it."""
        return self._words[_COMMITS] if self._halfs[0] == _MAGIC else 0

    def check_commits(self, last_commit: Callable[[], int]) -> None:
        """Compare with the number that LMDB reports, once it is open."""
        for _ in range(100):  # others may commit between the two reads
            before = self._words[_COMMITS]
            self._commits_known = before == last_commit() and self._halfs[0] == _MAGIC
            if self._commits_known or before == self._words[_COMMITS]:
                return

    def check_owner(self) -> None:
        """Called by the thread that holds the write lock."""
        if self._owners_known is None:
            owner = self._halfs[WRITER_LOCK] & _OWNER_MASK
            self._owners_known = self._halfs[0] == _MAGIC and owner == threading.get_native_id()

    def commits(self) -> int | None:
        """Number of the last committed transaction of all processes; None if not known here."""
        return self._words[_COMMITS] if self._commits_known else None

    def owner(self, lock: int) -> int:
        """Thread id that holds a lock; 0 if nobody, or not known here."""
        try:
            return self._halfs[lock] & _OWNER_MASK if self._owners_known is not False else 0
        except ValueError:  # closed by another thread
            return 0

    def acquisition(self, lock: int) -> tuple[int, int]:
        """The holder and its use: changes with each write transaction."""
        try:
            return self.owner(lock), self._words[_COMMITS]
        except ValueError:
            return 0, 0

    def wait_begins(self, lock: int) -> None:
        self.waiting[lock] = time.monotonic()

    def wait_ends(self, lock: int) -> None:
        self.waiting.pop(lock, None)

    def close(self) -> None:
        """Only after LMDB has closed it."""
        self._halfs.release()
        self._words.release()
        self._map.close()
