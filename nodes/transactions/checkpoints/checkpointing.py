"""Checkpoints of state partitions: when they are due, what is durable before them, and with which a node begins.

Order: the partition's replies are acknowledged, then its snapshot is saved, then ``CheckpointSaved`` is on the log.
A checkpoint holds what has changed since the last one (``chains.py``), so its cost is that of the writes since.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

from nodes.checkpoints.errors import CheckpointDamaged, CheckpointMissing
from nodes.checkpoints.file_names import own_name
from nodes.checkpoints.saver import DirectSaver, Saver
from nodes.checkpoints.store import CheckpointStore
from nodes.machine import messages as m
from nodes.machine.ownership.ownership import Ownership
from nodes.transactions.checkpoints import chains
from nodes.transactions.checkpoints.chain_life import ChainLifecycle, CheckpointEvent, Effect
from nodes.transactions.checkpoints.chains import FileReference
from nodes.transactions.checkpoints.compaction import Compact, CompactionFailed, CompactionRequest, compact_here
from nodes.transactions.topics import FIRST_INCARNATION, checkpoint_job
from transactional.state.partition import StatePartition
from transactional.state.restored import RestoredState
from transactional.state.snapshots import LedgerState, PartitionState, StateSnapshot
from wcrdt.replica.slots import WINDOW_START

logger = logging.getLogger(__name__)

IDLE_INTERVALS = 10
"""A partition without writes has a checkpoint so much more rarely."""


class Begin(NamedTuple):
    """A checkpoint that a partition begins with."""

    name: str
    state: RestoredState
    chain: tuple[FileReference, ...]


Restore: TypeAlias = Callable[[PartitionState, Iterable[PartitionState]], RestoredState]
"""As ``restored_state``, for this job."""


@dataclass(slots=True)
class _SavedUnit:
    """A partition for as long as this node owns it. ``held``: a snapshot, and replies that have to be acknowledged."""

    partition: StatePartition
    chain: ChainLifecycle
    checked_ms: int
    epoch: int
    idle: int = 0
    held: tuple[int, StateSnapshot, int] | None = None


class _Saved(NamedTuple):
    """``part`` None: what it rests upon has gone."""

    number: int
    saved_unit: _SavedUnit
    epoch: int
    part: FileReference | None


class _Merged(NamedTuple):
    """``made`` None: it failed; ``damaged``: and will again."""

    saved_unit: _SavedUnit
    made: list[FileReference] | None
    damaged: bool = False


class TransactionCheckpoints:
    """Of one node. Units: request partitions first, then state partitions.

    ``reads_back``: what is saved counts once it was read, since the log forgets what it rests upon.
    """

    def __init__(
        self,
        store: CheckpointStore,
        job: str,
        node: str,
        ownership: Ownership,
        *,
        sequencers: int,
        interval_ms: int,
        saver: Saver[_Saved] | None = None,
        merger: Saver[_Merged] | None = None,
        compact: Compact | None = None,
        reads_back: bool = False,
    ) -> None:
        self.store = store
        self.job = checkpoint_job(job)
        self.node = node
        self.ownership = ownership
        self.sequencers = sequencers
        self.interval_ms = interval_ms
        self._reads_back = reads_back
        self._saver: Saver[_Saved] = DirectSaver() if saver is None else saver
        self._merger: Saver[_Merged] = DirectSaver() if merger is None else merger
        self._compact = compact_here(store) if compact is None else compact
        self._under: dict[
            int, dict[str, list[FileReference]]
        ] = {}  # what kept checkpoints of a unit rest upon; the saver's own
        self._saved_units: dict[int, _SavedUnit] = {}
        self._begun: dict[int, ChainLifecycle] = {}
        self.begun_with: dict[int, str] = {}
        """Of each state partition that began with a checkpoint: which."""
        self._distrusted = 0
        self._replies_sent: dict[int, int] = {}
        self._replies_acked: dict[int, int] = {}
        self.replies_ends: dict[int, int] = {}
        """Of each state partition, up to where replies of this node are on the log."""

    @property
    def saved_units(self) -> Mapping[int, _SavedUnit]:
        """Of each state partition that is saved here: the lifecycle of its chain."""
        return self._saved_units

    # --- beginning --------------------------------------------------------------------------------------------------

    def first_epoch_needed(self) -> int:
        """Epochs after this one are needed by some checkpoint that may be begun with; 0: all are."""
        started, found = self.ownership.started, self.ownership.checkpoints
        first = self.ownership.partitions if started is None else started.partitions
        units = range(self.sequencers, self.ownership.partitions)
        kept = [found(unit) for unit in units if unit < first or found(unit)]  # others take part in no epoch yet
        needed = min(saved[-1].offset for saved in kept) if all(kept) else 0
        return needed if needed > self._distrusted else 0

    def new_units_without(self, units: int) -> list[int]:
        """Of so many, those that the job did not begin with, and that a node which starts now could not begin with."""
        started, needed = self.ownership.started, self.first_epoch_needed()
        first = units if started is None else started.partitions
        saved = {unit: self.ownership.checkpoint(unit) for unit in range(first, units)}
        return [unit for unit, each in saved.items() if each is None or each.offset < needed]

    def distrust(self) -> None:
        """Some checkpoints that are known by now are damaged: until all kept ones are newer, none may be needed."""
        known = [self.ownership.checkpoint(unit) for unit in range(self.ownership.partitions)]
        self._distrusted = max((saved.offset for saved in known if saved is not None), default=0)

    def ledger_names(self) -> tuple[str, ...]:
        """The checkpoints that hold the ledger which a node begins with; none: it reads the epochs topic from 0."""
        needed = self.first_epoch_needed()
        units = range(self.sequencers, self.ownership.partitions)
        return tuple(
            saved.name for unit in units for saved in self.ownership.checkpoints(unit) if saved.offset == needed
        )

    def load_ledger(self, names: Iterable[str]) -> LedgerState | None:
        """The ledger of the first of these that is intact. For a thread beside the node's loop."""
        for name in names:
            try:
                return chains.load_file(self.store, own_name(self.job, name))[1].ledger
            except (CheckpointDamaged, CheckpointMissing) as error:
                self.warn_of_damage(error)
        return None

    def load(self, names: Iterable[str], restore: Restore) -> Begin | None:
        """The first of these that is intact. For a thread beside the node's loop."""
        for name in names:
            try:
                rests_on, newest = chains.load_file(self.store, own_name(self.job, name))
                state = restore(newest, chains.states(self.store, rests_on, (name, newest)))
            except (CheckpointDamaged, CheckpointMissing) as error:
                self.warn_of_damage(error)
                continue
            size_bytes = sum(len(key) + len(value or b"") for _, key, value in newest.items)
            return Begin(name, state, (*rests_on, FileReference(name, size_bytes)))
        return None

    def begins(self, partition: int, begin: Begin | None) -> None:
        """This node works on the partition from now on, beginning with this checkpoint."""
        self._begun[partition] = (
            ChainLifecycle() if begin is None else ChainLifecycle(begin.chain, begin.state.ledger.done)
        )
        self.begun_with.pop(partition, None)
        if begin is not None:
            self.begun_with[partition] = begin.name
        self._saved_units.pop(partition, None)

    def promoted(self, partition: int) -> None:
        """This node owns the partition now, in place: no checkpoint may rest upon those that others have made since."""
        self._begun[partition] = ChainLifecycle(is_sound=False)
        self._saved_units.pop(partition, None)

    def warn_of_damage(self, error: Exception) -> None:
        logger.warning("node %s: %s; falling back to an older checkpoint, or to the log", self.node, error)

    # --- replies ----------------------------------------------------------------------------------------------------

    def replies_sent(self, partition: int) -> Callable[[int], None]:
        """To be called when this batch of replies is acknowledged."""
        self._replies_sent[partition] = self._replies_sent.get(partition, 0) + 1
        return partial(self._acked, partition)

    def _acked(self, partition: int, end: int) -> None:
        self._replies_acked[partition] = self._replies_acked.get(partition, 0) + 1
        self.replies_ends[partition] = max(end, self.replies_ends.get(partition, 0))

    # --- saving -----------------------------------------------------------------------------------------------------

    def turn(self, partitions: dict[int, StatePartition], now_ms: int) -> list[bytes]:
        """Request snapshots that are due and save those that may be; returns records for the control topic."""
        for number in [number for number in self._saved_units if number not in partitions]:
            del self._saved_units[number]
        notices: list[bytes] = []
        for number, partition in sorted(partitions.items()):
            saved_unit = self._saved_unit(number, partition, now_ms)
            if saved_unit.chain.is_idle:
                self._maybe_request_snapshot(number, saved_unit, now_ms)
            if saved_unit.chain.is_wanted and (made := partition.take_snapshot()) is not None:
                epoch, snapshot = made
                if saved_unit.chain.made(epoch, snapshot.since) is not Effect.DROP:
                    saved_unit.held = epoch, snapshot, self._replies_sent.get(number, 0)
            acked = saved_unit.held is not None and self._replies_acked.get(number, 0) >= saved_unit.held[2]
            if acked and self._owns(number):
                notices += self._hand_over(number, saved_unit)
        for saved in self._saver.finished():
            notices += self._keep(saved)
        for merged in self._merger.finished():
            self._replace(merged)
        return notices

    def _owns(self, number: int) -> bool:
        """As far as this node has read: so a save that deletes knows no checkpoint of an owner after it."""
        return self.ownership.owner(self.sequencers + number) == self.node

    def _saved_unit(self, number: int, partition: StatePartition, now_ms: int) -> _SavedUnit:
        saved_unit = self._saved_units.get(number)
        if saved_unit is None or saved_unit.partition is not partition:
            chain, checked_ms = self._begun.pop(number, None), now_ms - self._offset_ms(number)
            chain = ChainLifecycle(is_sound=False) if chain is None else chain
            saved_unit = self._saved_units[number] = _SavedUnit(partition, chain, checked_ms, partition.epoch)
        return saved_unit

    def _offset_ms(self, number: int) -> int:
        """So much earlier in the interval its checkpoints are than those of partition 0: not all at one moment."""
        return self.interval_ms * number // (self.ownership.partitions - self.sequencers)

    def _maybe_request_snapshot(self, number: int, saved_unit: _SavedUnit, now_ms: int) -> None:
        """Where the interval is over and there is something to save, or the chain has to begin anew."""
        partition, due = saved_unit.partition, False
        newest = self.ownership.checkpoint(self.sequencers + number)
        if newest is not None and partition.epoch < newest.offset:
            return  # it would count for nothing, and others could take it for an old one that may go
        if (intervals := (now_ms - saved_unit.checked_ms) // max(1, self.interval_ms)) > 0:
            saved_unit.checked_ms += intervals * self.interval_ms
            saved_unit.idle += 1
            due = partition.epoch != saved_unit.epoch and (partition.writes > 0 or saved_unit.idle >= IDLE_INTERVALS)
        effect = saved_unit.chain.happens(CheckpointEvent.DUE if due else CheckpointEvent.CHECKED)
        if effect in (Effect.REQUEST, Effect.REQUEST_WHOLE):
            saved_unit.idle, saved_unit.epoch = 0, partition.epoch
            partition.want_snapshot(whole=effect is Effect.REQUEST_WHOLE)

    def _hand_over(self, number: int, saved_unit: _SavedUnit) -> list[bytes]:
        assert saved_unit.held is not None
        (epoch, made, _), saved_unit.held = saved_unit.held, None
        if saved_unit.chain.happens(CheckpointEvent.ACKNOWLEDGED) is Effect.DROP:
            return []
        unit, merging = self.sequencers + number, bool(saved_unit.chain.merging)
        known = [saved.name for saved in self.ownership.checkpoints(unit)]
        saved = self._saver.save(
            partial(self._save, number, saved_unit, saved_unit.chain.chain, epoch, made, known, merging)
        )
        return [] if saved is None else self._keep(saved)

    def _save(
        self,
        number: int,
        saved_unit: _SavedUnit,
        chain: tuple[FileReference, ...],
        epoch: int,
        made: StateSnapshot,
        known: list[str],
        merging: bool,
    ) -> _Saved:
        """Beside the node's loop.

        No file depends on the output of a merge yet, so no file is deleted while one runs.
        """
        unit, store = self.sequencers + number, self.store
        part = chains.save_file(store, self.job, unit, (epoch, 0), chain, made.encoded())
        names = store.list(self.job, FIRST_INCARNATION, unit)
        if not {each.name for each in chain} <= set(names) or not self._is_intact([part]):
            return _Saved(number, saved_unit, epoch, None)
        known_under = {part.name: list(chain), **self._under.get(unit, {})}
        names_kept = (*known, part.name)
        under = {name: known_under[name] if name in known_under else self._rests_on(name) for name in names_kept}
        self._under[unit] = {name: parts for name, parts in under.items() if parts is not None}
        if not merging:
            rested_on = {each.name for parts in self._under[unit].values() for each in parts}
            store.discard(self.job, FIRST_INCARNATION, unit, chains.not_rested_on(names, known, under, rested_on))
        return _Saved(number, saved_unit, epoch, part)

    def _is_intact(self, parts: Iterable[FileReference]) -> bool:
        """Whether these can be read, if that matters."""
        try:
            for part in parts if self._reads_back else ():
                self.store.load(part.name)
        except (CheckpointDamaged, CheckpointMissing):
            return False
        return True

    def _rests_on(self, name: str) -> list[FileReference] | None:
        """None: that is not known, the file is bad."""
        try:
            return chains.rests_on(self.store, name)
        except (CheckpointDamaged, CheckpointMissing):
            return None

    def _keep(self, saved: _Saved) -> list[bytes]:
        number, saved_unit, epoch, part = saved
        effect = saved_unit.chain.saved(part)
        if part is None:
            self.warn_of_damage(CheckpointMissing(f"files of partition {number} that a checkpoint rests upon are gone"))
        if part is None or effect is Effect.DROP:
            return []
        if self._saved_units.get(number) is saved_unit:
            self._maybe_merge(number, saved_unit)
        unit = self.sequencers + number
        answered, stage = WINDOW_START
        version = self.ownership.version(unit)
        notice = m.CheckpointSaved(FIRST_INCARNATION, self.node, unit, version, part.name, epoch, 0, answered, stage)
        return [m.encode(notice)]

    # --- merging ----------------------------------------------------------------------------------------------------

    def _maybe_merge(self, number: int, saved_unit: _SavedUnit) -> None:
        chain = saved_unit.chain.chain
        parts = tuple(chains.to_merge(chain))
        if not parts or saved_unit.chain.merging:
            return
        saved_unit.chain.merges(parts)
        request = CompactionRequest(self.job, self.sequencers + number, list(parts), whole=len(parts) == len(chain))
        merged = self._merger.save(partial(self._merge, saved_unit, request))
        if merged is not None:
            self._replace(merged)

    def _merge(self, saved_unit: _SavedUnit, request: CompactionRequest) -> _Merged:
        """Beside the node's loop."""
        try:
            made = self._compact(request)
            return _Merged(saved_unit, made if self._is_intact(made) else None)
        except CompactionFailed as error:
            is_here = self._saved_units.get(request.unit - self.sequencers) is saved_unit  # else its owner merges them
            level = logging.WARNING if is_here else logging.DEBUG
            logger.log(level, "node %s: checkpoints of unit %d are not merged: %s", self.node, request.unit, error)
            return _Merged(saved_unit, None, error.damaged)

    def _replace(self, merged: _Merged) -> None:
        merged.saved_unit.chain.merged(merged.made, damaged=merged.damaged)
