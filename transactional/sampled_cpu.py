"""CPU time of each state partition, from a sample of steps: the clock of a thread is too dear to be read in each.

In such a step calls are measured one by one, too. So the buckets whose calls cost much are known by what they cost
lately, whatever their number and their bytes are. Two rules for this file. The clock is the caller's, since this room
knows none. No node decides anything by these figures.
"""

from __future__ import annotations

from collections.abc import Callable

from transactional.layout import Group
from transactional.operators import Operator

EVERY = 17
"""One step of so many is measured. It is prime: an epoch takes few steps, and each kind of them has to be met alike."""


HOT_PARTS = 32
"""A bucket is hot that has one of so many parts of its partition's CPU. So a partition has that many at most."""
FEWEST_CALLS = 5
"""Of fewer calls nothing is known."""
KEPT_PARTS = 1000
_FADE = 4
"""A sixteenth fades each second: half in 11 s."""


class SampledCpu:
    """Of one node. ``clock_ns``: CPU time of the thread that steps, in ns. ``ns``: by partition, of all steps."""

    __slots__ = ("_calls", "_left", "_partition", "_recent", "clock_ns", "ns")

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self.clock_ns = clock_ns
        self.ns: dict[int, int] = {}
        self._left = EVERY
        self._partition = 0
        self._recent: dict[int, int] = {}  # of measured steps, by partition
        self._calls: dict[tuple[int, str, int], tuple[int, int]] = {}  # partition, operator, bucket: ns, calls << _FADE

    def is_due(self) -> bool:
        """Whether this step is to be measured: asked once in each."""
        self._left -= 1
        if self._left:
            return False
        self._left = EVERY
        return True

    def begin(self, partition: int) -> int:
        """The calls that are measured from here on run there; gives the time."""
        self._partition = partition
        return self.clock_ns()

    def add(self, partition: int, spent_ns: int) -> None:
        """A measured step has spent so much on this partition, and stands for all since the one before."""
        self.ns[partition] = self.ns.get(partition, 0) + EVERY * spent_ns
        self._recent[partition] = self._recent.get(partition, 0) + spent_ns

    def add_call(self, operator: Operator, key: str, spent_ns: int) -> None:
        """In a measured step a call has spent so much, with all that has run here while it was not waiting."""
        where = self._partition, operator.name, Group.of(operator).bucket(key)
        before_ns, calls = self._calls.get(where, (0, 0))
        self._calls[where] = before_ns + spent_ns, calls + (1 << _FADE)

    def fade(self) -> None:
        """Once a second: older calls count less, and are forgotten where they are hardly any part."""
        self._recent = {each: ns - (ns >> _FADE) for each, ns in self._recent.items() if ns >> _FADE}
        self._calls = {
            where: (ns - (ns >> _FADE), calls - (calls >> _FADE))
            for where, (ns, calls) in self._calls.items()
            if ns * KEPT_PARTS > self._recent.get(where[0], 0)
        }

    def hot(self, partition: int) -> dict[tuple[str, int], float]:
        """The part of the partition's recent CPU that calls of a bucket have, by operator and bucket, from 0 to 1."""
        all_ns = self._recent.get(partition, 0)
        return {
            (operator, bucket): ns / all_ns
            for (home, operator, bucket), (ns, calls) in self._calls.items()
            if home == partition and ns * HOT_PARTS >= all_ns > 0 and calls >= FEWEST_CALLS << _FADE
        }
