"""Where checkpoints are kept: a local folder, S3, Google Cloud Storage, Azure or memory, through obstore.

Two rules for this file: a file is created once and never changed (conditional create is all that the local store and
every cloud offer alike); what comes back is checked against its name before anybody uses it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn, Protocol
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import LocalStore, MemoryStore, from_url

from nodes import checkpoint_format as fmt
from nodes.checkpoint_format import (
    BadCheckpointName,
    CheckpointDamaged,
    CheckpointError,
    CheckpointKey,
    CheckpointMissing,
    CheckpointNewer,
)
from nodes.errors import Unreachable

__all__ = [
    "BadCheckpointName",
    "CheckpointDamaged",
    "CheckpointError",
    "CheckpointKey",
    "CheckpointMissing",
    "CheckpointNewer",
    "CheckpointStore",
    "ObjectCheckpoints",
    "StoreUnavailable",
]

KEPT_CHECKPOINTS = 3
_ATTEMPTS = 4
_STALE_STAGED_S = 3600.0
_CLOUDS = ("s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss")
_ALIASES = {"gcs": "gs"}
# The shell tries again within its own bound; obstore's three minutes would hold a node's whole life up.
_RETRY: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=10)}


class StoreUnavailable(CheckpointError, Unreachable):
    """The store cannot be opened, read or written; nothing half-written counts."""


class CheckpointStore(Protocol):
    """Durable, immutable values. Safe to use from several processes at once."""

    def save(self, key: CheckpointKey, data: bytes) -> str:
        """Make ``data`` durable and return its name; saving the same again gives the same name."""
        ...

    def load(self, name: str) -> bytes:
        """Raises ``CheckpointMissing``, ``CheckpointDamaged``, ``CheckpointNewer`` or ``StoreUnavailable``."""
        ...

    def list(self, job: str, incarnation: int, partition: int) -> list[str]:
        """The names of a partition's checkpoints, newest first; whether they are intact shows only ``load``."""
        ...

    def prune(self, job: str, incarnation: int, partition: int, keep: Collection[str] = ()) -> list[str]:
        """Delete a partition's checkpoints but the newest ``KEPT_CHECKPOINTS`` and ``keep``; returns what went."""
        ...


class ObjectCheckpoints:
    """Checkpoints in an obstore store.

    Args: ``where`` is a folder (created, open to its owner alone) or a URL: ``file://``, ``s3://``, ``gs://``,
    ``az://``, ``memory://`` (gone with this instance). ``options`` go to obstore; cloud credentials come from the
    environment where they are not given. ``max_contents_bytes`` bounds what a checkpoint may expand to.
    """

    def __init__(
        self,
        where: str | Path,
        options: Mapping[str, str] | None = None,
        *,
        max_contents_bytes: int = fmt.MAX_CONTENTS_BYTES,
    ) -> None:
        self.where = str(where)
        self.max_contents_bytes = max_contents_bytes
        self._root = _local_root(where)
        self._store: Any = self._open(options)

    def _open(self, options: Mapping[str, str] | None) -> Any:
        try:
            if self._root is not None:
                self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
                return LocalStore(self._root)
            scheme, rest = self.where.split("://", 1)
            scheme = _ALIASES.get(scheme, scheme)
            if scheme == "memory":
                return MemoryStore()
            if scheme in _CLOUDS:
                config: Any = dict(options or {})
                return from_url(f"{scheme}://{rest}", config=config, retry_config=_RETRY)
        except (BaseError, OSError, ValueError) as error:
            self._unavailable("opened", error)
        raise StoreUnavailable(
            f"checkpoint store {_shown(self.where)}: no store of kind {scheme!r}; use a folder, or a URL with "
            f"file, {', '.join(_CLOUDS)} or memory"
        )

    def save(self, key: CheckpointKey, data: bytes) -> str:
        """As ``CheckpointStore.save``. Raises ``StoreUnavailable`` or ``BadCheckpointName``.

        A name holds the contents' digest: if it exists and is intact, it is this checkpoint already; if it is damaged
        (torn by a power failure), the next attempt's name is taken, as no file is ever written twice.
        """
        if len(data) > self.max_contents_bytes:
            raise StoreUnavailable(
                f"checkpoint of {key.job} partition {key.partition} has {len(data)} bytes, the limit is "
                f"{self.max_contents_bytes}: raise it for all nodes, or keep less state"
            )
        digest, packed = fmt.digest_of(data), fmt.pack(data)
        name = ""
        for attempt in range(_ATTEMPTS):
            name = fmt.name_of(key, digest, attempt)
            if self._create(name, packed) or self._is_intact(name):
                self._secure(name)
                return name
        raise StoreUnavailable(
            f"checkpoint {name} in {_shown(self.where)}: {_ATTEMPTS} damaged files of it; check the disk"
        )

    def _create(self, name: str, packed: bytes) -> bool:
        """False if there is such a file already."""
        try:
            if self._root is not None:
                self._make_folder(name)
            obstore.put(self._store, name, packed, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False
        except (BaseError, OSError) as error:
            self._unavailable("written", error, name)
        return True

    def _is_intact(self, name: str) -> bool:
        try:
            self.load(name)
        except (CheckpointDamaged, CheckpointMissing, CheckpointNewer):
            return False
        return True

    def load(self, name: str) -> bytes:
        """As ``CheckpointStore.load``; also raises ``BadCheckpointName``."""
        digest = fmt.parse_name(name).digest
        if (link := self._link_in(name)) is not None:
            raise CheckpointDamaged(f"checkpoint {name}: {link} is a symbolic link, which is never followed")
        try:
            found = obstore.get(self._store, name)
            limit = self.max_contents_bytes + fmt.OVERHEAD_BYTES
            if found.meta["size"] > limit:
                raise CheckpointDamaged(f"checkpoint {name} has {found.meta['size']} bytes, the limit is {limit}")
            data = found.bytes().to_bytes()
        except FileNotFoundError as error:
            raise CheckpointMissing(f"checkpoint {name} is not in {_shown(self.where)}") from error
        except (BaseError, OSError) as error:
            self._unavailable("read", error, name)
        contents = fmt.unpack(data, name, self.max_contents_bytes)
        if fmt.digest_of(contents) != digest:
            raise CheckpointDamaged(f"checkpoint {name} holds other contents than its name says")
        return contents

    def list(self, job: str, incarnation: int, partition: int) -> list[str]:
        folder = fmt.folder_of(job, incarnation, partition)
        try:
            names = [entry["path"] for batch in obstore.list(self._store, prefix=folder) for entry in batch]
        except (BaseError, OSError) as error:
            self._unavailable("listed", error, folder)
        parsed = []
        for name in names:
            try:
                parsed.append((fmt.parse_name(name).age_order, name))
            except BadCheckpointName:
                continue  # somebody else's file
        return [name for _, name in sorted(parsed, reverse=True)]

    def prune(self, job: str, incarnation: int, partition: int, keep: Collection[str] = ()) -> list[str]:
        kept = set(keep)
        old = [name for name in self.list(job, incarnation, partition)[KEPT_CHECKPOINTS:] if name not in kept]
        for name in old:
            try:
                obstore.delete(self._store, name)
            except FileNotFoundError:
                continue  # another node was faster
            except (BaseError, OSError) as error:
                self._unavailable("deleted", error, name)
        self._drop_staged(fmt.folder_of(job, incarnation, partition))
        return old

    # --- what only a local folder needs -------------------------------------------------------------------------

    def _make_folder(self, name: str) -> None:
        """Folders that only their owner may enter, since obstore creates files that everybody may read."""
        assert self._root is not None
        if (link := self._link_in(name)) is not None:
            raise StoreUnavailable(f"checkpoint {name}: {link} is a symbolic link, which is never followed; remove it")
        folder = self._root
        for part in name.split("/")[:-1]:
            folder = folder / part
            folder.mkdir(mode=0o700, exist_ok=True)

    def _link_in(self, name: str) -> Path | None:
        if self._root is None:
            return None
        path = self._root
        for part in name.split("/"):
            path = path / part
            if path.is_symlink():
                return path
        return None

    def _secure(self, name: str) -> None:
        """Readable by the owner alone, and on the disk: obstore neither sets modes nor syncs folders."""
        if self._root is None:
            return
        path = self._root / name
        try:
            _sync(path, mode=0o600)
            for folder in path.parents[: len(name.split("/"))]:
                _sync(folder)
        except FileNotFoundError:
            return  # pruned by another node in the meantime, which has newer ones
        except OSError as error:
            self._unavailable("made durable", error, name)

    def _drop_staged(self, folder: str) -> None:
        """Remove what a writer that was killed left behind: obstore's staging files, ``NAME#NUMBER``."""
        if self._root is None:
            return
        before_s = time.time() - _STALE_STAGED_S
        for path in (self._root / folder).glob("*.ckpt#*"):
            try:
                if path.lstat().st_mtime < before_s:
                    path.unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                self._unavailable("cleaned", error, str(path))

    def _unavailable(self, verb: str, error: Exception, name: str = "") -> NoReturn:
        at = f" at {name}" if name else ""
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StoreUnavailable(
            f"checkpoint store {_shown(self.where)} could not be {verb}{at}: {reason}; {_advice(reason)}"
        ) from error


def _local_root(where: str | Path) -> Path | None:
    text = str(where)
    if isinstance(where, str) and "://" in text:
        if not text.startswith("file://"):
            return None
        text = unquote(urlsplit(text).path)
    return Path(text).absolute()


def _sync(path: Path, mode: int | None = None) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        if mode is not None:
            os.fchmod(handle, mode)
        os.fsync(handle)
    finally:
        os.close(handle)


def _shown(where: str) -> str:
    """Without what may be a secret: user, password and query of a URL."""
    if "://" not in where:
        return where
    parts = urlsplit(where)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


def _advice(reason: str) -> str:
    lower = reason.lower()
    if "no space" in lower or "quota" in lower or "os error 28" in lower:
        return "free some space or put the checkpoints elsewhere"
    if "denied" in lower or "read-only" in lower or "unauth" in lower or "forbidden" in lower:
        return "give this user or these credentials the right to read and write there"
    return "check that it exists and can be reached, then start again"
