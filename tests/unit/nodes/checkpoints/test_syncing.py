"""Copies of a checkpoint are on the disk before its name is known, and so are the folders above them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodes.checkpoints.file_names import CheckpointKey
from nodes.checkpoints.object_store import ObjectCheckpoints
from nodes.checkpoints.store import StoreUnavailable

KEY = CheckpointKey("job", 0, 3, (7, 0), (10, 0))


@pytest.mark.parametrize("copies", [1, 3])
def test_each_copy_and_each_folder_is_synchronised_once(
    copies: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, synced = ObjectCheckpoints(tmp_path), list[int]()
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    name = store.save(KEY, b"contents", copies)
    folder = (tmp_path / name).parent
    files = sorted(folder.iterdir(), key=lambda path: len(path.name))
    assert len(files) == copies
    secured = [*files, folder, folder.parent, folder.parent.parent, tmp_path]
    assert synced == [path.stat().st_ino for path in secured]


def test_of_copies_that_are_not_on_the_disk_none_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, wanted = ObjectCheckpoints(tmp_path), os.fsync

    def fsync(handle: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StoreUnavailable, match="made durable"):
        store.save(KEY, b"contents", 3)
    assert not list(tmp_path.rglob("*.ckpt"))
    monkeypatch.setattr(os, "fsync", wanted)
    assert store.load(store.save(KEY, b"contents", 3)) == b"contents"
