"""The simulated world for faults of a whole fleet: its surroundings, the incarnations in it, and its input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nodes.machine.ownership.ownership import Ownership
from nodes.sim.case import Case
from nodes.sim.inputs.feed import Feed
from nodes.sim.node_process import NodeProcess
from nodes.sim.surroundings import Surroundings


class Stage(Surroundings, Protocol):
    """``steps``: turns so far; ``processes``: nodes that live."""

    @property
    def processes(self) -> list[NodeProcess]: ...
    @property
    def steps(self) -> int: ...
    @property
    def feeds(self) -> Sequence[Feed]: ...
    @property
    def case(self) -> Case: ...
    @property
    def input_ended(self) -> bool: ...

    def kill(self, process: NodeProcess) -> None: ...
    def folded(self) -> Ownership: ...
    def forget_fold(self) -> None: ...
