"""Damage to the embedded log that LMDB does not see: acknowledged records never vanish in silence."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from nodes.cli.main import run
from nodes.log import EmbeddedLog, LogDamaged
from nodes.log.contract import MAX_RECORD_BYTES
from nodes.log.embedded.environment import DAMAGE_NOTE
from nodes.runtime.logging_setup import undo_logging

PAGE_BYTES = os.sysconf("SC_PAGESIZE")
COMMIT_AT = 144
BATCHES, BATCH = 40, 50


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    with EmbeddedLog(path) as log:
        log.create_topic("t", 1)
        for number in range(BATCHES):
            log.append("t", 0, [b"%d" % number] * BATCH)
    return path


def data_file(path: Path) -> Path:
    return path / "topics" / "t" / "0" / "data.mdb"


def flip(path: Path, at: int, bit: int) -> None:
    content = bytearray(data_file(path).read_bytes())
    content[at] ^= 1 << bit
    data_file(path).write_bytes(content)


def newest_page(path: Path) -> int:
    content = data_file(path).read_bytes()
    commits = [struct.unpack_from("<Q", content, page * PAGE_BYTES + COMMIT_AT)[0] for page in (0, 1)]
    return commits.index(max(commits))


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_in_the_number_of_the_newest_commit_is_noticed(path: Path, bit: int) -> None:
    flip(path, newest_page(path) * PAGE_BYTES + COMMIT_AT, bit)
    for _ in range(2):  # the second program must not find it right
        try:
            with EmbeddedLog(path) as log:
                found = log.end_offset("t", 0)
        except LogDamaged:
            continue
        assert found == BATCHES * BATCH


def test_the_damaged_log_can_be_taken_without_its_last_records(path: Path) -> None:
    flip(path, newest_page(path) * PAGE_BYTES + COMMIT_AT, 3)  # commit 40 becomes 32, and 39 is the newest
    with pytest.raises(LogDamaged, match="acknowledged records are gone"), EmbeddedLog(path) as log:
        log.end_offset("t", 0)
    (data_file(path).parent / DAMAGE_NOTE).unlink()
    with EmbeddedLog(path) as log:
        assert log.end_offset("t", 0) == (BATCHES - 1) * BATCH


def test_a_file_that_is_cut_off_in_use_is_named(path: Path) -> None:
    with EmbeddedLog(path) as log:
        assert len(log.read("t", 0, 0).values) == BATCHES * BATCH
        os.truncate(data_file(path), 2 * PAGE_BYTES)
        with pytest.raises(LogDamaged, match="cut off"):
            log.append("t", 0, [b"more"])
        with pytest.raises(LogDamaged, match="cut off"):
            log.read("t", 0, 0, max_records=10)


def test_nothing_of_a_file_with_a_line_that_is_too_large_is_appended(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"one\n" * 600_000 + b"x" * (MAX_RECORD_BYTES + 1) + b"\n")
    code = run(["log", "append", str(lines), "--topic", "t", "--log-dir", str(path)])
    undo_logging()
    assert code == 1
    assert f"line 600001 of {lines} has {MAX_RECORD_BYTES + 1} bytes" in capsys.readouterr().err
    with EmbeddedLog(path) as log:
        assert log.end_offset("t", 0) == BATCHES * BATCH
