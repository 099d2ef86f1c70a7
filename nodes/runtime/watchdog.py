"""The watchdog: a thread beside the node's loop, for what the loop cannot do while it is inside of a long call.

It sends heartbeats, and distinguishes a call of the job's code that never returns from a slow one. It detects that the
process to which the node belongs has gone.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType

from holon.tracks.job_code import JOB_CODE, FunctionCall
from nodes.log.contract import Log, LogError
from nodes.runtime.interpreter_lock_watch import LockWatch

logger = logging.getLogger(__name__)

REQUESTS = (
    Log.read,
    Log.poll,
    Log.wait,
    Log.start_offset,
    Log.end_offset,
    Log.high_watermark,
    Log.high_watermarks,
)
"""Calls that return what is on the log. A node whose writes time out cannot send heartbeats anyway."""
CALLERS = tuple(os.path.join("holon", "tracks", f"{each}_track.py") for each in ("record", "window"))
CALLERS += (os.path.join("holon", "tracks", "record_loop.py"),)
"""Files that call the job's code."""


@dataclass(frozen=True, slots=True)
class WatchdogOptions:
    """The guarded process.

    Args: ``heartbeat`` gives the heartbeat that is written to ``topic`` while the loop does not turn. ``hung`` gets the
    place and the stack's text when a call of the job's code has made no progress for ``function_timeout_ms``, again and
    again until it does. ``leave`` is called once when the process ``parent`` (if any) has gone. A node that has waited
    for ``deaf_after_ms`` for one answer of the log (``REQUESTS``) sends no heartbeat until the answer. It does not
    receive the writes of others either, so no other node is to believe that it works. ``check`` is called at each
    interval; True: what runs may. ``lock`` is wound at each interval.
    """

    log: Log
    topic: str
    heartbeat: Callable[[], bytes]
    interval_ms: int
    function_timeout_ms: int
    deaf_after_ms: int
    hung: Callable[[FunctionCall, str], None] | None
    leave: Callable[[], None]
    parent: int | None = None
    check: Callable[[], bool] | None = None
    lock: LockWatch | None = None


class Watchdog:
    """Call ``turned`` at every turn of the loop, from the thread that also called ``start``."""

    def __init__(self, watched: WatchdogOptions) -> None:
        self.watched = watched
        self._turns = 0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._main = 0
        self._orphaned = False
        self.slow_but_moving = False
        """True while the loop is inside of a long call of the job's code that gets on."""
        self._silent = False
        self._request_codes = _codes(watched.log)

    def start(self) -> None:
        """Begin to watch the calling thread, which is the main one."""
        self._main = threading.get_ident()
        if self.watched.lock is not None:
            self.watched.lock.begin()
        self._thread = threading.Thread(target=self._guard, name="holon-watchdog", daemon=True)
        self._thread.start()

    def turned(self) -> None:
        """The loop turns."""
        self._turns += 1

    def stop(self) -> None:
        """The loop is over."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=2)
        if self.watched.lock is not None:
            self.watched.lock.stop()

    def _guard(self) -> None:
        interval_s = self.watched.interval_ms / 1000
        before_s, turns, place, stuck_ms = time.monotonic(), -1, None, 0.0
        while not self._over.wait(interval_s):
            # A pause of the whole process (SIGSTOP, a suspended machine) counts as one short step.
            now_s = time.monotonic()
            passed_ms = min((now_s - before_s) * 1000, 2.0 * self.watched.interval_ms)
            before_s = now_s
            if self.watched.lock is not None:
                self.watched.lock.wind()
            self._check_parent()
            may_run = self.watched.check is not None and self.watched.check()
            if self._turns != turns:
                turns, place, stuck_ms = self._turns, None, 0.0
                self.slow_but_moving = False
                continue
            stuck_ms = 0.0 if may_run else stuck_ms + passed_ms
            now_at = self._place()
            if now_at != place:
                place, stuck_ms = now_at, 0.0  # slow, but it moves
            hangs = stuck_ms >= self.watched.function_timeout_ms
            self.slow_but_moving = isinstance(place, FunctionCall) and not hangs
            if hangs and isinstance(place, FunctionCall) and self.watched.hung is not None:
                self.watched.hung(place, self._stack())
            elif not hangs and not (isinstance(place, FrameType) and stuck_ms >= self.watched.deaf_after_ms):
                self._write_heartbeat()

    def _check_parent(self) -> None:
        if self.watched.parent is not None and not self._orphaned and os.getppid() != self.watched.parent:
            self._orphaned = True
            logger.warning("process %d, which this node belongs to, has gone: leaving", self.watched.parent)
            self.watched.leave()

    def _write_heartbeat(self) -> None:
        try:
            self.watched.log.append(self.watched.topic, 0, [self.watched.heartbeat()])
            self._silent = False
        except LogError as error:
            if not self._silent:  # once, not at every heartbeat
                logger.warning("no heartbeat: %s", error)
            self._silent = True

    def _place(self) -> FunctionCall | FrameType | None:
        """The call of the job's code, or the frame that waits for the log; None if it is neither."""
        track = JOB_CODE.track
        if track is not None:
            return track.function_call()
        request = None
        frame: FrameType | None = sys._current_frames().get(self._main)
        while frame is not None:
            if frame.f_code in self._request_codes:
                request = frame  # the outermost: another call has another frame
            frame = frame.f_back
        return request

    def _stack(self) -> str:
        """The stack of the watched thread, innermost call last, from the job's code on."""
        frame = sys._current_frames().get(self._main)
        entries = traceback.extract_stack(frame) if frame is not None else []
        own = [i for i, entry in enumerate(entries) if entry.filename.endswith(CALLERS)]
        return "".join(traceback.format_list(entries[own[-1] + 1 if own else 0 :]))


def _codes(log: Log) -> frozenset[CodeType]:
    """The code objects of this log's ``REQUESTS``, also of those that call another one."""
    methods = (vars(kind).get(each.__name__) for kind in type(log).__mro__ for each in REQUESTS)
    return frozenset(method.__code__ for method in methods if isinstance(method, FunctionType))
