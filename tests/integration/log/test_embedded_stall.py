"""A process that is stopped while it holds the write lock does not stop the others."""

from __future__ import annotations

import logging
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from nodes.log import EmbeddedLog
from nodes.log.embedded.damage.stalled_writer import find_owner, kill_owner
from nodes.log.embedded.lock_file import WRITER_LOCK
from tests import fault_durations
from tests.integration.log_child import environment_of
from tests.integration.processes import PLENTY_S, children, until

MODULE = "tests.integration.log_child"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="lock owners are only known on Linux")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    with EmbeddedLog(path) as log:
        log.create_topic("t", 2)
    return path


def test_a_stopped_lock_owner_is_killed_and_nothing_acknowledged_is_lost(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with EmbeddedLog(path) as log, children(MODULE, [("hold", path, 0)]) as (holder,):
        log.append("t", 0, [b"before"])
        assert holder.line() == "holding"
        holder.signal(signal.SIGSTOP)
        before = time.monotonic()
        with caplog.at_level(logging.WARNING, "holon.log"):
            log.append("t", 0, [b"after"])
        waited_s = time.monotonic() - before
        assert holder.finish() == -signal.SIGKILL
        assert log.read("t", 0, 0).values == [b"before", b"acknowledged by the holder", b"after"]
    assert f"killed process {holder.process.pid}" in caplog.text
    assert "'t' partition 0" in caplog.text
    assert waited_s < PLENTY_S  # as a rule a third of a second


def test_a_stopped_owner_is_found_by_a_process_that_has_written_nothing_yet(path: Path) -> None:
    with children(MODULE, [("hold", path, 0)]) as (holder,):
        assert holder.line() == "holding"
        holder.signal(signal.SIGSTOP)
        with EmbeddedLog(path) as log:
            log.append("t", 0, [b"after"])
            assert holder.finish() == -signal.SIGKILL
            assert log.read("t", 0, 0).values == [b"acknowledged by the holder", b"after"]


def test_new_readers_are_not_held_up_either(path: Path) -> None:
    with children(MODULE, [("hold_reader_lock", path, 0)]) as (holder,):
        assert holder.line() == "holding"
        holder.signal(signal.SIGSTOP)
        with EmbeddedLog(path) as log:
            assert log.read("t", 0, 0).values == [b"acknowledged by the holder"]
        assert holder.finish() == -signal.SIGKILL


def test_a_lock_owner_that_is_only_slow_is_waited_for(path: Path) -> None:
    with EmbeddedLog(path) as log, children(MODULE, [("hold", path, 0)]) as (holder,):
        assert holder.line() == "holding"
        writer = threading.Thread(target=log.append, args=("t", 0, [b"after"]))
        writer.start()
        writer.join(timeout=1.5)
        assert writer.is_alive()
        assert holder.process.poll() is None
        assert holder.process.stdin is not None
        holder.process.stdin.close()  # it gives up and ends
        writer.join()
        assert holder.finish() == 0
        assert log.read("t", 0, 0).values == [b"acknowledged by the holder", b"after"]


def test_other_partitions_and_readers_are_not_held_up(path: Path) -> None:
    with EmbeddedLog(path) as log, children(MODULE, [("hold", path, 0)]) as (holder,):
        assert holder.line() == "holding"
        log.append("t", 1, [b"elsewhere"])
        assert log.read("t", 0, 0).values == [b"acknowledged by the holder"]
        assert log.read("t", 1, 0).values == [b"elsewhere"]
        assert holder.process.poll() is None


def test_only_a_process_that_has_the_lock_mapped_is_killed(path: Path) -> None:
    """Thread ids of another container may be those of somebody else here."""
    with EmbeddedLog(path) as log, children(MODULE, [("hold", path, 0)]) as (holder,):
        log.append("t", 1, [b"x"])
        assert holder.line() == "holding"
        log.end_offset("t", 0)
        environment = environment_of(log, 0)
        thread = environment.locks.owner(WRITER_LOCK)
        owner = find_owner(thread)
        assert owner is not None
        assert owner.process == holder.process.pid
        assert not kill_owner(thread, owner, environment_of(log, 1).path / "data.mdb.elsewhere", "test")
        assert not kill_owner(thread, owner._replace(started=owner.started + 1), environment.path / "lock.mdb", "test")
        assert holder.process.poll() is None
        assert kill_owner(thread, owner, environment.path / "lock.mdb", "test")
        assert holder.finish() == -signal.SIGKILL


def test_our_own_threads_are_never_owners() -> None:
    assert find_owner(os.getpid()) is None
    assert find_owner(threading.get_native_id()) is None


@pytest.mark.parametrize("seed", [1, 2])
def test_writers_stopped_at_any_moment_never_stop_the_others(path: Path, seed: int) -> None:
    """Processes that append without pause are stopped for good, one after the other, wherever they happen to be."""
    dice = random.Random(seed)
    print(f"seed {seed}")
    with EmbeddedLog(path) as log:
        log.append("t", 0, [b"start"])
        for life in range(4):
            with children(MODULE, [("append", path, 0, f"life{life}", 0, 1, 20_000)]) as (writer,):
                for _ in range(dice.randrange(1, 40)):
                    writer.line()
                fault_durations.passes(dice.random() / 1000)  # the moment of the stop, not a wait
                writer.signal(signal.SIGSTOP)
                until(lambda pid=writer.process.pid: _state(pid) in "TZ", "the writer is stopped")
                end = log.append("t", 0, [b"own:%d" % life]).first_offset
                assert log.read("t", 0, end).values == [b"own:%d" % life]


def _state(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
