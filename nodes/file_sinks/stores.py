"""Stores of files: a local folder, or an object store. A value appears as a whole, or not at all, and stays."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from pathlib import Path
from typing import Any, NoReturn, Protocol
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import MemoryStore

from nodes.cloud_store import CLOUDS, advice, described, is_cloud, open_cloud, shown
from nodes.errors import SettingsError, Unreachable
from nodes.settings.stores import FilesSettings

STAGING = "_holon/staging"
"""Where files of a local folder are written before they get their name."""
STALE_STAGED_S = 3600.0


class FileStore(Protocol):
    """Values by name below a root. Raises ``Unreachable`` where the store fails."""

    where: str

    def create(self, name: str, data: bytes) -> bool:
        """Store a value under a new name, durably; False, and nothing is changed, where the name is taken."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Store a value durably, in place of another one."""
        ...

    def read(self, name: str) -> bytes | None:
        """None where there is no such name."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names below a folder."""
        ...

    def delete(self, name: str) -> None:
        """Nothing happens where there is no such name."""
        ...


def open_store(root: str, settings: FilesSettings) -> FileStore:
    """The store of a path or URL. Raises ``SettingsError`` for a URL that no store has."""
    if "://" not in root or root.startswith("file://"):
        return LocalFiles(Path(unquote(urlsplit(root).path) if "://" in root else root))
    if root.startswith("memory://"):
        return ObjectFiles(root, MemoryStore())
    if not is_cloud(root):
        raise SettingsError(f"no store for {shown(root)}; use a folder, or a URL with file, {', '.join(CLOUDS)}")
    try:
        return ObjectFiles(root, open_cloud(root, settings.options(), settings.timeout_ms))
    except (BaseError, ValueError) as error:
        raise Unreachable(f"{shown(root)}: {described(error)}; {advice(str(error), root, 'files')}") from error


class ObjectFiles:
    """Files in a store of obstore: one request for each, so there is no half of one."""

    def __init__(self, url: str, store: Any) -> None:
        self.where = shown(url)
        self._store = store

    def create(self, name: str, data: bytes) -> bool:
        """As ``FileStore.create``."""
        try:
            obstore.put(self._store, name, data, mode="create", use_multipart=False)
        except (AlreadyExistsError, PreconditionError):
            return self.read(name) == data  # a request that was repeated after a lost answer meets its own value
        except (BaseError, OSError) as error:
            self._fail("written", name, error)
        return True

    def put(self, name: str, data: bytes) -> None:
        """As ``FileStore.put``."""
        try:
            obstore.put(self._store, name, data, use_multipart=False)
        except (BaseError, OSError) as error:
            self._fail("written", name, error)

    def read(self, name: str) -> bytes | None:
        """As ``FileStore.read``."""
        try:
            return obstore.get(self._store, name).bytes().to_bytes()
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                self._fail("read", name, error)
            return None
        except (BaseError, OSError) as error:
            self._fail("read", name, error)

    def names(self, folder: str) -> list[str]:
        """As ``FileStore.names``."""
        try:
            return sorted(entry["path"] for batch in obstore.list(self._store, prefix=folder) for entry in batch)
        except (BaseError, OSError) as error:
            self._fail("listed", folder, error)

    def delete(self, name: str) -> None:
        """As ``FileStore.delete``."""
        try:
            obstore.delete(self._store, name)
        except FileNotFoundError:
            return
        except (BaseError, OSError) as error:
            self._fail("deleted", name, error)

    def _fail(self, verb: str, name: str, error: Exception) -> NoReturn:
        raise Unreachable(
            f"{self.where}/{name} could not be {verb}: {described(error)}; {advice(str(error), self.where, 'files')}"
        ) from error


class LocalFiles:
    """Files in a folder. Each is written and synced under another name, then it gets its own."""

    def __init__(self, root: Path) -> None:
        self.where = str(root)
        self._root = root.absolute()
        self._staged = 0
        self._id = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._drop_stale()

    def create(self, name: str, data: bytes) -> bool:
        """As ``FileStore.create``."""
        try:
            staged, path = self._stage(data), self._place(name)
            try:
                os.link(staged, path)
            except FileExistsError:
                return False
            finally:
                staged.unlink()
            _sync(path.parent)
        except OSError as error:
            self._fail("written", name, error)
        return True

    def put(self, name: str, data: bytes) -> None:
        """As ``FileStore.put``."""
        try:
            staged, path = self._stage(data), self._place(name)
            os.replace(staged, path)
            _sync(path.parent)
        except OSError as error:
            self._fail("written", name, error)

    def read(self, name: str) -> bytes | None:
        """As ``FileStore.read``."""
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._fail("read", name, error)

    def names(self, folder: str) -> list[str]:
        """As ``FileStore.names``."""
        try:
            found = [path for path in (self._root / folder).rglob("*") if path.is_file()]
        except OSError as error:
            self._fail("listed", folder, error)
        return sorted(path.relative_to(self._root).as_posix() for path in found)

    def delete(self, name: str) -> None:
        """As ``FileStore.delete``."""
        try:
            (self._root / name).unlink()
            _sync((self._root / name).parent)
        except FileNotFoundError:
            return
        except OSError as error:
            self._fail("deleted", name, error)

    def _stage(self, data: bytes) -> Path:
        self._staged += 1
        path = self._place(f"{STAGING}/{self._id}-{self._staged}")
        with path.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return path

    def _place(self, name: str) -> Path:
        """The path of a name, whose folders are there afterwards, durably."""
        path = self._root / name
        missing = []
        folder = path.parent
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            _sync(folder.parent)
        return path

    def _drop_stale(self) -> None:
        """Remove files of killed processes that got no name."""
        before_s = time.time() - STALE_STAGED_S
        for path in (self._root / STAGING).glob("*"):
            with contextlib.suppress(OSError):  # another process was faster
                if path.lstat().st_mtime < before_s:
                    path.unlink()

    def _fail(self, verb: str, name: str, error: OSError) -> NoReturn:
        raise Unreachable(
            f"{self.where}/{name} could not be {verb}: {error}; {advice(str(error), self.where, 'files')}"
        ) from error


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
