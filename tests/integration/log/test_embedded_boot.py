"""After a restart of the machine a log is checked once, and what can be read of a damaged partition is rescued."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodes.log import EmbeddedLog, LogDamaged
from nodes.log.embedded.damage.rescue import rescue_partition
from nodes.log.embedded.folder import LogFolder

BLOCKS = 40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three partitions of 40 blocks of 100 records; the first ten records of each are deleted."""
    path = tmp_path / "log"
    with EmbeddedLog(path) as log:
        log.create_topic("t", 3)
        for partition in range(3):
            for number in range(BLOCKS):
                log.append("t", partition, [b"%d:%d" % (number, at) * 30 for at in range(100)])
            log.delete_before("t", partition, 10)
    return path


def data_file(path: Path, partition: int) -> Path:
    return path / "topics" / "t" / str(partition) / "data.mdb"


def restart_machine(path: Path) -> None:
    (path / "verified").write_text("an earlier boot")


def spoil(file: Path, what: bytes) -> None:
    content = bytearray(file.read_bytes())
    content[content.index(what)] ^= 1
    file.write_bytes(content)


def count(log: EmbeddedLog, partition: int) -> int:
    offset = start = log.start_offset("t", partition)
    while chunk := log.read("t", partition, offset):
        offset = chunk.next_offset
    return offset - start


def test_a_sound_log_opens_and_is_checked_only_once(path: Path) -> None:
    restart_machine(path)
    with EmbeddedLog(path) as log:
        assert [count(log, partition) for partition in range(3)] == [3990] * 3
    checked = (path / "verified").stat().st_mtime_ns
    with EmbeddedLog(path) as log:
        assert count(log, 0) == 3990
    assert (path / "verified").stat().st_mtime_ns == checked


def test_a_new_log_needs_no_check(path: Path) -> None:
    assert not (path / "tmp" / "verifying").exists()


@pytest.mark.parametrize("how", ["record", "pages", "cut"])
def test_damage_is_found_before_use_and_the_others_go_on(path: Path, how: str) -> None:
    match how:
        case "record":
            spoil(data_file(path, 1), b"20:50" * 30)
        case "pages":  # what a power failure may leave: pages that were never written
            with open(data_file(path, 1), "r+b") as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(2 * 4096)
                file.write(bytes(size - 2 * 4096))
        case "cut":
            os.truncate(data_file(path, 1), data_file(path, 1).stat().st_size // 2)
    restart_machine(path)
    with EmbeddedLog(path) as log:
        assert [count(log, partition) for partition in (0, 2)] == [3990] * 2
        for use in (lambda: log.read("t", 1, 10), lambda: log.append("t", 1, [b"x"]), lambda: log.end_offset("t", 1)):
            with pytest.raises(LogDamaged, match=r"'t' partition 1: .*after a restart.*rescue"):
                use()


@pytest.mark.parametrize(("broken", "expected"), [(20, (0, 2000)), (39, (0, 3900)), (5, (600, 4000))])
def test_the_longest_readable_run_is_rescued_and_the_rest_kept_aside(
    path: Path, broken: int, expected: tuple[int, int]
) -> None:
    spoil(data_file(path, 1), b"%d:50" % broken * 30)
    restart_machine(path)
    EmbeddedLog(path).close()
    assert rescue_partition(LogFolder(path), "t", 1) == expected
    with EmbeddedLog(path) as log:
        assert (log.start_offset("t", 1), log.end_offset("t", 1)) == expected
        assert log.read("t", 1, expected[0]).values[0] == b"%d:0" % (expected[0] // 100) * 30
        assert count(log, 1) == expected[1] - expected[0]
        assert log.append("t", 1, [b"goes on"]).first_offset == expected[1]
        assert [count(log, partition) for partition in (0, 2)] == [3990] * 2
    assert (path / "damaged" / "t-1-0" / "data.mdb").stat().st_size > 100_000
    assert list((path / "tmp").glob("rescue*")) == []


def test_records_are_rescued_from_a_file_that_lost_its_tree(path: Path) -> None:
    os.truncate(data_file(path, 1), data_file(path, 1).stat().st_size * 3 // 4)
    start, end = rescue_partition(LogFolder(path), "t", 1)
    assert start == 0
    assert 2500 < end < 4000
    with EmbeddedLog(path) as log:
        assert count(log, 1) == end


@pytest.mark.parametrize("size", [0, 100])
def test_nothing_readable_is_no_rescue(path: Path, size: int) -> None:
    os.truncate(data_file(path, 1), size)
    with pytest.raises(LogDamaged, match="nothing in it is readable"):
        rescue_partition(LogFolder(path), "t", 1)
    assert data_file(path, 1).stat().st_size == size
