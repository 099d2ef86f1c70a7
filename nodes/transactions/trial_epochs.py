"""Tries steps of an epoch, which have ended other nodes, in a process of their own, and names the transaction."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

from nodes.runtime.trial_process import Note, TrialLimits, tried_apart
from nodes.settings.settings import Settings
from nodes.transactions.function_timeout import FunctionWatch
from transactional.errors import Aborted
from transactional.execution.crashing import DiedInTransaction
from transactional.execution.interrupting import Noting

logger = logging.getLogger(__name__)


class TriedApart:
    """An ``Apart`` of the protocol. ``alive`` is called again and again while it waits for the child."""

    def __init__(self, settings: Settings, alive: Callable[[], None]) -> None:
        node = settings.node
        self._limits = TrialLimits(2 * node.function_timeout_ms, node.function_memory_mb)
        self._timeout_ms = node.function_timeout_ms
        self._alive = alive

    def __call__(self, step: Callable[[], object]) -> DiedInTransaction | None:
        """The transaction that ends the child; None: none does, or it is not known."""
        watch = FunctionWatch(self._timeout_ms)

        def run(note: Note) -> None:
            watch.begin()  # what only loops for ever is ended as here
            sys.setprofile(Noting(lambda tid, what: note.write(f"{tid} {what}".encode())))
            step()

        ended = tried_apart(run, self._limits, self._alive, watch.check)
        if ended is None:
            return None
        tid, _, what = ended.note.decode(errors="replace").partition(" ")
        if not tid:
            logger.warning("a process in which an epoch was tried apart %s before it ran a transaction", ended.how)
            return None
        failure = Aborted("Crashed", (f"{what or 'a function'} {ended.how}",))
        logger.error("transaction %s: %s", tid, failure.arguments[0])
        return DiedInTransaction(int(tid), failure)
