"""The common part of every node process, whatever kind of node it is: its clock, its log, its exit."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

from nodes.errors import RunFailed
from nodes.light_start import GC_THRESHOLDS
from nodes.log import Log
from nodes.runtime.log_opening import open_node_log
from nodes.settings.settings import Settings

IDLE_WAIT_S = 0.02


def monotonic_ms() -> int:
    """The node's clock: it only has to run."""
    return time.monotonic_ns() // 1_000_000


@contextmanager
def node_log(settings: Settings, gc_thresholds: tuple[int, int, int] = GC_THRESHOLDS) -> Iterator[Log]:
    """The log of a process that is a node and nothing else; raises ``RunFailed`` under ``python -O``."""
    if not __debug__:
        raise RunFailed("a node does not run under python -O: its checks of its own invariants would be gone")
    with open_node_log(settings) as log:
        collect_rarely(gc_thresholds)
        yield log


def collect_rarely(thresholds: tuple[int, int, int] = GC_THRESHOLDS) -> None:
    """Once a process has imported what it needs: search for cycles more rarely, and in what is made from now on alone.

    ``thresholds``: as ``gc.set_threshold`` has them.
    """
    gc.collect()
    gc.freeze()  # what the imports made need not be looked at again
    gc.set_threshold(*thresholds)
