"""Damaged, foreign, unwritable and full: a clear error, and nothing lost."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nodes.log import EmbeddedLog, LogDamaged, LogFull, LogUnavailable
from tests.integration.log_makers import HandClock
from tests.integration.processes import ROOT


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of two topics; ``t`` has 40 blocks of 100 records."""
    path = tmp_path / "log"
    with EmbeddedLog(path) as log:
        log.create_topic("t", 1)
        log.create_topic("other", 1)
        for number in range(40):
            log.append("t", 0, [b"%d:%d" % (number, at) * 30 for at in range(100)])
        log.append("other", 0, [b"fine"])
    return path


def data_file(path: Path) -> Path:
    return path / "topics" / "t" / "0" / "data.mdb"


def read_all(path: Path) -> int:
    with EmbeddedLog(path) as log:
        offset = 0
        while chunk := log.read("t", 0, offset):
            offset = chunk.next_offset
        return offset


def read_in_another_process(path: Path) -> subprocess.CompletedProcess[str]:
    """Damage must raise, not kill: where it might kill, look from outside."""
    code = (
        "import sys; from pathlib import Path; from tests.integration.log.test_embedded_damage import read_all\n"
        "try: print('records', read_all(Path(sys.argv[1])))\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    command = [sys.executable, "-c", code, str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


class TestDamage:
    @pytest.mark.parametrize("size", [0, 1, 4096, 8191])
    def test_a_file_without_its_first_pages_is_named(self, path: Path, size: int) -> None:
        os.truncate(data_file(path), size)
        with pytest.raises(LogDamaged, match=r"'t' partition 0: .*topics/t/0/data.mdb is damaged: .* Restore"):
            read_all(path)
        with pytest.raises(LogDamaged), EmbeddedLog(path) as log:
            log.append("t", 0, [b"x"])
        assert data_file(path).stat().st_size == size

    @pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.99])
    def test_a_file_that_was_cut_short_is_named_and_left_as_it_is(self, path: Path, share: float) -> None:
        size = int(data_file(path).stat().st_size * share)
        os.truncate(data_file(path), size)
        before = data_file(path).read_bytes()
        ended = read_in_another_process(path)
        assert ended.returncode == 0, ended
        assert ended.stdout.startswith("LogDamaged topic 't' partition 0")
        assert data_file(path).read_bytes() == before

    def test_a_file_that_is_short_by_unused_pages_is_read(self, path: Path) -> None:
        """LMDB may leave pages at the end unwritten that nothing refers to."""
        with EmbeddedLog(path) as log:
            log.delete_before("t", 0, 3999)
            log.append("t", 0, [b"x"] * 3)
        whole = data_file(path).stat().st_size
        for pages in (1, 8, 20):
            os.truncate(data_file(path), whole - pages * 4096)
            ended = read_in_another_process(path)
            if ended.stdout.startswith("LogDamaged"):
                break
            assert ended.returncode == 0, ended
            with EmbeddedLog(path) as log:
                assert log.end_offset("t", 0) == 4003
        assert data_file(path).stat().st_size <= whole

    def test_a_missing_file_is_named_and_not_made_anew(self, path: Path) -> None:
        data_file(path).unlink()
        with pytest.raises(LogDamaged, match=r"data\.mdb is damaged: the file is missing"):
            read_all(path)
        assert not data_file(path).exists()

    def test_a_foreign_file_is_named(self, path: Path) -> None:
        data_file(path).write_bytes(random.Random(1).randbytes(100_000))
        with pytest.raises(LogDamaged, match=r"data.mdb is damaged: .*not an LMDB file"):
            read_all(path)

    def test_changed_bytes_of_records_are_found(self, path: Path) -> None:
        content = bytearray(data_file(path).read_bytes())
        at = content.index(b"20:50" * 30)
        content[at] ^= 1
        data_file(path).write_bytes(content)
        with pytest.raises(LogDamaged, match="checksum of the block at offset 2000"):
            read_all(path)
        with EmbeddedLog(path) as log:
            assert len(log.read("t", 0, 0, max_records=2000)) == 2000
            assert len(log.read("t", 0, 2100)) == 1900

    def test_damage_to_one_topic_leaves_the_others(self, path: Path) -> None:
        os.truncate(data_file(path), 100)
        with EmbeddedLog(path) as log:
            assert log.read("other", 0, 0).values == [b"fine"]
            assert log.append("other", 0, [b"goes on"]).first_offset == 1

    @pytest.mark.parametrize("content", [b"", b"{", b'{"format":"x"}', b'{"format":"holon-embedded-log","version":2}'])
    def test_another_format_or_version_is_refused(self, path: Path, content: bytes) -> None:
        (path / "log.json").write_bytes(content)
        with pytest.raises(LogDamaged, match=r"log\.json"):
            EmbeddedLog(path)
        assert (path / "log.json").read_bytes() == content

    def test_a_topic_without_its_description_is_named(self, path: Path) -> None:
        (path / "topics" / "t" / "topic.json").write_bytes(b"[]")
        with pytest.raises(LogDamaged, match=r"t/topic\.json"):
            read_all(path)
        (path / "topics" / "t" / "topic.json").unlink()
        with pytest.raises(LogDamaged, match=r"t/topic\.json"):
            read_all(path)

    def test_a_folder_of_something_else_is_refused_and_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "letters").write_text("dear reader")
        with pytest.raises(LogDamaged, match="not a log"):
            EmbeddedLog(tmp_path)
        assert [entry.name for entry in tmp_path.iterdir()] == ["letters"]

    def test_a_log_without_its_description_is_refused(self, path: Path) -> None:
        (path / "log.json").unlink()
        with pytest.raises(LogDamaged, match=r"log\.json"):
            EmbeddedLog(path)


class TestUnwritable:
    def test_a_path_below_a_file_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(LogUnavailable, match="file/log"):
            EmbeddedLog(tmp_path / "file" / "log")

    def test_a_read_only_folder_is_named(self, path: Path) -> None:
        with read_only(path), pytest.raises(LogUnavailable, match=str(path)):
            EmbeddedLog(path).append("t", 0, [b"x"])
        assert read_all(path) == 4000

    def test_too_many_open_files_say_which_limit_to_raise(self, path: Path) -> None:
        with EmbeddedLog(path) as log:
            log.create_topic("wide", 40)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, hard))
            try:
                with pytest.raises(LogUnavailable, match="ulimit -n"):
                    for partition in range(40):
                        log.append("wide", partition, [b"x"])
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert [log.append("wide", partition, [b"y"]).count for partition in range(40)] == [1] * 40


@contextmanager
def read_only(path: Path) -> Iterator[None]:
    """No process can write there: mounted read-only; where we may not mount, without permission, as another user."""
    bind = subprocess.run(["mount", "--bind", path, path], capture_output=True, check=False)
    if bind.returncode == 0:
        subprocess.run(["mount", "-o", "remount,bind,ro", path], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", path], check=True)
        return
    user = os.geteuid()
    path.chmod(0o500)
    try:
        if user == 0:
            os.seteuid(65534)
        yield
    finally:
        os.seteuid(user)
        path.chmod(0o700)


class Disk:
    """4 MiB of tmpfs where we may mount; else a limit of 1 MiB for each file, which no reserve helps against."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder]
        self.mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        if not self.mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, self._limits[1]))

    def prepare_to_delete(self) -> None:
        """A full disk is deleted from as it is; the limit must give some way."""
        if not self.mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, self._limits[1]))

    def remove(self) -> None:
        if self.mounted:
            subprocess.run(["umount", self.path], check=True)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    disk = Disk(folder)
    yield disk
    disk.remove()


class TestFullDisk:
    @pytest.mark.parametrize("fsync", ["none", "interval", "batch"])
    @pytest.mark.parametrize("size", [100, 40_000])
    def test_refuses_the_batch_keeps_the_rest_and_goes_on_when_there_is_space(
        self, disk: Disk, fsync: str, size: int
    ) -> None:
        with EmbeddedLog(disk.path / "log", fsync=fsync) as log:  # type: ignore[arg-type]
            log.create_topic("t", 2)
            acknowledged: list[list[bytes]] = [[], []]
            for partition in (0, 1):
                with pytest.raises(LogFull, match=f"'t' partition {partition}: .*no space left.* Free space"):
                    for number in range(1_000_000):
                        batch = [b"%d:%d" % (number, at) + bytes(size) for at in range(5)]
                        log.append("t", partition, batch)
                        acknowledged[partition] += batch
            for partition in (0, 1):
                assert whole(log, partition) == acknowledged[partition]
            half = log.end_offset("t", 0) // 2
            assert half > 0
            disk.prepare_to_delete()
            assert log.delete_before("t", 0, half) == half
            log.append("t", 0, [b"goes on"])
            assert whole(log, 0) == [*acknowledged[0][half:], b"goes on"]
        with EmbeddedLog(disk.path / "log") as log:
            assert whole(log, 0) == [*acknowledged[0][half:], b"goes on"]
            assert whole(log, 1) == acknowledged[1]

    def test_makes_room_by_what_is_too_old(self, disk: Disk) -> None:
        clock = HandClock(0)
        with EmbeddedLog(disk.path / "log", clock_ms=clock) as log:
            log.create_topic("t", 1, retention_ms=1000)
            with pytest.raises(LogFull):
                for _ in range(1_000_000):
                    log.append("t", 0, [bytes(5000)] * 10)
            end = log.end_offset("t", 0)
            clock.now_ms = 2000
            disk.prepare_to_delete()
            for _ in range(5):
                log.append("t", 0, [b"young" * 1000] * 10)
            assert whole(log, 0)[-50:] == [b"young" * 1000] * 50
            assert log.end_offset("t", 0) == end + 50
            assert log.start_offset("t", 0) > 0


def whole(log: EmbeddedLog, partition: int) -> list[bytes]:
    values, offset = [], log.start_offset("t", partition)
    while chunk := log.read("t", partition, offset):
        values += chunk.values
        offset = chunk.next_offset
    return values


def test_a_file_that_another_thread_makes_longer_meanwhile_is_not_called_cut_off(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy node's watchdog appends heartbeats while the loop reads them: found with three test runs side by side."""
    fstat = os.fstat
    with EmbeddedLog(path) as log:

        def slow_fstat(descriptor: int) -> os.stat_result:
            """The thread that asked gets its answer when others have appended."""
            found = fstat(descriptor)
            monkeypatch.setattr(os, "fstat", fstat)
            for _ in range(2):  # the second one sees the size that the first one left
                log.append("t", 0, [bytes(1 << 20)])
            assert fstat(descriptor).st_size > found.st_size
            return found

        monkeypatch.setattr(os, "fstat", slow_fstat)
        assert log.read("t", 0, 0).next_offset > 0
        assert log.end_offset("t", 0) == 4002
