"""Polls whether the topics of a run are still there, where others may change them under it (Kafka)."""

from __future__ import annotations

import logging
import threading

from nodes.log.contract import Log, LogError
from nodes.machine.config import JobRun
from nodes.streams.jobs import changed_topic, topics_of

logger = logging.getLogger(__name__)

POLL_INTERVAL_S = 2.0


class TopicWatch:
    """A thread of its own, since the request may wait long for an answer. ``problem`` is what a node has to stop for.

    A change counts when it is seen twice: the first answer may be that of a broker which has only just started.
    """

    def __init__(self, log: Log, run: JobRun, poll_interval_s: float = POLL_INTERVAL_S) -> None:
        self.problem: str | None = None
        self.there: dict[str, int] | None = None
        """The topics, as last seen; None: not yet."""
        self._log = log
        self._run = run
        self._poll_interval_s = poll_interval_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="holon-topics", daemon=True)

    def start(self) -> None:
        """Begin to poll; a log whose topics are its own needs no polls."""
        if self._log.topics_can_change:
            self._thread.start()

    def topics(self) -> dict[str, int] | None:
        """The topics; for the thread that the log belongs to. None: not known yet, or seen before."""
        there, self.there = (self.there, None) if self._log.topics_can_change else (self._log.topics(), None)
        return there

    def stop(self) -> None:
        """No more polls. One that is on its way ends by itself."""
        self._over.set()

    def _watch(self) -> None:
        wanted, before = topics_of(self._run), None
        while self.problem is None and not self._over.wait(self._poll_interval_s):
            try:
                self.there = self._log.topics()
                found = changed_topic(self._run, wanted, self.there)
            except LogError as error:  # the node's own reads and appends find that out
                logger.debug("topics could not be checked: %s", error)
                continue
            if found is not None and found == before:
                self.problem = found
            before = found
