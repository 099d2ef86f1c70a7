"""Keeps a view of results in Redis up to date with an output topic; may be killed, and run several times, at will.

Not a part of the nodes: results must not wait for Redis, and a node that dies must not take the view along. Writes are
idempotent, so that a follower may be anywhere and needs no protection from another one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from nodes.errors import RunFailed
from nodes.log.contract import Log, OffsetOutOfRange, TopicPartition
from nodes.redis_connection import RedisUnavailable
from nodes.results.reader import OutputReader, PositionError
from nodes.results.redis_view import RedisView
from nodes.results.view import ViewResult, result_of

logger = logging.getLogger(__name__)

BATCH = 500
WAIT_S = 0.5
PAUSES_S = (0.1, 0.2, 0.5, 1.0)
REPORT_S = 10.0


class ViewFollower:
    """Call ``run``, or ``turn`` again and again. ``skipped`` counts outputs that belong to no window."""

    def __init__(self, log: Log, topic: str, view: RedisView, keep_windows: int) -> None:
        self._log = log
        self._topic = topic
        self._view = view
        self._keep_windows = keep_windows
        self._reader: OutputReader[bytes] | None = None
        self._token = ""
        self.written = 0
        self.skipped = 0

    def turn(self) -> bool:
        """Take what is in the topic now into the view; False if it had all of it.

        Raises ``RedisUnavailable``; ``RunFailed`` if the topic no longer has what the view lacks.
        """
        try:
            reader = self._reader or self._resumed()
            before = reader.position()["offsets"]
            batch: list[ViewResult] = []
            for output in reader.read_available():
                result = result_of(output)
                if result is None:
                    self.skipped += 1
                    continue
                batch.append(result)
                if len(batch) >= BATCH and not self._write(batch, reader):
                    return True
            moved = reader.position()["offsets"] != before
            if moved:
                self._write(batch, reader)
            elif self._view.mark().token != self._token:  # Redis lost data, or another follower was here
                self._reader, moved = None, True
            return moved
        except (OffsetOutOfRange, PositionError) as error:
            raise RunFailed(
                f"the view of {self._topic} in {self._view.where} cannot be continued: {error}; "
                f"build it anew from what the topic still has: holon view {self._topic} --serve --rebuild"
            ) from error

    def _resumed(self) -> OutputReader[bytes]:
        mark = self._view.mark()
        self._token = mark.token
        self._reader = OutputReader(self._log, self._topic, position=mark.position, without_identity="pass")
        return self._reader

    def _write(self, batch: list[ViewResult], reader: OutputReader[bytes]) -> bool:
        """False if the view's position is another one; the next turn goes on from there."""
        try:
            token = self._view.write(batch, reader.position(), self._token, self._keep_windows)
        except RedisUnavailable:
            self._reader = None  # the write may have been done; the view's position shows it
            raise
        if token is None:
            self._reader = None
            return False
        self._token = token
        self.written += len(batch)
        batch.clear()
        return True

    def run(self, stop: Callable[[], bool], sleep: Callable[[float], object] = time.sleep) -> None:
        """Follow until ``stop()``. Redis may be away for any time, which is logged."""
        failures, logged_s = 0, float("-inf")
        while not stop():
            try:
                moved = self.turn()
                if failures:
                    logger.warning("%s answers again", self._view.where)
                    failures, logged_s = 0, float("-inf")
            except RedisUnavailable as error:
                if time.monotonic() - logged_s > REPORT_S:
                    logged_s = time.monotonic()
                    logger.warning("the view waits: %s", error)
                sleep(PAUSES_S[min(failures, len(PAUSES_S) - 1)])
                failures += 1
                continue
            if not moved:
                self._wait()

    def _wait(self) -> None:
        if self._reader is None:
            return
        offsets = self._reader.position()["offsets"]
        self._log.wait({TopicPartition(self._topic, p): at for p, at in enumerate(offsets)}, WAIT_S)
