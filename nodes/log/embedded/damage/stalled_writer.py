"""A writer that is stopped while it holds LMDB's write lock would stop every writer: find it and kill it.

LMDB's lock is a robust mutex: when its owner dies, the next waiter gets it and the half-done transaction never
happened. A waiter cannot time out, so each process has a thread that polls the locks which its own threads wait for.
Killing is harmless by design (the work of a dead node is done by others); blocking the fleet is not.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

STOPPED_MS = 200
"""A stopped owner is killed after so long."""
STUCK_MS = 10_000
"""An owner that merely makes no progress is given so long; one that waits for its disk is given all time."""
CHECK_INTERVAL_S = 0.05
MAX_CHECK_INTERVAL_MS = 100

_log = logging.getLogger("holon.log")
_STOPPED = frozenset("Tt")
_ON_DISK = "D"


class Owner(NamedTuple):
    """A thread that holds a lock, as /proc shows it."""

    process: int
    started: int
    state: str
    switches: int = 0
    """How often it has left a processor: if the number grows between two polls, it ran meanwhile."""


@dataclass(slots=True)
class StalledWriterWatch:
    """How long one acquisition of a lock has been seen stopped or stuck. Time is an argument."""

    acquisition: tuple[int, int] | None = None
    switches: int = 0
    stopped_ms: float = 0.0
    stuck_ms: float = 0.0
    checked_ms: float | None = None

    def must_kill(self, now_ms: float, acquisition: tuple[int, int], owner: Owner | None) -> bool:
        """True if the owner was seen stopped for ``STOPPED_MS``, or without progress for ``STUCK_MS``.

        ``acquisition`` is (thread, commits so far): it changes with every transaction. A long interval between two
        polls counts as a short one, since this process may have been stopped, and the owner with it. An owner that is
        stopped and continued again and again, as a limiter of CPU time does, is not stopped.
        """
        seen_ms = 0.0 if self.checked_ms is None else min(now_ms - self.checked_ms, MAX_CHECK_INTERVAL_MS)
        self.checked_ms = now_ms
        if owner is None or acquisition != self.acquisition:
            self.acquisition, self.stopped_ms, self.stuck_ms = acquisition, 0.0, 0.0
            self.switches = owner.switches if owner else 0
            return False
        is_stopped = owner.state in _STOPPED and owner.switches == self.switches
        self.switches = owner.switches
        self.stopped_ms = self.stopped_ms + seen_ms if is_stopped else 0.0
        self.stuck_ms = self.stuck_ms + seen_ms if owner.state != _ON_DISK else 0.0
        return self.stopped_ms >= STOPPED_MS or self.stuck_ms >= STUCK_MS


def wait_until_free(read_acquisition: Callable[[], tuple[int, int]], lock_file: Path, where: str) -> None:
    """Return once no other process holds a lock that is about to be taken where no thread of ours can watch."""
    watch = StalledWriterWatch()
    while (acquisition := read_acquisition())[0]:
        owner = find_owner(acquisition[0])
        if owner is None:
            return
        if watch.must_kill(time.monotonic() * 1000, acquisition, owner):
            kill_owner(acquisition[0], owner, lock_file, where)
        time.sleep(CHECK_INTERVAL_S)


def find_owner(thread: int) -> Owner | None:
    """The process of a thread id; None if it is gone, is our own, or this is not Linux."""
    try:
        status = Path(f"/proc/{thread}/status").read_text()
        fields = Path(f"/proc/{thread}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    shown = dict(line.split(":", 1) for line in status.splitlines())
    process = int(shown["Tgid"])
    switches = sum(int(shown.get(f"{kind}_ctxt_switches", 0)) for kind in ("voluntary", "nonvoluntary"))
    return None if process == os.getpid() else Owner(process, int(fields[19]), fields[0], switches)


def kill_owner(thread: int, owner: Owner, lock_file: Path, where: str) -> bool:
    """kill -9 the owner if it is still the same process and has this very lock file mapped."""
    try:
        handle = os.pidfd_open(owner.process)
    except (OSError, AttributeError):
        return False
    try:
        now = find_owner(thread)
        if now is None or now[:2] != owner[:2] or not _maps(owner.process, lock_file):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except PermissionError:
        _log.error(
            "%s: process %d holds a lock of the log and does not go on, and we may not kill it; kill or continue it",
            where,
            owner.process,
        )
        return False
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    _log.warning(
        "%s: killed process %d, which held a lock of the log and did not go on (state %s)",
        where,
        owner.process,
        now.state,
    )
    return True


def _maps(process: int, lock_file: Path) -> bool:
    """Thread ids of another container mean other processes here: only who maps the file can hold its lock."""
    try:
        inode = str(lock_file.stat().st_ino)
        lines = Path(f"/proc/{process}/maps").read_text().splitlines()
    except OSError:
        return False
    return any(len(parts := line.split(maxsplit=5)) > 5 and parts[4] == inode for line in lines)
