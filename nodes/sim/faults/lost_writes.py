"""Records that one node has sent and the log has not acknowledged: they arrive later, in part, or never.

The order within a partition is kept, between partitions nothing is promised; what is sent after a failure never
arrives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from nodes.log.contract import TopicPartition


@dataclass(frozen=True, slots=True)
class Parcel:
    """One batch on its way; ``done`` gets the offset behind it. ``sent_ms`` is virtual time."""

    values: Sequence[bytes]
    headers: Sequence[bytes] | None
    keys: Sequence[bytes | None] | None
    done: Callable[[int], None]
    sent_ms: int


class Transit:
    """Parcels by partition of the log, in the order in which they were sent."""

    def __init__(self) -> None:
        self._queues: dict[TopicPartition, deque[Parcel]] = {}

    def add(self, to: TopicPartition, parcel: Parcel) -> None:
        """It has been sent."""
        self._queues.setdefault(to, deque()).append(parcel)

    def waiting(self) -> Iterator[tuple[TopicPartition, deque[Parcel]]]:
        """Every partition with something on its way, sorted."""
        for to in sorted(self._queues):
            if self._queues[to]:
                yield to, self._queues[to]

    def clear(self) -> None:
        """Nothing of this arrives any more."""
        self._queues.clear()
