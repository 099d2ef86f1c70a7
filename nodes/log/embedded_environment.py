"""One LMDB environment of a partition: opening it safely, its transactions, its memory map and its locks.

LMDB's rules, kept here and in embedded_registry.py: an environment is opened once a process; nothing closes another
descriptor of its lock file while it is open; nothing survives a fork; the map only changes while no transaction of
this process is alive.
"""

from __future__ import annotations

import mmap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import lmdb

from nodes.log.contract import LogError, LogUnavailable
from nodes.log.embedded_errors import damaged, translate
from nodes.log.embedded_folder import ENGINE, LOCK_FILE_BYTES, create_lock_file
from nodes.log.embedded_verify import check_length, read_all

FIRST_MAP_BYTES = 64 << 20
STALE_READERS_S = 30.0
DAMAGE_NOTE = "damaged.txt"
"""A file beside the data that says why nobody may open them; to be removed with the damage."""

_META_PAGES = 2

# Lock file of LMDB 0.9 (struct MDB_txninfo, 64-bit, pthread mutexes). A robust mutex starts with its futex word, and
# the kernel demands the owner's thread id there. Both are checked against what is known before they are believed.
_LOCK_MAGIC = 0xBEEFC0DE
_COMMITS_WORD = 48 // 8
READER_LOCK, WRITER_LOCK = 8 // 4, 64 // 4
OWNER_MASK = 0x3FFFFFFF
_VIEW_BYTES = 256


class Environment:
    """LMDB environment with named errors. Safe to use from several threads; every method may raise ``LogError``."""

    def __init__(self, path: Path, where: str, *, sync_commits: bool, notice: Callable[[], None]) -> None:
        self.path = path
        self.where = where
        self.closed = False
        self.writing = threading.Lock()
        """Held by the one writing thread of this process; taken before ``using``."""
        self.using = threading.Lock()
        """Held for each read and while the map changes; memory of the map is only valid inside."""
        self.waiting: dict[int, float] = {}
        """Lock of LMDB -> monotonic seconds since when a thread of this process waits for it."""
        self.dirty = False
        """This process has committed what may not be on disk yet."""
        self._notice = notice
        self._syncing = threading.Lock()
        self._sync_failed: str | None = None
        self._next_reader_check = time.monotonic() + STALE_READERS_S
        self._env, self._lock_map = _open(path, where, sync_commits)
        view = memoryview(self._lock_map)
        self._halfs, self._words = view[:_VIEW_BYTES].cast("I"), view[:_VIEW_BYTES].cast("Q")
        self._map_bytes = self._env.info()["map_size"]
        self._layout_known = self._halfs[0] == _LOCK_MAGIC and self._commits_agree()
        self._owner_known: bool | None = None  # None: no own write yet that could prove it

    def commits(self) -> int:
        """Number of the last committed transaction of all processes: a memory access."""
        try:
            return self._words[_COMMITS_WORD] if self._layout_known else self._env.info()["last_txnid"]
        except ValueError:
            raise self._closed_error() from None

    def lock_owner(self, lock: int) -> int:
        """Thread id that holds ``READER_LOCK`` or ``WRITER_LOCK``; 0 if nobody or not known on this platform."""
        try:
            return self._halfs[lock] & OWNER_MASK if self._layout_known and self._owner_known is not False else 0
        except ValueError:
            return 0

    def begin_read(self) -> lmdb.Transaction[memoryview]:
        """A read transaction; the caller holds ``using``. Raises ``MapResizedError``: then ``adopt_map``."""
        self._check_open()
        self.waiting[READER_LOCK] = time.monotonic()
        self._notice()
        try:
            return self._env.begin(buffers=True)
        finally:
            self.waiting.pop(READER_LOCK, None)

    def begin_write(self) -> lmdb.Transaction[memoryview]:
        """A write transaction; the caller holds ``writing``. Raises ``MapResizedError``: then ``adopt_map``."""
        self._check_open()
        self._check_disk()
        now = time.monotonic()
        self.waiting[WRITER_LOCK] = now
        self._notice()
        try:
            if now > self._next_reader_check:
                self._next_reader_check = now + STALE_READERS_S
                self._env.reader_check()
            txn = self._env.begin(write=True, buffers=True)
        finally:
            self.waiting.pop(WRITER_LOCK, None)
        if self._owner_known is None:
            owner = self._halfs[WRITER_LOCK] & OWNER_MASK
            self._owner_known = self._layout_known and owner == threading.get_native_id()
        return txn

    def grow_map(self) -> None:
        """Map twice as much; the caller holds ``writing`` and has no transaction."""
        self._set_map(self._map_bytes * 2)

    def adopt_map(self) -> None:
        """Map what another process has made larger; the caller holds ``writing`` and has no transaction."""
        self._set_map(0)

    def sync(self) -> None:
        """Bring what this process has committed to the disk; waits for a sync that is under way."""
        with self._syncing:
            self._check_open()
            self._check_disk()
            if not self.dirty:
                return
            self.dirty = False
            try:
                self._env.sync(True)
            except lmdb.Error as error:
                # What the kernel could not write it forgets; a later sync that succeeds would prove nothing.
                self._sync_failed = str(error)
                self._check_disk()

    def verify(self) -> tuple[int, int]:
        """Read everything; returns start and end offset, raises ``LogDamaged``."""
        with self.using:
            return read_all(self._env, self.path / "data.mdb", self.where)

    def close(self) -> None:
        """Close it; waits for reads, writes and syncs of other threads."""
        with self.writing, self.using, self._syncing:
            if self.closed:
                return
            self.closed = True
            # In this order: closing any descriptor of the lock file drops all locks of the process on it.
            self._env.close()
            self._halfs.release()
            self._words.release()
            self._lock_map.close()

    def _set_map(self, size: int) -> None:
        with self.using:
            try:
                self._env.set_mapsize(size)
            except lmdb.Error as error:
                raise translate(error, self.path, f"{self.where}: map {size >> 20} MiB") from error
            self._map_bytes = self._env.info()["map_size"]

    def _commits_agree(self) -> bool:
        for _ in range(100):  # others may commit between two looks
            before = self._words[_COMMITS_WORD]
            if before == self._env.info()["last_txnid"]:
                return True
            if before == self._words[_COMMITS_WORD]:
                return False
        return False

    def _check_disk(self) -> None:
        if self._sync_failed:
            raise LogUnavailable(
                f"{self.where}: {self.path} could not be synced to disk ({self._sync_failed}), so nothing is "
                "acknowledged any more; check the disk and start the process again"
            )

    def _check_open(self) -> None:
        if self.closed:
            raise self._closed_error()

    def _closed_error(self) -> LogError:
        return LogError(f"{self.where}: the log is closed; open it again")


def _open(path: Path, where: str, sync_commits: bool) -> tuple[lmdb.Environment, mmap.mmap]:
    data = path / "data.mdb"
    try:
        size = data.stat().st_size
    except FileNotFoundError:
        raise damaged(data, where, "the file is missing") from None
    except OSError as error:
        raise translate(error, data, where) from error
    if size < _META_PAGES * mmap.PAGESIZE:
        raise damaged(data, where, f"it has only {size} bytes")
    if (path / DAMAGE_NOTE).exists():
        raise damaged(data, where, (path / DAMAGE_NOTE).read_text())
    try:
        create_lock_file(path / "lock.mdb")
        # Mapped before LMDB takes its locks: closing this descriptor later would drop them.
        with open(path / "lock.mdb", "rb") as file:
            lock_map = mmap.mmap(file.fileno(), LOCK_FILE_BYTES, prot=mmap.PROT_READ)
        env = lmdb.open(
            str(path), map_size=max(FIRST_MAP_BYTES, 2 * size), mode=0o600, create=False, sync=sync_commits,
            metasync=sync_commits, max_readers=LOCK_FILE_BYTES // 64 - 4, max_spare_txns=2, lib_version=ENGINE,
        )
    except (OSError, lmdb.Error) as error:
        raise translate(error, path, where) from error
    try:
        check_length(env, data, where)
    except BaseException:
        env.close()
        lock_map.close()
        raise
    return env, lock_map
