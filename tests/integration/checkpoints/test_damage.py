"""Damage to a checkpoint, in any region of it, is never taken for one."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodes.checkpoints import file_names
from nodes.checkpoints import format as fmt
from nodes.checkpoints.object_store import ObjectCheckpoints
from nodes.checkpoints.store import (
    BlobCheckpoints,
    CheckpointDamaged,
    CheckpointMissing,
    CheckpointNewer,
    CheckpointTooLarge,
)
from tests.integration.checkpoint_samples import NOISE, TEXT, key, newer, sealed


def damage(folder: Path, name: str, data: bytes) -> None:
    (folder / name).write_bytes(data)


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
    with pytest.raises(CheckpointDamaged, match=r"contents (that )?do not match its name"):
        store.load(noise)


def test_a_missing_file_is_named(any_store: BlobCheckpoints) -> None:
    name = file_names.name_of(key(), file_names.digest_of(TEXT))
    with pytest.raises(CheckpointMissing, match="00003"):
        any_store.load(name)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_overwritten_swapped_and_lost_pieces_are_found(
    store: ObjectCheckpoints, folder: Path, data: st.DataObject
) -> None:
    name = store.save(key(), NOISE)
    intact = (folder / name).read_bytes()
    first, second, third = sorted(data.draw(st.lists(st.integers(0, len(intact)), min_size=3, max_size=3)))
    piece = data.draw(st.sampled_from([b"", bytes(second - first), intact[second:third], intact[:first] * 2]))
    torn = intact[:first] + piece + intact[second:]
    damage(folder, name, torn)
    if torn != intact:
        with pytest.raises(CheckpointDamaged):
            store.load(name)
    damage(folder, name, intact)


def test_an_intact_file_of_a_newer_format_names_the_release_that_wrote_it(
    store: ObjectCheckpoints, folder: Path
) -> None:
    name = store.save(key(), TEXT)
    damage(folder, name, newer(b"\x059.9.1" + b"whatever a later release writes"))
    with pytest.raises(CheckpointNewer, match=rf"format {fmt.FORMAT_VERSION + 1}, written by Holon 9\.9\.1;"):
        store.load(name)


@pytest.mark.parametrize("body", [b"", b"\xffshort"])
def test_a_newer_format_that_names_no_release_is_damaged(store: ObjectCheckpoints, folder: Path, body: bytes) -> None:
    name = store.save(key(), TEXT)
    damage(folder, name, newer(body))
    with pytest.raises(CheckpointDamaged):
        store.load(name)


def test_what_format_1_wrote_is_still_read(store: ObjectCheckpoints, folder: Path) -> None:
    name = store.save(key(), b"contents")
    damage(folder, name, sealed(1, struct.pack(">BQ", 0, 8) + b"contents"))
    assert store.load(name) == b"contents"


def plant(store: BlobCheckpoints, name: str, data: bytes) -> None:
    """Put other bytes under a name, as a fault of the store would."""
    store.blobs.delete(name)
    assert store.blobs.create(name, data)


def test_saving_again_what_is_damaged_takes_another_name(any_store: BlobCheckpoints) -> None:
    name = any_store.save(key(), TEXT)
    plant(any_store, name, b"torn by a power failure")
    again = any_store.save(key(), TEXT)
    assert again != name
    assert any_store.load(again) == TEXT
    assert any_store.list("q7", 0, 3) == [again, name]
    assert any_store.save(key(), TEXT) == again


def test_what_is_larger_than_the_limit_is_not_read_whole(any_store: BlobCheckpoints) -> None:
    name = any_store.save(key(), NOISE)
    with pytest.raises(CheckpointDamaged, match="limit"):
        any_store.blobs.read(name, 100)
    assert len(any_store.blobs.read(name, 600)) > 500


@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99], ids=["empty", "half", "nearly all"])
def test_a_torn_value_is_found_in_every_kind_of_store(any_store: BlobCheckpoints, kept: float) -> None:
    name = any_store.save(key(), NOISE)
    whole = any_store.blobs.read(name, 1_000)
    plant(any_store, name, whole[: int(kept * len(whole))])
    with pytest.raises((CheckpointDamaged, CheckpointMissing), match="00003"):
        any_store.load(name)


@pytest.mark.parametrize(("version", "head"), [(1, b""), (2, b"\x031.0")])
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
def test_a_file_that_was_made_to_harm_is_damaged_and_never_expanded(
    folder: Path, version: int, head: bytes, body: bytes, complaint: str
) -> None:
    store = ObjectCheckpoints(folder, max_contents_bytes=1_000_000)
    name = store.save(key(), b"x")
    damage(folder, name, sealed(version, head + body))
    with pytest.raises(CheckpointDamaged, match=complaint):
        store.load(name)


def test_a_file_above_the_limit_is_not_even_read(folder: Path) -> None:
    name = ObjectCheckpoints(folder).save(key(), NOISE)
    with pytest.raises(CheckpointDamaged, match="the limit is"):
        ObjectCheckpoints(folder, max_contents_bytes=100).load(name)
    with pytest.raises(CheckpointTooLarge, match=r"500 bytes, the limit in .* is 100: raise it"):
        ObjectCheckpoints(folder, max_contents_bytes=100).save(key(), NOISE)
