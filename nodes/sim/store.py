"""Checkpoints in memory, in the real file format, and the faults of a store as one node meets them."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Generic, TypeVar

from nodes.checkpoints import file_names
from nodes.checkpoints import format as fmt
from nodes.checkpoints.errors import CheckpointDamaged, CheckpointError, CheckpointMissing
from nodes.checkpoints.file_names import CheckpointKey
from nodes.checkpoints.store import StoreUnavailable, not_needed

T = TypeVar("T")


class MemoryCheckpoints:
    """The ``CheckpointStore`` protocol over a dict, shared by all nodes of a run."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self._folders: dict[str, set[str]] = {}

    def save(self, key: CheckpointKey, data: bytes, copies: int = 1) -> str:
        """As ``CheckpointStore.save``: under the first names that are free or intact."""
        digest = file_names.digest_of(data)
        saved: list[str] = []
        for attempt in range(10):
            name = file_names.name_of(key, digest, attempt)
            if name not in self.files:
                self.files[name] = fmt.pack(data)
                self._folders.setdefault(name.rpartition("/")[0], set()).add(name)
            else:
                try:
                    self.load(name)
                except CheckpointDamaged:
                    continue
            saved.append(name)
            if len(saved) == copies:
                return saved[0]
        raise StoreUnavailable(f"{file_names.name_of(key, digest)}: too many damaged files of it")

    def load(self, name: str) -> bytes:
        """As ``CheckpointStore.load``."""
        if name not in self.files:
            raise CheckpointMissing(f"checkpoint {name} is not there")
        contents = fmt.unpack(self.files[name], name, fmt.MAX_CONTENTS_BYTES)
        if file_names.digest_of(contents) != file_names.parse_name(name).digest:
            raise CheckpointDamaged(f"checkpoint {name} holds other contents")
        return contents

    def list(self, job: str, incarnation: int, partition: int) -> list[str]:
        """As ``CheckpointStore.list``."""
        made = self._folders.get(file_names.folder_of(job, incarnation, partition), ())
        names = [name for name in sorted(made) if name in self.files]
        return sorted(names, key=lambda name: file_names.parse_name(name).age_order, reverse=True)

    def prune(
        self, job: str, incarnation: int, partition: int, keep: Collection[str] = (), below: Collection[str] = ()
    ) -> list[str]:
        """As ``CheckpointStore.prune``."""
        old = not_needed(self.list(job, incarnation, partition), keep, below)
        for name in old:
            del self.files[name]
        return old

    def discard(self, job: str, incarnation: int, partition: int, names: Collection[str]) -> None:
        """As ``CheckpointStore.discard``."""
        for name in names:
            self.files.pop(name, None)

    def copies(self, name: str) -> list[str]:
        """The file of this name, and those that were saved with it."""
        saved = file_names.parse_name(name)
        made = [file_names.parse_name(found) for found in self._folders[name.rpartition("/")[0]]]
        attempts = sorted(each.attempt for each in made if each.checkpoint == saved.checkpoint)
        names = [file_names.name_of(saved.key, saved.digest, number) for number in attempts if number >= saved.attempt]
        return [found for found in names if found in self.files]

    def damage(self, name: str, rng: random.Random) -> str:
        """Flip a bit, cut the end off, or lose the file; returns which."""
        data = self.files[name]
        kind = rng.choice(["flipped", "torn", "lost"]) if data else "lost"
        if kind == "lost":
            del self.files[name]
        elif kind == "torn":
            self.files[name] = data[: rng.randrange(len(data))]
        else:
            at = rng.randrange(len(data))
            self.files[name] = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        return kind


class LateLoader(Generic[T]):
    """A ``Saver`` for loads, which are done, one after the other, ``delay_ms`` after they were requested."""

    def __init__(self, now_ms: Callable[[], int], delay_ms: int) -> None:
        self._now_ms = now_ms
        self._delay_ms = delay_ms
        self._waiting: deque[tuple[int, Callable[[], T | None]]] = deque()

    @property
    def busy(self) -> bool:
        """True if a load is on its way."""
        return bool(self._waiting)

    def save(self, work: Callable[[], T | None]) -> T | None:
        """As ``Saver.save``."""
        if self._delay_ms == 0:
            return work()
        self._waiting.append((self._now_ms() + self._delay_ms, work))
        return None

    def finished(self) -> list[T]:
        """As ``Saver.finished``."""
        found: list[T] = []
        while self._waiting and self._waiting[0][0] <= self._now_ms():
            done = self._waiting.popleft()[1]()
            if done is not None:
                found.append(done)
        return found


class LateSaver(Generic[T]):
    """A ``Saver`` that does one save after the other, as a thread does, each of which takes ``0.5 * save_ms`` to twice
    as long as that; the node goes on meanwhile.
    """

    def __init__(self, now_ms: Callable[[], int], save_ms: int, rng: random.Random) -> None:
        self._now_ms = now_ms
        self._save_ms = save_ms
        self._rng = rng
        self._busy_until_ms = 0
        self._waiting: deque[tuple[int, Callable[[], T | None]]] = deque()

    @property
    def busy(self) -> bool:
        """True if a save is on its way."""
        return bool(self._waiting)

    def save(self, work: Callable[[], T | None]) -> T | None:
        """As ``Saver.save``."""
        took_ms = self._rng.randint(self._save_ms // 2, self._save_ms * 2)
        self._busy_until_ms = max(self._busy_until_ms, self._now_ms()) + took_ms
        self._waiting.append((self._busy_until_ms, work))
        return None

    def finished(self) -> list[T]:
        """As ``Saver.finished``."""
        found: list[T] = []
        while self._waiting and self._waiting[0][0] <= self._now_ms():
            done = self._waiting.popleft()[1]()
            if done is not None:
                found.append(done)
        return found

    def killed(self) -> None:
        """The node is dead: what it was just saving may be in the store, and no node knows of it."""
        if self._waiting and self._rng.random() < 0.5:
            with suppress(CheckpointError, StoreUnavailable):
                self._waiting[0][1]()
        self._waiting.clear()


class FlakyCheckpoints:
    """One node's view of the store. ``before`` and ``after`` a save may raise, run others or damage the file."""

    def __init__(
        self, store: MemoryCheckpoints, before: Callable[[str], None], after: Callable[[str, str], None]
    ) -> None:
        self._store = store
        self._before = before
        self._after = after

    def save(self, key: CheckpointKey, data: bytes, copies: int = 1) -> str:
        """As ``CheckpointStore.save``."""
        self._before("save")
        name = self._store.save(key, data, copies)
        self._after("save", name)
        return name

    def load(self, name: str) -> bytes:
        """As ``CheckpointStore.load``."""
        self._before("load")
        data = self._store.load(name)
        self._after("load", name)
        return data

    def list(self, job: str, incarnation: int, partition: int) -> list[str]:
        """As ``CheckpointStore.list``."""
        return self._store.list(job, incarnation, partition)

    def prune(
        self, job: str, incarnation: int, partition: int, keep: Collection[str] = (), below: Collection[str] = ()
    ) -> list[str]:
        """As ``CheckpointStore.prune``."""
        return self._store.prune(job, incarnation, partition, keep, below)

    def discard(self, job: str, incarnation: int, partition: int, names: Collection[str]) -> None:
        """As ``CheckpointStore.discard``."""
        self._store.discard(job, incarnation, partition, names)
