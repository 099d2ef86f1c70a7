"""Checkpoints in a local folder, S3, Google Cloud Storage, Azure or memory, through obstore."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import LocalStore, MemoryStore

from nodes.checkpoints import format as fmt
from nodes.checkpoints.store import BlobCheckpoints, CheckpointDamaged, CheckpointMissing, StoreGone, StoreUnavailable
from nodes.cloud_store import CLOUDS, advice, described, is_cloud, open_cloud, shown

TIMEOUT_MS = 10_000
_STALE_STAGED_S = 3600.0


class ObjectCheckpoints(BlobCheckpoints):
    """Checkpoints in an obstore store: see ``ObjectBlobs`` for where."""

    def __init__(
        self,
        where: str | Path,
        options: Mapping[str, str] | None = None,
        *,
        timeout_ms: int = TIMEOUT_MS,
        max_contents_bytes: int = fmt.MAX_CONTENTS_BYTES,
    ) -> None:
        super().__init__(ObjectBlobs(where, options, timeout_ms=timeout_ms), max_contents_bytes=max_contents_bytes)


class ObjectBlobs:
    """Values in an obstore store.

    Args: ``where`` is a folder (created, open to its owner alone) or a URL: ``file://``, ``s3://``, ``gs://``,
    ``az://``, ``memory://`` (gone with this instance). ``options`` go to obstore; what is not given there comes from
    the cloud's usual environment variables, or from the machine that this runs on.
    """

    largest_bytes: int | None = None

    def __init__(
        self, where: str | Path, options: Mapping[str, str] | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> None:
        self.where = shown(str(where))
        self._root = _local_root(where)
        self._identity: tuple[int, int] | None = None
        self._store: Any = self._open(str(where), dict(options or {}), timeout_ms)

    def _open(self, where: str, options: dict[str, str], timeout_ms: int) -> Any:
        try:
            if self._root is not None:
                self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
                found = self._root.stat()
                self._identity = found.st_dev, found.st_ino
                return LocalStore(self._root)
            scheme = where.partition("://")[0]
            if scheme == "memory":
                return MemoryStore()
            if is_cloud(where):
                return open_cloud(where, options, timeout_ms)
        except (BaseError, OSError, ValueError) as error:
            self._unavailable("opened", error)
        raise StoreUnavailable(
            f"checkpoint store {self.where}: no store of kind {scheme!r}; use a folder, or a URL with "
            f"file, {', '.join(CLOUDS)}, redis, rediss or memory"
        )

    def create(self, name: str, data: bytes) -> bool:
        """As ``Blobs.create``."""
        self._require_root()
        try:
            if self._root is not None:
                self._make_folder(name)
            obstore.put(self._store, name, data, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return False
        except (BaseError, OSError) as error:
            self._unavailable("written", error, name)
        return True

    def read(self, name: str, max_bytes: int) -> bytes:
        """As ``Blobs.read``."""
        if self._root is not None:
            return self._read_file(name, self._root / name, max_bytes)
        try:
            found = obstore.get(self._store, name)
            if found.meta["size"] > max_bytes:
                raise CheckpointDamaged(f"checkpoint {name} has {found.meta['size']} bytes, the limit is {max_bytes}")
            return found.bytes().to_bytes()
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                self._unavailable("read", error, name)
            raise CheckpointMissing(f"checkpoint {name} is not in {self.where}") from error
        except (BaseError, OSError) as error:
            self._unavailable("read", error, name)

    def names(self, folder: str) -> list[str]:
        """As ``Blobs.names``."""
        self._require_root()
        try:
            return [entry["path"] for batch in obstore.list(self._store, prefix=folder) for entry in batch]
        except (BaseError, OSError) as error:
            self._unavailable("listed", error, folder)

    def delete(self, name: str) -> None:
        """As ``Blobs.delete``."""
        try:
            obstore.delete(self._store, name)
        except FileNotFoundError:
            return  # another node was faster
        except (BaseError, OSError) as error:
            self._unavailable("deleted", error, name)

    # --- what only a local folder needs -------------------------------------------------------------------------

    def _require_root(self) -> None:
        """Raises ``StoreGone`` where the folder is not the one that was opened; what is no folder is just away."""
        if self._root is None:
            return
        try:
            found = self._root.stat()
        except FileNotFoundError:
            how = "was deleted or moved"
        except OSError as error:
            self._unavailable("reached", error)
        else:
            if not stat.S_ISDIR(found.st_mode) or (found.st_dev, found.st_ino) == self._identity:
                return
            how = "is another folder than the one that was opened"
        raise StoreGone(
            f"checkpoint store {self.where} {how}: put it back, or start again; what is not there is made again from "
            f"the input"
        )

    def _read_file(self, name: str, path: Path, max_bytes: int) -> bytes:
        """Not by obstore, which opens whatever there is, and waits for ever where that is a FIFO."""
        self._require_root()
        if (link := self._link_in(name)) is not None:
            raise CheckpointDamaged(f"checkpoint {name}: {link} is a symbolic link, which is never followed")
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                raise CheckpointDamaged(f"checkpoint {name} is no file: {path} is a folder, FIFO, socket or device")
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    raise CheckpointDamaged(f"checkpoint {name} is no file any more")
                if found.st_size > max_bytes:
                    raise CheckpointDamaged(f"checkpoint {name} has {found.st_size} bytes, the limit is {max_bytes}")
                return file.read(found.st_size)
        except FileNotFoundError as error:
            raise CheckpointMissing(f"checkpoint {name} is not in {self.where}") from error
        except OSError as error:
            if isinstance(error, NotADirectoryError) and self._root is not None and self._root.is_dir():
                raise CheckpointDamaged(f"checkpoint {name}: a part of {path} is no folder") from error
            self._unavailable("read", error, name)

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

    def secure(self, names: Sequence[str]) -> None:
        """As ``Blobs.secure``: readable by the owner alone, and on the disk; obstore sees to neither."""
        if self._root is None:
            return
        paths = [self._root / name for name in names]
        try:
            for path in paths:
                with contextlib.suppress(FileNotFoundError):  # pruned by another node meanwhile, which has newer ones
                    _sync(path, mode=0o600)
            for folder in paths[0].parents[: len(names[0].split("/"))]:  # once for all of them
                with contextlib.suppress(FileNotFoundError):
                    _sync(folder)
        except OSError as error:
            # A second fsync may succeed although the first one's pages are lost, so the files are to be written anew.
            for path in paths:
                with contextlib.suppress(OSError):
                    path.unlink()
            self._unavailable("made durable", error, names[0])

    def tidy(self, folder: str) -> None:
        """As ``Blobs.tidy``: obstore's staging files, ``NAME#NUMBER``."""
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
        remedy = advice(str(error), self.where, "checkpoints")
        raise StoreUnavailable(
            f"checkpoint store {self.where} could not be {verb}{at}: {described(error)}; {remedy}"
        ) from error


def _local_root(where: str | Path) -> Path | None:
    text = str(where)
    if isinstance(where, str) and "://" in text:
        if not text.startswith("file://"):
            return None
        text = unquote(urlsplit(text).path)
    return Path(text).absolute()


def _sync(path: Path, mode: int | None = None) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if mode is not None:
            os.fchmod(handle, mode)
        os.fsync(handle)
    finally:
        os.close(handle)
