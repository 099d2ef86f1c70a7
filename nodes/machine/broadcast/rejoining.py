"""Going on from a merged checkpoint: at a node's start, and where the beginning of the broadcast is gone.

Two rules for this file. No runner works on a replica that has dropped windows which the runner will read. Before a node
gives up it has read the control topic to its end, since another owner or a newer checkpoint may make the question void.
"""

from __future__ import annotations

from nodes.machine import events as e
from nodes.machine import messages as m
from nodes.machine.broadcast.merged_checkpoints import Merging
from nodes.machine.broadcast.window_retention import lacks_history
from nodes.machine.workload import Workload


class Rejoining:
    """One node's use of the slots of a merged checkpoint."""

    def __init__(self, work: Workload, merging: Merging) -> None:
        self.work = work
        self.merging = merging
        self._lacking: dict[int, tuple[m.CheckpointSaved, ...]] = {}

    def loaded(self, event: e.MergedLoaded) -> None:
        """Take the slots; runners that would need older ones stop here."""
        work = self.work
        self.merging.awaited -= {full.partition for full in event.slots}
        for full in event.slots:
            self.merging.broadcast_at[full.partition] = event.offsets[full.partition]
            if event.whole or work.slot_recovery.can_take(full):
                work.replica.receive(full)
                work.slot_changed(full.partition)
        if not event.rewound:
            return
        for partition, runner in sorted(work.runners.items()):
            lacks = not runner.is_loading and lacks_history(work.job, work.replica, runner)
            if lacks and not work.replicas.give_up(partition):
                self._lacking[partition] = work.ownership.checkpoints(partition)
                work.drop(partition)

    def settle(self) -> str | None:
        """Begin those anew that can be, once control was read to its end; why the node has to leave if one cannot."""
        work, me = self.work, self.work.config.node
        lacking, self._lacking = self._lacking, {}
        for partition, tried in sorted(lacking.items()):
            if work.ownership.owner(partition) != me:
                continue
            if work.ownership.checkpoints(partition) == tried:
                return (
                    f"node {me}: no checkpoint of partition {partition} is intact, and what its windows held in other "
                    f"partitions is no longer on the broadcast, so it cannot be replayed; start again with --reset"
                )
            work.take(partition, work.ownership.version(partition))
        return None
