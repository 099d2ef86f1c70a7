"""One state partition's calls topic as far as it was read: records by epoch and digest until a barrier names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transactional.epochs.layout_messages import Handover, copies_epoch
from transactional.epochs.messages import (
    BadRecord,
    CallMessage,
    Calls,
    Cut,
    Forward,
    MovedState,
    RecordPiece,
    ReplyState,
    RoundBarrier,
    call_message,
)
from transactional.epochs.pieces import RecordPieces
from transactional.operators import StateKey
from transactional.state.values import digest


@dataclass(frozen=True, slots=True)
class ArrivedState:
    """A ``MovedState`` as the move takes it: all at once, so what can be done for a row is done when it arrives."""

    epoch: int
    rows: dict[StateKey, bytes | None]
    replies: list[ReplyState]
    order: list[tuple[int, int, str]]

    @classmethod
    def of(cls, moved: MovedState) -> ArrivedState:
        rows = {(operator, key): value for operator, key, value in moved.rows}
        return cls(moved.epoch, rows, moved.replies, moved.order)


class ReceivedCalls:
    """Of partition ``number``. ``position`` is the offset up to which calls were read."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._records: dict[tuple[int, bytes], Forward | Calls] = {}
        self._arrived: dict[tuple[int, bytes], ArrivedState] = {}
        self._pieces = RecordPieces()
        self._first_offset: dict[int, int] = {}  # of an epoch's records
        self._copies_over = 0
        self._moved: tuple[int, int] | None = None
        self.position = 0

    def __len__(self) -> int:
        return len(self._records) + len(self._arrived)

    @property
    def needed(self) -> int:
        """Up to this offset, calls are of epochs before the present one."""
        return min([self.position, *self._first_offset.values()])

    def take(self, offset: int, message: CallMessage, data: bytes, epoch: int) -> None:
        """A record at ``offset``, while the partition is in ``epoch``. Raises ``BadRecord``."""
        self.position = offset + 1
        if message.epoch < epoch or self._has_moved(message.epoch):
            return
        self._first_offset.setdefault(message.epoch, offset)
        if isinstance(message, RecordPiece):
            whole = self._pieces.take(message)
            if whole is None:
                return
            message, data = call_message(whole), whole
        if isinstance(message, MovedState):
            self._arrived[message.epoch, digest(data)] = ArrivedState.of(message)
        elif not isinstance(message, RecordPiece):
            self._records[message.epoch, digest(data)] = message

    def moved(self, handovers: Sequence[Handover]) -> list[ArrivedState] | None:
        """All that moves to this partition, in the order in which it was written; None as in ``of``."""
        found: list[ArrivedState] = []
        for each in handovers:
            copies = copies_epoch(each.layout)
            for to, name in each.sends:
                if to == self._number:
                    record = self._arrived.get((copies, name)) or self._arrived.get((each.epoch, name))
                    if record is None:
                        return None
                    found.append(record)
        return found

    def has_copy(self, layout: int, name: bytes) -> bool:
        """Whether this copy to homes in that layout was read."""
        return (copies_epoch(layout), name) in self._arrived

    def copies_moved(self, epoch: int, layout: int) -> None:
        """All keys have their homes by this layout since this epoch: once that is over, copies are of no use."""
        self._moved = epoch, layout

    def forget_copies(self, layout: int) -> None:
        """Those to homes in this layout, and ones before it."""
        self._copies_over = copies_epoch(layout)
        self._arrived = {name: each for name, each in self._arrived.items() if not self._has_moved(each.epoch)}
        for epoch in [each for each in self._first_offset if self._has_moved(each)]:
            del self._first_offset[epoch]
            self._pieces.forget_epoch(epoch)

    def of(self, epoch: int, senders: Sequence[Cut | RoundBarrier]) -> list[CallMessage] | None:
        """The messages of these to this partition, None if one of the records was not read yet."""
        found: list[CallMessage] = []
        for sender in senders:
            for to, name in sender.sends:
                if to == self._number:
                    record = self._inline(epoch, name) if sender.inline else self._records.get((epoch, name))
                    if record is None:
                        return None
                    found.append(record)
        return found

    def forget_before(self, epoch: int) -> None:
        """The epochs before it are over."""
        if self._moved is not None and self._moved[0] < epoch:
            self.forget_copies(self._moved[1])
            self._moved = None
        self._records = {name: each for name, each in self._records.items() if each.epoch >= epoch}
        if self._arrived:
            self._arrived = {name: each for name, each in self._arrived.items() if each.epoch >= epoch}
        self._pieces.forget(epoch)
        self._first_offset = {each: offset for each, offset in self._first_offset.items() if each >= epoch}

    def _has_moved(self, epoch: int) -> bool:
        return copies_epoch(0) < epoch <= self._copies_over

    def _inline(self, epoch: int, data: bytes) -> CallMessage:
        try:
            return call_message(data)
        except BadRecord as error:
            raise AssertionError(
                f"partition {self._number}: a cut or barrier of epoch {epoch} holds no record of calls: {error}"
            ) from None
