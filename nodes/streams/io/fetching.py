"""Fetching merged checkpoints beside the node's loop, and which partitions of the broadcast wait for one meanwhile.

Two rules for this file. The broadcast of a partition is not read while its slot is on its way. Records that arrive for
a request that a later one has replaced are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from nodes.machine import events as e
from nodes.machine import messages as m
from nodes.machine.durable import KEPT_MERGED
from nodes.streams.io.joining import Joining


@dataclass(frozen=True, slots=True)
class CheckpointRequest:
    """The first intact one of ``kept``, for the slots of ``partitions``.

    ``rewound``, ``whole``: as in ``MergedLoaded``; ``beyond``: of use only if it was made behind this offset.
    """

    partitions: tuple[int, ...]
    kept: tuple[m.MergedSaved, ...]
    rewound: bool = False
    whole: bool = True
    beyond: int = -1


@dataclass(frozen=True, slots=True)
class Fetched:
    """The outcome of a request; None: no checkpoint of it is intact."""

    request: CheckpointRequest
    found: e.MergedLoaded | None


class Fetching:
    """``start`` runs what it is given, now (and gives the result) or beside the loop (then ``arrived`` is called)."""

    def __init__(self, joining: Joining, start: Callable[[Callable[[], Fetched]], Fetched | None]) -> None:
        self.joining = joining
        self._start = start
        self._all = tuple(range(joining.run.partitions))
        self._requests: dict[int, CheckpointRequest] = {}

    @property
    def awaited(self) -> list[int]:
        """The partitions that wait."""
        return sorted(self._requests)

    @property
    def whole(self) -> bool:
        """Whether all do."""
        return len(self._requests) == len(self._all)

    def waits(self, partition: int) -> bool:
        """Whether this one does."""
        return partition in self._requests

    def begin(self) -> e.MergedLoaded | None:
        """The newest intact one; None if the broadcast is to be read from its start, or if it is on its way.

        Raises ``FellBehind``, as all that follow, if there is neither checkpoint nor start.
        """
        kept = self.joining.ownership.merged()
        return self._fetch(CheckpointRequest(self._all, tuple(kept))) if kept else None

    def rewind(self, partition: int | None, beyond: int = -1) -> e.MergedLoaded | None:
        """The replacement of the beginning of the broadcast, where that is gone; None as above.

        The oldest merged checkpoint: it has the most windows.
        """
        partitions = self._all if partition is None else (partition,)
        pending = self._requests.get(partitions[0])
        if pending is not None and (partition is not None or (pending.whole and pending.rewound)):
            return None  # it is on its way
        if self.joining.has_start(partitions):
            return None
        kept = tuple(self.joining.ownership.merged()[::-1])
        return self._fetch(CheckpointRequest(partitions, kept, True, partition is None, beyond))

    def again(self, partition: int, offset: int) -> e.MergedLoaded | None:
        """Where the records from ``offset`` on were deleted: the slot as it was after them.

        None also while the node has not yet read which merged checkpoint that is in.
        """
        return self.rewind(partition, beyond=offset)

    def _fetch(self, request: CheckpointRequest) -> e.MergedLoaded | None:
        self._requests.update(dict.fromkeys(request.partitions, request))
        fetched = self._start(partial(self._load, request))
        return None if fetched is None else self.arrived(fetched)

    def _load(self, request: CheckpointRequest) -> Fetched:
        return Fetched(request, self.joining.first_intact(request.kept))

    def arrived(self, fetched: Fetched) -> e.MergedLoaded | None:
        """The event for the node; None if the result is of no use."""
        request, found = fetched.request, fetched.found
        if self._requests.get(request.partitions[0]) is not request:
            return None
        for partition in request.partitions:
            del self._requests[partition]
        if found is None:
            return self._without(request)
        if not request.rewound:
            return found
        if request.beyond >= 0 and found.offsets[request.partitions[0]] <= request.beyond:
            return None
        return e.MergedLoaded([found.slots[p] for p in request.partitions], found.offsets, True, request.whole)

    def _without(self, request: CheckpointRequest) -> e.MergedLoaded | None:
        """Another one may have been saved meanwhile, and those of the request deleted."""
        tried, kept = {saved.name for saved in request.kept}, tuple(self.joining.ownership.merged())
        if any(saved.name not in tried for saved in kept):
            return self._fetch(replace(request, kept=kept))
        # Before so many were saved nothing is trimmed.
        if request.rewound or self.joining.ownership.merged_count >= KEPT_MERGED:
            self.joining.demand_start(request.partitions)
        return None


__all__ = ["CheckpointRequest", "Fetched", "Fetching"]
