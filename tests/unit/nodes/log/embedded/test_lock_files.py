"""Lock files are written whole before LMDB maps them: a store into a hole of one on a full disk ends the process."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import lmdb
import pytest

from nodes.log.contract import LogFull
from nodes.log.embedded.folder import LOCK_FILE_BYTES, LogFolder, TopicMeta, build_partition


def test_a_new_partition_has_its_lock_file_before_lmdb_opens_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sizes, opened = list[int](), lmdb.open

    def noted(path: str, **more: Any) -> lmdb.Environment:
        sizes.append((Path(path) / "lock.mdb").stat().st_size)
        return opened(path, **more)

    monkeypatch.setattr("nodes.log.embedded.folder.lmdb.open", noted)
    build_partition(tmp_path / "0")
    assert sizes == [LOCK_FILE_BYTES] == [(tmp_path / "0" / "lock.mdb").stat().st_size]


@pytest.mark.parametrize("written", [0, LOCK_FILE_BYTES // 2])
def test_a_topic_is_not_enlarged_on_a_full_disk_and_is_so_once_there_is_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, written: int
) -> None:
    write = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) != LOCK_FILE_BYTES:
            return write(descriptor, data)
        if not written:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:written])

    made = LogFolder(tmp_path / "log")
    made.create_topic("t", TopicMeta(1, None))
    with monkeypatch.context() as patch:
        patch.setattr("nodes.log.embedded.folder.os.write", full)
        with pytest.raises(LogFull, match="topic 't' cannot be enlarged"):
            made.add_partitions("t", 2)
        assert made.read_topic("t") == TopicMeta(1, None)
    made.add_partitions("t", 2)
    assert made.read_topic("t") == TopicMeta(2, None)
    assert (made.partition_path("t", 1) / "lock.mdb").stat().st_size == LOCK_FILE_BYTES
