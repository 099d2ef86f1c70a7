"""Merged checkpoints: the slots of all partitions as one value, so that who joins late does not read history.

Two rules for this file. A slot is only taken when nothing of it is known to be missing. The work is done in small
pieces, since results must not wait for it.

Slots are independent of each other, each with its own offset of the broadcast, so they need not be taken at one moment.
The maker of the next one follows from the control topic alone: the owner of the partition whose turn it is. Two that do
it at once (one is believed dead) do no harm.
"""

from __future__ import annotations

import msgspec

from nodes.machine import messages as m
from nodes.machine.broadcast.gaps import Gaps
from nodes.machine.config import NodeConfig
from nodes.machine.effects import SaveMerged
from nodes.machine.events import MergedStored
from nodes.machine.ownership.ownership import Ownership
from wcrdt.replica.replica import Replica, SlotDelta

MAX_MERGED_BYTES = 4 << 30
PIECE_BYTES = 64 << 10
"""About so much is encoded in one step of the node."""
IDLE_RECORDS = 100
"""So many records of the control topic are worth a merged checkpoint even if no slot has moved."""


class _Slots(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    incarnation: m.Incarnation
    slots: list[SlotDelta]


class SealedSlots(msgspec.Struct, array_like=True, frozen=True):
    incarnation: int
    slots: list[msgspec.Raw]


_DECODER = msgspec.msgpack.Decoder(_Slots)


def decode_merged(data: bytes, incarnation: int, partitions: int) -> list[SlotDelta]:
    """The slots, by partition. Raises ``BadMessage`` on anything that is no merged checkpoint of this run."""
    found = m.unseal(_DECODER, data, MAX_MERGED_BYTES)
    ours = found.incarnation == incarnation and [slot.partition for slot in found.slots] == list(range(partitions))
    if not ours:
        raise m.BadMessage(m.BadReason.MALFORMED, f"incarnation {found.incarnation}, {len(found.slots)} slots")
    return found.slots


class Merging:
    """When this node has to save one, and its making. The offsets are those up to which the node has read."""

    def __init__(self, config: NodeConfig, incarnation: int, replica: Replica, gaps: Gaps) -> None:
        self.config = config
        self.incarnation = incarnation
        self.replica = replica
        self.gaps = gaps
        self.control_at = 0
        self.broadcast_at = [0] * len(replica.slots)
        self._waiting_since_ms: int | None = None
        self._began_at = 0
        self._pieces: list[bytes] | None = None
        self._offsets: list[int] = []
        self._saving = False
        self.awaited: frozenset[int] = frozenset()
        """Partitions whose slots here are void until a merged checkpoint has arrived."""

    def recorded(self, now_ms: int) -> None:
        """A merged checkpoint of any node is on the control topic."""
        self._waiting_since_ms = now_ms

    def stored(self, event: MergedStored, now_ms: int) -> list[m.MergedSaved]:
        """The one that this node has made is durable and to be recorded; none if it is not intact."""
        self._saving, self._waiting_since_ms = False, now_ms
        if event.name is None:
            return []
        offsets = event.broadcast_offsets
        return [m.MergedSaved(self.incarnation, self.config.node, event.name, event.control_offset, offsets)]

    def rewound(self, partition: int | None) -> None:
        """The broadcast (of one partition, or None: of all) is read again: what was taken of it is void."""
        for p in range(len(self.broadcast_at)):
            if partition is None or partition == p:
                self.broadcast_at[p] = 0
        self._pieces = None

    def maker(self, ownership: Ownership) -> str | None:
        """The node that saves the next one; None while nobody owns the partition in question."""
        return ownership.owner(ownership.merged_count % ownership.partitions)

    def step(self, ownership: Ownership, now_ms: int) -> SaveMerged | None:
        """Do the next piece, if it is time and this node's turn; the effect once all is there."""
        if self.awaited:
            return None
        if self._pieces is None and not self._is_due(ownership, now_ms):
            return None
        if self._pieces is None:
            self._pieces, self._offsets, self._began_at = [], [], self.control_at
        self._go_on(self._pieces)
        if len(self._pieces) < len(self.replica.slots):
            return None
        raw, self._pieces = [msgspec.Raw(piece) for piece in self._pieces], None
        try:
            data = m.seal(SealedSlots(self.incarnation, raw), MAX_MERGED_BYTES)
        except m.BadMessage:  # too large: nodes that join read the broadcast, which is not trimmed without one
            self._waiting_since_ms = now_ms
            return None
        self._saving = True
        return SaveMerged(self._began_at, self.replica.frontier_ms, self._offsets, data)

    def _go_on(self, pieces: list[bytes]) -> None:
        size = 0
        while len(pieces) < len(self.replica.slots) and size < PIECE_BYTES:
            partition = len(pieces)
            if self.gaps.has(partition):
                return  # what is missing is on its way
            pieces.append(msgspec.msgpack.encode(self.replica.full(partition)))
            self._offsets.append(self.broadcast_at[partition])
            size += len(pieces[-1])

    def _is_due(self, ownership: Ownership, now_ms: int) -> bool:
        interval_ms = self.config.merged_checkpoint_interval_ms
        if self._waiting_since_ms is None:
            self._waiting_since_ms = now_ms
        if interval_ms <= 0 or self._saving or now_ms - self._waiting_since_ms < interval_ms:
            return False
        if self.maker(ownership) != self.config.node:
            return False
        newest = ownership.merged()[:1]
        if newest and any(at < had for at, had in zip(self.broadcast_at, newest[0].broadcast_offsets, strict=True)):
            return False  # read again, or cut off: nobody would take it
        control_at, read = (newest[0].control_offset, newest[0].broadcast_offsets) if newest else (0, [0])
        return sum(self.broadcast_at) > sum(read) or self.control_at - control_at > IDLE_RECORDS
