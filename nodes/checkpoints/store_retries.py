"""Retries of a checkpoint store until it answers, or until a node that wants to leave has waited long enough.

Two rules for this file: a store that is away stops nobody but who waits for it; an error that a retry cannot mend
is raised at once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from itertools import chain, repeat
from typing import Protocol, TypeVar

from nodes.checkpoints.store import CheckpointKey, CheckpointStore, StoreGone, StoreUnavailable

logger = logging.getLogger(__name__)

PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.5, 2.0)
"""The last one is used again and again."""
REPORT_S = 10.0
GONE_S = 5.0
"""A folder that was deleted or moved is waited for so long; who changes one for another needs less."""
T = TypeVar("T")


class Leaving(Protocol):
    """Whether a node wants to leave; ``threading.Event`` is one."""

    def is_set(self) -> bool: ...


class PatientCheckpoints:
    """Another store, with retries as long as it is ``StoreUnavailable``.

    Saves and loads are called from threads beside the node's loop (``saver.py``), so that the node works on.
    They go on until the store answers; once ``leaving`` is set, for ``leave_s`` more, then the last error is raised.
    A store that is ``StoreGone`` is raised after ``GONE_S``.
    Old checkpoints that cannot be deleted are logged and stay: they cost space, and harm nothing.
    """

    def __init__(
        self,
        store: CheckpointStore,
        leaving: Leaving | None = None,
        *,
        leave_s: float = 0.0,
        pauses_s: Collection[float] = PAUSES_S,
        sleep: Callable[[float], None] = time.sleep,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._leaving: Leaving = threading.Event() if leaving is None else leaving
        self._leave_s = leave_s
        self._pauses_s = tuple(pauses_s)
        self._sleep = sleep
        self._clock_s = clock_s

    def save(self, key: CheckpointKey, data: bytes, copies: int = 1) -> str:
        waits = f"a checkpoint of partition {key.partition} waits"
        return self._retry(waits, lambda: self._store.save(key, data, copies))

    def load(self, name: str) -> bytes:
        return self._retry(f"the partition of checkpoint {name} waits", lambda: self._store.load(name))

    def list(self, job: str, incarnation: int, partition: int) -> list[str]:
        return self._retry(f"partition {partition} waits", lambda: self._store.list(job, incarnation, partition))

    def prune(
        self, job: str, incarnation: int, partition: int, keep: Collection[str] = (), below: Collection[str] = ()
    ) -> list[str]:
        try:
            return self._store.prune(job, incarnation, partition, keep, below)
        except StoreUnavailable as error:
            logger.warning("old checkpoints of partition %d stay: %s", partition, error)
            return []

    def discard(self, job: str, incarnation: int, partition: int, names: Collection[str]) -> None:
        try:
            self._store.discard(job, incarnation, partition, names)
        except StoreUnavailable as error:
            logger.warning("old checkpoints of partition %d stay: %s", partition, error)

    def _retry(self, waits: str, operation: Callable[[], T]) -> T:
        began_s = self._clock_s()
        logged_s = left_s = gone_s = None
        for pause_s in chain(self._pauses_s, repeat(self._pauses_s[-1])):
            try:
                answer = operation()
            except StoreUnavailable as error:
                now_s = self._clock_s()
                if self._leaving.is_set():
                    left_s = now_s if left_s is None else left_s
                    if now_s - left_s >= self._leave_s:
                        raise
                gone_s = None if not isinstance(error, StoreGone) else now_s if gone_s is None else gone_s
                if gone_s is not None and now_s - gone_s >= GONE_S:
                    raise
                if logged_s is None or now_s - logged_s >= REPORT_S:
                    logged_s = now_s
                    logger.warning("%s for %.0f s, the node works on: %s", waits, now_s - began_s, error)
                self._sleep(pause_s)
                continue
            if logged_s is not None:
                logger.warning("the checkpoint store answers again after %.0f s", self._clock_s() - began_s)
            return answer
        raise AssertionError("pauses never end")
