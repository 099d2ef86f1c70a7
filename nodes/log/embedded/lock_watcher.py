"""Two threads of a process that has embedded logs open: one syncs to disk, one watches for stalled lock owners.

Both sleep without waking while there is nothing to do, start when first needed, and are separate because a sync may
take long on a slow disk while the other must go on looking.
"""

from __future__ import annotations

import logging
import threading
import time

from nodes.log.contract import LogError
from nodes.log.embedded_environment import Environment
from nodes.log.embedded_lockfile import READER_LOCK, WRITER_LOCK, LockFile
from nodes.log.embedded_stall import LOOK_S, StallWatch, find_owner, kill_owner

_IDLE_LOOKS = 20

_log = logging.getLogger("holon.log")


class LockWatcher:
    """Looks every 50 ms while threads of this process take locks; parks a second after the last one."""

    def __init__(self) -> None:
        self._files: dict[LockFile, None] = {}
        self._thread: threading.Thread | None = None
        self._parked = threading.Event()
        self._go = threading.Event()
        self._stopping = False
        self._noticed = False
        self._watches: dict[tuple[LockFile, int], StallWatch] = {}

    def add(self, file: LockFile) -> None:
        """Look at this one too."""
        self._files[file] = None

    def remove(self, file: LockFile) -> None:
        """It is about to be closed."""
        self._files.pop(file, None)

    def notice(self) -> None:
        """A thread is about to take a lock. Called for each transaction, so it does next to nothing."""
        self._noticed = True
        if self._thread is None:
            self._start()
        elif self._parked.is_set():
            self._go.set()

    def stop(self) -> None:
        """End the thread; the next ``notice`` starts another."""
        thread = self._thread
        if thread is not None:
            self._stopping = True
            self._go.set()
            thread.join(timeout=5)
        self._thread, self._stopping = None, False

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="holon-log-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        idle = 0
        while not self._stopping:
            idle = 0 if self._noticed or self._look() else idle + 1
            self._noticed = False
            if idle < _IDLE_LOOKS:
                time.sleep(LOOK_S)
                continue
            self._go.clear()
            self._parked.set()
            if not (self._noticed or self._stopping):
                self._go.wait()
            self._parked.clear()
            idle = 0

    def _look(self) -> bool:
        """Look once; True if somebody waits."""
        now = time.monotonic()
        waits = [
            (file, lock)
            for file in list(self._files)
            for lock in (READER_LOCK, WRITER_LOCK)
            if now - file.waiting.get(lock, float("inf")) >= LOOK_S
        ]
        self._watches = {wait: self._watches.get(wait) or StallWatch() for wait in waits}
        for (file, lock), watch in self._watches.items():
            acquisition = file.acquisition(lock)
            owner = find_owner(acquisition[0]) if acquisition[0] else None
            if watch.must_kill(now * 1000, acquisition, owner) and owner is not None:
                kill_owner(acquisition[0], owner, file.path, file.where)
        return bool(waits)


class DiskSyncer:
    """Syncs environments with the policy ``interval`` when they are due."""

    def __init__(self) -> None:
        self._due: dict[Environment, float] = {}
        self._lock = threading.Lock()
        self._go = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopping = False

    def committed(self, env: Environment, interval_s: float) -> None:
        """Something was committed that is to be on disk ``interval_s`` from now."""
        if env in self._due:
            return
        with self._lock:
            self._due.setdefault(env, time.monotonic() + interval_s)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="holon-log-sync", daemon=True)
                self._thread.start()
        self._go.set()

    def stop(self) -> None:
        """End the thread; the next commit starts another."""
        thread = self._thread
        if thread is not None:
            self._stopping = True
            self._go.set()
            thread.join(timeout=60)
        self._thread, self._stopping = None, False

    def _run(self) -> None:
        while not self._stopping:
            with self._lock:
                first = min(self._due.values(), default=None)
            self._go.wait(None if first is None else max(0.0, first - time.monotonic()))
            self._go.clear()
            now = time.monotonic()
            with self._lock:
                due = [env for env, at in self._due.items() if at <= now]
                for env in due:
                    del self._due[env]  # first: what is committed during the sync is due again
            for env in due:
                try:
                    env.sync()
                except LogError as error:
                    if not env.closed:  # the next append raises it to whoever would believe in the disk
                        _log.error("%s", error)
