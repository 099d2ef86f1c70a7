"""Tries a step in a child process that has all of this one's memory, shares nothing, and has limits.

The child is a fork: it sees the state as it is. It writes to no log, and ends without cleaning up. Its subject is noted
in memory that both share, so that the parent knows it when the child has ended.
"""

from __future__ import annotations

import gc
import logging
import mmap
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nodes.runtime.interpreter_lock_watch import SIGNAL, LockWatch

if TYPE_CHECKING:
    import psutil

logger = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.01
WATCH_S = 0.05
OVER = b"over"
"""The child's last word; a function may choose any exit code."""
PATIENCE = 10
"""A call without progress is ended after so many times the limit of CPU time, counted while this process runs.

Time in which the call could run and no processor was free does not count: a starved call is no hanging one.
"""
_NOTE_BYTES = 1024


class TrialLimits(NamedTuple):
    """``cpu_ms`` of one call with the interpreter's lock; ``memory_mb`` of the whole step, beside what there was."""

    cpu_ms: int
    memory_mb: int


class Ended(NamedTuple):
    """How the child has ended before its step was over, and what it was about; empty: nothing was noted."""

    how: str
    note: bytes


class Note:
    """Shared with a child: what it is about. Written by the child only."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 2 * _NOTE_BYTES)

    def write(self, text: bytes) -> None:
        """Replace it. A process that dies in between leaves the old one or the new one: the length is written last."""
        shared, turn = self._shared, 1 - self._shared[0]
        text = text[: _NOTE_BYTES - 8]
        at = turn * _NOTE_BYTES + 8
        shared[at : at + len(text)] = text
        shared[at - 4 : at] = len(text).to_bytes(4, "big")
        shared[0] = turn
        shared[1] = (shared[1] + 1) % 256

    def read(self) -> bytes:
        """The newest."""
        at = self._shared[0] * _NOTE_BYTES + 8
        return self._shared[at : at + int.from_bytes(self._shared[at - 4 : at], "big")]

    @property
    def count(self) -> int:
        """Differs where something was noted since, but for chance."""
        return self._shared[1]


def tried_apart(
    step: Callable[[Note], object],
    limits: TrialLimits,
    alive: Callable[[], None],
    check: Callable[[], object] | None = None,
) -> Ended | None:
    """Make the step in a child; None: it came through, or the child could not be made.

    ``alive`` is called again and again while this process waits; ``check`` in the child, from a thread beside the step.
    """
    note = Note()
    reading, writing = os.pipe()
    held, begin = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        logger.warning("no child process to try in what has ended other nodes: %s", error)
        for end in (reading, writing, held, begin):
            os.close(end)
        return None
    if pid == 0:
        os.close(reading)
        os.close(begin)
        _child(partial(step, note), held, writing, limits, check)
    os.close(writing)
    os.close(held)
    try:
        first = own_bytes(_process(pid))  # before it begins: what it takes in its first moments counts
    finally:
        os.close(begin)
    try:
        how = _wait(pid, reading, note, limits, alive, first)
    finally:
        os.close(reading)
    return None if how is None else Ended(how, note.read())


def _child(
    step: Callable[[], object], held: int, writing: int, limits: TrialLimits, check: Callable[[], object] | None
) -> None:  # pragma: no cover  (a process of its own)
    """Never returns; begins when the other end of ``held`` is closed."""
    try:
        os.read(held, 1)
        for each in (signal.SIGTERM, signal.SIGINT, SIGNAL):
            signal.signal(each, signal.SIG_DFL)
        gc.disable()  # what the parent has open is not to be closed here
        lock = LockWatch(limits.cpu_ms)
        lock.begin()
        lock.wind()
        threading.Thread(target=_watch, args=(lock, check, os.getppid()), daemon=True).start()
        try:
            step()
        finally:  # what it raises, it raises in the parent too
            os.write(writing, OVER)
    finally:
        os._exit(0)


def _watch(
    lock: LockWatch, check: Callable[[], object] | None, parent: int
) -> None:  # pragma: no cover  (in the child)
    while True:
        lock.wind()
        if check is not None:
            check()
        if os.getppid() != parent:
            os._exit(1)
        time.sleep(WATCH_S)


def _wait(pid: int, reading: int, note: Note, limits: TrialLimits, alive: Callable[[], None], first: int) -> str | None:
    """How the child has ended; None: its step was over. ``first``: its own bytes before it began."""
    child, watched, killed = _process(pid), [reading], ""
    count, spent_s, before_s, queued_before_s = note.count, 0.0, time.monotonic(), queued_s(pid)
    while True:
        # The pipe is read after it is known that the child has ended: its last word is there then, if it gave one.
        ended, status = os.waitpid(pid, os.WNOHANG)
        if select.select(watched, [], [], 0 if ended else POLL_INTERVAL_S)[0]:
            if os.read(reading, len(OVER)) == OVER:
                if not ended:
                    os.waitpid(pid, 0)
                return None
            watched = []  # closed, perhaps by the function
        if ended:
            return killed or _how(os.waitstatus_to_exitcode(status))
        alive()
        now_s, now_queued_s = time.monotonic(), queued_s(pid)
        # A pause of the machine counts as a short step.
        spent_s += max(0.0, min(now_s - before_s, 10 * POLL_INTERVAL_S) - (now_queued_s - queued_before_s))
        before_s, queued_before_s = now_s, now_queued_s
        if note.count != count:
            count, spent_s = note.count, 0.0
        if own_bytes(child) - first > limits.memory_mb << 20:
            killed = f"takes more than {limits.memory_mb} MB (node.function_memory_mb)"
        elif spent_s > PATIENCE * LockWatch(limits.cpu_ms).limit_s:
            killed = f"makes no progress for {spent_s:.0f} s"
        if killed:
            os.kill(pid, signal.SIGKILL)


def _how(code: int) -> str:
    if code == -SIGNAL:
        return "does not give the interpreter's lock back"
    return f"ends its process ({f'exit code {code}' if code >= 0 else signal.Signals(-code).name})"


def queued_s(pid: int) -> float:
    """For how long a process was ready to run and had to wait for a processor; 0 where that is unknown."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _process(pid: int) -> psutil.Process:
    import psutil  # a node that tries nothing does not need it

    return psutil.Process(pid)


def own_bytes(child: psutil.Process) -> int:
    """Without files that it shares with others."""
    import psutil

    try:
        found = child.memory_info()
    except psutil.Error:  # it has just ended
        return 0
    return found.rss - getattr(found, "shared", 0)
