"""Generated damage to single parts: checkpoints, files of LMDB, requests over HTTP. A few in CI, thousands at night."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from nodes.checkpoints.object_store import ObjectCheckpoints
from nodes.checkpoints.store import CheckpointDamaged, CheckpointNewer
from nodes.fleet.supervisor import WRONG_PAGES
from nodes.log import EmbeddedLog, LogError
from nodes.log.embedded.damage.after_reboot import verify_at_next_opening
from tests.attack.gateway import TOKEN, gateway, request, rest
from tests.attack.hostile import hostile, requests
from tests.integration.checkpoint_samples import key
from tests.integration.processes import PLENTY_S, ROOT, until

BATCHES, BATCH = 30, 40


def seeds(count: int, at_night: int) -> Any:
    """``count`` of them at once, the others at night."""
    nightly = [pytest.param(seed, marks=pytest.mark.nightly) for seed in range(count, count + at_night)]
    return pytest.mark.parametrize("seed", [*range(count), *nightly])


# --- checkpoints ------------------------------------------------------------------------------------------------------


@seeds(2, 60)
def test_a_spoilt_checkpoint_is_never_taken_for_one(tmp_path: Path, seed: int) -> None:
    draw, store = Random(seed), ObjectCheckpoints(tmp_path)
    contents = draw.choice([b"", b"x" * 5_000, draw.randbytes(5_000), bytes(100_000)])
    name = store.save(key(), contents)
    whole = (tmp_path / name).read_bytes()
    for spoilt in hostile([whole], 60, seed):
        (tmp_path / name).write_bytes(spoilt)
        with pytest.raises((CheckpointDamaged, CheckpointNewer)):
            store.load(name)
    again = store.save(key(), contents)
    assert store.load(again) == contents


# --- files of LMDB ----------------------------------------------------------------------------------------------------


def value(number: int, at: int) -> bytes:
    return b"%d:%d " % (number, at) * 20


def make_log(path: Path) -> None:
    with EmbeddedLog(path) as log:
        log.create_topic("t", 1)
        for number in range(BATCHES):
            log.append("t", 0, [value(number, at) for at in range(BATCH)])
        log.delete_before("t", 0, 3 * BATCH)
        for number in range(BATCHES, 2 * BATCHES):
            log.append("t", 0, [value(number, at) for at in range(BATCH)])


def read_and_write(path: Path) -> str:
    """The finding of a program: ``whole``, ``named``, or what is wrong."""
    wanted = {n * BATCH + at: value(n, at) for n in range(2 * BATCHES) for at in range(BATCH)}
    try:
        with EmbeddedLog(path) as log:
            offset, end = log.start_offset("t", 0), log.end_offset("t", 0)
            while offset < end:
                chunk = log.read("t", 0, offset)
                for at, found in zip(chunk.offsets.tolist(), chunk.values, strict=True):
                    if bytes(found) != wanted.get(at):
                        return f"offset {at} holds {bytes(found)[:50]!r}"
                if chunk.next_offset <= offset:
                    return f"nothing comes from {offset} on, and the end is {end}"
                offset = chunk.next_offset
            if end != len(wanted):
                return f"it ends at {end}, and {len(wanted)} were acknowledged"
            appended = log.append("t", 0, [b"more"])
            return "whole" if log.read("t", 0, appended.first_offset).values[0] == b"more" else "an append went astray"
    except LogError:
        return "named"


def spoil_file(path: Path, seed: int) -> None:
    draw = Random(seed)
    size = path.stat().st_size
    with path.open("r+b") as file:
        for _ in range(draw.choice([1, 1, 2, 8])):
            at = draw.randrange(2 * 4096) if draw.random() < 0.4 else draw.randrange(size)
            file.seek(at)
            before = file.read(1)
            file.seek(at)
            match draw.randrange(4):
                case 0:
                    file.write(draw.randbytes(draw.choice([1, 8, 512])))
                case 1:
                    file.write(bytes(draw.choice([1, 64, 4096])))
                case _:
                    file.write(bytes([before[0] ^ (1 << draw.randrange(8))]))


def read_elsewhere(paths: list[Path]) -> tuple[int, list[str]]:
    """Exit code and what was found, of a process of its own: LMDB believes its pages, and wrong ones may end it."""
    code = "import sys; from pathlib import Path; from tests.attack.test_generated_parts import read_and_write\n"
    code += "for path in sys.argv[1:]: print(read_and_write(Path(path)), flush=True)"
    ended = subprocess.run(
        [sys.executable, "-c", code, *map(str, paths)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=2 * PLENTY_S, check=False,
    )  # fmt: skip
    assert ended.returncode in {0, *WRONG_PAGES}, ended.stderr[-500:]
    return ended.returncode, ended.stdout.splitlines()


def check_spoilt(paths: list[Path]) -> None:
    """Each is whole, or named: at once, or, where that ends a process, when a supervisor has seen that."""
    while paths:
        code, told = read_elsewhere(paths)
        assert set(told) <= {"whole", "named"}, [(*each, paths) for each in zip(told, paths, strict=False)]
        paths = paths[len(told) :]
        assert bool(paths) == (code != 0)
        if paths:
            verify_at_next_opening(paths[0])
            assert read_elsewhere(paths[:1]) == (0, ["named"]), paths[0]
            paths = paths[1:]


def make_spoilt(folder: Path, seeds: range) -> list[Path]:
    make_log(folder / "whole")
    paths = [folder / f"log{seed}" for seed in seeds]
    for seed, path in zip(seeds, paths, strict=True):
        shutil.copytree(folder / "whole", path)
        spoil_file(path / "topics" / "t" / "0" / "data.mdb", seed)
    return paths


@seeds(1, 40)
def test_a_spoilt_file_of_the_embedded_log_is_named_or_harmless(tmp_path: Path, seed: int) -> None:
    check_spoilt(make_spoilt(tmp_path, range(1_000 * seed, 1_000 * seed + 25)))


@pytest.mark.parametrize("seed", [7_011, 14_020], ids=["a page beyond the file", "a branch that hides its leaf"])
def test_what_did_harm_is_named(tmp_path: Path, seed: int) -> None:
    """One ended processes by SIGBUS, and is named once a supervisor has seen that; one was asked for again for ever."""
    check_spoilt(make_spoilt(tmp_path, range(seed, seed + 1)))


# --- HTTP -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [None, TOKEN], ids=["open", "token"])
@seeds(1, 40)
def test_no_request_ends_the_gateway_or_calls_without_the_token(token: str | None, seed: int) -> None:
    shown = (f"Authorization: Bearer {TOKEN}",) if token else ()
    good, sent = request(b'{"operator":"o","key":"k","function":"f","args":[1]}'), 60
    with gateway(token=token, header_s=0.2, body_s=0.2) as served:
        for bad in requests(good, sent, seed):
            with served.connect() as opened:
                with contextlib.suppress(ConnectionError):
                    opened.sendall(bad)
                answer = rest(opened)
            assert b" 500 " not in answer.split(b"\r\n")[0], (bad, answer)
            assert b"Traceback" not in answer
        if token:
            assert served.client.calls == 0
        last = request(b'{"operator":"o","key":"k","function":"f","args":[7]}', *shown)
        until(lambda: served.exchange(last).endswith(b"[7]}"), "a good request is answered")
