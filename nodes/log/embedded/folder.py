"""The folder of an embedded log: what lies where, and how it is created by several processes at once.

    <root>/log.json                       format and version
    <root>/notifier                       the word that waiting readers sleep on
    <root>/topics/<topic>/topic.json      number of partitions, retention
    <root>/topics/<topic>/<partition>/    one LMDB environment
    <root>/tmp/                           topics that are being built
    <root>/free-space-reserve             space for deleting when the disk is full
    <root>/verified                       the start of the machine after which everything was last checked

A topic is built aside and renamed into place, so it is there as a whole or not at all.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

import lmdb
import msgspec

from nodes.log.checks import check_more_partitions, check_new_topic, check_same_partitions
from nodes.log.contract import LogDamaged, LogUnavailable
from nodes.log.embedded.damage.free_space_reserve import FreeSpaceReserve
from nodes.log.embedded.errors import damaged, translate
from nodes.log.embedded.notifier import create_notifier_file

FORMAT = "holon-embedded-log"
VERSION = 1
ENGINE = 0
"""The LMDB 0.9 file format, pinned: py-lmdb carries several engines and picks one by environment variable."""
_VERIFIED = "verified"
_NOTIFIER, _RESERVE = ("notifier", "doorbell"), ("free-space-reserve", "reserve")
"""The name of a file, and its name in a folder of an earlier release, where it stays as it is."""
_OWN_NAMES = ("log", "topics", "tmp", *_NOTIFIER, *_RESERVE, _VERIFIED)
LOCK_FILE_BYTES = 16 << 10
"""Room for about 250 readers a partition."""


class LogMeta(msgspec.Struct):
    """log.json"""

    format: str
    version: int


class TopicMeta(msgspec.Struct, frozen=True):
    """topic.json; only the number of partitions changes, and grows."""

    partitions: int
    retention_ms: int | None = None


class LogFolder:
    """Opens or creates the folder; everything below works on paths."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._topics = root / "topics"
        self._verified = root / _VERIFIED
        self._where = f"embedded log {root}"
        try:
            self.notifier = _file_of(root, _NOTIFIER)
            self.reserve = FreeSpaceReserve(_file_of(root, _RESERVE))
            self._open()
        except OSError as error:
            raise translate(error, root, self._where) from error

    def partition_path(self, topic: str, partition: int) -> Path:
        """The folder of one LMDB environment."""
        return self._topics / topic / str(partition)

    def all_partitions(self) -> list[Path]:
        """The folders of all partitions, sorted by topic."""
        topics = [(name, self.read_topic(name)) for name in self.topic_names()]
        return [self.partition_path(name, at) for name, meta in topics if meta for at in range(meta.partitions)]

    def verified_boot(self) -> str:
        """The start of the machine that ``note_verified`` recorded last; empty if none."""
        try:
            return self._verified.read_text()
        except FileNotFoundError:
            return ""

    def note_verified(self, boot: str) -> None:
        """Everything here is as sound as can be known in this boot."""
        _write_whole(self._verified, boot.encode())

    @staticmethod
    def forget_verified(root: Path) -> None:
        """Drop the record of ``note_verified``; the folder need not be a log."""
        (root / _VERIFIED).unlink(missing_ok=True)

    def topic_names(self) -> list[str]:
        """Sorted names."""
        try:
            return sorted(entry.name for entry in os.scandir(self._topics) if entry.is_dir())
        except OSError as error:
            raise translate(error, self.root, self._where) from error

    def read_topic(self, topic: str) -> TopicMeta | None:
        """None if there is no such topic; raises ``LogDamaged`` if its description cannot be read."""
        file = self._topics / topic / "topic.json"
        there = file.parent.exists()  # looked at first: it may be renamed into place at this moment
        try:
            return msgspec.json.decode(file.read_bytes(), type=TopicMeta)
        except FileNotFoundError:
            if there:
                raise damaged(file, f"topic {topic!r}", "the file is missing") from None
            return None
        except msgspec.DecodeError as error:
            raise damaged(file, f"topic {topic!r}", str(error)) from error
        except OSError as error:
            raise translate(error, file, f"topic {topic!r}") from error

    def create_topic(self, topic: str, meta: TopicMeta) -> None:
        """Create it, or do nothing if it exists alike; raises ``TopicExists``. Atomic between processes."""
        check_new_topic(topic, meta.partitions, meta.retention_ms)
        if self._exists(topic, meta):
            return
        building = None
        try:
            building = Path(tempfile.mkdtemp(dir=self.root / "tmp"))
            _build_topic(building, meta)
            os.rename(building, self._topics / topic)
            _sync_folder(self._topics)
        except (OSError, lmdb.Error) as error:
            if building is not None:
                shutil.rmtree(building, ignore_errors=True)
            lost_race = isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST)
            if not (lost_race and self._exists(topic, meta)):
                raise translate(error, self.root, f"topic {topic!r} cannot be created") from error

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Enlarge it to so many; raises ``TopicExists``. One process at a time; they count once all are there."""
        folder = self._topics / topic
        try:
            lock = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._enlarge(topic, folder, partitions)
            finally:
                os.close(lock)
        except (OSError, lmdb.Error) as error:
            raise translate(error, folder, f"topic {topic!r} cannot be enlarged") from error

    def _enlarge(self, topic: str, folder: Path, partitions: int) -> None:
        meta = self.read_topic(topic)
        if meta is None or not check_more_partitions(topic, meta.partitions, partitions):
            return
        for number in range(meta.partitions, partitions):
            shutil.rmtree(folder / str(number), ignore_errors=True)  # of a process that was killed in the middle
            build_partition(folder / str(number))
            for path in sorted((folder / str(number)).iterdir()):
                path.chmod(0o600)
                _sync_file(path)
            _sync_folder(folder / str(number))
        _write_whole(folder / "topic.json", msgspec.json.encode(TopicMeta(partitions, meta.retention_ms)))
        _sync_folder(folder)

    def _exists(self, topic: str, meta: TopicMeta) -> bool:
        found = self.read_topic(topic)
        if found is not None:
            check_same_partitions(topic, found.partitions, meta.partitions)
        return found is not None

    def _open(self) -> None:
        file = self.root / "log.json"
        if not file.exists():
            self._create(file)
        meta = _read_log_json(file)
        if (meta.format, meta.version) != (FORMAT, VERSION):
            raise LogDamaged(
                f"{file} has {meta.format} version {meta.version}, this program reads {FORMAT} version {VERSION}; "
                "use the program that wrote it, or another folder"
            )
        for folder in (self._topics, self.root / "tmp"):
            folder.mkdir(mode=0o700, exist_ok=True)
        create_notifier_file(self.notifier)
        self.reserve.fill()
        if not os.access(self.root, os.W_OK | os.X_OK):
            raise LogUnavailable(f"{self._where}: the folder is not writable; change its owner, mode or mount")

    def _create(self, file: Path) -> None:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Another process may be creating it too: what it makes is known; anything else is somebody's folder.
        strangers = [name for name in sorted(os.listdir(self.root)) if name.partition(".")[0] not in _OWN_NAMES]
        if strangers or (self._topics.exists() and os.listdir(self._topics) and not file.exists()):
            raise LogDamaged(
                f"{self.root} is not a log: it has no log.json but {strangers[:3] or ['topics']}; "
                "give an empty or new folder, or restore log.json"
            )
        self.note_verified(boot_id())  # there is nothing to check yet
        _write_whole(file, msgspec.json.encode(LogMeta(FORMAT, VERSION)))  # all who race write the same
        _sync_folder(self.root)


def _file_of(root: Path, names: tuple[str, str]) -> Path:
    new, old = (root / name for name in names)
    return old if old.exists() and not new.exists() else new


def boot_id() -> str:
    """Changes with each start of the machine; empty where the system does not report it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _read_log_json(file: Path) -> LogMeta:
    try:
        return msgspec.json.decode(file.read_bytes(), type=LogMeta)
    except msgspec.DecodeError as error:
        raise damaged(file, "embedded log", str(error)) from error


def _build_topic(folder: Path, meta: TopicMeta) -> None:
    """All partitions, from one empty environment that is copied."""
    (folder / "topic.json").write_bytes(msgspec.json.encode(meta))
    build_partition(folder / "0")
    for partition in range(1, meta.partitions):
        shutil.copytree(folder / "0", folder / str(partition))
    for path in sorted(folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
        _sync_file(path)
    _sync_folder(folder)


def build_partition(folder: Path) -> None:
    """An empty environment in a new folder."""
    folder.mkdir(mode=0o700)
    create_lock_file(folder / "lock.mdb")  # LMDB maps what is there: one of its own has holes (SIGBUS on a full disk)
    lmdb.open(str(folder), mode=0o600, lib_version=ENGINE).close()
    (folder / "lock.mdb").unlink()
    create_lock_file(folder / "lock.mdb")


def _write_whole(file: Path, content: bytes) -> None:
    """The old content or the new one, never a part."""
    descriptor, name = tempfile.mkstemp(prefix=f"{file.name}.", dir=file.parent)
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
        os.rename(name, file)
    finally:
        os.close(descriptor)
        Path(name).unlink(missing_ok=True)


def create_lock_file(path: Path) -> None:
    """Written, not sparse: LMDB maps it, and a store into a hole of a full disk would kill the process."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    try:
        if os.write(descriptor, bytes(LOCK_FILE_BYTES)) < LOCK_FILE_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        path.unlink()  # or the next process would map what there is of it
        raise
    finally:
        os.close(descriptor)


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_sync_folder = _sync_file
