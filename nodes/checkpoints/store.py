"""Where checkpoints are kept: the protocol, and what all kinds of stores share.

Two rules for this file. A value is created once under its name and never changed (conditional create is all that
folders, clouds and Redis offer alike). A value that was read is checked against its name before use.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Protocol

from nodes.checkpoints import file_names
from nodes.checkpoints import format as fmt
from nodes.checkpoints.errors import (
    BadCheckpointName,
    CheckpointDamaged,
    CheckpointError,
    CheckpointMissing,
    CheckpointNewer,
)
from nodes.checkpoints.file_names import CheckpointKey
from nodes.errors import Unreachable
from nodes.release import release

__all__ = [
    "BadCheckpointName",
    "BlobCheckpoints",
    "Blobs",
    "CheckpointDamaged",
    "CheckpointError",
    "CheckpointKey",
    "CheckpointMissing",
    "CheckpointNewer",
    "CheckpointStore",
    "CheckpointTooLarge",
    "StoreGone",
    "StoreUnavailable",
    "load_copy",
]

KEPT_CHECKPOINTS = 3
_ATTEMPTS = 4
_EARLIER_INCARNATIONS = 3


class CheckpointTooLarge(CheckpointError):
    """More than the store or the limit takes; a retry does not help."""


class StoreUnavailable(CheckpointError, Unreachable):
    """The store cannot be opened, read or written; nothing half-written counts."""


class StoreGone(StoreUnavailable):
    """The store's folder was deleted, moved or replaced: waiting does not bring it back."""


def not_needed(newest_first: Sequence[str], keep: Collection[str], below: Collection[str] = ()) -> list[str]:
    """Of a partition's checkpoints: what ``CheckpointStore.prune`` deletes."""
    kept = [file_names.parse_name(name).age_order for name in keep]
    needed = {file_names.parse_name(name).checkpoint for name in below}
    found: list[str] = []
    seen: dict[object, None] = {}
    for name in newest_first:
        parsed = file_names.parse_name(name)
        seen[parsed.checkpoint] = None
        if len(seen) <= KEPT_CHECKPOINTS or name in keep or parsed.checkpoint in needed:
            continue
        if not kept or parsed.age_order < min(kept):
            found.append(name)
    return found


class CheckpointStore(Protocol):
    """Durable, immutable values. Safe to use from several processes at once."""

    def save(self, key: CheckpointKey, data: bytes, copies: int = 1) -> str:
        """Make ``data`` durable and return its name; saving the same again gives the same name.

        ``copies``: so many files of these contents are intact then, under names that ``load_copy`` tries.
        """
        ...

    def load(self, name: str) -> bytes:
        """Raises ``CheckpointMissing``, ``CheckpointDamaged``, ``CheckpointNewer`` or ``StoreUnavailable``."""
        ...

    def list(self, job: str, incarnation: int, partition: int) -> list[str]:
        """The names of a partition's checkpoints, newest first; whether they are intact shows only ``load``."""
        ...

    def prune(
        self, job: str, incarnation: int, partition: int, keep: Collection[str] = (), below: Collection[str] = ()
    ) -> list[str]:
        """Delete a partition's checkpoints but the newest ``KEPT_CHECKPOINTS``, ``keep`` and what is newer than those.

        So a caller that knows only old ones deletes none of the newer ones. Returns the deleted names.
        ``below``: checkpoints that others rest on stay too, with all copies.
        Those of earlier incarnations are deleted too: nobody can go back to one.
        """
        ...

    def discard(self, job: str, incarnation: int, partition: int, names: Collection[str]) -> None:
        """Delete these of a partition's checkpoints, for who knows better than ``prune`` what is needed."""
        ...


def load_copy(store: CheckpointStore, name: str) -> bytes:
    """The contents, of whichever file with these that is intact. Raises as ``CheckpointStore.load``."""
    try:
        return store.load(name)
    except (CheckpointDamaged, CheckpointMissing):
        parsed = file_names.parse_name(name)
        for other in store.list(*parsed.key[:3]):
            if other != name and file_names.parse_name(other).checkpoint == parsed.checkpoint:
                with suppress(CheckpointDamaged, CheckpointMissing):
                    return store.load(other)
        raise


class Blobs(Protocol):
    """Values under names of the form ``FOLDER/FILE``. Every method may raise ``StoreUnavailable``."""

    @property
    def where(self) -> str:
        """The store's place, without secrets."""
        ...

    @property
    def largest_bytes(self) -> int | None:
        """The limit of a single value here; None if only ``max_contents_bytes`` bounds it."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Store a value, all of it or nothing; False if there is one of that name already."""
        ...

    def read(self, name: str, max_bytes: int) -> bytes:
        """Raises ``CheckpointMissing``, or ``CheckpointDamaged`` above ``max_bytes``, of which it reads no more."""
        ...

    def names(self, folder: str) -> list[str]:
        """All names in the folder, in any order; also of values that are not this project's."""
        ...

    def delete(self, name: str) -> None:
        """A name that is gone already is no error."""
        ...

    def secure(self, names: Sequence[str]) -> None:
        """Make the checkpoints of these names, of one folder, durable, also where another node has created them."""
        ...

    def tidy(self, folder: str) -> None:
        """Remove what writers that were killed left behind."""
        ...


class BlobCheckpoints:
    """Checkpoints over any ``Blobs``.

    Args: ``max_contents_bytes`` bounds what a checkpoint may expand to.
    """

    def __init__(self, blobs: Blobs, *, max_contents_bytes: int = fmt.MAX_CONTENTS_BYTES) -> None:
        self.blobs = blobs
        self.max_contents_bytes = max_contents_bytes
        self._pruned_earlier: set[tuple[str, int, int]] = set()

    def save(self, key: CheckpointKey, data: bytes, copies: int = 1) -> str:
        """As ``CheckpointStore.save``. Raises ``StoreUnavailable``, ``CheckpointTooLarge`` or ``BadCheckpointName``.

        A name holds the contents' digest: if it exists and is intact, it is this checkpoint already, be it of another
        node or of an attempt whose answer was lost. If it is damaged (torn by a power failure), the next attempt's
        name is taken, as no value is ever written twice.
        """
        at = f"checkpoint of {key.job} partition {key.partition}"
        self._require_size(at, "", len(data), self.max_contents_bytes)
        digest, packed = file_names.digest_of(data), fmt.pack(data, release() or "")
        self._require_size(at, " compressed", len(packed), self.blobs.largest_bytes)
        name = ""
        saved: list[str] = []
        for attempt in range(_ATTEMPTS + copies - 1):
            name = file_names.name_of(key, digest, attempt)
            if self.blobs.create(name, packed) or self._is_intact(name):
                saved.append(name)
                if len(saved) == copies:
                    self.blobs.secure(saved)
                    return saved[0]
        raise StoreUnavailable(
            f"checkpoint {name} in {self.blobs.where}: {_ATTEMPTS} damaged files of it; check the disk"
        )

    def _require_size(self, at: str, how: str, size: int, limit: int | None) -> None:
        if limit is not None and size > limit:
            raise CheckpointTooLarge(
                f"{at} has {size} bytes{how}, the limit in {self.blobs.where} is {limit}: raise it for all nodes, "
                f"use another store, or keep less state"
            )

    def _is_intact(self, name: str) -> bool:
        try:
            self.load(name)
        except (CheckpointDamaged, CheckpointMissing, CheckpointNewer):
            return False
        return True

    def load(self, name: str) -> bytes:
        """As ``CheckpointStore.load``; also raises ``BadCheckpointName``."""
        digest = file_names.parse_name(name).digest
        data = self.blobs.read(name, self.max_contents_bytes + fmt.OVERHEAD_BYTES)
        contents = fmt.unpack(data, name, self.max_contents_bytes, digest)
        if file_names.digest_of(contents) != digest:
            raise CheckpointDamaged(f"checkpoint {name} has contents that do not match its name")
        return contents

    def list(self, job: str, incarnation: int, partition: int) -> list[str]:
        """As ``CheckpointStore.list``."""
        parsed = []
        for name in self.blobs.names(file_names.folder_of(job, incarnation, partition)):
            try:
                parsed.append((file_names.parse_name(name).age_order, name))
            except BadCheckpointName:
                continue  # somebody else's file
        return [name for _, name in sorted(parsed, reverse=True)]

    def prune(
        self, job: str, incarnation: int, partition: int, keep: Collection[str] = (), below: Collection[str] = ()
    ) -> list[str]:
        """As ``CheckpointStore.prune``."""
        old = not_needed(self.list(job, incarnation, partition), keep, below)
        for name in old:
            self.blobs.delete(name)
        self.blobs.tidy(file_names.folder_of(job, incarnation, partition))
        return old + self._prune_earlier(job, incarnation, partition)

    def discard(self, job: str, incarnation: int, partition: int, names: Collection[str]) -> None:
        """As ``CheckpointStore.discard``."""
        for name in names:
            self.blobs.delete(name)
        self.blobs.tidy(file_names.folder_of(job, incarnation, partition))

    def _prune_earlier(self, job: str, incarnation: int, partition: int) -> list[str]:
        """Checkpoints of incarnations before the last ``--reset``; listed once, since listing costs a request."""
        place = (job, incarnation, partition)
        if place in self._pruned_earlier:
            return []
        old = []
        for earlier in range(max(0, incarnation - _EARLIER_INCARNATIONS), incarnation):
            old += self.list(job, earlier, partition)
        for name in old:
            self.blobs.delete(name)
        self._pruned_earlier.add(place)
        return old
