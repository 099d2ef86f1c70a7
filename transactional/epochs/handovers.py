"""Handovers on the epochs topic: whether all that moves between two epochs has been sent.

Keys may have other homes in an epoch than before. It begins once every partition from which some bucket moves has
handed over, and each partition has taken all that comes to it. The first handover of a partition wins.
"""

from __future__ import annotations

from collections.abc import Iterable

from transactional.epochs.messages import Handover
from transactional.layout_history import Change, LayoutHistory


class Handovers:
    """Of one ledger, by epoch and partition, as far as they were read."""

    def __init__(self, layouts: LayoutHistory, records: Iterable[Handover] = ()) -> None:
        self._layouts = layouts
        self._found: dict[int, dict[int, Handover]] = {}
        for each in records:
            self.take(each)

    def take(self, handover: Handover) -> bool:
        """False where it does not count: it is void, or another one of the partition has won."""
        change = self._layouts.change(handover.epoch)
        if change is None or handover.layout != change.after.number or handover.partition not in change.sources:
            return False
        found = self._found.setdefault(handover.epoch, {})
        return found.setdefault(handover.partition, handover) is handover

    def of(self, epoch: int, partition: int) -> Handover | None:
        """None: it is not on the log, as far as that was read."""
        return self._found.get(epoch, {}).get(partition)

    def all_of(self, epoch: int, change: Change) -> list[Handover] | None:
        """In order of the partitions; None while some are missing."""
        found = self._found.get(epoch, {})
        return [found[p] for p in change.sources] if len(found) == len(change.sources) else None

    def known(self, epoch: int) -> list[Handover]:
        """In order of the partitions."""
        found = self._found.get(epoch, {})
        return [found[p] for p in sorted(found)]

    def records(self, done: int) -> list[Handover]:
        """Those of epochs after ``done``, for a snapshot."""
        return [each for epoch in sorted(self._found) if epoch > done for each in self.known(epoch)]

    def forget(self, before: int) -> None:
        """Drop those of epochs before this one."""
        for epoch in [epoch for epoch in self._found if epoch < before]:
            del self._found[epoch]
