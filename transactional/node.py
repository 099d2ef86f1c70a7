"""A node of a transactional job as a state machine: ``step(event, now_ms) -> what to append``.

Who has several events ``hear``s all of them and steps once: what follows is looked for once, and goes out together.

Two rules for this file: it knows no clock and no log, and all it shares with other nodes stands on the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from transactional.appends import Append, AppendCommit, AppendEpochs
from transactional.crashing import Trying
from transactional.ledger import Ledger
from transactional.messages import BadMessage, call_message, to_bytes
from transactional.operators import Program
from transactional.partition import StatePartition
from transactional.pieces import together, travelling
from transactional.sequencer import EpochConfig, Sequencer
from transactional.snapshots import LedgerState, PartitionState
from transactional.spilling import SpillingStore
from transactional.standby import Standby
from transactional.store import Store
from transactional.tally import Tally


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class EpochsRead:
    """Records of the epochs topic, in order; ``next_offset`` is where the next read begins."""

    values: list[bytes]
    next_offset: int


@dataclass(frozen=True, slots=True)
class CallsRead:
    """Records of the calls of a state partition, in order, from the partition's ``position`` on."""

    partition: int
    offsets: list[int]
    values: list[bytes]


@dataclass(frozen=True, slots=True)
class RequestsRead:
    """Records of a request partition, from the sequencer's position on."""

    sequencer: int
    offsets: list[int]
    values: list[bytes]
    next_offset: int


@dataclass(frozen=True, slots=True)
class PartitionTaken:
    """This node owns a state partition. ``snapshot``: where it begins, None: at the start of everything.

    ``rests_on``: the snapshots before it, from the oldest on; what reading them raises leaves the node as it was.
    ``replied``: the identity of the last reply on the log. ``commits``: records of its commits topic, from the
    snapshot's ``commits_offset`` on; for each that is missing the partition runs an epoch again.
    """

    partition: int
    replied: tuple[int, int] = (0, 0)
    snapshot: PartitionState | None = None
    commits: Sequence[bytes] = ()
    rests_on: Iterable[PartitionState] = ()


@dataclass(frozen=True, slots=True)
class SequencerTaken:
    """This node owns a request partition, and has read the epochs topic; ``start`` is where its records begin."""

    sequencer: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class PartitionLost:
    partition: int


@dataclass(frozen=True, slots=True)
class SequencerLost:
    sequencer: int


Event = Ticked | EpochsRead | CallsRead | RequestsRead | PartitionTaken | SequencerTaken | PartitionLost | SequencerLost


class TransactionNode:
    """One life of one node. ``begin``: the oldest snapshot that it may be given, None: the start of everything.

    ``new_store`` makes the empty state of a partition. ``tally`` counts what this node's own partitions do.
    ``trying``: what this life says of work that it takes over; None: nothing.
    """

    def __init__(
        self,
        program: Program,
        sequencers: int,
        config: EpochConfig | None = None,
        begin: LedgerState | None = None,
        new_store: Callable[[], Store | SpillingStore] = Store,
        tally: Tally | None = None,
        trying: Trying | None = None,
    ) -> None:
        self.tally = Tally() if tally is None else tally
        self._new_store = new_store
        self.config = EpochConfig() if config is None else config
        self.ledger = Ledger(program, sequencers) if begin is None else Ledger.restored(program, sequencers, begin)
        if trying is not None:
            self.ledger.crashing.trying = trying
        self.partitions: dict[int, StatePartition] = {}
        self.sequencers: dict[int, Sequencer] = {}
        self.bad_messages = 0
        self.standing_by: dict[int, Standby] = {}
        """By unit: request partitions first, then state partitions. Others it owns."""
        self._released: list[Append] = []
        self._early: list[tuple[int, Append]] = []  # commits, with an epoch that the log has to have first

    def owned_partitions(self) -> dict[int, StatePartition]:
        """Without those that it is a standby of."""
        count = self.ledger.sequencers
        return {number: each for number, each in self.partitions.items() if count + number not in self.standing_by}

    def owned_sequencers(self) -> list[int]:
        """Without those that it is a standby of."""
        return [number for number in sorted(self.sequencers) if number not in self.standing_by]

    def forget(self, before: int) -> None:
        """Drop epochs that no checkpoint needs any more, but for those that a partition here has not ended yet."""
        self.ledger.forget(min((before, *(each.epoch for each in self.partitions.values()))))

    def stand_by(self, unit: int) -> None:
        """Hold back from now on what this unit writes."""
        self.standing_by.setdefault(unit, Standby())
        self._count_with(unit, Tally())

    def speak(self, unit: int, *, for_good: bool) -> None:
        """Write what a standby has held back, with the next step; ``for_good``: this node owns the unit now."""
        self._released += self.standing_by[unit].release()
        self.standing_by[unit].speaks = True
        if for_good:
            del self.standing_by[unit]
            self._count_with(unit, self.tally)

    def _count_with(self, unit: int, tally: Tally) -> None:
        partition = self.partitions.get(unit - self.ledger.sequencers)
        if partition is not None:
            partition.tally = tally

    def step(self, event: Event, now_ms: int) -> list[Append]:
        """What follows from ``event`` at ``now_ms``, in order."""
        self.hear(event)
        return self._advance(now_ms)

    def hear(self, event: Event) -> None:
        """Take in what has happened; what follows comes with the next step."""
        match event:
            case EpochsRead(values, next_offset):
                for value in values:
                    self.ledger.apply(value)
                self.ledger.has_read(next_offset)
            case CallsRead(partition, offsets, values):
                self._calls(partition, offsets, values)
            case RequestsRead(sequencer, offsets, values, next_offset):
                if sequencer in self.sequencers:
                    self.sequencers[sequencer].read(offsets, values, next_offset)
            case PartitionTaken():
                self.partitions[event.partition] = self._taken(event)
            case SequencerTaken(sequencer, start):
                self.sequencers[sequencer] = Sequencer(self.ledger, sequencer, self.config, start)
            case PartitionLost(partition):
                self.partitions.pop(partition, None)
                self.standing_by.pop(self.ledger.sequencers + partition, None)
            case SequencerLost(sequencer):
                self.sequencers.pop(sequencer, None)
                self.standing_by.pop(sequencer, None)
            case Ticked():
                pass

    def _taken(self, event: PartitionTaken) -> StatePartition:
        taken = StatePartition(
            self.ledger,
            event.partition,
            id_window=self.config.id_window,
            replied=event.replied,
            inline_bytes=self.config.inline_bytes // self.ledger.partitions,
            new_store=self._new_store,
        )
        if self.ledger.sequencers + event.partition not in self.standing_by:
            taken.tally = self.tally
        if event.snapshot is not None:
            taken.restore(event.snapshot, event.rests_on)
        self.bad_messages += taken.learn(event.commits)
        return taken

    def _calls(self, partition: int, offsets: list[int], values: list[bytes]) -> None:
        owned = self.partitions.get(partition)
        for offset, value in zip(offsets, values, strict=True):
            try:
                message = call_message(value)
                if owned is not None:
                    owned.receive(offset, message, value)
            except BadMessage:
                self.bad_messages += 1

    def _advance(self, now_ms: int) -> list[Append]:
        out, self._released = self._released, []
        while True:
            known = self.ledger.expects
            self._advance_sequencers(now_ms, out)
            self._advance_partitions(now_ms, out)
            if self.ledger.expects == known:  # else what was said here may be all that somebody here has waited for
                break
        for unit in sorted(self.standing_by):
            self.standing_by[unit].forget(self.ledger.done)
        said = (*self.ledger.hanging.to_say(), *self.ledger.crashing.to_say())
        out += [AppendEpochs(to_bytes(each)) for each in said]
        out = self._without_early_commits(out)
        return together(travelling(out, self.config.compress_bytes, self.config.piece_bytes))

    def _advance_sequencers(self, now_ms: int, out: list[Append]) -> None:
        opened = 0
        for _ in range(2):  # when one of them cuts, all of them do, in one record
            before = opened
            for number, sequencer in sorted(self.sequencers.items()):
                standby = self.standing_by.get(number) if self.standing_by else None
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
        for number, partition in sorted(self.partitions.items()):
            standby = self.standing_by.get(self.ledger.sequencers + number) if self.standing_by else None
            partition.expects = standby is None
            while True:
                epoch, made = partition.epoch, out if standby is None else []
                if not partition.advance(made):
                    break
                if standby is not None:
                    _hold(standby, epoch, now_ms, made, out)

    def _without_early_commits(self, out: list[Append]) -> list[Append]:
        """Who finds a commit waits for the end of its epoch, to which this node's records belong: they come first."""
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


def _hold(standby: Standby, epoch: int, now_ms: int, made: list[Append], out: list[Append]) -> None:
    if standby.speaks:
        out += made
    else:
        standby.keep(epoch, now_ms, made)
