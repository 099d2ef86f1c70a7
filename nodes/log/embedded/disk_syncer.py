"""A thread that syncs the partitions of this process to disk, where the policy is ``interval``.

It sleeps without waking while nothing is due, starts when first needed, and is not the one that watches locks, since a
sync may take long on a slow disk.
"""

from __future__ import annotations

import logging
import threading
import time

from nodes.log.contract import LogError
from nodes.log.embedded.environment import Environment

_log = logging.getLogger("holon.log")


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
                    if not env.closed:  # the next append raises it, since its caller relies on the disk
                        _log.error("%s", error)
