"""The parts of a job's topics that no node needs any more: bounds from checkpoints and samples of one node.

A sample is a fact about the log, and stays one under later owners of the partition. It is the offset up to which a
topic holds only records of epochs up to this one. The first records that a checkpoint of that epoch, or of a later one,
needs lie behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from transactional.epochs.sequencer import first_needed
from transactional.node import TransactionNode

MAX_SAMPLES = 500
"""Of a partition; with more, every second one goes: less is deleted at a time, and no less in the end."""
KEPT_REPLIES = 100
"""Records of replies that stay whatever else goes: an owner reads the last one there."""


_Sample = TypeVar("_Sample", bound=tuple[int, ...])


class _OfPartition(NamedTuple):
    """``base``: requests up to which all sequencers' counters had come, at least."""

    epoch: int
    base: int
    calls: int
    commits: int
    replies: int


class _OfSequencer(NamedTuple):
    """A node that begins to read at ``oldest`` knows at ``position`` the same as one that has read all."""

    position: int
    oldest: int


class _OfLedger(NamedTuple):
    """Of each epoch after ``cut``, some cut is not before ``position``.

    A snapshot may count on records that are on their way (``Ledger.expect``), but never on cuts that are not read.
    """

    cut: int
    position: int


class Trims:
    """Samples that one node has taken. Bounds are offsets: what is before them may go; 0: nothing may."""

    def __init__(self, id_window: int) -> None:
        self._id_window = id_window
        self._ledger: list[_OfLedger] = []
        self._partitions: dict[int, list[_OfPartition]] = {}
        self._sequencers: dict[int, list[_OfSequencer]] = {}

    def sample(self, node: TransactionNode, replies: Mapping[int, int]) -> None:
        """``replies``: by state partition, the offset up to which its replies are known to be on the log."""
        ledger = node.ledger
        base = ledger.epoch(ledger.done + 1).base
        assert base is not None
        cut = ledger.done
        while ledger.is_sequenced(cut + 1):
            cut += 1
        _keep(self._ledger, _OfLedger(cut, ledger.position))
        for number, owned in node.partitions.items():
            sample = _OfPartition(
                owned.epoch - 1, base, owned.calls_needed, owned.commits_offset, replies.get(number, 0)
            )
            _keep(self._partitions.setdefault(number, []), sample)
        for number, sequencer in node.sequencers.items():
            oldest = sequencer.admission.oldest
            sample = _OfSequencer(sequencer.position, sequencer.position if oldest is None else oldest)
            _keep(self._sequencers.setdefault(number, []), sample)

    def epochs(self, needed: int) -> int:
        """Of the epochs topic, if all checkpoints that may be begun with are of this epoch or later ones."""
        return max((each.position for each in self._ledger if each.cut < needed), default=0)

    def calls_and_commits(self, partition: int, needed: int) -> tuple[int, int]:
        """If all checkpoints of the partition that may be begun with are of this epoch or later ones."""
        known = [each for each in self._partitions.get(partition, ()) if each.epoch <= needed]
        return max((each.calls for each in known), default=0), max((each.commits for each in known), default=0)

    def replies(self, node: TransactionNode, partition: int, needed: int) -> int:
        """As ``calls_and_commits``; replies stay until ids as old as they are have been forgotten everywhere."""
        base = node.ledger.epoch(node.ledger.done + 1).base or 0
        known = self._partitions.get(partition, [])
        old = [each.replies for each in known if each.epoch <= needed and each.base + self._id_window <= base]
        return max(0, min(max(old), max(each.replies for each in known) - KEPT_REPLIES)) if old else 0

    def requests(self, node: TransactionNode, sequencer: int) -> int:
        """No node runs these again, and their ids are forgotten."""
        needed = first_needed(node.ledger, sequencer, node.ledger.logged)
        known = self._sequencers.get(sequencer, [])
        return max((each.oldest for each in known if each.position <= needed), default=0)


def _keep(samples: list[_Sample], sample: _Sample) -> None:
    if samples and samples[-1] == sample:
        return
    samples.append(sample)
    if len(samples) > MAX_SAMPLES:
        del samples[1::2]
