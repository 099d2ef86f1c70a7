"""How a step that is tried in a child process may end there."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable

import psutil
import pytest

from nodes.runtime import trial_process
from nodes.runtime.trial_process import Ended, Note, TrialLimits, tried_apart
from tests.fault_durations import passes

LIMITS = TrialLimits(500, 100)


def tried(step: Callable[[], object], note: bytes = b"7 it") -> Ended | None:
    looked: list[int] = []

    def run(noted: Note) -> None:
        noted.write(b"before")
        noted.write(note)
        step()

    return tried_apart(run, LIMITS, lambda: looked.append(1))


def grow() -> None:
    kept = [b"x" * (1 << 20) for _ in range(300)]
    signal.pause()
    assert kept


def leave_twice() -> None:
    os.closerange(3, 1_000)  # also what the child would say its last word with
    os._exit(4)


@pytest.mark.parametrize(
    ("step", "how"),
    [
        (lambda: os._exit(0), "ends its process (exit code 0)"),
        (lambda: os._exit(3), "ends its process (exit code 3)"),
        (leave_twice, "ends its process (exit code 4)"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "ends its process (SIGSEGV)"),
        (lambda: re.match("(a+)+$", "a" * 60 + "b"), "does not give the interpreter's lock back"),
        (grow, "takes more than 100 MB (node.function_memory_mb)"),
    ],
    ids=["exit 0", "exit 3", "closed files", "fault", "lock", "memory"],
)
def test_what_ends_the_child_is_said_with_what_it_was_about(
    step: Callable[[], object], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_process, "PATIENCE", 100)  # a busy machine gives the child little CPU time
    assert tried(step) == Ended(how, b"7 it")


def test_memory_that_is_taken_while_this_process_stands_still_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is measured before the child begins, however late."""
    measured, asked = trial_process.own_bytes, []

    def late(child: psutil.Process) -> int:
        asked.append(child)
        if len(asked) == 1:
            passes(1.0)
        return measured(child)

    monkeypatch.setattr(trial_process, "own_bytes", late)
    assert tried(grow) == Ended("takes more than 100 MB (node.function_memory_mb)", b"7 it")


@pytest.mark.parametrize(("share", "comes_through"), [(1.0, True), (0.0, False)])
def test_a_call_that_waits_for_a_processor_does_not_hang(
    share: float, comes_through: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``share``: of the time in which it was ready and none was free."""
    monkeypatch.setattr(trial_process, "PATIENCE", 0.1)
    monkeypatch.setattr(trial_process, "queued_s", lambda pid: time.monotonic() * share)
    found = tried(lambda: passes(2.0))
    assert (found is None) is comes_through, found


def test_the_wait_for_a_processor_is_told_by_the_system() -> None:
    assert trial_process.queued_s(os.getpid()) > 0 == trial_process.queued_s(-1)


def test_what_comes_through_or_raises_ends_nothing_and_changes_nothing_here() -> None:
    seen: list[int] = []
    assert tried(lambda: seen.append(1)) is None
    assert tried(lambda: 1 // 0) is None
    assert tried(lambda: sys.exit(3)) is None
    assert seen == []


def test_the_newest_note_counts_whatever_its_length() -> None:
    note = Note()
    assert note.read() == b""
    for text in (b"a", b"x" * 5_000, b"", b"12 function f of operator o"):
        count = note.count
        note.write(text)
        assert note.read() == text[:1_016] and note.count != count


def test_child_that_ends_between_two_looks_of_its_parent_has_come_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says its last word and ends after the parent has found nothing in the pipe, however quick."""
    ended, (gate, opens) = os.waitpid, os.pipe()

    def late(pid: int, options: int) -> tuple[int, int]:
        if options == os.WNOHANG:
            os.write(opens, b"x")
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return ended(pid, options)

    monkeypatch.setattr(os, "waitpid", late)
    assert tried(lambda: os.read(gate, 1)) is None
    os.close(gate)
    os.close(opens)
