"""Gaps: slots of which something is missing here, and when to request them.

Two rules for this file. A delta that was read and not applied is missing until the slot reaches its end, and is
requested until then, since the answer can be lost too. Requests to one owner have a minimum interval, which grows while
the answer is that the owner is not there yet. (Such an owner follows one that died, and waits for slower partitions.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import starmap, zip_longest

from nodes.machine import messages as m
from nodes.machine.ownership.ownership import Ownership
from wcrdt.replica.replica import Replica, SlotDelta
from wcrdt.replica.slots import RECORD_START, Position
from wcrdt.windows.assigners import BEFORE_TIME_MS

MOST_DOUBLINGS = 7
SlotPlace = tuple[Position, list[int]]
"""Position of a slot's record track, and through which end each stage has answered."""


@dataclass(slots=True)
class _Gap:
    """``target``: the end of all that is known to be missing; ``unknown``: a damaged record may have held more.

    ``vain``: so many answers at this place have not reached far enough.
    """

    place: SlotPlace
    target: SlotPlace = field(default_factory=lambda: (RECORD_START, []))
    unknown: bool = False
    requested_ms: int | None = None
    requested: bool = False  # since the last damaged record
    reread: bool = False
    rereads: int = 0
    vain: int = 0

    def moved(self, place: SlotPlace) -> bool:
        """Whether the slot is at another place than it was."""
        if self.place == place:
            return False
        self.place, self.rereads, self.vain = place, 0, 0
        return True


class Gaps:
    """The deltas that one node misses.

    ``patience_ms``: how long to wait before the request is repeated, and before a suspicion counts.
    """

    def __init__(self, replica: Replica, patience_ms: int) -> None:
        self.replica = replica
        self.patience_ms = patience_ms
        self._gaps: dict[int, _Gap] = {}
        self._behind: dict[int, tuple[SlotPlace, int]] = {}
        self._newer: dict[int, m.BadMessage] = {}

    def unreadable(self, partition: int, error: Exception) -> None:
        """A record was damaged, or is of a newer release."""
        if isinstance(error, m.BadMessage) and error.reason is m.BadReason.NEWER_VERSION:
            self._newer[partition] = error
        self.noticed(partition)

    def unfilled(self, partition: int) -> str:
        """Why a node leaves that can neither read this slot's deltas nor go on from a checkpoint."""
        position = self.replica.slots[partition].record.position
        told = f"no intact delta of partition {partition} goes on from {position} on the broadcast, and no checkpoint "
        told += "that would make it unnecessary is left; "
        if (newer := self._newer.get(partition)) is None:
            return told + "start again with --reset"
        return told + f"the broadcast holds deltas of a newer Holon ({newer}): go on with nodes of that release"

    def noticed(self, partition: int, target: SlotPlace | None = None) -> None:
        """A delta did not fit, which ends at ``target``; or a record was damaged (None), maybe the last for long."""
        place = self._place(partition)
        gap = self._gaps.setdefault(partition, _Gap(place))
        if target is None:
            gap.unknown, gap.requested = True, False
        else:
            ends_ms = starmap(max, zip_longest(gap.target[1], target[1], fillvalue=BEFORE_TIME_MS))
            before, gap.target = gap.target, (max(gap.target[0], target[0]), list(ends_ms))
            gap.vain = gap.vain if _reaches(before, gap.target) else 0
        gap.moved(place)

    def has(self, partition: int) -> bool:
        """True if something of this slot is known to be missing."""
        return partition in self._gaps

    def closed(self, partition: int) -> bool:
        """True if nothing of it is missing any more."""
        gap = self._gaps.get(partition)
        if gap is not None and not gap.unknown and _reaches(self._place(partition), gap.target):
            del self._gaps[partition]
        return partition not in self._gaps

    def full_slot(self, partition: int) -> bool:
        """One has arrived intact. False if it does not reach far enough: its maker is behind, the log may have more.

        The deltas of a damaged record are in it, if they were requested.
        """
        gap = self._gaps.get(partition)
        if gap is None or gap.requested_ms is None:
            return True
        gap.unknown &= not gap.requested
        if self.closed(partition) or gap.reread or _reaches(self._place(partition), gap.target):
            return True
        gap.reread = True  # once for each request
        gap.vain += not gap.moved(self._place(partition))
        return False

    def reread(self, partition: int) -> int:
        """The full slot was of no use, the broadcast has to be read again; how often that was so at this place."""
        known = self._gaps.get(partition)
        self.noticed(partition, None if known is None else known.target)
        gap = self._gaps[partition]
        gap.rereads += 1
        return gap.rereads

    def due(self, ownership: Ownership, now_ms: int) -> list[int]:
        """The partitions about which something has to be done now."""
        self._suspect(ownership, now_ms)
        due = []
        for partition, gap in sorted(self._gaps.items()):
            if self.closed(partition):
                continue
            gap.moved(self._place(partition))
            wait_ms = self.patience_ms << min(gap.vain, MOST_DOUBLINGS)
            if gap.requested_ms is None or now_ms - gap.requested_ms >= wait_ms:
                gap.requested_ms, gap.requested, gap.reread = now_ms, True, False
                due.append(partition)
        return due

    def _suspect(self, ownership: Ownership, now_ms: int) -> None:
        """A checkpoint is only recorded once its deltas are on the log: a slot that stays behind it lost some."""
        for partition in range(len(self.replica.slots)):
            saved = ownership.checkpoint(partition)
            place = self._place(partition)
            # Of what a checkpoint holds the record names the least: what all stages have answered.
            target = None if saved is None else (saved.record_position, [saved.answered[0]] * len(place[1]))
            if target is None or _reaches(place, target):
                self._behind.pop(partition, None)
                continue
            since = self._behind.get(partition)
            if since is None or since[0] != place:
                self._behind[partition] = (place, now_ms)
            elif now_ms - since[1] >= self.patience_ms:
                self.noticed(partition, target)

    def _place(self, partition: int) -> SlotPlace:
        slot = self.replica.slots[partition]
        return slot.record.position, slot.answered_ms


def end_of(delta: SlotDelta) -> SlotPlace:
    """The position of a slot that has taken the delta."""
    to = RECORD_START if delta.record is None else delta.record.to
    return to, [track.to[0] for track in delta.stages]


def _reaches(place: SlotPlace, target: SlotPlace) -> bool:
    ends_ms = zip_longest(place[1], target[1], fillvalue=BEFORE_TIME_MS)
    return place[0] >= target[0] and all(have_ms >= wanted_ms for have_ms, wanted_ms in ends_ms)
