"""A thread that detects stalled owners of locks that threads of this process wait for.

It sleeps without waking while there is nothing to do, and starts when first needed.
"""

from __future__ import annotations

import logging
import threading
import time

from nodes.log.embedded.damage.stalled_writer import CHECK_INTERVAL_S, StalledWriterWatch, find_owner, kill_owner
from nodes.log.embedded.lock_file import READER_LOCK, WRITER_LOCK, LockFile

_IDLE_CHECKS = 20

_log = logging.getLogger("holon.log")


class LockWatcher:
    """Polls every 50 ms while threads of this process take locks; parks a second after the last one."""

    def __init__(self) -> None:
        self._files: dict[LockFile, None] = {}
        self._thread: threading.Thread | None = None
        self._parked = threading.Event()
        self._go = threading.Event()
        self._stopping = False
        self._noticed = False
        self._watches: dict[tuple[LockFile, int], StalledWriterWatch] = {}

    def add(self, file: LockFile) -> None:
        """Watch this file too."""
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
        thread = self._thread = threading.Thread(target=self._run, name="holon-log-watch", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread is left for this process: the next notice tries again
            self._thread = None
            raise

    def _run(self) -> None:
        idle = 0
        while not self._stopping:
            idle = 0 if self._noticed or self._check() else idle + 1
            self._noticed = False
            if idle < _IDLE_CHECKS:
                time.sleep(CHECK_INTERVAL_S)
                continue
            self._go.clear()
            self._parked.set()
            if not (self._noticed or self._stopping):
                self._go.wait()
            self._parked.clear()
            idle = 0

    def _check(self) -> bool:
        """Poll all locks once; True if a thread waits."""
        now = time.monotonic()
        waits = [
            (file, lock)
            for file in list(self._files)
            for lock in (READER_LOCK, WRITER_LOCK)
            if now - file.waiting.get(lock, float("inf")) >= CHECK_INTERVAL_S
        ]
        self._watches = {wait: self._watches.get(wait) or StalledWriterWatch() for wait in waits}
        for (file, lock), watch in self._watches.items():
            acquisition = file.acquisition(lock)
            owner = find_owner(acquisition[0]) if acquisition[0] else None
            if watch.must_kill(now * 1000, acquisition, owner) and owner is not None:
                kill_owner(acquisition[0], owner, file.path, file.where)
        return bool(waits)
