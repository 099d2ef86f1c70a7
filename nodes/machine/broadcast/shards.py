"""Contributions between nodes: what partitions add to sharded states, sent only to the one that answers for the keys.

Two rules for this file. A shard is complete up to where deltas say that something was sent that has not come here.
Contributions are requested as slots are: until nothing is missing, at an interval that grows while the answers bring
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nodes.machine import events as e
from nodes.machine import messages as m
from nodes.machine.broadcast import window_retention as keeping
from nodes.machine.broadcast.deltas_to_send import is_named
from nodes.machine.broadcast.gaps import MOST_DOUBLINGS
from nodes.machine.broadcast.pieces import BroadcastPieces, PieceLost
from nodes.machine.effects import RewindBroadcast, RewindShard
from nodes.machine.facts import ShardRequested
from nodes.machine.partitions import Partitions
from nodes.machine.runner import Runner
from wcrdt.codec import DecodeError
from wcrdt.replica.replica import SlotDelta
from wcrdt.replica.shards import ShardedDelta, ShardReplica
from wcrdt.replica.slots import Position

FIRST_MS = 20
"""After this time what is missing is requested for the first time: it may be on its way."""
MOST_REREADS = MOST_DOUBLINGS + 2
"""The log was read again so often from its start, and something is still missing: it is not there."""


class ContributionsLost(Exception):
    """Contributions of a partition to a shard are neither on the log nor with a node."""


@dataclass(slots=True)
class _Lack:
    """Of one partition: how far a shard has come, since when; ``vain``: so many requests have brought nothing."""

    position: Position
    since_ms: int
    vain: int = 0


@dataclass(slots=True)
class _Reading:
    """One runner's contributions; ``unfit``: all that a partition has lacks what this runner still reads.

    ``rereads``: so often the log was read again for it, the last time at ``reread_ms``. ``cut_bytes``: of the pieces
    of one that is not complete yet.
    """

    key: int
    pieces: BroadcastPieces = field(default_factory=BroadcastPieces)
    lacks: dict[int, _Lack] = field(default_factory=dict)
    unfit: bool = False
    rereads: int = 0
    reread_ms: int = 0
    cut_bytes: int = 0


class ShardSlots:
    """The shards of the partitions that run here; without sharded states there are none."""

    def __init__(self, work: Partitions) -> None:
        self.work = work
        self.names = work.run.apart
        self._readings: dict[int, _Reading] = {}

    def made(self) -> ShardReplica | None:
        """That of a new runner, which knows nothing yet; None: nothing leaves so."""
        if not self.names:
            return None
        shapes = {name: shape for name, shape in self.work.job.program.shapes().items() if name in self.names}
        return ShardReplica(shapes, self.work.job.allowed_lateness_ms, self.work.run.start_positions)

    @property
    def progress(self) -> tuple[int, ...]:
        """Whatever completes a window of a shard moves it."""
        return tuple(shard.replica.frontier_ms for _, shard in self._each())

    def _each(self) -> Iterator[tuple[Runner, ShardReplica]]:
        for _, runner in sorted(self.work.runners.items()) if self.names else ():
            if runner.shard is not None:
                yield runner, runner.shard

    # --- what comes -----------------------------------------------------------------------------------------------

    def took(self, message: m.SlotSent) -> None:
        """A delta was read from the broadcast."""
        named, through = (message.shards, message.sent_through) if isinstance(message, m.ShardedSent) else (b"", None)
        for runner, shard in self._each():
            shard.took(message.delta, is_named(runner.partition, named or b""), through, waits=named is None)

    def read(self, event: e.ContributionsRead) -> None:
        """Records of the topic of shards."""
        runner = self.work.runner(event.partition, event.version)
        if runner is None or runner.shard is None:
            return
        reading = self._readings.get(event.partition)
        if reading is None or reading.key != runner.key:
            reading = self._readings[event.partition] = _Reading(runner.key)
        for value in event.values:
            try:
                message = m.decode_broadcast(value)
                if message.incarnation != self.work.run.incarnation:
                    continue
                reading.cut_bytes += len(value)
                if isinstance(message, m.PieceSent):
                    message = reading.pieces.take(event.partition, message)
                if isinstance(message, m.SlotSent):
                    self.work.uncheckpointed.contribution(message.delta, reading.cut_bytes)
                    reading.cut_bytes = 0
                    self._take(runner, runner.shard, reading, message.delta)
            except (m.BadMessage, PieceLost, DecodeError, IndexError):
                continue  # missed, and requested as what never came

    def _take(self, runner: Runner, shard: ShardReplica, reading: _Reading, delta: SlotDelta) -> None:
        record = delta.record
        if record is None or record.to <= shard.position(delta.partition):
            return
        if record.full and not keeping.usable(self.work.job, delta, {runner.partition: runner}, shard.replica):
            reading.unfit |= not runner.is_loading
            return
        shard.contribution(delta)

    # --- what leaves ----------------------------------------------------------------------------------------------

    def waiting_bytes(self, runner: Runner) -> int:
        """So much of a partition's contributions may wait; none before a checkpoint."""
        work, config = self.work, self.work.config
        if not self.names:
            return 0
        if runner.standby is None and runner.wants_checkpoint(
            work.now_ms, config.checkpoint_interval_ms, stopping=work.stopping
        ):
            return 0
        return config.waiting_bytes * work.run.partitions

    def send(self, runner: Runner, delta: SlotDelta) -> None:
        """A delta, and before it its contributions, so that they are there when it names them."""
        contributions = sorted(delta.contributions.items()) if isinstance(delta, ShardedDelta) else []
        writes = [runner.contribution(to, SlotDelta(delta.partition, 0, track, None)) for to, track in contributions]
        if writes:
            runner.task.contributions.were(sum(len(write.value) for write in writes))
        self.work.effects += [*writes, runner.broadcast(delta)]

    def sent(self, delta: SlotDelta) -> None:
        """A runner here has made a delta: its contributions may be used before they are on the log."""
        if not isinstance(delta, ShardedDelta):
            return
        for runner, shard in self._each():
            if runner.partition in delta.contributions:
                shard.contribution(SlotDelta(delta.partition, 0, delta.contributions[runner.partition], None))
            else:
                shard.took(delta, False, delta.sent_through, waits=delta.waits)

    def requested(self, fact: ShardRequested) -> None:
        """Somebody misses what a partition has added to the keys of a shard."""
        maker = self.work.runners.get(fact.partition)
        if self.names and maker is not None and maker.is_running and self.work.replicas.answers_for(maker):
            self.work.effects.append(maker.contribution(fact.shard, self._full(maker, fact.shard)))

    def _full(self, maker: Runner, shard: int) -> SlotDelta:
        recorded = keeping.recorded_through_ms(self.work.job, self.work.ownership)
        through = max(self.work.replica.dropped_through_ms, recorded)
        return SlotDelta(maker.partition, 0, maker.task.full_contribution(shard), None, dropped_through_ms=through)

    # --- what is missing ------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Request what is missing, or take it from what runs here. Raises ``ContributionsLost``."""
        for runner, shard in list(self._each()):
            reading = self._readings.get(runner.partition)
            if runner.is_loading or reading is None or reading.key != runner.key:
                continue
            for partition, slot in enumerate(self.work.replica.slots):
                if shard.covered(partition) < slot.record.position and not self._from_here(runner, shard, partition):
                    self._lacks(runner, shard, reading, partition)
                else:
                    reading.lacks.pop(partition, None)
            if not reading.lacks:
                reading.rereads = 0

    def _from_here(self, runner: Runner, shard: ShardReplica, partition: int) -> bool:
        maker = self.work.runners.get(partition)
        wanted = self.work.replica.slots[partition].record.position
        if maker is None or not maker.is_running or maker.task.position < wanted:
            return False
        full = self._full(maker, runner.partition)
        if not keeping.usable(self.work.job, full, {runner.partition: runner}, shard.replica):
            return False
        shard.contribution(full)
        return True

    def _lacks(self, runner: Runner, shard: ShardReplica, reading: _Reading, partition: int) -> None:
        now, have = self.work.now_ms, shard.position(partition)
        lack = reading.lacks.get(partition)
        if lack is None or lack.position != have:
            reading.lacks[partition] = lack = _Lack(have, now)
        patience_ms = self.work.config.failure_timeout_ms << min(lack.vain, MOST_DOUBLINGS)
        if now - lack.since_ms < (patience_ms if lack.vain else FIRST_MS):
            return
        lack.since_ms, lack.vain = now, lack.vain + 1
        pause_ms = self.work.config.failure_timeout_ms << min(reading.rereads, MOST_DOUBLINGS)
        if reading.unfit and (not reading.rereads or now - reading.reread_ms >= pause_ms):  # a long log takes its time
            self._read_again(runner, shard, reading)
            return
        me, (offset, step) = self.work.config.node, have
        self.work.control(m.ShardWanted(self.work.run.incarnation, me, partition, offset, step, shard=runner.partition))

    def _read_again(self, runner: Runner, shard: ShardReplica, reading: _Reading) -> None:
        """Partitions have dropped what this one needs: its checkpoints are damaged. The log may still have it."""
        reading.unfit = False
        if self.work.replicas.give_up(runner.partition):
            return
        reading.rereads, reading.reread_ms = reading.rereads + 1, self.work.now_ms
        if reading.rereads > MOST_REREADS:
            lacks = sorted(reading.lacks.items())
            missing = ", ".join(f"of partition {maker} from offset {lack.position[0]} on" for maker, lack in lacks)
            text = f"partition {runner.partition} cannot be made again from its checkpoint: contributions to its keys "
            raise ContributionsLost(f"{text}are not on the log any more ({missing}); start again with --reset")
        shard.reset()
        self.work.effects += [RewindShard(runner.partition, runner.key), RewindBroadcast()]
