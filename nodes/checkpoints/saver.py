"""Saving and loading of checkpoints: by the node's loop, or a thread beside it so that nothing waits for a store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, Protocol, TypeVar

from nodes.checkpoints.errors import CheckpointError
from nodes.log.contract import LogError

T = TypeVar("T")
"""The result, for the node."""


class Saver(Protocol[T]):
    """Runs saves, or loads, one after the other."""

    def save(self, work: Callable[[], T | None]) -> T | None:
        """Do it and return the result for the node; None if there is none, or if ``finished`` will return it."""
        ...

    def finished(self) -> list[T]:
        """The work done since the last call. Raises the error of one that failed."""
        ...


class DirectSaver(Generic[T]):
    """In the caller's own time: for the simulation, in which nothing happens at once."""

    def save(self, work: Callable[[], T | None]) -> T | None:
        """Returns when it is done."""
        return work()

    def finished(self) -> list[T]:
        """Nothing ever is on its way."""
        return []


class ThreadSaver(Generic[T]):
    """In a thread of its own, which ends with the process; nothing is lost with a save that was not finished."""

    def __init__(self, name: str = "saver") -> None:
        self._name = f"holon-{name}"
        self._tasks: SimpleQueue[Callable[[], T | None]] = SimpleQueue()
        self._results: SimpleQueue[T | BaseException | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start the thread, which else starts with the first save."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def save(self, work: Callable[[], T | None]) -> T | None:
        """Returns at once."""
        self.begin()
        self._tasks.put(work)
        return None

    def finished(self) -> list[T]:
        """See ``Saver``; an error that ended the thread is raised here too."""
        found: list[T] = []
        while not self._results.empty():
            try:
                result = self._results.get_nowait()
            except Empty:
                break
            if isinstance(result, BaseException):
                raise result
            if result is not None:
                found.append(result)
        return found

    def _run(self) -> None:
        while True:
            work = self._tasks.get()
            try:
                self._results.put(work())
            except (CheckpointError, LogError) as error:
                self._results.put(error)
            except BaseException as error:
                self._results.put(error)
                raise


__all__ = ["DirectSaver", "Saver", "ThreadSaver"]
