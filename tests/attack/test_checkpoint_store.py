"""Checkpoint stores that somebody has tampered with: each is named within seconds, and results stay exact."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodes.checkpoints import format as fmt
from nodes.checkpoints.object_store import ObjectCheckpoints
from nodes.checkpoints.store import CheckpointDamaged, CheckpointError, StoreGone
from nodes.checkpoints.store_retries import GONE_S, PatientCheckpoints
from tests.integration.checkpoint_samples import key, sealed
from tests.integration.fleet_support import Stage, run_command
from tests.integration.processes import PLENTY_S

CONTENTS = b"contents " * 100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.log.close()


def in_time(wish: Callable[[], Any]) -> Any:
    """Its result or error, in a thread that may hang."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(wish())
        except CheckpointError as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PLENTY_S)
    assert found, "it hangs"
    return found[0]


def fifo(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as opened:
            opened.bind("socket")
    finally:
        os.chdir(here)
    (path.parent / "socket").rename(path)


@pytest.mark.parametrize("put", [fifo, Path.mkdir, listening], ids=["FIFO", "folder", "socket"])
def test_what_is_no_file_is_damaged_and_the_next_save_takes_another_name(
    folder: Path, put: Callable[[Path], None]
) -> None:
    store = ObjectCheckpoints(folder)
    name = store.save(key(), CONTENTS)
    (folder / name).unlink()
    put(folder / name)
    found = in_time(lambda: store.load(name))
    assert isinstance(found, CheckpointDamaged) and "no file" in str(found)
    again = in_time(lambda: store.save(key(), CONTENTS))
    assert again != name and store.load(again) == CONTENTS
    assert in_time(lambda: store.prune("q7", 0, 3)) == []


def test_a_fifo_in_place_of_a_partition_s_folder_is_damaged(folder: Path) -> None:
    store = ObjectCheckpoints(folder)
    name = store.save(key(), CONTENTS)
    shutil.rmtree((folder / name).parent)
    os.mkfifo((folder / name).parent)
    assert isinstance(in_time(lambda: store.load(name)), CheckpointDamaged)
    assert isinstance(in_time(lambda: store.save(key(), CONTENTS)), CheckpointError)


@pytest.mark.parametrize("how", ["deleted", "moved", "another"])
def test_a_folder_that_is_gone_is_named_by_all_that_is_done_with_it(folder: Path, how: str) -> None:
    store = ObjectCheckpoints(folder)
    name = store.save(key(), CONTENTS)
    folder.rename(folder.parent / "elsewhere")
    if how == "deleted":
        shutil.rmtree(folder.parent / "elsewhere")
    if how == "another":
        folder.mkdir()
    wishes = [lambda: store.load(name), lambda: store.save(key(11), CONTENTS), lambda: store.list("q7", 0, 3)]
    for wish in wishes:
        found = in_time(wish)
        assert isinstance(found, StoreGone) and str(folder) in str(found) and "put it back" in str(found)
    if how == "moved":
        (folder.parent / "elsewhere").rename(folder)
        assert store.load(name) == CONTENTS


def test_a_folder_that_is_gone_is_waited_for_and_then_an_error(folder: Path) -> None:
    store, now_s = ObjectCheckpoints(folder), [0.0]

    def sleep(pause_s: float) -> None:
        now_s[0] += pause_s
        assert now_s[0] < 3 * GONE_S

    patient = PatientCheckpoints(store, sleep=sleep, clock_s=lambda: now_s[0])
    name = patient.save(key(), CONTENTS)
    folder.rename(folder.parent / "elsewhere")
    with pytest.raises(StoreGone):
        patient.load(name)
    assert GONE_S <= now_s[0] < 2 * GONE_S


@pytest.mark.parametrize("claims", [fmt.MAX_CONTENTS_BYTES // 8, 1 << 30], ids=["all that is allowed", "more"])
def test_a_bomb_takes_no_memory(folder: Path, claims: int) -> None:
    size = fmt.MAX_CONTENTS_BYTES // 8
    packer = zlib.compressobj(1)
    data = b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()
    store = ObjectCheckpoints(folder)
    name = store.save(key(), CONTENTS)
    (folder / name).write_bytes(sealed(2, b"\x031.0" + struct.pack(">BQ", 1, claims) + data))
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointDamaged, match=r"contents (that )?do not match its name"):
            store.load(name)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_what_inflates_far_and_is_the_checkpoint_is_read(folder: Path) -> None:
    store, contents = ObjectCheckpoints(folder), bytes(100 << 20)
    assert store.load(store.save(key(), contents)) == contents


def begin(stage: Stage, meanwhile: Callable[[], None], said: str = "") -> int:
    """A run of one node that checkpoints all; then ``meanwhile``. Gives how often the node was started again."""
    stage.feed(1000)
    with run_command(stage, "--nodes", "1") as command:
        monitor = stage.monitor(stage.open())
        stage.until(monitor, lambda: sum(monitor.taken()) == 1000, "all is checkpointed")
        meanwhile()
        if said:
            stage.feed(1000)
            command.says(said)
            stage.until(monitor, lambda: sum(monitor.taken()) == 2000, "all is checkpointed again")
        command.signal(signal.SIGTERM)
        return command.json()["restarts"]


def finish(stage: Stage) -> None:
    stage.feed(100)
    with run_command(stage, "--nodes", "2", "--bounded") as command:
        result = command.json()
    assert result["conserved"] and result["taken"] == stage.fed
    stage.assert_exact()


@pytest.mark.long
def test_a_store_that_is_deleted_under_a_job_is_an_error_and_the_job_goes_on(stage: Stage) -> None:
    def delete() -> None:
        """In one step: the node may be pruning in there."""
        (stage.path / "checkpoints").rename(stage.path.parent / "elsewhere")
        shutil.rmtree(stage.path.parent / "elsewhere")

    assert begin(stage, delete, "was deleted or moved") >= 1
    finish(stage)


def test_a_job_starts_although_fifos_and_folders_stand_in_place_of_its_checkpoints(stage: Stage) -> None:
    assert begin(stage, lambda: None) == 0
    found = sorted((stage.path / "checkpoints").rglob("*.ckpt"))
    assert found
    for number, path in enumerate(found):
        path.unlink()
        (fifo if number % 2 else Path.mkdir)(path)
    finish(stage)
