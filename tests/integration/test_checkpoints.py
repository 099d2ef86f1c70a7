"""The checkpoint store on a real folder: what was saved is loaded, and damage is never taken for it."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nodes import checkpoint_format as fmt
from nodes.checkpoints import (
    KEPT_CHECKPOINTS,
    BadCheckpointName,
    CheckpointDamaged,
    CheckpointKey,
    CheckpointMissing,
    CheckpointNewer,
    ObjectCheckpoints,
    StoreUnavailable,
)
from wcrdt.windows import BEFORE_TIME_MS

TEXT = b"compressible " * 40
NOISE = hashlib.shake_256(b"noise").digest(500)


def key(offset: int = 10, answered_ms: int = 5_000, partition: int = 3) -> CheckpointKey:
    return CheckpointKey("q7", 0, partition, (offset, 1), (answered_ms, 0))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.fixture
def store(folder: Path) -> ObjectCheckpoints:
    return ObjectCheckpoints(folder)


@pytest.fixture(params=["folder", "file URL", "memory"])
def any_store(request: pytest.FixtureRequest, folder: Path) -> ObjectCheckpoints:
    where = {"folder": str(folder), "file URL": folder.as_uri(), "memory": "memory:///"}[request.param]
    return ObjectCheckpoints(where)


def damage(folder: Path, name: str, data: bytes) -> None:
    (folder / name).write_bytes(data)


# --- what is saved is loaded ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("contents", [b"", b"x", TEXT, NOISE], ids=["empty", "tiny", "text", "noise"])
def test_what_was_saved_is_loaded(any_store: ObjectCheckpoints, contents: bytes) -> None:
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
    parsed = fmt.parse_name(name)
    assert parsed == (CheckpointKey("q7", 2, 13, (42, 1), (BEFORE_TIME_MS, 3)), digest, 0)


def test_saving_the_same_again_gives_the_same_name_and_one_file(any_store: ObjectCheckpoints) -> None:
    assert any_store.save(key(), TEXT) == any_store.save(key(), TEXT)
    assert len(any_store.list("q7", 0, 3)) == 1


def test_other_contents_at_the_same_position_are_another_file(any_store: ObjectCheckpoints) -> None:
    first, second = any_store.save(key(), TEXT), any_store.save(key(), NOISE)
    assert first != second
    assert (any_store.load(first), any_store.load(second)) == (TEXT, NOISE)


def test_many_writers_of_one_name_all_succeed(folder: Path) -> None:
    stores = [ObjectCheckpoints(folder) for _ in range(4)]
    contents = NOISE * 2_000
    with ThreadPoolExecutor(4) as pool:
        names = list(pool.map(lambda store: store.save(key(), contents), stores * 5))
    assert len(set(names)) == 1
    assert stores[0].load(names[0]) == contents
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


def test_names_are_listed_newest_first_by_position_not_by_text(any_store: ObjectCheckpoints) -> None:
    positions = [(9, -5), (10, -20), (10, -3), (10, 4), (10, 30), (11, BEFORE_TIME_MS)]
    names = [any_store.save(key(offset, answered_ms), TEXT) for offset, answered_ms in reversed(positions)]
    assert any_store.list("q7", 0, 3) == names
    assert any_store.list("q7", 0, 4) == []
    assert any_store.list("q7", 1, 3) == []


def test_pruning_keeps_the_newest_and_those_that_are_asked_for(any_store: ObjectCheckpoints) -> None:
    names = [any_store.save(key(offset), TEXT) for offset in range(6)]
    other = any_store.save(key(0, partition=4), TEXT)
    assert sorted(any_store.prune("q7", 0, 3, keep=[names[1]])) == [names[0], names[2]]
    assert any_store.list("q7", 0, 3) == [names[5], names[4], names[3], names[1]]
    assert any_store.prune("q7", 0, 3, keep=[names[1]]) == []
    assert any_store.load(other) == TEXT
    assert KEPT_CHECKPOINTS == 3


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


# --- damage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("contents", [TEXT, NOISE[:100]], ids=["compressed", "raw"])
def test_any_flipped_bit_in_any_region_is_found(store: ObjectCheckpoints, folder: Path, contents: bytes) -> None:
    name = store.save(key(), contents)
    intact = (folder / name).read_bytes()
    for bit in range(8 * len(intact)):
        torn = bytearray(intact)
        torn[bit // 8] ^= 1 << bit % 8
        damage(folder, name, bytes(torn))
        with pytest.raises(CheckpointDamaged, match="00003"):
            store.load(name)


@pytest.mark.parametrize("contents", [TEXT, NOISE[:100]], ids=["compressed", "raw"])
def test_any_cut_and_any_trailing_byte_is_found(store: ObjectCheckpoints, folder: Path, contents: bytes) -> None:
    name = store.save(key(), contents)
    intact = (folder / name).read_bytes()
    for torn in [*(intact[:length] for length in range(len(intact))), intact + b"\0", b"\0" * len(intact)]:
        damage(folder, name, torn)
        with pytest.raises(CheckpointDamaged):
            store.load(name)


def test_an_intact_file_under_a_wrong_name_is_found(store: ObjectCheckpoints, folder: Path) -> None:
    text, noise = store.save(key(), TEXT), store.save(key(), NOISE)
    (folder / text).replace(folder / noise)
    with pytest.raises(CheckpointDamaged, match="other contents than its name"):
        store.load(noise)


def test_a_missing_file_is_named(any_store: ObjectCheckpoints) -> None:
    name = fmt.name_of(key(), fmt.digest_of(TEXT))
    with pytest.raises(CheckpointMissing, match="00003"):
        any_store.load(name)


def test_an_intact_file_of_a_newer_format_is_told_from_a_damaged_one(store: ObjectCheckpoints, folder: Path) -> None:
    name = store.save(key(), TEXT)
    body = b"whatever a later release writes"
    newer = fmt.FORMAT_VERSION + 1
    damage(folder, name, struct.pack(">8sH16s", b"HOLONCKP", newer, fmt._checksum(newer, body)) + body)
    with pytest.raises(CheckpointNewer, match=f"format {newer}"):
        store.load(name)


def test_saving_again_what_is_damaged_takes_another_name(store: ObjectCheckpoints, folder: Path) -> None:
    name = store.save(key(), TEXT)
    damage(folder, name, b"torn by a power failure")
    again = store.save(key(), TEXT)
    assert again != name
    assert store.load(again) == TEXT
    assert store.list("q7", 0, 3) == [again, name]
    assert store.save(key(), TEXT) == again


def sealed(body: bytes) -> bytes:
    return struct.pack(">8sH16s", b"HOLONCKP", 1, fmt._checksum(1, body)) + body


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (struct.pack(">BQ", 1, 1 << 40) + zlib.compress(b"x"), "claims 1099511627776 bytes"),
        (struct.pack(">BQ", 1, 10) + zlib.compress(bytes(5_000_000)), "11 bytes of contents instead of 10"),
        (struct.pack(">BQ", 1, 1) + zlib.compress(b"x") + b"more", "instead of 1"),
        (struct.pack(">BQ", 1, 1) + zlib.compress(b"x")[:-1], "instead of 1"),
        (struct.pack(">BQ", 1, 1) + b"no zlib", "cannot be decompressed"),
        (struct.pack(">BQ", 0, 4) + b"x", "1 bytes of contents instead of 4"),
        (struct.pack(">BQ", 9, 1) + b"x", "unknown codec 9"),
        (b"", "no contents"),
    ],
)
def test_a_file_that_was_made_to_harm_is_damaged_and_never_expanded(folder: Path, body: bytes, complaint: str) -> None:
    store = ObjectCheckpoints(folder, max_contents_bytes=1_000_000)
    name = store.save(key(), b"x")
    damage(folder, name, sealed(body))
    with pytest.raises(CheckpointDamaged, match=complaint):
        store.load(name)


def test_a_file_above_the_limit_is_not_even_read(folder: Path) -> None:
    name = ObjectCheckpoints(folder).save(key(), NOISE)
    with pytest.raises(CheckpointDamaged, match="the limit is"):
        ObjectCheckpoints(folder, max_contents_bytes=100).load(name)
    with pytest.raises(StoreUnavailable, match="500 bytes, the limit is 100"):
        ObjectCheckpoints(folder, max_contents_bytes=100).save(key(), NOISE)


# --- names ---------------------------------------------------------------------------------------------------------

GOOD_NAME = fmt.name_of(key(), fmt.digest_of(TEXT))


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
