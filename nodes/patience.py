"""A checkpoint store that is asked again for a while before a node gives up."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from typing import TypeVar

from nodes.checkpoints import CheckpointKey, CheckpointStore, StoreUnavailable

logger = logging.getLogger(__name__)

PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.5)
"""3 s in all: longer than a usual hiccup of a store, and below `node.hang_after_ms`, so that signs of life go on."""

T = TypeVar("T")


class PatientCheckpoints:
    """Another store, asked again after each of ``pauses_s``; its last error is raised.

    Old checkpoints that cannot be deleted are logged and stay: they cost space, and harm nothing.
    """

    def __init__(
        self,
        store: CheckpointStore,
        *,
        pauses_s: Collection[float] = PAUSES_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store = store
        self._pauses_s = tuple(pauses_s)
        self._sleep = sleep

    def save(self, key: CheckpointKey, data: bytes) -> str:
        return self._ask(lambda: self._store.save(key, data))

    def load(self, name: str) -> bytes:
        return self._ask(lambda: self._store.load(name))

    def list(self, job: str, incarnation: int, partition: int) -> list[str]:
        return self._ask(lambda: self._store.list(job, incarnation, partition))

    def prune(self, job: str, incarnation: int, partition: int, keep: Collection[str] = ()) -> list[str]:
        try:
            return self._store.prune(job, incarnation, partition, keep)
        except StoreUnavailable as error:
            logger.warning("old checkpoints of partition %d stay: %s", partition, error)
            return []

    def _ask(self, wish: Callable[[], T]) -> T:
        for pause_s in self._pauses_s:
            try:
                return wish()
            except StoreUnavailable as error:
                logger.warning("%s; asking again in %.1f s", error, pause_s)
                self._sleep(pause_s)
        return wish()
