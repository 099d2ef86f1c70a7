"""Checkpoint stores of every kind: what was saved is loaded, in order, and nothing of others is touched."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nodes.checkpoints import file_names
from nodes.checkpoints.object_store import ObjectCheckpoints
from nodes.checkpoints.store import (
    KEPT_CHECKPOINTS,
    BadCheckpointName,
    BlobCheckpoints,
    CheckpointDamaged,
    CheckpointKey,
    StoreUnavailable,
    load_copy,
)
from tests.integration.checkpoint_samples import NOISE, TEXT, key
from wcrdt.windows.assigners import BEFORE_TIME_MS

# --- what is saved is loaded ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("contents", [b"", b"x", TEXT, NOISE], ids=["empty", "tiny", "text", "noise"])
def test_what_was_saved_is_loaded(any_store: BlobCheckpoints, contents: bytes) -> None:
    name = any_store.save(key(), contents)
    assert any_store.load(name) == contents
    assert any_store.list("q7", 0, 3) == [name]


def test_another_process_finds_it(store: ObjectCheckpoints, folder: Path) -> None:
    name = store.save(key(), TEXT)
    assert ObjectCheckpoints(folder).load(name) == TEXT


def test_the_name_says_what_it_is_a_checkpoint_of(store: ObjectCheckpoints) -> None:
    name = store.save(CheckpointKey("q7", 2, 13, (42, 1), (BEFORE_TIME_MS, 3)), TEXT)
    digest = hashlib.blake2b(TEXT, digest_size=16).hexdigest()
    assert name == f"q7/2/00013/{42:020d}.1-{BEFORE_TIME_MS}.3-{digest}.ckpt"
    parsed = file_names.parse_name(name)
    assert parsed == (CheckpointKey("q7", 2, 13, (42, 1), (BEFORE_TIME_MS, 3)), digest, 0)


def test_saving_the_same_again_gives_the_same_name_and_one_file(any_store: BlobCheckpoints) -> None:
    assert any_store.save(key(), TEXT) == any_store.save(key(), TEXT)
    assert len(any_store.list("q7", 0, 3)) == 1


def test_other_contents_at_the_same_position_are_another_file(any_store: BlobCheckpoints) -> None:
    first, second = any_store.save(key(), TEXT), any_store.save(key(), NOISE)
    assert first != second
    assert (any_store.load(first), any_store.load(second)) == (TEXT, NOISE)


def test_many_writers_of_one_name_all_succeed(any_store: BlobCheckpoints) -> None:
    contents = NOISE * 2_000
    with ThreadPoolExecutor(4) as pool:
        names = list(pool.map(lambda _: any_store.save(key(), contents), range(20)))
    assert len(set(names)) == 1
    assert any_store.load(names[0]) == contents
    assert any_store.blobs.names("q7/0/00003") == [names[0]]


def test_writers_with_instances_of_their_own_leave_one_file(folder: Path) -> None:
    stores = [ObjectCheckpoints(folder) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        names = list(pool.map(lambda store: store.save(key(), NOISE), stores * 5))
    assert [path.name for path in folder.rglob("*.ckpt*")] == [Path(names[0]).name]


def test_files_and_folders_are_for_their_owner_alone(store: ObjectCheckpoints, folder: Path) -> None:
    path = folder / store.save(key(), TEXT)
    assert path.stat().st_mode & 0o777 == 0o600
    for above in [path.parents[i] for i in range(4)]:
        assert above.stat().st_mode & 0o777 == 0o700, above


def test_the_file_and_all_its_folders_are_on_the_disk_before_save_returns(
    store: ObjectCheckpoints, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda handle: synced.add(os.fstat(handle).st_ino))
    path = folder / store.save(key(), TEXT)
    assert synced == {part.stat().st_ino for part in [path, *path.parents[:4]]}
    synced.clear()
    store.save(key(), TEXT)  # whoever created it may not have come that far
    assert path.stat().st_ino in synced


# --- order and pruning ---------------------------------------------------------------------------------------------


def test_names_are_listed_newest_first_by_position_not_by_text(any_store: BlobCheckpoints) -> None:
    positions = [(9, -5), (10, -20), (10, -3), (10, 4), (10, 30), (11, BEFORE_TIME_MS)]
    names = [any_store.save(key(offset, answered_ms), TEXT) for offset, answered_ms in reversed(positions)]
    assert any_store.list("q7", 0, 3) == names
    assert any_store.list("q7", 0, 4) == []
    assert any_store.list("q7", 1, 3) == []


def test_pruning_keeps_the_newest_and_those_that_are_asked_for(any_store: BlobCheckpoints) -> None:
    names = [any_store.save(key(offset), TEXT) for offset in range(6)]
    other = any_store.save(key(0, partition=4), TEXT)
    assert any_store.prune("q7", 0, 3, keep=[names[1], names[4]]) == [names[0]]
    assert any_store.list("q7", 0, 3) == names[:0:-1], "others may have learned of what is newer"
    assert any_store.prune("q7", 0, 3, keep=[names[1], names[4]]) == []
    assert any_store.prune("q7", 0, 3, keep=names[3:]) == [names[2], names[1]]
    assert any_store.load(other) == TEXT
    assert KEPT_CHECKPOINTS == 3


def test_pruning_removes_what_earlier_incarnations_left_and_nothing_of_later_ones(any_store: BlobCheckpoints) -> None:
    def saved(incarnation: int, partition: int = 3) -> str:
        return any_store.save(CheckpointKey("q7", incarnation, partition, (1, 0), (0, 0)), TEXT)

    names = [saved(incarnation) for incarnation in range(4)]
    other = saved(0, partition=4)
    assert sorted(any_store.prune("q7", 2, 3)) == names[:2]
    assert any_store.list("q7", 2, 3) == names[2:3] and any_store.list("q7", 3, 3) == names[3:]
    assert any_store.load(other) == TEXT


def test_pruning_removes_what_a_killed_writer_left_long_ago_and_nothing_that_is_being_written(
    store: ObjectCheckpoints, folder: Path
) -> None:
    path = folder / store.save(key(), TEXT)
    left, fresh = path.with_name(path.name + "#1"), path.with_name(path.name + "#2")
    for staged in (left, fresh):
        staged.write_bytes(b"half")
    os.utime(left, (0, 0))
    store.prune("q7", 0, 3)
    assert (left.exists(), fresh.exists(), path.exists()) == (False, True, True)
    assert len(store.list("q7", 0, 3)) == 1


def test_files_of_others_in_the_folder_are_neither_listed_nor_pruned(store: ObjectCheckpoints, folder: Path) -> None:
    path = folder / store.save(key(), TEXT)
    stranger = path.with_name("README.ckpt")
    stranger.write_text("not ours")
    assert len(store.list("q7", 0, 3)) == 1
    store.prune("q7", 0, 3)
    assert stranger.exists()


# --- names ---------------------------------------------------------------------------------------------------------

GOOD_NAME = file_names.name_of(key(), file_names.digest_of(TEXT))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "../" + GOOD_NAME,
        GOOD_NAME.replace("q7/", "../"),
        GOOD_NAME.replace("q7/", "./"),
        GOOD_NAME.replace("q7/", "q7/../q7/"),
        GOOD_NAME.replace("q7/", "/etc/"),
        GOOD_NAME.replace("/00003/", "/../"),
        GOOD_NAME.replace("/00003/", "/000003/"),
        GOOD_NAME.replace("/0/", "/00/"),
        GOOD_NAME + "\n",
        GOOD_NAME + "#1",
        GOOD_NAME.replace(".ckpt", ""),
        GOOD_NAME.replace("q7", "q\u0667"),
        GOOD_NAME.replace(".1-", ".\u0661-"),
    ],
)
def test_names_that_no_store_makes_are_refused(store: ObjectCheckpoints, name: str) -> None:
    with pytest.raises(BadCheckpointName):
        store.load(name)


@pytest.mark.parametrize("job", ["", "..", ".hidden", "a/b", "a..b", "-x", "naïve", "x" * 201])
def test_job_names_that_could_leave_the_folder_are_refused(store: ObjectCheckpoints, job: str) -> None:
    with pytest.raises(BadCheckpointName):
        store.save(CheckpointKey(job, 0, 0, (0, 0), (0, 0)), TEXT)
    with pytest.raises(BadCheckpointName):
        store.list(job, 0, 0)


def test_symbolic_links_are_never_followed(store: ObjectCheckpoints, folder: Path, tmp_path: Path) -> None:
    name = store.save(key(), TEXT)
    elsewhere = tmp_path / "elsewhere"
    (folder / name).rename(elsewhere)
    (folder / name).symlink_to(elsewhere)
    with pytest.raises(CheckpointDamaged, match="symbolic link"):
        store.load(name)
    (folder / "other").symlink_to(tmp_path)
    with pytest.raises(StoreUnavailable, match="symbolic link"):
        store.save(CheckpointKey("other", 0, 0, (0, 0), (0, 0)), TEXT)
    assert not (tmp_path / "0").exists()


# --- a store that does not work ------------------------------------------------------------------------------------


def test_a_store_of_an_unknown_kind_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(StoreUnavailable, match=r"'ftp'.*file, s3"):
        ObjectCheckpoints("ftp://host/folder")


def test_secrets_in_a_url_are_not_shown() -> None:
    with pytest.raises(StoreUnavailable) as caught:
        ObjectCheckpoints("ftp://user:password@host/folder?sig=token")
    assert "password" not in str(caught.value)
    assert "token" not in str(caught.value)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnavailable, match=r"file/checkpoints could not be opened.*Not a directory"):
        ObjectCheckpoints(tmp_path / "file" / "checkpoints")


def test_a_folder_that_cannot_be_written_is_named(store: ObjectCheckpoints, folder: Path) -> None:
    (folder / "q7").write_text("in the way")
    with pytest.raises(StoreUnavailable, match="could not be written at q7/0/00003"):
        store.save(key(), TEXT)


@pytest.mark.parametrize("which", [1, 2, 5], ids=["file", "folder", "root"])
def test_a_file_that_could_not_be_synced_does_not_count_and_is_written_anew(
    store: ObjectCheckpoints, folder: Path, monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    really, calls = os.fsync, iter(range(1, 100))

    def fsync(handle: int) -> None:
        if next(calls) == which:
            raise OSError(errno.EIO, "Input/output error")
        really(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StoreUnavailable, match=r"could not be made durable at q7/0/00003.*Input/output error"):
        store.save(key(), TEXT)
    assert store.list("q7", 0, 3) == [], "what a second fsync would say of it cannot be believed"
    assert store.load(store.save(key(), TEXT)) == TEXT


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("this user may not mount a file system")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_an_error_that_says_so_and_what_fitted_before_is_intact(tiny_disk: Path) -> None:
    store = ObjectCheckpoints(tiny_disk)
    before = store.save(key(1), NOISE)
    with pytest.raises(StoreUnavailable, match=r"No space left.*free some space"):
        store.save(key(2), hashlib.shake_256(b"large").digest(200_000))
    assert store.list("q7", 0, 3) == [before]
    assert store.load(before) == NOISE
    after = store.save(key(3), TEXT)
    assert store.load(after) == TEXT


def test_copies_are_files_of_their_own_and_stay_while_they_are_rested_on(any_store: BlobCheckpoints) -> None:
    name = any_store.save(key(), TEXT, 3)
    assert any_store.save(key(), TEXT, 3) == name
    names = any_store.list("q7", 0, 3)
    assert len(names) == 3 and name in names
    any_store.discard("q7", 0, 3, [name])
    assert load_copy(any_store, name) == TEXT
    assert any_store.save(key(), TEXT, 3) == name
    later = [any_store.save(key()._replace(record_position=(10**6 + n, 0)), b"%d" % n) for n in range(5)]
    any_store.prune("q7", 0, 3, later[-1:], [name])
    assert set(any_store.list("q7", 0, 3)) == {*names, *later[-3:]}
    any_store.prune("q7", 0, 3, later[-1:])
    assert set(any_store.list("q7", 0, 3)) == set(later[-3:])
