"""A standby of a state or request partition: does what the owner does, and holds back what it would write.

The records of two owners are equal and count once, so a standby may write at any time; it does so where the owner is
late. Until it is deactivated, everything that it makes then goes to the log at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from transactional.epochs.appends import Append, AppendCommit, AppendEpochs, AppendReply
from transactional.epochs.ledger import Ledger
from transactional.epochs.messages import (
    BadRecord,
    Cut,
    Handover,
    ReadSetSnapshot,
    RoundBarrier,
    TimeoutAcknowledgement,
    epoch_message,
)

KEPT_COMMITS = 8
"""Epochs that are over and whose commits are still held: without one, who takes over runs that epoch again."""


class _RepliesHead(msgspec.Struct, array_like=True, frozen=True, tag="replies"):
    """The beginning of ``Replies``."""

    epoch: int
    first: int


_heads: msgspec.msgpack.Decoder[_RepliesHead] = msgspec.msgpack.Decoder(_RepliesHead)


def reply_name(value: bytes) -> tuple[int, int]:
    """Epoch and first number of a record of replies; of what is none (0, 0)."""
    try:
        head = _heads.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return 0, 0
    return head.epoch, head.first


@dataclass(frozen=True, slots=True)
class _KeptRecords:
    epoch: int
    since_ms: int
    append: Append


@dataclass(slots=True)
class UnitStandby:
    """The records that one unit holds back. ``is_active``: it holds back nothing for now."""

    is_active: bool = False
    _kept: list[_KeptRecords] = field(default_factory=list)

    def keep(self, epoch: int, now_ms: int, appends: list[Append]) -> None:
        """The records that the owner should write too."""
        self._kept += [_KeptRecords(epoch, now_ms, append) for append in appends]

    def forget(self, done: int) -> None:
        """The records that no node needs once this epoch is over; replies stay until they are read."""
        if self._kept and self._kept[0].epoch <= done:
            self._kept = [each for each in self._kept if self._is_needed(each, done)]

    def saw_reply(self, name: tuple[int, int]) -> None:
        """It is on the log, so all before it are."""
        self._kept = [
            each
            for each in self._kept
            if not (isinstance(each.append, AppendReply) and reply_name(each.append.value) <= name)
        ]

    def watches(self, done: int) -> bool:
        """Whether it holds something for which others may wait; ``done``: the last epoch that is over."""
        return any(
            isinstance(each.append, AppendReply) or (each.epoch > done and not isinstance(each.append, AppendCommit))
            for each in self._kept
        )

    def is_late(self, ledger: Ledger, before_ms: int) -> bool:
        """Whether something that was made before then is not on the log, and a partition or client waits for it."""
        return any(each.since_ms < before_ms and _is_missing(each, ledger) for each in self._kept)

    def activate(self) -> list[Append]:
        """Hold nothing back any more; all that is held back."""
        self.is_active = True
        kept, self._kept = self._kept, []
        return [each.append for each in kept]

    def deactivate(self) -> None:
        """Hold back what is made from now on."""
        self.is_active = False

    @staticmethod
    def _is_needed(kept: _KeptRecords, done: int) -> bool:
        match kept.append:
            case AppendReply():
                return True
            case AppendCommit():
                return kept.epoch > done - KEPT_COMMITS
            case _:
                return kept.epoch > done


def _is_missing(kept: _KeptRecords, ledger: Ledger) -> bool:
    if isinstance(kept.append, AppendReply):
        return True
    if not isinstance(kept.append, AppendEpochs) or kept.epoch <= ledger.done:
        return False
    try:
        message = epoch_message(kept.append.value)
    except BadRecord:
        return False
    match message:
        case Cut():
            return ledger.next_cut(message.sequencer)[0] == message.epoch
        case RoundBarrier():
            return ledger.epoch(message.epoch).barrier(message.round, message.partition) is None
        case ReadSetSnapshot():
            return message.partition not in ledger.epoch(message.epoch).read_sets
        case Handover():
            return ledger.handovers.of(message.epoch, message.partition) is None
        case TimeoutAcknowledgement():
            return ledger.hanging.acknowledged(message.epoch, message.partition) < message.count
        case _:  # a standby holds records as they are before they are cut into pieces
            return False
