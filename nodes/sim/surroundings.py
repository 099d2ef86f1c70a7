"""The part of the world that an incarnation of a simulated node uses."""

from __future__ import annotations

import random
from typing import Protocol

from nodes.log.memory import MemoryLog
from nodes.sim.options import Faults, Options
from nodes.sim.store import MemoryCheckpoints
from nodes.sim.trace import Trace
from nodes.streams.jobs import JobRun


class Losses(Protocol):
    """The checkpoints that may be damaged."""

    def may_damage(self, name: str) -> bool: ...


class Disks(Protocol):
    """Whether the log has room."""

    def is_full(self, node: str) -> bool: ...


class Surroundings(Protocol):
    """Virtual time, the log, the store, and the faults that hold now. ``unsent`` is what nodes could not append."""

    appended_ms: int
    input_until: list[int]
    run: JobRun
    control_checkpoint_rotten: bool
    unsent: list[tuple[str, bytes, bytes]]

    @property
    def now_ms(self) -> int: ...
    @property
    def options(self) -> Options: ...
    @property
    def faults(self) -> Faults: ...
    @property
    def rng(self) -> random.Random: ...
    @property
    def trace(self) -> Trace: ...
    @property
    def log(self) -> MemoryLog: ...
    @property
    def store(self) -> MemoryCheckpoints: ...
    @property
    def trimmed(self) -> dict[tuple[str, int], int]: ...
    @property
    def disturbs(self) -> bool: ...
    @property
    def healed(self) -> bool: ...
    @property
    def depth(self) -> int: ...
    @property
    def loss(self) -> Losses: ...
    @property
    def stress(self) -> Disks: ...

    def go_on_without(self, duration_ms: int) -> None: ...
