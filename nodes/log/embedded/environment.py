"""One LMDB environment of a partition: opening it safely, its transactions, its memory map and its locks.

LMDB's rules are kept here and in open_environments.py. An environment is opened once a process; nothing closes another
descriptor of its lock file while it is open; nothing survives a fork. The map only changes while this process has no
transaction open.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import lmdb

from nodes.log.contract import LogError, LogUnavailable
from nodes.log.embedded.damage.file_checks import check_length, check_meta_pages, read_all
from nodes.log.embedded.damage.stalled_writer import wait_until_free
from nodes.log.embedded.errors import damaged, translate
from nodes.log.embedded.folder import ENGINE, LOCK_FILE_BYTES, create_lock_file
from nodes.log.embedded.lock_file import READER_LOCK, WRITER_LOCK, LockFile

if TYPE_CHECKING:
    from nodes.log.embedded.lock_watcher import LockWatcher

FIRST_MAP_BYTES = 64 << 20
STALE_READERS_S = 30.0
DAMAGE_NOTE = "damaged.txt"
"""A file beside the data that names the reason why nobody may open them; to be removed with the damage."""

_META_PAGES = 2


class Environment:
    """LMDB environment with named errors. Safe to use from several threads; every method may raise ``LogError``.

    ``may_lack_commits``: the machine was restarted since, so the newest commits need not have reached the disk.
    """

    def __init__(
        self,
        path: Path,
        where: str,
        *,
        sync_commits: bool,
        watcher: LockWatcher | None = None,
        may_lack_commits: bool = False,
    ) -> None:
        self.path = path
        self.where = where
        self.closed = False
        self.writing = threading.Lock()
        """Held by the one writing thread of this process; taken before ``using``."""
        self.using = threading.Lock()
        """Held for each read and while the map changes; memory of the map is only valid inside."""
        self.dirty = False
        """This process has committed what may not be on disk yet."""
        self._watcher = watcher
        self._syncing = threading.Lock()
        self._sync_failed: str | None = None
        self._next_reader_check = time.monotonic() + STALE_READERS_S
        self._check_data_file()
        self.locks = self._map_locks()
        recorded = 0 if may_lack_commits else self.locks.recorded_commits()
        try:
            self._env = self._open(sync_commits, recorded)
            self._data = self._open_data()
        except BaseException:
            self._close_locks()
            raise
        self._size = 0
        self.locks.check_commits(lambda: self._env.info()["last_txnid"])
        self._map_bytes = self._env.info()["map_size"]

    def commits(self) -> int:
        """Number of the last committed transaction of all processes: as a rule a memory access."""
        try:
            commits = self.locks.commits()
        except ValueError:
            raise self._closed_error() from None
        return self._env.info()["last_txnid"] if commits is None else commits

    def begin_read(self) -> lmdb.Transaction[memoryview]:
        """A read transaction; the caller holds ``using``. Raises ``MapResizedError``: then ``adopt_map``."""
        self._check_open()
        self._check_size()
        self._wait_begins(READER_LOCK)
        try:
            return self._env.begin(buffers=True)
        finally:
            self.locks.wait_ends(READER_LOCK)

    def begin_write(self) -> lmdb.Transaction[memoryview]:
        """A write transaction; the caller holds ``writing``. Raises ``MapResizedError``: then ``adopt_map``."""
        self._check_open()
        self._check_size()
        self._check_disk()
        self._wait_begins(WRITER_LOCK)
        try:
            if time.monotonic() > self._next_reader_check:
                self._clear_stale_readers()
            txn = self._env.begin(write=True, buffers=True)
        finally:
            self.locks.wait_ends(WRITER_LOCK)
        self.locks.check_owner()
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
                # Pages that the kernel could not write are lost; a later sync that succeeds would prove nothing.
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
            self._env.close()
            os.close(self._data)
            self._close_locks()

    def _set_map(self, size: int) -> None:
        with self.using:
            try:
                self._env.set_mapsize(size)
            except lmdb.Error as error:
                raise translate(error, self.path, f"{self.where}: map {size >> 20} MiB") from error
            self._map_bytes = self._env.info()["map_size"]

    def _wait_begins(self, lock: int) -> None:
        self.locks.wait_begins(lock)
        if self._watcher is not None:
            self._watcher.notice()

    def _await_reader_lock(self) -> None:
        """Before what takes it while py-lmdb lets no other thread run that could watch."""
        wait_until_free(lambda: self.locks.acquisition(READER_LOCK), self.locks.path, self.where)

    def _clear_stale_readers(self) -> None:
        """Give back what readers that were killed still hold; it needs the readers' lock too."""
        self._next_reader_check = time.monotonic() + STALE_READERS_S
        self._await_reader_lock()
        self._env.reader_check()

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

    def _check_data_file(self) -> None:
        """LMDB would quietly start an empty one in place of a missing or empty file."""
        data = self.path / "data.mdb"
        try:
            size = data.stat().st_size
            note = (self.path / DAMAGE_NOTE).read_text() if (self.path / DAMAGE_NOTE).exists() else None
        except FileNotFoundError:
            raise damaged(data, self.where, "the file is missing") from None
        except OSError as error:
            raise translate(error, data, self.where) from error
        if size < _META_PAGES * mmap.PAGESIZE:
            raise damaged(data, self.where, f"it has only {size} bytes")
        if note is not None:
            raise damaged(data, self.where, note)

    def _check_commits(self, found: int, recorded: int) -> None:
        """LMDB falls back to the commit before where the page of the newest one is damaged; the lock file knows more.

        A note stays, since opening it has made the lock file forget.
        """
        if found < recorded:
            reason = (
                f"it ends with commit {found}, and commit {recorded} was made: acknowledged records are gone (a "
                f"damaged page, or an older copy of the file; to go on without them, remove {DAMAGE_NOTE} beside it)"
            )
            (self.path / DAMAGE_NOTE).write_text(reason)
            raise damaged(self.path / "data.mdb", self.where, reason)

    def _map_locks(self) -> LockFile:
        try:
            create_lock_file(self.path / "lock.mdb")
            locks = LockFile(self.path / "lock.mdb", self.where)
        except OSError as error:
            raise translate(error, self.path, self.where) from error
        if self._watcher is not None:
            self._watcher.add(locks)
        return locks

    def _close_locks(self) -> None:
        if self._watcher is not None:
            self._watcher.remove(self.locks)
        self.locks.close()

    def _open_data(self) -> int:
        """A descriptor for reading the file's length."""
        try:
            return os.open(self.path / "data.mdb", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self._env.close()
            raise translate(error, self.path, self.where) from error

    def _check_size(self) -> None:
        """The file never becomes smaller; a read behind the end of one that was cut off would kill the process."""
        # Read before fstat: while it runs, another thread may see a larger file, and note its size.
        known = self._size
        size = os.fstat(self._data).st_size
        if size < known:
            raise damaged(self.path / "data.mdb", self.where, f"it was cut off from {known} to {size} bytes in use")
        self._size = max(size, self._size)

    def _open(self, sync_commits: bool, recorded: int) -> lmdb.Environment:
        data = self.path / "data.mdb"
        self._await_reader_lock()
        try:
            env = lmdb.open(
                str(self.path),
                map_size=max(FIRST_MAP_BYTES, 2 * data.stat().st_size),
                mode=0o600,
                create=False,
                sync=sync_commits,
                metasync=sync_commits,
                max_readers=LOCK_FILE_BYTES // 64 - 4,
                max_spare_txns=2,
                lib_version=ENGINE,
            )
        except (OSError, lmdb.Error) as error:
            raise translate(error, self.path, self.where) from error
        try:
            check_meta_pages(data, self.where)
            check_length(env, data, self.where)
            self._check_commits(env.info()["last_txnid"], recorded)
        except BaseException:
            env.close()
            raise
        return env
