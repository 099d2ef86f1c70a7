"""State of a simulated transactional fleet beyond memory, in files of LMDB, on a disk that is full at times.

A node whose state finds no room ends, as its process does; what it has sent arrives, or a beginning of it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Sequence
from random import Random
from types import ModuleType
from typing import cast

from nodes.errors import RunFailed
from nodes.sim.case import SEVENTEENTH_SEED
from nodes.transactions.checkpoints import spill
from transactional.operators import StateKey
from transactional.state.spilling import SpillingStore
from transactional.state.store import Store

BUDGETS = None, None, 0, 3_000, 12_000, 40_000
"""Bytes in memory of each node of a fleet; None: all of its state. An entry counts for 400 and what it holds."""
ODDS = 0.0, 0.0, 0.001, 0.004
"""Of a step, that a disk is full from there on."""
FILE_BYTES = 1 << 26
"""Of addresses: a process runs many fleets, each with many spills."""
SPELLS_MS = 30, 300, 1_500
MEMORY = "/dev/shm"
"""A file system in memory, where it is there: a new spill costs half of one on a disk (0.4 and 0.9 ms)."""


class StateDiskFull(RunFailed):
    """A spill had no room."""


class SpilledState:
    """Of one fleet, from a stream of its own. ``spells``: how many there were, ``made``: spills of partitions."""

    spells = made = 0

    def __init__(self, seed: int, now_ms: Callable[[], int]) -> None:
        draw = self._draw = Random(seed ^ 0x5B111)
        self.budget_bytes = draw.choice(BUDGETS) if seed >= SEVENTEENTH_SEED else None
        self._odds = draw.choice(ODDS)
        self._now_ms = now_ms
        self._full: tuple[int, str] = (0, "")  # until then, for this node, "": for all
        self._folder = ""
        self._spills: dict[str, spill.Spills] = {}
        self._open: weakref.WeakValueDictionary[int, FullAtTimes] = weakref.WeakValueDictionary()

    @property
    def is_spilled(self) -> bool:
        """Whether nodes of this fleet spill."""
        return self.budget_bytes is not None

    def of(self, node: str, module: ModuleType = spill) -> spill.Spills:
        """Spills of one node, by this module of its release. An earlier one took a full disk for an outcome."""
        assert self.budget_bytes is not None
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="holon-sim-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        folder = os.path.join(self._folder, node)
        if module is spill:
            return spill.Spills(folder, self.budget_bytes, self._new_spill)
        vars(module)["MAP_BYTES"] = FILE_BYTES
        return cast("spill.Spills", module.Spills(folder, self.budget_bytes))

    def _new_spill(self, folder: str) -> spill.LmdbSpill:
        made = self._open[self.made] = FullAtTimes(folder, self._check)
        return made

    def close(self) -> None:
        """The run is over: files and addresses go now, and not when memory does."""
        for each in list(self._open.values()):
            each.close()

    def new_store(self, node: str) -> Callable[[], Store | SpillingStore]:
        """Of the partitions of one node."""
        if not self.is_spilled:
            return Store
        self._spills[node] = made = self.of(node)
        return made.store

    def disk_bytes(self, node: str) -> Callable[[Store | SpillingStore], int]:
        """Of a store of that node."""
        return lambda store: self._spills[node].size_of(store)[1] if self.is_spilled else 0

    def maybe_begin(self, names: Sequence[str]) -> None:
        """Perhaps there is no room for state now, of one of these nodes or of all."""
        draw = self._draw
        if self.is_spilled and self._odds and names and draw.random() < self._odds:
            self._full = self._now_ms() + draw.choice(SPELLS_MS), draw.choice(["", draw.choice(names)])
            self.spells += 1

    def end(self) -> None:
        """There is room, and no more spells come."""
        self._odds, self._full = 0.0, (0, "")

    def _check(self, folder: str, *, made: bool = False) -> None:
        until_ms, name = self._full
        if self._now_ms() < until_ms and name in ("", os.path.basename(folder)):
            raise StateDiskFull(f"state of {os.path.basename(folder)} cannot be spilled: no space in the simulation")
        self.made += made


class FullAtTimes(spill.LmdbSpill):
    """Of one partition; ``check`` raises where there is no room."""

    def __init__(self, folder: str, check: Callable[..., None]) -> None:
        self._check = check
        check(folder, made=True)
        super().__init__(folder, FILE_BYTES)

    def write(self, rows: Iterable[tuple[StateKey, bytes | None]]) -> None:
        """As ``LmdbSpill.write``."""
        self._check(self.folder)
        super().write(rows)
