"""SIGTERM and SIGINT of a process that is a node, from its first line on.

A rule for this file: it imports nothing that takes time, because a signal before its handler is set kills.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from types import FrameType
from typing import Any, Protocol, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED_EXIT = 130


class StopEvent:
    """As ``threading.Event``, and safe to set in a signal handler.

    ``Event`` takes a lock that a thread cannot take twice. A handler that sets it while its thread is within ``wait``
    may stand still for good.
    """

    def __init__(self) -> None:
        from queue import SimpleQueue

        self._is_set = False
        self._tokens: SimpleQueue[None] = SimpleQueue()  # its ``put`` may interrupt its own ``get``

    def set(self) -> None:
        """For good."""
        self._is_set = True
        self._tokens.put(None)

    def is_set(self) -> bool:
        """Whether ``set`` was called."""
        return self._is_set

    def wait(self, timeout_s: float) -> bool:
        """Wait at most so long for ``set``; whether it was called."""
        from queue import Empty

        if not self._is_set:
            with contextlib.suppress(Empty):
                self._tokens.get(timeout=max(0.0, timeout_s))
                self._tokens.put(None)  # for another thread that waits
        return self._is_set


class KeptSignals:
    """SIGINT and SIGTERM while it is entered, in place of what they would do.

    ``event`` is set by each of them, ``count`` says how many came; ``first`` is the first that came, if any.
    """

    def __init__(self) -> None:
        self.event = StopEvent()
        self.count = 0
        self.first: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.first = number if self.first is None else self.first
        self.event.set()


class Stoppable(Protocol):
    """A node in its process."""

    def request_stop(self, signum: int = 0, frame: FrameType | None = None) -> None:
        """Leave in order; a second time at once."""
        ...


class StoppedEarly(Exception):
    """A signal to leave came before the process was a node: it has nothing to hand over."""


class StopSignals:
    """A request to stop is kept until there is a node that can leave, and holds for all its restarts.

    ``first`` is the first signal that came, if any. A second one ends the process at once.
    """

    def __init__(self) -> None:
        self.first: int | None = None
        self._node: Stoppable | None = None

    @property
    def stop_requested(self) -> bool:
        """True once a signal has come."""
        return self.first is not None

    @property
    def interrupted(self) -> bool:
        """True if it was Ctrl-C."""
        return self.first == signal.SIGINT

    def listen(self) -> None:
        """From now on signals are requests to leave in order."""
        for number in SIGNALS:
            signal.signal(number, self._note)

    def leave_early(self) -> None:
        """Raises ``StoppedEarly`` if a signal has come."""
        if self.stop_requested:
            raise StoppedEarly

    def concern(self, node: Stoppable) -> None:
        """The node that runs now, which gets the requests."""
        self._node = node
        self.listen()
        if self.stop_requested:
            node.request_stop()

    def ignore(self) -> None:
        """The process is leaving already."""
        if self._node is not None:
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        early, again = self._node is None, self.stop_requested
        self.first = signum if self.first is None else self.first
        if self._node is not None:
            self._node.request_stop(signum, frame)
        elif early and again:
            os._exit(INTERRUPTED_EXIT)


def starts_node(arguments: Sequence[str]) -> bool:
    """Whether a command line is that of a node: ``holon node`` or ``holon txn node``, options before it or not."""
    words = _words(arguments)
    return words[:1] == ["node"] or words[:2] == ["txn", "node"]


def starts_fleet(arguments: Sequence[str]) -> bool:
    """Whether a command line starts nodes as soon as it can: ``holon run``, options before it or not."""
    return _words(arguments)[:1] == ["run"] and not {"-h", "--help"} & set(arguments)


def _words(arguments: Sequence[str]) -> list[str]:
    words, rest = [], iter(arguments)
    for argument in rest:
        if argument in ("-D", "--config", "--log-level"):
            next(rest, None)
        elif not argument.startswith("-"):
            words.append(argument)
    return words
