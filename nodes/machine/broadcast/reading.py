"""Reading: what one node takes from the broadcast topic, and what it does where a record cannot be used.

Two rules for this file. A damaged record holds up nothing: what follows it is taken, and what it brought is requested.
But it may be the only one that tells how far an input went, and damaged on the way here alone: it is read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodes.machine import messages as m
from nodes.machine.broadcast.gaps import end_of
from nodes.machine.broadcast.pieces import BroadcastPieces, PieceLost
from nodes.machine.effects import ReadBroadcastAgain, RewindBroadcast
from wcrdt.codec import DecodeError

if TYPE_CHECKING:
    from nodes.machine.broadcast.gaps import Gaps
    from nodes.machine.events import BroadcastRead
    from nodes.machine.workload import Workload
    from wcrdt.replica.replica import SlotDelta

MAX_REREADS = 30  # of one gap: what is damaged on the log itself stays so
MAX_READINGS = 4  # of one batch with a damaged record


class SlotLost(Exception):
    """A full slot lacks windows that a runner here still reads, and reading the broadcast again does not help."""


class BroadcastReading:
    """The records of the broadcast topic, as one node reads them. ``damaged``: how many could not be read."""

    def __init__(self, work: Workload, gaps: Gaps) -> None:
        self.work = work
        self.gaps = gaps
        self.damaged = 0
        self._pieces = BroadcastPieces()
        self._readings: dict[int, tuple[int, int]] = {}  # by partition: from where on, how often

    def take(self, read: BroadcastRead) -> None:
        """Use what can be used. Raises ``SlotLost``."""
        partition, damaged, unfit, behind = read.partition, 0, False, False
        for value in read.values:
            try:
                delta = self._delta(partition, value)
                if delta is None:
                    continue
                if not self.work.slot_recovery.can_take(delta):
                    unfit = True
                    continue
                behind |= not self._receive(delta)
            except (m.BadMessage, PieceLost, DecodeError, IndexError) as error:
                damaged += 1
                self.gaps.unreadable(partition, error)
                continue
            self.work.slot_changed(partition)
        readings = self._count_readings(read) if damaged else MAX_READINGS
        self.damaged += damaged if readings == 1 else 0
        if unfit and self.gaps.reread(partition) > MAX_REREADS:
            raise SlotLost(self.gaps.unfilled(partition))
        if unfit or behind:
            self.work.effects.append(RewindBroadcast(partition))
        elif readings < MAX_READINGS:
            self.work.effects.append(ReadBroadcastAgain(partition, read.offset))

    def _delta(self, partition: int, value: bytes) -> SlotDelta | None:
        """The delta that the record completes; None if there is none, or it is of another incarnation."""
        message = m.decode_broadcast(value)
        if message.incarnation != self.work.run.incarnation:
            return None
        if isinstance(message, m.PieceSent):
            self.work.uncheckpointed.piece(partition, len(value))
            message = self._pieces.take(partition, message)
            if message is None:
                return None
        if isinstance(message, m.PunctuationSent):
            self.work.replicas.punctuate(message.punctuation)
            self.work.slot_changed(partition)
            return None
        self.work.received(message, len(value))
        return message.delta

    def _receive(self, delta: SlotDelta) -> bool:
        """False if missing deltas may be found by reading again: the sender of the full slot is itself behind."""
        record = delta.record
        if self.work.replica.receive(delta).gap:
            self.gaps.noticed(delta.partition, end_of(delta))
            return True
        return record is None or not record.full or self.gaps.full_slot(delta.partition)

    def _count_readings(self, read: BroadcastRead) -> int:
        """How often the batch was read so far, which has a damaged record."""
        offset, readings = self._readings.get(read.partition, (read.offset, 0))
        readings = readings + 1 if offset == read.offset else 1
        self._readings[read.partition] = (read.offset, readings)
        return readings
