"""Checkpoints of state partitions: when they are due, what is durable before them, and with which a node begins.

Order: the partition's replies are acknowledged, then its snapshot is saved, then ``CheckpointSaved`` is on the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from nodes.checkpoint_format import CheckpointDamaged, CheckpointKey, CheckpointMissing
from nodes.checkpoints import CheckpointStore
from nodes.machine import messages as m
from nodes.machine.ownership import Ownership
from nodes.saver import DirectSaver, Saver
from nodes.transactions.topics import FIRST_INCARNATION
from transactional.partition import StatePartition
from transactional.snapshots import LedgerState, PartitionState, snapshot_state
from transactional.values import BadValue
from wcrdt.slots import WINDOW_START

logger = logging.getLogger(__name__)

IDLE_INTERVALS = 10
"""A partition with few writes has a checkpoint so much more rarely: each holds all of its state."""


class TransactionCheckpoints:
    """Of one node. Units: request partitions first, then state partitions."""

    def __init__(
        self,
        store: CheckpointStore,
        job: str,
        node: str,
        ownership: Ownership,
        *,
        sequencers: int,
        interval_ms: int,
        saver: Saver | None = None,
    ) -> None:
        self.store = store
        self.job = f"{job}-txn"
        self.node = node
        self.ownership = ownership
        self.sequencers = sequencers
        self.interval_ms = interval_ms
        self._saver = DirectSaver() if saver is None else saver
        self._saved: list[m.CheckpointSaved] = []
        self._distrusted = 0
        self._looked_ms: dict[int, int] = {}
        self._idle: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._held: dict[int, tuple[int, bytes, int]] = {}  # epoch, snapshot, replies that have to be acknowledged
        self._replies_sent: dict[int, int] = {}
        self._replies_acked: dict[int, int] = {}

    # --- beginning --------------------------------------------------------------------------------------------------

    def first_epoch_needed(self) -> int:
        """Epochs after this one are needed by some checkpoint that may be begun with; 0: all are."""
        kept = [self.ownership.checkpoints(unit) for unit in range(self.sequencers, self.ownership.partitions)]
        needed = min(saved[-1].offset for saved in kept) if all(kept) else 0
        return needed if needed > self._distrusted else 0

    def distrust(self) -> None:
        """Some checkpoints that are known by now are damaged: until all kept ones are newer, none may be needed."""
        known = [self.ownership.checkpoint(unit) for unit in range(self.ownership.partitions)]
        self._distrusted = max((saved.offset for saved in known if saved is not None), default=0)

    def ledger(self) -> LedgerState | None:
        """Where a node begins to read the epochs topic; None: at its start."""
        needed = self.first_epoch_needed()
        for unit in range(self.sequencers, self.ownership.partitions):
            for saved in self.ownership.checkpoints(unit):
                state = self._loaded(saved.name) if saved.offset == needed else None
                if state is not None:
                    return state.ledger
        return None

    def newest(self, partition: int, since: int) -> PartitionState | None:
        """The newest intact checkpoint of an epoch from ``since`` on."""
        for saved in self.ownership.checkpoints(self.sequencers + partition):
            if saved.offset >= since and (state := self._loaded(saved.name)) is not None:
                return state
        return None

    def _loaded(self, name: str) -> PartitionState | None:
        try:
            return snapshot_state(self.store.load(name))
        except (CheckpointDamaged, CheckpointMissing, BadValue) as error:
            logger.warning("node %s: %s; falling back to an older checkpoint, or to the log", self.node, error)
            return None

    # --- replies ----------------------------------------------------------------------------------------------------

    def replies_sent(self, partition: int) -> Callable[[int], None]:
        """To be called when this batch of replies is acknowledged."""
        self._replies_sent[partition] = self._replies_sent.get(partition, 0) + 1
        return partial(self._acked, partition)

    def _acked(self, partition: int, end: int) -> None:
        self._replies_acked[partition] = self._replies_acked.get(partition, 0) + 1

    # --- saving -----------------------------------------------------------------------------------------------------

    def turn(self, partitions: dict[int, StatePartition], now_ms: int) -> list[bytes]:
        """Ask for snapshots that are due and save those that may be; gives what to say on the control topic."""
        for number, partition in partitions.items():
            looked = self._looked_ms.setdefault(number, now_ms)
            if now_ms - looked >= self.interval_ms:
                self._looked_ms[number] = now_ms
                self._maybe_want(number, partition)
            made = partition.take_snapshot()
            if made is not None:
                self._held[number] = *made, self._replies_sent.get(number, 0)
        for number in sorted(self._held):
            epoch, data, ticket = self._held[number]
            if self._replies_acked.get(number, 0) >= ticket:
                del self._held[number]
                self._saver.save(partial(self._save, self.sequencers + number, epoch, data))
        self._saver.finished()
        said, self._saved = self._saved, []
        return [m.encode(saved) for saved in said]

    def _maybe_want(self, number: int, partition: StatePartition) -> None:
        self._idle[number] = self._idle.get(number, 0) + 1
        moved = partition.epoch != self._epochs.get(number, 1)
        size = len(partition.store.items) + len(partition.replies)
        if moved and (4 * partition.writes >= size or self._idle[number] >= IDLE_INTERVALS):
            self._idle[number] = 0
            self._epochs[number] = partition.epoch
            partition.writes = 0
            partition.want_snapshot()

    def _save(self, unit: int, epoch: int, data: bytes) -> None:
        key = CheckpointKey(self.job, FIRST_INCARNATION, unit, (epoch, 0), WINDOW_START)
        name = self.store.save(key, data)
        self.store.prune(self.job, FIRST_INCARNATION, unit, [saved.name for saved in self.ownership.checkpoints(unit)])
        version = self.ownership.version(unit)
        answered, stage = WINDOW_START
        self._saved.append(
            m.CheckpointSaved(FIRST_INCARNATION, self.node, unit, version, name, epoch, 0, answered, stage)
        )
