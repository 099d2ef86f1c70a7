"""A node of a transactional job as a state machine: ``step(event, now_ms) -> what to append``.

A caller with several events passes all to ``receive`` and steps once: effects are computed once, and leave together.

Two rules for this file: it knows no clock and no log, and all it shares with other nodes is on the log.
"""

from __future__ import annotations

from collections.abc import Callable

from transactional import events as e
from transactional.epochs.appends import Append, AppendCommit, AppendEpochs
from transactional.epochs.copies import MoveSteps
from transactional.epochs.ledger import Ledger
from transactional.epochs.messages import BadRecord, call_message, to_bytes
from transactional.epochs.pieces import batch_messages, travelling
from transactional.epochs.sequencer import EpochConfig, Sequencer
from transactional.execution.crashing import Trying
from transactional.execution.interrupting import RUNNING
from transactional.operators import Program
from transactional.program_versions import KnownPrograms
from transactional.sampled_cpu import SampledCpu
from transactional.standby import UnitStandby
from transactional.state.partition import StatePartition
from transactional.state.snapshots import LedgerState
from transactional.state.spilling import SpillingStore
from transactional.state.store import Store
from transactional.tally import TransactionTally


class TransactionNode:
    """One incarnation of one node. ``begin``: the oldest snapshot that it may be given, None: the start of everything.

    ``new_store`` makes the empty state of a partition. ``tally`` counts what this node's own partitions do.
    ``trying``: the attempt that is logged of work that it takes over; None: nothing. ``history_end``: where the epochs
    topic ended when this incarnation began. ``program``: also with other versions of it that the node has. ``cpu``
    counts what owned partitions cost, None: nothing does.
    """

    def __init__(
        self,
        program: Program | KnownPrograms,
        sequencers: int,
        config: EpochConfig | None = None,
        begin: LedgerState | None = None,
        new_store: Callable[[], Store | SpillingStore] = Store,
        tally: TransactionTally | None = None,
        trying: Trying | None = None,
        history_end: int = 0,
        cpu: SampledCpu | None = None,
    ) -> None:
        self.cpu = cpu
        self.tally = TransactionTally() if tally is None else tally
        self._new_store = new_store
        self.config = EpochConfig() if config is None else config
        self.ledger = Ledger(program, sequencers) if begin is None else Ledger.restored(program, sequencers, begin)
        self.ledger.history_end = history_end
        if trying is not None:
            self.ledger.crashing.trying = trying
        self.partitions: dict[int, StatePartition] = {}
        self.sequencers: dict[int, Sequencer] = {}
        self.bad_messages = 0
        self.standbys: dict[int, UnitStandby] = {}
        """By unit: request partitions first, then state partitions. Others it owns."""
        self._released: list[Append] = []
        self._early: list[tuple[int, Append]] = []  # commits, with an epoch that the log has to have first

    def owned_partitions(self) -> dict[int, StatePartition]:
        """Without those that it is a standby of."""
        count = self.ledger.sequencers
        return {number: each for number, each in self.partitions.items() if count + number not in self.standbys}

    def owned_sequencers(self) -> list[int]:
        """Without those that it is a standby of."""
        return [number for number in sorted(self.sequencers) if number not in self.standbys]

    def _count_with(self, unit: int, tally: TransactionTally) -> None:
        partition = self.partitions.get(unit - self.ledger.sequencers)
        if partition is not None:
            partition.tally = tally

    def step(self, event: e.Event, now_ms: int) -> list[Append]:
        """The appends that follow from ``event`` at ``now_ms``, in order."""
        self.receive(event)
        return self._advance(now_ms)

    def receive(self, event: e.Event) -> None:
        """Take in what has happened; what follows comes with the next step."""
        match event:
            case e.EpochsRead(values, next_offset):
                for value in values:
                    self.ledger.apply(value)
                self.ledger.has_read(next_offset)
            case e.CallsRead(partition, offsets, values):
                self._calls(partition, offsets, values)
            case e.RequestsRead(sequencer, offsets, values, next_offset):
                if sequencer in self.sequencers:
                    self.sequencers[sequencer].read(offsets, values, next_offset)
            case e.CommitsLogged(partition, next_offset):
                if partition in self.partitions:
                    owned = self.partitions[partition]
                    owned.commits_offset = max(owned.commits_offset, next_offset)
            case e.EpochsCovered(before):  # a partition here may not have ended them yet
                self.ledger.forget(min((before, *(each.epoch for each in self.partitions.values()))))
            case e.CopiesPaced(batch_bytes):
                self.ledger.copies.batch_bytes = batch_bytes
            case e.Ticked():
                pass
            case _:
                self._ownership_changed(event)

    def _ownership_changed(self, event: e.Event) -> None:
        """The units that this node works on have changed, or the owner of one of them has."""
        match event:
            case e.PartitionTaken():
                self.partitions[event.partition] = self._taken(event)
            case e.SequencerTaken(sequencer, start):
                self.sequencers[sequencer] = Sequencer(self.ledger, sequencer, self.config, start)
            case e.PartitionLost(partition):
                self.partitions.pop(partition, None)
                self.ledger.copies.release(partition)
                self.standbys.pop(self.ledger.sequencers + partition, None)
            case e.SequencerLost(sequencer):
                self.sequencers.pop(sequencer, None)
                self.standbys.pop(sequencer, None)
            case e.StandbyBegun(unit):
                self.standbys.setdefault(unit, UnitStandby())
                self.ledger.copies.release(unit - self.ledger.sequencers)
                self._count_with(unit, TransactionTally())
            case e.StandbyActivated(unit):
                self._released += self.standbys[unit].activate()
            case e.StandbyDeactivated(unit):
                self.standbys[unit].deactivate()
            case e.StandbyPromoted(unit):
                self._released += self.standbys.pop(unit).activate()
                self._count_with(unit, self.tally)
            case e.RepliesLogged(partition, last):
                self.standbys[self.ledger.sequencers + partition].saw_reply(last)
            case _:
                pass

    def _taken(self, event: e.PartitionTaken) -> StatePartition:
        taken = StatePartition(
            self.ledger,
            event.partition,
            id_window=self.config.id_window,
            replied=event.replied,
            inline_bytes=self.config.inline_bytes,
            move_steps=MoveSteps(self.config.copy_bytes, self.config.slice_rows),
            new_store=self._new_store,
        )
        if self.ledger.sequencers + event.partition not in self.standbys:
            taken.tally = self.tally
        if event.state is not None:
            taken.restore(event.state)
        self.bad_messages += taken.learn(event.commits)
        return taken

    def _calls(self, partition: int, offsets: list[int], values: list[bytes]) -> None:
        owned = self.partitions.get(partition)
        for offset, value in zip(offsets, values, strict=True):
            try:
                message = call_message(value)
                if owned is not None:
                    owned.receive(offset, message, value)
            except BadRecord:
                self.bad_messages += 1

    def _advance(self, now_ms: int) -> list[Append]:
        out, self._released = self._released, []
        while True:
            known = self.ledger.expects
            self._advance_sequencers(now_ms, out)
            self._advance_partitions(now_ms, out)
            if self.ledger.expects == known:  # else a record made here may be all that a partition here has waited for
                break
        for unit in sorted(self.standbys):
            self.standbys[unit].forget(self.ledger.done)
        proposals = (*self.ledger.hanging.take_unpublished(), *self.ledger.crashing.take_unpublished())
        out += [AppendEpochs(to_bytes(each)) for each in proposals]
        out = self._without_early_commits(out)
        return batch_messages(travelling(out, self.config.compress_bytes, self.config.piece_bytes))

    def _advance_sequencers(self, now_ms: int, out: list[Append]) -> None:
        opened = 0
        for _ in range(2):  # when one of them cuts, all of them do, in one record
            before = opened
            for number, sequencer in sorted(self.sequencers.items()):
                standby = self.standbys.get(number) if self.standbys else None
                while True:
                    epoch, made = self.ledger.next_cut(number)[0], out if standby is None else []
                    if not sequencer.advance(now_ms, made, opened):
                        break
                    if standby is not None:
                        _hold(standby, epoch, now_ms, made, out)
                if standby is None:
                    opened = max(opened, sequencer.opens)
            if opened == before or len(self.sequencers) == 1:
                break

    def _advance_partitions(self, now_ms: int, out: list[Append]) -> None:
        cpu = self.cpu if self.cpu is not None and self.cpu.is_due() else None
        for number, partition in sorted(self.partitions.items()):
            standby = self.standbys.get(self.ledger.sequencers + number) if self.standbys else None
            began_ns = 0
            if cpu is not None and standby is None:
                began_ns, RUNNING.cpu = cpu.begin(number), cpu
            partition.expects = standby is None
            try:
                while True:
                    epoch, made = partition.epoch, out if standby is None else []
                    moved = partition.advance(made)
                    if standby is not None and made:
                        _hold(standby, epoch, now_ms, made, out)
                    if not moved:
                        break
            finally:
                RUNNING.cpu = None
            if cpu is not None and standby is None:
                cpu.add(number, cpu.clock_ns() - began_ns)

    def _without_early_commits(self, out: list[Append]) -> list[Append]:
        """A node that finds a commit waits for the end of its epoch: this node's records of it come first."""
        if self._early and self.ledger.logged >= self._early[0][0]:
            logged = self.ledger.logged
            out = [each for epoch, each in self._early if epoch <= logged] + out
            self._early = [(epoch, each) for epoch, each in self._early if epoch > logged]
        if self.ledger.expects:
            done, logged = self.ledger.done, self.ledger.logged
            if done > logged:
                self._early += [(done, each) for each in out if isinstance(each, AppendCommit)]
                out = [each for each in out if not isinstance(each, AppendCommit)]
        return out


def _hold(standby: UnitStandby, epoch: int, now_ms: int, made: list[Append], out: list[Append]) -> None:
    if standby.is_active:
        out += made
    else:
        standby.keep(epoch, now_ms, made)
