"""A full disk, and a log or store that cannot be used: the nodes say so and end; afterwards the job goes on exactly."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from nodes.log import LogFull
from tests.integration.fleet_support import Command, Stage, run_command
from tests.integration.processes import until

pytestmark = pytest.mark.usefixtures("no_bytecode")
DISK_MB = 12
FILE_BYTES = 2 * resource.getpagesize()
# That is where a file names its newest state, and what a full disk takes as well.
# Only root can mount a small file system; a limit on the size of files is what everybody can set.
WAYS = ["file system", "file size"] if os.geteuid() == 0 else ["file size"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MB, or a folder for those who cannot make one."""
    if os.geteuid() != 0:
        yield tmp_path
        return
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_a_disk_that_fills_up_ends_the_run_with_a_named_error_and_nothing_is_lost(small_disk: Path, way: str) -> None:
    stage = Stage(small_disk)
    stage.feed(3000)
    ballast = small_disk / "ballast"
    with run_command(stage, "--nodes", "2") as command:
        monitor = stage.monitor(stage.open())
        stage.until(monitor, lambda: sum(monitor.taken()) == 3000, "all is checkpointed")
        if way == "file system":
            fill(ballast)
        else:
            limit_file_sizes(command)
        feed_until_full(stage)
        code, out, err = command.finish()
    check_full(code, out, err)
    ballast.unlink(missing_ok=True)
    finish_after(stage)
    stage.log.close()


@pytest.mark.long
def test_a_disk_that_answers_with_errors_ends_the_node_by_name_and_another_incarnation_goes_on(tmp_path: Path) -> None:
    """Every write and sync of the node's process fails with EIO; where no process may be traced, by a limit."""
    stage = Stage(tmp_path, "log.fsync=batch")
    stage.feed(1000)
    with run_command(stage, "--nodes", "1") as command:
        monitor = stage.monitor(stage.open())
        stage.until(monitor, lambda: sum(monitor.taken()) == 1000, "all is checkpointed")
        acknowledged = stage.results().total()
        with failing_writes(command):
            stage.feed(1000)
            command.says("node 0 has ended: exit code")
        assert stage.results().total() >= acknowledged, "what was acknowledged is there"
        command.signal(signal.SIGTERM)
        code, _, err = command.finish()
    assert code in (0, 1) and "Traceback" not in err
    finish_after(stage)
    stage.log.close()


@contextmanager
def failing_writes(command: Command) -> Iterator[None]:
    """EIO for the nodes of a run."""
    (node,) = psutil.Process(command.process.pid).children()
    calls = "pwrite64,pwritev,fdatasync,fsync,msync"
    strace = shutil.which("strace")
    if strace is not None:
        options = ["-f", "-qq", "-o", os.devnull, "-e", f"trace={calls}", "-e", f"inject={calls}:error=EIO"]
        tracer = subprocess.Popen([strace, *options, "-p", str(node.pid)])
        try:
            until(lambda: is_traced(node.pid) or tracer.poll() is not None, "the node is traced")
            if tracer.poll() is None:
                yield
                return
        finally:
            tracer.kill()
            tracer.wait()
    limit_file_sizes(command)
    yield


def is_traced(pid: int) -> bool:
    return "TracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text()


def test_a_damaged_partition_of_the_log_is_named_and_nothing_runs(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.feed(500)
    stage.log.close()
    file = stage.path / "topics" / "in" / "2" / "data.mdb"
    os.truncate(file, 4096)
    with run_command(stage, "--nodes", "2") as command:
        message = command.json(exit_code=1)["error"]["message"]
    assert f"{file} is damaged" in message and "Nothing was changed" in message


@pytest.mark.long
def test_too_few_file_descriptors_are_an_error_that_says_how_many_are_needed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, partitions=16)
    stage.feed(500)
    with run_command(stage, "--nodes", "1", "--bounded", limit_descriptors=64) as command:
        message = command.json(exit_code=4)["error"]["message"]
    assert "raise `ulimit -n`" in message
    with run_command(stage, "--nodes", "1", "--bounded") as command:
        assert command.json()["taken"] == 500
    stage.assert_exact()
    stage.log.close()


def fill(ballast: Path) -> None:
    """Leave some room: what is there must fill up while the nodes write."""
    free = os.statvfs(ballast.parent).f_bavail * os.statvfs(ballast.parent).f_frsize
    with ballast.open("wb") as file:
        file.write(bytes(max(0, free - 300_000)))


def limit_file_sizes(command: Command) -> None:
    """Of the nodes, not of who feeds them."""
    for node in psutil.Process(command.process.pid).children():
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))


def feed_until_full(stage: Stage) -> None:
    for _ in range(200):
        try:
            stage.feed(200)
        except LogFull:
            return


def check_full(code: int, out: str, err: str) -> None:
    assert code == 1, err
    assert "no node is left" in json.loads(out)["error"]["message"]
    assert "no space left" in err and "nothing of this batch was appended" in err
    assert "nothing is lost" in err and "stopped at" in err
    assert "not started again, as that would not help" in err
    assert "Traceback" not in err


def finish_after(stage: Stage) -> None:
    stage.feed(100)
    with run_command(stage, "--nodes", "2", "--bounded") as command:
        result = command.json()
    assert result["conserved"] and result["taken"] == stage.fed
    stage.assert_exact()


@pytest.mark.long
def test_a_folder_of_checkpoints_that_goes_away_is_waited_for_while_the_nodes_work_on(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.feed(1000)
    store, aside = stage.path / "checkpoints", stage.path / "aside"
    with run_command(stage, "--nodes", "1") as command:
        monitor = stage.monitor(stage.open())
        stage.until(monitor, lambda: sum(monitor.taken()) == 1000, "all is checkpointed")
        aside.write_text("in its place")
        exchange(store, aside)
        stage.feed(1000)
        command.says("the node works on")
        exchange(store, aside)
        stage.until(monitor, lambda: sum(monitor.taken()) == 2000, "all is checkpointed")
        command.signal(signal.SIGTERM)
        assert command.json()["restarts"] == 0
    finish_after(stage)
    stage.log.close()


def exchange(one: Path, other: Path) -> None:
    """In one step: a node that looks in between must not find that nothing is there, which is another failure."""
    here, both = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.renameat2(here, os.fsencode(one), here, os.fsencode(other), both)
    assert not failed, os.strerror(ctypes.get_errno())
