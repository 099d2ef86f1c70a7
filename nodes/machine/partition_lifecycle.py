"""The lifecycle of a partition at one node, as a table of states and transitions.

Two rules for this file: what is not in ``TRANSITIONS`` cannot happen; nothing here knows what a partition computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class PartitionStage(Enum):
    """The stage of a partition at this node: as its owner, or as a standby of its owner."""

    LOADING = "loading"
    """The newest checkpoint is being loaded."""
    SCANNING = "scanning"
    """The tails of the output partitions are being read."""
    OWNING = "owning"
    """The node processes the partition under its claim."""
    OFFERED = "offered"
    """Another node should have the partition: a checkpoint is made for it."""
    HANDED = "handed"
    """That checkpoint is stored."""
    RELEASED = "released"
    """The release is written; the node works on until another one has claimed the partition."""
    STANDBY_LOADING = "standby loading"
    STANDBY_SCANNING = "standby scanning"
    STANDBY_RUNNING = "standby running"
    """The node processes the partition beside its owner, and holds the results back."""
    ENDED = "ended"


class LifecycleEvent(Enum):
    """An event in the lifecycle of a partition at this node."""

    LOADED = "loaded"
    """The checkpoint has been restored, or there is none."""
    SCANNED = "scanned"
    """The tails of the output partitions are known."""
    STANDBY_BEGUN = "standby begun"
    """The node is a standby from now on."""
    CLAIMED = "claimed"
    """This node's claim has won."""
    OFFERED = "offered"
    """Another node should have the partition."""
    HANDED = "handed"
    """A checkpoint that was begun after the offer is stored."""
    RELEASED = "released"
    """The release is written."""
    ENDED = "ended"
    """The partition's work here is over, or void."""


_BY_STAGE: Mapping[PartitionStage, Mapping[LifecycleEvent, PartitionStage]] = {
    PartitionStage.LOADING: {
        LifecycleEvent.LOADED: PartitionStage.SCANNING,
        LifecycleEvent.STANDBY_BEGUN: PartitionStage.STANDBY_LOADING,
    },
    PartitionStage.SCANNING: {LifecycleEvent.SCANNED: PartitionStage.OWNING},
    PartitionStage.OWNING: {
        LifecycleEvent.OFFERED: PartitionStage.OFFERED,
        LifecycleEvent.RELEASED: PartitionStage.RELEASED,
        LifecycleEvent.STANDBY_BEGUN: PartitionStage.STANDBY_RUNNING,
    },
    PartitionStage.OFFERED: {
        LifecycleEvent.OFFERED: PartitionStage.OFFERED,
        LifecycleEvent.HANDED: PartitionStage.HANDED,
        LifecycleEvent.RELEASED: PartitionStage.RELEASED,
        LifecycleEvent.STANDBY_BEGUN: PartitionStage.STANDBY_RUNNING,
    },
    PartitionStage.HANDED: {
        LifecycleEvent.OFFERED: PartitionStage.HANDED,
        LifecycleEvent.HANDED: PartitionStage.HANDED,
        LifecycleEvent.RELEASED: PartitionStage.RELEASED,
        LifecycleEvent.STANDBY_BEGUN: PartitionStage.STANDBY_RUNNING,
    },
    PartitionStage.RELEASED: {
        LifecycleEvent.OFFERED: PartitionStage.RELEASED,
        LifecycleEvent.HANDED: PartitionStage.RELEASED,
        LifecycleEvent.STANDBY_BEGUN: PartitionStage.STANDBY_RUNNING,
    },
    PartitionStage.STANDBY_LOADING: {
        LifecycleEvent.LOADED: PartitionStage.STANDBY_SCANNING,
        LifecycleEvent.CLAIMED: PartitionStage.LOADING,
    },
    PartitionStage.STANDBY_SCANNING: {
        LifecycleEvent.SCANNED: PartitionStage.STANDBY_RUNNING,
        LifecycleEvent.CLAIMED: PartitionStage.SCANNING,
    },
    PartitionStage.STANDBY_RUNNING: {LifecycleEvent.CLAIMED: PartitionStage.OWNING},
}
TRANSITIONS: Mapping[tuple[PartitionStage, LifecycleEvent], PartitionStage] = {
    **{(stage, event): then for stage, events in _BY_STAGE.items() for event, then in events.items()},
    **{
        (stage, LifecycleEvent.ENDED): PartitionStage.ENDED
        for stage in PartitionStage
        if stage is not PartitionStage.ENDED
    },
}
RUNNING = frozenset(
    {
        PartitionStage.OWNING,
        PartitionStage.OFFERED,
        PartitionStage.HANDED,
        PartitionStage.RELEASED,
        PartitionStage.STANDBY_RUNNING,
    }
)
"""The node processes input."""
STANDBY = frozenset({PartitionStage.STANDBY_LOADING, PartitionStage.STANDBY_SCANNING, PartitionStage.STANDBY_RUNNING})


class UnexpectedTransition(AssertionError):
    """An event that cannot happen in this stage: the node must not go on with the partition."""


class PartitionLifecycle:
    """The stage of one partition at one node, from loading to the end."""

    __slots__ = ("is_running", "stage")

    def __init__(self) -> None:
        self.stage = PartitionStage.LOADING
        self.is_running = False

    def happens(self, event: LifecycleEvent) -> None:
        """Take the transition. Raises ``UnexpectedTransition``."""
        after = TRANSITIONS.get((self.stage, event))
        if after is None:
            raise UnexpectedTransition(f"{event.value} while the partition is {self.stage.value}")
        self.stage, self.is_running = after, after in RUNNING
