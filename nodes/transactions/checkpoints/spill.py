"""Spills of state partitions on LMDB: files without a name, which the system removes with the process that has them."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b

import lmdb

from nodes.errors import RunFailed
from nodes.settings.settings import Settings
from transactional.operators import StateKey
from transactional.state.spilling import SpillingStore
from transactional.state.store import Store

MAP_BYTES = 1 << 38
"""Addresses, not bytes: the file is as large as what is in it."""
_KEY_BYTES = 480
"""LMDB takes keys of 511 bytes; what is longer is cut, and the whole key precedes the value."""
_CUT = b"\xff"
"""Is in no UTF-8."""


class _Forks:
    """How many forks have led to this process."""

    count = 0

    @classmethod
    def forked(cls) -> None:
        cls.count += 1


os.register_at_fork(after_in_child=_Forks.forked)


class SpillFailed(RunFailed):
    """The disk is full, or does not work."""


class LmdbSpill:
    """One partition's. Never synced, since checkpoints and logged commits are what a partition comes back from.

    A process that is forked has the same file, and its parent waits. So what is written there stays in its memory.
    """

    def __init__(self, folder: str, map_bytes: int = MAP_BYTES) -> None:
        self.folder = folder
        self._forks = _Forks.count
        self._aside: dict[StateKey, bytes | None] = {}
        try:
            os.makedirs(folder, exist_ok=True)
            path = tempfile.mkdtemp(prefix="spill-", dir=folder)
            self._env = lmdb.open(
                path, map_size=map_bytes, sync=False, metasync=False, lock=False, readahead=False, meminit=False
            )
            for name in os.listdir(path):
                os.unlink(os.path.join(path, name))
            os.rmdir(path)
        except (OSError, lmdb.Error) as error:
            raise self._failed(error) from error
        self._reader = self._env.begin()
        self.close = weakref.finalize(self, self._env.close)

    def get(self, key: StateKey) -> bytes | None:
        """As ``Spill.get``."""
        if self._aside and key in self._aside:
            return self._aside[key]
        name, before = _name(key)
        try:
            found = self._reader.get(name)
        except lmdb.Error as error:
            raise self._failed(error) from error
        return found if found is None or not before else found[len(before) :]

    def write(self, rows: Iterable[tuple[StateKey, bytes | None]]) -> None:
        """As ``Spill.write``. Raises ``SpillFailed``."""
        if self._forks != _Forks.count:
            self._aside.update(rows)
            return
        self._reader.abort()  # no reader is open while pages are written over
        try:
            with self._env.begin(write=True) as transaction:
                for key, value in rows:
                    name, before = _name(key)
                    if value is None:
                        transaction.delete(name)
                    else:
                        transaction.put(name, before + value)
        except lmdb.Error as error:
            raise self._failed(error) from error
        finally:
            self._reader = self._env.begin()

    def scan(self, operator: str, prefix: str) -> list[tuple[str, bytes]]:
        """As ``Spill.scan``."""
        begin = _whole((operator, prefix))[:_KEY_BYTES]
        found: dict[str, bytes | None] = {}
        with self._naming_errors(), self._reader.cursor() as cursor:
            if cursor.set_range(begin):
                for name, value in cursor:
                    if not name.startswith(begin):
                        break
                    (_, key), state = _row(name, value)
                    if key.startswith(prefix):
                        found[key] = state
        found |= {key: row for (kind, key), row in self._aside.items() if kind == operator and key.startswith(prefix)}
        return sorted((key, row) for key, row in found.items() if row is not None)

    def rows(self) -> Iterator[tuple[StateKey, bytes]]:
        """As ``Spill.rows``."""
        with self._naming_errors(), self._reader.cursor() as cursor:
            for name, value in cursor:
                if (row := _row(name, value))[0] not in self._aside:
                    yield row
        yield from ((key, value) for key, value in self._aside.items() if value is not None)

    def size(self) -> tuple[int, int]:
        """(keys, bytes of pages in use)"""
        found = self._env.stat()
        pages = found["branch_pages"] + found["leaf_pages"] + found["overflow_pages"]
        return found["entries"], pages * found["psize"]

    @contextmanager
    def _naming_errors(self) -> Iterator[None]:
        try:
            yield
        except lmdb.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> SpillFailed:
        return SpillFailed(
            f"state cannot be spilled to {self.folder}: {error}; free space there, set node.state_path to another "
            f"disk, or raise node.state_memory_mb"
        )


def _whole(key: StateKey) -> bytes:
    return f"{key[0]}\0{key[1]}".encode()


def _name(key: StateKey) -> tuple[bytes, bytes]:
    """The key for LMDB, and the bytes that precede the value."""
    whole = _whole(key)
    if len(whole) <= _KEY_BYTES:
        return whole, b""
    name = whole[:_KEY_BYTES] + _CUT + blake2b(whole, digest_size=16).digest()
    return name, len(whole).to_bytes(4, "big") + whole


def _row(name: bytes, value: bytes) -> tuple[StateKey, bytes]:
    if len(name) > _KEY_BYTES:
        behind = 4 + int.from_bytes(value[:4], "big")
        name, value = value[4:behind], value[behind:]
    operator, _, key = name.decode().partition("\0")
    return (operator, key), value


class Spills:
    """Of one node: its partitions share ``state_memory_mb``. ``new_spill`` makes that of one, in a folder."""

    def __init__(self, folder: str, budget_bytes: int, new_spill: Callable[[str], LmdbSpill] = LmdbSpill) -> None:
        self._folder = folder
        self._budget_bytes = budget_bytes
        self._new_spill = new_spill
        self._open: weakref.WeakKeyDictionary[Store | SpillingStore, LmdbSpill] = weakref.WeakKeyDictionary()

    def store(self) -> SpillingStore:
        """An empty one."""
        spill = self._new_spill(self._folder)
        made = SpillingStore(spill, self._share)
        self._open[made] = spill
        return made

    def size_of(self, store: Store | SpillingStore) -> tuple[int, int]:
        """(keys, bytes) on disk of a partition's state."""
        spill = self._open.get(store)
        return (0, 0) if spill is None else spill.size()

    def _share(self) -> int:
        return self._budget_bytes // max(1, len(self._open))


def spills_of(settings: Settings) -> Spills | None:
    """As in the settings; None: state stays in memory."""
    memory_mb = settings.node.state_memory_mb
    return None if memory_mb == 0 else Spills(settings.spill_folder(), memory_mb << 20)
