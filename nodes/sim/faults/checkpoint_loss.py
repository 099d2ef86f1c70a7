"""Checkpoints that are damaged when they are saved, or lost later: as many as can be made good, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodes.checkpoints.errors import CheckpointDamaged, CheckpointMissing
from nodes.checkpoints.file_names import MERGED, name_of, parse_name

if TYPE_CHECKING:
    from nodes.sim.faults.stage import Stage


class CheckpointLoss:
    """Of one world."""

    def __init__(self, world: Stage) -> None:
        self.world = world
        self._harmed: dict[int, str] = {}

    def may_damage(self, name: str) -> bool:
        """A partition with trimmed topics can only be replayed from a checkpoint: there, one of three stays intact.

        Of a checkpoint that others may rest on, one of three copies does.
        """
        parsed = parse_name(name)
        partition = parsed.key.partition
        if not self.world.options.trims or partition == MERGED:
            return True
        copies = self.world.store.copies(name_of(parsed.key, parsed.digest))
        if len(copies) > 1 or parsed.attempt:
            return any(self._is_intact(other) for other in copies if other != name)
        kept = [saved.name for saved in self.world.folded().checkpoints(partition)]
        harmed = self._harmed.get(partition)
        if harmed is not None and (
            not kept or harmed in kept or parse_name(harmed).age_order > parse_name(kept[0]).age_order
        ):
            return False
        self._harmed[partition] = name
        return True

    def _is_intact(self, name: str) -> bool:
        try:
            self.world.store.load(name)
        except (CheckpointDamaged, CheckpointMissing):
            return False
        return True

    def lose(self, partition: int) -> None:
        """All checkpoints of the partition that the incarnation has saved."""
        world = self.world
        names = world.store.list(world.run.job.name, world.run.incarnation, partition)
        for name in names:
            del world.store.files[name]
        world.trace.add(world.now_ms, "checkpoints-lost", f"[{partition}] {len(names)}")

    def forget(self) -> None:
        """The next incarnation has checkpoints of its own."""
        self._harmed.clear()
