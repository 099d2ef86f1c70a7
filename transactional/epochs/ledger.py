"""The epochs topic, folded: cuts, barriers and read-set snapshots of all epochs, and what follows from them.

Nodes that have read the same prefix agree on all of it. An epoch is a window with one slot for each sequencer and
partition. The first record of a slot wins, and the decision is the join of all slots, read when the window is complete.
"""

from __future__ import annotations

from functools import partial

from transactional.conflicts.nondeterminism import crashed_elsewhere
from transactional.epochs.copies import Copies, take_layout
from transactional.epochs.decision import decide
from transactional.epochs.epoch import Epoch
from transactional.epochs.handovers import Handovers
from transactional.epochs.layout_messages import Copied, CopyArrived, Handover, NewLayout, NewProgram, PlannedLayout
from transactional.epochs.messages import (
    Attempt,
    BadRecord,
    Crashes,
    Cut,
    EpochMessage,
    ReadSetSnapshot,
    RecordPiece,
    RoundBarrier,
    TimeoutAcknowledgement,
    TimeoutProposal,
    epoch_message,
    epoch_messages,
)
from transactional.epochs.own_records import OwnRecords
from transactional.epochs.pieces import RecordPieces, is_past
from transactional.execution.crashing import Crashing
from transactional.execution.hanging import Hung, TimeoutProposals
from transactional.execution.raised_exceptions import Raised
from transactional.execution.rerun import Postponed, Rerun, rerun
from transactional.layout_history import LayoutHistory
from transactional.operators import Program
from transactional.program_versions import KnownPrograms, VersionHistory
from transactional.state.snapshots import LedgerState

FIRST_EPOCH = 1


class Ledger:
    """A fold over the epochs topic. ``done``: the last epoch whose outcome is known."""

    def __init__(self, program: Program | KnownPrograms, sequencers: int) -> None:
        self.versions = VersionHistory(sequencers, KnownPrograms.of(program))
        self.program = self.versions.programs.own
        self.sequencers = sequencers
        self.layouts = LayoutHistory(self.versions.operators())
        self.copies, self.handovers = Copies(self.layouts), Handovers(self.layouts)
        self.done = FIRST_EPOCH - 1
        self.position = 0  # on the epochs topic
        self.history_end = 0
        """Up to this offset the topic was there before this ledger: it may hold timeout proposals already."""
        self.hanging = TimeoutProposals(FIRST_EPOCH - 1)
        self.crashing = Crashing()
        self.raised = Raised()
        self.changes = 0  # counts what was learned by reading; what this node has made itself is none
        self.bad_messages = self.repeats = self.void_cuts = 0
        self.epochs: dict[int, Epoch] = {FIRST_EPOCH: Epoch(FIRST_EPOCH, 0)}
        self._pieces = RecordPieces()
        self._next_cut = [FIRST_EPOCH] * sequencers
        self._cut_to = [0] * sequencers
        self._forgotten = FIRST_EPOCH
        self._empty = Epoch(0)
        self._own = OwnRecords()

    # --- queried by sequencers and partitions -----------------------------------------------------------------------

    def epoch(self, number: int) -> Epoch:
        """The epoch; empty if nothing of it was read."""
        found = self.epochs.get(number)
        if found is None:  # queried often before anything of it is read
            found = self._empty = self._empty if self._empty.number == number else Epoch(number)
        return found

    def next_cut(self, sequencer: int) -> tuple[int, int]:
        """The epoch that the sequencer has to cut next, and the offset at which that begins."""
        return self._next_cut[sequencer], self._cut_to[sequencer]

    @property
    def last_cut(self) -> int:
        """The last epoch of which anybody has made a cut."""
        return max(self._next_cut) - 1

    def fits(self, cut: Cut) -> bool:
        """Whether it was made under the layout and the version of the program that hold in its epoch."""
        return (cut.layout, cut.program) == (self.layouts.placement(cut.epoch).number, self.versions.number(cut.epoch))

    def partitions(self, number: int) -> int:
        """How many state partitions take part in the epoch, as far as is known while nobody has cut it."""
        return self.layouts.placement(number).partitions

    def is_sequenced(self, number: int) -> bool:
        """Whether the transactions of the epoch, and their TIDs, are known."""
        epoch = self.epochs.get(number)
        return epoch is not None and epoch.base is not None and len(epoch.cuts) == self.sequencers

    def is_open(self, number: int) -> bool:
        """Whether it is to be cut: a sequencer has, transactions were postponed to it, or keys wait for it."""
        epoch = self.epochs.get(number)
        return self.layouts.opens(number) or (epoch is not None and bool(epoch.cuts or epoch.carried))

    def tid(self, number: int, sequencer: int, index: int) -> int:
        """TID of the request with this index in the cut (Styx, equation 1)."""
        base = self.epoch(number).base
        assert base is not None, f"epoch {number} is not sequenced"
        tid = sequencer + (base + index) * self.sequencers
        assert tid < 2**63, f"TID {tid} has more than 63 bits"
        return tid

    # --- this node's own --------------------------------------------------------------------------------------------

    @property
    def logged(self) -> int:
        """The last epoch whose outcome follows from the log alone: of later ones, own records are on their way."""
        return self._own.logged(self.done)

    @property
    def expects(self) -> int:
        """Of how many own records it has made use, and has not read them."""
        return len(self._own)

    def expect(self, message: RoundBarrier | ReadSetSnapshot) -> None:
        """Count what this node has just made, and sends: it is a function of the log, so who reads it finds the same.

        Nothing that holds others back if this record is lost may be written before the log has it (see ``logged``).
        """
        if message.epoch <= self.done:
            return
        self._own.add(message)
        if isinstance(message, RoundBarrier):
            self._take_barrier(message)
        else:
            self._take_read_set(message)

    # --- as one value -----------------------------------------------------------------------------------------------

    def snapshot(self) -> LedgerState:
        """The state after ``position``; what is done is left out."""
        first = self.epoch(self.done + 1)
        assert first.base is not None
        later = [self.epochs[number] for number in sorted(self.epochs) if number > self.done]
        return LedgerState(
            epochs_offset=self.position,
            done=self.done,
            base=first.base,
            carried=[first.carried[tid].state() for tid in sorted(first.carried)],
            next_cut=list(self._next_cut),
            cut_to=list(self._cut_to),
            cuts=[epoch.cuts[s] for epoch in later for s in sorted(epoch.cuts)],
            barriers=self._own.without(
                barriers[p] for e in later for _, barriers in sorted(e.barriers.items()) for p in sorted(barriers)
            ),
            read_sets=self._own.without(epoch.read_sets[p] for epoch in later for p in sorted(epoch.read_sets)),
            pieces=self._pieces.kept(),
            hanging=self.hanging.records(),
            closed=self.hanging.closed,
            crashing=self.crashing.records(self.done),
            layouts=self.layouts.since(self.done),
            programs=self.versions.records(),
            handovers=self.handovers.records(self.done),
            planned=self.layouts.planned(self.done),
            copies=self.copies.state(self.done),
        )

    @classmethod
    def restored(cls, program: Program | KnownPrograms, sequencers: int, state: LedgerState) -> Ledger:
        """Go on from a snapshot, at its ``epochs_offset``."""
        made = cls(program, sequencers)
        made.position, made.done, made._pieces = state.epochs_offset, state.done, RecordPieces(state.pieces)
        made.hanging = TimeoutProposals(state.closed, state.hanging, state.done)
        made.crashing = Crashing(state.crashing)
        made.versions = VersionHistory(sequencers, made.versions.programs, state.programs)
        made.layouts = LayoutHistory(made.versions.operators(), state.layouts, state.planned)
        made.copies, made.handovers = Copies(made.layouts, state.copies), Handovers(made.layouts, state.handovers)
        number, carried = state.done + 1, {each.tid: Postponed.restored(each) for each in state.carried}
        made.epochs = {number: Epoch(number, state.base, carried=carried)}
        for cut in state.cuts:
            made._at(cut.epoch).cuts[cut.sequencer] = cut
        made._next_cut, made._cut_to = list(state.next_cut), list(state.cut_to)
        made._number(number)
        for barrier in state.barriers:
            made._receive_barrier(barrier)
        for read_set in state.read_sets:
            made._receive_read_set(read_set)
        return made

    def forget(self, before: int) -> None:
        """Drop epochs that no checkpoint needs any more."""
        before = min(before, self.done + 1)
        if before > self._forgotten:  # else all epochs would be checked for nothing, many times a second
            for number in [number for number in self.epochs if number < before]:
                del self.epochs[number]
            self._forgotten = before
        self.hanging.forget(before)
        self.crashing.forget(before)
        self.layouts.forget(before)
        self.copies.forget()
        self.handovers.forget(before)

    # --- the fold ---------------------------------------------------------------------------------------------------

    def apply(self, value: bytes) -> None:
        """The next record of the topic; what is none of ours is counted and passed over."""
        try:
            messages = epoch_messages(value)
        except BadRecord:
            self.bad_messages += 1
            return
        for message in messages:
            whole = self._joined(message) if isinstance(message, RecordPiece) else message
            if whole is not None:
                self._take(whole)

    def _joined(self, piece: RecordPiece) -> EpochMessage | None:
        """The record that is whole with this piece."""
        if is_past(piece.epoch, self.logged + 1, self.layouts.newest.number):
            return None
        try:
            whole = self._pieces.take(piece)
            return None if whole is None else epoch_message(whole)
        except BadRecord:
            self.bad_messages += 1
            return None

    def _take(self, message: EpochMessage) -> None:
        match message:
            case RecordPiece():
                self.bad_messages += 1
            case Cut():
                self._cut(message)
            case RoundBarrier():
                self._receive_barrier(message)
            case ReadSetSnapshot():
                self._receive_read_set(message)
            case TimeoutProposal():
                self.changes += 1
                self.hanging.take(message, self.done)
                self._finish()
            case TimeoutAcknowledgement():
                self.changes += 1
                self.hanging.acknowledge(message)
                self._finish()
            case Attempt():
                self.changes += 1
                self.crashing.tried(message)
                self._finish()
            case Crashes():
                self.changes += 1
                self._crashes(message)
            case NewLayout() | PlannedLayout() | Copied() | CopyArrived():
                self.changes += take_layout(message, self.layouts, self.copies, self.last_cut + 1)
            case NewProgram(program):
                self.changes += self.versions.add(self.last_cut + 1, self._next_cut, self._cut_to, program)
                self.layouts.learn(self.versions.operators())
            case Handover():
                self._receive_handover(message)

    def has_read(self, position: int) -> None:
        """All records before this offset were applied."""
        waited, self.position = self.position < self.history_end, position
        if waited:
            self.changes += 1
            number = self.done + 1
            if position >= self.history_end and len(self.epoch(number).read_sets) == self.partitions(number):
                self.crashing.find_due(number)
            self._finish()

    def _crashes(self, crashes: Crashes) -> None:
        """A verdict counts where it comes before the partition's barrier of that round, and all later ones."""
        number, partition = crashes.epoch, crashes.partition
        found = self.epoch(number)
        later = [
            round_ for round_, barriers in found.barriers.items() if round_ >= crashes.round and partition in barriers
        ]
        if number <= self.logged or any((number, round_, partition) not in self._own for round_ in later):
            self.crashing.pass_over(crashes)
        elif self.crashing.accuse(crashes) and later:
            raise crashed_elsewhere(crashes)

    def _at(self, number: int) -> Epoch:
        return self.epochs.setdefault(number, Epoch(number))

    def _cut(self, cut: Cut) -> None:
        if not 0 <= cut.sequencer < self.sequencers:
            self.bad_messages += 1
            return
        if (cut.epoch, cut.from_offset) != self.next_cut(cut.sequencer):  # another cut of the epoch has won
            self.repeats += 1
            return
        if not self.fits(cut):
            self.void_cuts += 1
            return
        self.changes += 1
        self._next_cut[cut.sequencer] = cut.epoch + 1
        self._cut_to[cut.sequencer] = cut.to_offset
        self.versions.cut(cut.sequencer, cut.epoch + 1, cut.to_offset)
        self._at(cut.epoch).cuts[cut.sequencer] = cut
        self._number(cut.epoch)

    def _number(self, number: int) -> None:
        """Give the epochs from this one on their TIDs, as far as they are known."""
        while self.is_sequenced(number):
            epoch, following = self.epochs[number], self._at(number + 1)
            assert epoch.base is not None
            following.base = epoch.base + max(each.count for each in epoch.cuts.values())
            number += 1

    def _receive_handover(self, handover: Handover) -> None:
        if handover.epoch <= self.done or not self.handovers.take(handover):
            self.repeats += 1
            return
        self.changes += 1
        self._close(handover.epoch - 1)  # its partition has ended that

    def _close(self, number: int) -> None:
        """By the log, some partition has ended this epoch."""
        if self.hanging.close(number) and self.position < self.history_end:
            self.changes += 1
            self._finish()  # which waited for possible timeout proposals of these epochs

    def _receive_barrier(self, barrier: RoundBarrier) -> None:
        self._close(barrier.epoch - 1)
        if not self._own.came(barrier, self.epoch(barrier.epoch)):
            self.changes += 1
            self._take_barrier(barrier)

    def _take_barrier(self, barrier: RoundBarrier) -> None:
        partitions = self.partitions(barrier.epoch) if barrier.epoch > self.done else 0
        if not 0 <= barrier.partition < partitions:
            self.repeats += 1
            return
        epoch = self._at(barrier.epoch)
        barriers = epoch.barriers.setdefault(barrier.round, {})
        known = self.crashing.count(barrier.epoch, barrier.partition, barrier.round)
        if barrier.partition in barriers or barrier.without != known:
            self.repeats += 1
            return
        barriers[barrier.partition] = barrier
        if len(barriers) == partitions and all(each.contribution is not None for each in barriers.values()):
            epoch.last_round = barrier.round
            epoch.decision = decide(
                self.versions.outline(epoch.number), [barriers[p].contribution for p in sorted(barriers)]
            )
            if not epoch.decision.rerun:
                epoch.outcome = Rerun()
                self._finish()

    def _receive_read_set(self, read_set: ReadSetSnapshot) -> None:
        if not self._own.came(read_set, self.epoch(read_set.epoch)):
            self.changes += 1
            self._take_read_set(read_set)

    def _take_read_set(self, read_set: ReadSetSnapshot) -> None:
        partitions = self.partitions(read_set.epoch) if read_set.epoch > self.done else 0
        if not 0 <= read_set.partition < partitions:
            self.repeats += 1
            return
        epoch = self._at(read_set.epoch)
        if epoch.read_sets.setdefault(read_set.partition, read_set) is not read_set:
            self.repeats += 1
        elif len(epoch.read_sets) == partitions:
            self._finish()

    def _finish(self) -> None:
        """Epochs are done one after the other: no partition begins one before the last is done."""
        while self._is_over(epoch := self.epoch(self.done + 1)):
            assert epoch.outcome is not None
            self.done += 1
            following = self._at(self.done + 1)
            following.carried = {each.tid: each for each in epoch.outcome.postponed}
        self._pieces.forget(self.logged + 1, self.layouts.newest.number)

    def _is_over(self, epoch: Epoch) -> bool:
        """Whether the outcome is known; what conflicted is run again if nothing prevents it."""
        number, hanging = epoch.number, self.hanging
        if epoch.outcome is None and len(epoch.read_sets) == (partitions := self.partitions(number)):
            may_hang = self.position < self.history_end and number > hanging.closed
            may_crash = self.crashing.holds_back(number)
            if not may_hang and not may_crash and not hanging.holds_back(number, partitions):
                made = self._run_again(epoch)
                if isinstance(made, Hung):
                    hanging.found(number, made)
                else:
                    epoch.outcome = made
        return epoch.outcome is not None

    def _run_again(self, epoch: Epoch) -> Rerun | Hung:
        number = epoch.number
        read_sets = [epoch.read_sets[p] for p in sorted(epoch.read_sets)]
        place, hung = self.layouts.placement(number).place, self.hanging.of(number)
        program = self.versions.program(number)
        run = partial(rerun, program, read_sets, epoch.carried, hung, self.raised, place=place)
        return self.crashing.run_again(number, read_sets, run)
