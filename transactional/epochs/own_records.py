"""This node's own records of which it has made use, and which it has not read yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, TypeVar

from transactional.conflicts.nondeterminism import parted, read_sets_differ
from transactional.epochs.epoch import Epoch
from transactional.epochs.messages import ReadSetSnapshot, RoundBarrier, slot_of

_Name: TypeAlias = tuple[int, int, int]  # epoch, round (of read-set snapshots: none), partition
_Own = TypeVar("_Own", RoundBarrier, ReadSetSnapshot)


class OwnRecords:
    """They are a function of the log, so who reads them finds the same; see ``Ledger.expect``."""

    def __init__(self) -> None:
        self._names: set[_Name] = set()

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: _Name) -> bool:
        return name in self._names

    def add(self, message: RoundBarrier | ReadSetSnapshot) -> None:
        """It is on its way."""
        self._names.add(slot_of(message))

    def logged(self, done: int) -> int:
        """The last epoch up to ``done`` whose outcome follows from the log alone."""
        return min((epoch - 1 for epoch, _, _ in self._names), default=done) if self._names else done

    def came(self, message: RoundBarrier | ReadSetSnapshot, epoch: Epoch) -> bool:
        """True for one that was on its way. Raises ``Nondeterministic`` if it is another one."""
        name = slot_of(message)
        if name not in self._names:
            return False
        self._names.discard(name)
        if isinstance(message, RoundBarrier):
            own = epoch.barrier(message.round, message.partition)
            if own is not None and own != message:
                raise parted(message, own, {}, {})
        elif (logged := epoch.read_sets.get(message.partition, message)) != message:
            raise read_sets_differ(message, logged)
        return True

    def without(self, messages: Iterable[_Own]) -> list[_Own]:
        """Those of the messages that were read."""
        return [each for each in messages if slot_of(each) not in self._names]
