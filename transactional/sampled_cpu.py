"""CPU time of each state partition, from a sample of steps: the clock of a thread is too dear to be read in each.

Two rules for this file. The clock is the caller's, since this room knows none. Nothing is decided by these figures.
"""

from __future__ import annotations

from collections.abc import Callable

EVERY = 17
"""One step of so many is measured. It is prime: an epoch takes few steps, and each kind of them has to be met alike."""


class SampledCpu:
    """Of one node. ``clock_ns``: CPU time of the thread that steps, in ns. ``ns``: by partition, of all steps."""

    __slots__ = ("_left", "clock_ns", "ns")

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self.clock_ns = clock_ns
        self.ns: dict[int, int] = {}
        self._left = EVERY

    def is_due(self) -> bool:
        """Whether this step is to be measured: asked once in each."""
        self._left -= 1
        if self._left:
            return False
        self._left = EVERY
        return True

    def add(self, partition: int, spent_ns: int) -> None:
        """A measured step has spent so much on this partition, and stands for all since the one before."""
        self.ns[partition] = self.ns.get(partition, 0) + EVERY * spent_ns
