"""One incarnation of one simulated node: the real driver and node, a clock of its own, and the faults that it meets."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holon.tracks.parts import rests_on
from nodes.log.contract import Appended, LogFull, LogUnavailable, TopicPartition
from nodes.machine.broadcast.pieces import PIECE_BYTES
from nodes.machine.config import NodeConfig, PartsConfig
from nodes.machine.events import Event
from nodes.machine.messages import FORMAT_VERSION
from nodes.sim.faults.backlogs import BusyNode, Turns
from nodes.sim.faults.flaky_log import NodeLog
from nodes.sim.faults.lost_writes import Parcel
from nodes.sim.faults.mixed_fleets import run_of, waiting_bytes
from nodes.sim.faults.network_partitions import STALE, Cut, no_cut
from nodes.sim.faults.registry import awaited
from nodes.sim.store import FlakyCheckpoints, LateLoader, LateSaver
from nodes.streams.control_history import JobControlHistory
from nodes.streams.driver import Driver
from nodes.streams.jobs import JobTopics

if TYPE_CHECKING:
    from nodes.checkpoints.store import StoreUnavailable
    from nodes.sim.options import Options
    from nodes.sim.surroundings import Surroundings

HOUR_MS = 3_600_000
MAX_DEPTH = 2
SMALL_PIECE_BYTES = 40


class Crash(Exception):
    """The node is killed here; the world drops it."""


class InvariantBroken(AssertionError):
    """Something that must never happen has happened."""


class NodeProcess:
    """A node from its start to its end. Its ``Meddler`` methods are called by its own view of the log."""

    def __init__(self, world: Surroundings, name: str, number: int) -> None:
        self.world = world
        self.name = name
        self.dead = False
        self.paused_until_ms = 0
        self.turned = self._turns = 0
        self.stall_ms = self.stall_point = 0  # in this turn, at which of its points
        self.taken = 0  # partitions, over from others
        self.rate = world.rng.choice([0.5, 1.0, 2.0]) if world.faults.clock_rates else 1.0
        self.offset_ms = world.rng.randint(0, HOUR_MS)
        self.topics = JobTopics.of(world.run)
        self.cut = no_cut()
        self._reply_lost = False
        options = world.options
        config = NodeConfig(
            node=name,
            number=number,
            heartbeat_interval_ms=options.heartbeat_interval_ms,
            failure_timeout_ms=options.failure_timeout_ms,
            broadcast_interval_ms=options.broadcast_interval_ms,
            checkpoint_interval_ms=options.checkpoint_interval_ms,
            max_watermark_drift_ms=options.max_watermark_drift_ms,
            expected=options.nodes if world.now_ms == 0 else 1,
            expect_ms=3 * options.failure_timeout_ms,
            merged_checkpoint_interval_ms=options.merged_checkpoint_interval_ms,
            trims=options.trims,
            forget_after_ms=options.forget_after_ms,
            replicas=options.replicas,
            standby_after_ms=options.standby_after_ms,
            group_heartbeats_above=options.group_heartbeats_above,
            until=tuple(world.input_until),
            parts=_parts(options),
            waiting_bytes=waiting_bytes(options, number),
        )
        self.log = NodeLog(world.log, self, world.trimmed)
        history = JobControlHistory(self.log, world.run.job)
        self.savers = [LateSaver[Event](self.now_ms, options.save_ms, world.rng) for _ in range(2)]
        self.loader = LateLoader[Any](self.now_ms, options.load_ms)
        self.turns = Turns(options, world.rng)
        self.node = BusyNode(config, run_of(world.run, options, number), history.ownership, self.turns.spend)
        self.driver = Driver(
            self.node,
            self.log,
            FlakyCheckpoints(world.store, self._before_store, self._after_store),
            self.clock_ms,
            batch_max_records=options.batch_max_records,
            crashpoint=self._crashpoint,
            report=lambda line: self._trace("report", line),
            saver=self.savers[0] if options.save_ms else None,
            loader=self.loader,
            merger=self.savers[1] if options.save_ms else None,
            piece_bytes=SMALL_PIECE_BYTES if options.seed % 4 == 0 else PIECE_BYTES,
            control_at=history.offset,
            schemas=awaited(world, name, self.log, history.ownership.schemas),
        )
        self._slots = self.node.replica.slots
        self._frontier_ms = self.node.replica.frontier_ms

    def clock_ms(self) -> int:
        """The time by this node's clock."""
        return self.offset_ms + int((self.world.now_ms + self.turns.spent_ms) * self.rate)

    @property
    def awaits(self) -> bool:
        """Whether something that it loads, or requests from a registry, is on its way."""
        schemas = self.driver.schemas
        return self.loader.busy or (schemas is not None and schemas.count() > 0)

    @property
    def writes(self) -> bool:
        """Whether something that it saves or sends is on its way."""
        return any(saver.busy for saver in self.savers) or any(self.log.transit.waiting())

    def turn(self) -> None:
        """One turn of the driver. Raises what ends the incarnation, and ``InvariantBroken``."""
        self._turns += 1  # at everything, or where the log reports records
        self.driver.turn(self.log.wait(self.driver.waits_for(), 0) if self._turns % 2 else None)
        if self.node.left is not None:
            self.driver.finish()
        took_ms = self.turns.over()
        if took_ms and not self.world.healed:
            self.paused_until_ms = self.world.now_ms + took_ms
            self._trace("busy", f"for {took_ms} ms")
        replica = self.node.replica
        if replica.slots is not self._slots:  # declared: everything is read again
            self._slots, self._frontier_ms = replica.slots, replica.frontier_ms
            self._trace("rewound")
        if replica.frontier_ms < self._frontier_ms:
            raise InvariantBroken(f"{self.name}: the frontier went back from {self._frontier_ms}")
        self._frontier_ms = replica.frontier_ms

    def jump_clock(self) -> None:
        """The node's clock leaps an hour ahead or back."""
        leap = self.rng.choice([-HOUR_MS, HOUR_MS])
        self.offset_ms += leap
        self._trace("clock-jump", str(leap))

    def cut_off(self, cut: Cut) -> None:
        """From now on, this is what the node does not reach."""
        self.cut = cut
        self._trace("stale" if cut.kind in STALE else f"cut-{cut.kind}", cut.describe())

    def recover(self) -> None:
        """The end of pauses, of cuts, and of a clock so fast that it takes healthy nodes for silent."""
        self.paused_until_ms = self.stall_ms = 0
        self.offset_ms += int(self.world.now_ms * (self.rate - 1.0))
        self.rate = 1.0
        self.cut = no_cut()

    # --- calls of the log ---------------------------------------------------------------------------------------

    @property
    def rng(self) -> random.Random:
        return self.world.rng

    def now_ms(self) -> int:
        """Virtual time."""
        return self.world.now_ms

    def posts(self, topic: str) -> bool:
        """True if what is sent there is on its way for a while."""
        return self.world.options.arrival < 1.0 and topic not in (self.topics.heartbeats, self.topics.group_heartbeats)

    def arrives(self, to: TopicPartition, queue: Sequence[Parcel], wait: bool) -> int:
        """How many of what is on its way get there now. Raises ``LogUnavailable`` if that takes too long."""
        world, cut = self.world, self.cut
        if cut.blocks(to.topic, world.now_ms):
            if wait or world.now_ms - queue[0].sent_ms < cut.patience_ms:
                return len(queue) if wait else 0
            self._trace("timed-out", f"what was sent to {to.topic}[{to.partition}]")
            raise LogUnavailable(f"{to.topic}[{to.partition}]: no answer from the log for {cut.patience_ms} ms")
        if wait or world.healed or self._chance(world.options.arrival):
            return len(queue)
        return self.rng.randrange(len(queue))

    def scatter(self) -> None:
        """The node is dead: of what it had sent, a beginning still gets to each partition."""
        if self.savers[0].busy:
            self._trace("killed-while-saving")
            self.savers[0].killed()
        for to, queue in self.log.transit.waiting():
            count = self.rng.randint(0, len(queue))
            for parcel in list(queue)[:count]:
                self.world.log.append(*to, parcel.values, headers=parcel.headers, keys=parcel.keys)
            for parcel in list(queue)[count:]:
                self.world.unsent += [
                    (to.topic, *made) for made in zip(parcel.headers or [], parcel.values, strict=False)
                ]
            self._trace("scattered", f"{count} of {len(queue)} to {to.topic}[{to.partition}]")
        self.log.transit.clear()

    def before_append(self, topic: str, partition: int, values: Sequence[bytes], headers: Sequence[bytes]) -> bool:
        """Refuse, or let others go first; False if it is lost and no node waits for its acknowledgement."""
        if self.world.stress.is_full(self.name):
            self._trace("no-room", topic)
            self.world.unsent += [(topic, *made) for made in zip(headers, values, strict=True)]
            raise LogFull(f"{topic}[{partition}]: no space left in the simulation")
        blocked = self.cut.blocks(topic, self.world.now_ms)
        if topic in (self.topics.heartbeats, self.topics.group_heartbeats):
            return not blocked
        faults = self.world.faults
        if blocked:
            self._wait_out(topic, partition, values, headers)
        if self._chance(faults.refuse):
            self._trace("refused", topic)
            self.world.unsent += [(topic, *made) for made in zip(headers, values, strict=True)]
            raise LogUnavailable(f"{topic}[{partition}]: refused by the simulator")
        self.maybe_preempt(f"before append to {topic}[{partition}]")
        digest = zlib.crc32(b"\x00".join(values))
        self._trace("append", f"{topic}[{partition}] {len(values)} {digest:08x}")
        return True

    def _wait_out(self, topic: str, partition: int, values: Sequence[bytes], headers: Sequence[bytes]) -> None:
        """An append that gets no answer: the others live on until it gets through, or is given up.

        In half of the cases it has arrived all the same, only its reply has not.
        """
        world, cut = self.world, self.cut
        if world.depth <= MAX_DEPTH:
            self._trace("blocked", f"append to {topic}[{partition}]")
            world.go_on_without(max(1, min(cut.until_ms - world.now_ms, cut.patience_ms)))
            world.appended_ms = world.now_ms
            if self.dead:
                raise Crash("killed while it was cut off")
        if not self.cut.blocks(topic, world.now_ms):
            self._trace("resumed", f"append to {topic}[{partition}]")
        elif self.rng.random() < 0.5:
            self._reply_lost = True
        else:
            self._trace("timed-out", f"append to {topic}[{partition}]")
            world.unsent += [(topic, *made) for made in zip(headers, values, strict=True)]
            raise LogUnavailable(f"{topic}[{partition}]: no answer from the log for {cut.patience_ms} ms")

    def rotted(self, topic: str, values: Sequence[bytes]) -> Sequence[bytes]:
        """Deltas are damaged on the log itself, for every reader alike."""
        if topic == self.topics.control_checkpoints:
            rots = self._chance(self.world.faults.checkpoint_damaged) and not self.world.control_checkpoint_rotten
            self.world.control_checkpoint_rotten = rots
            if rots:
                self._trace("control-checkpoint-rotten")
            return [self._corrupt(value) for value in values] if rots else values
        if topic not in self.topics.deltas or not self._chance(self.world.faults.delta_rotten):
            return values
        self._trace("delta-rotten", topic)
        return [self._corrupt(value) for value in values]

    def after_append(self, topic: str, partition: int, done: Appended) -> None:
        """Lose the acknowledgement, or let others go on before it comes."""
        if topic in (self.topics.heartbeats, self.topics.group_heartbeats):
            return
        self.world.appended_ms = self.world.now_ms
        if self._reply_lost or self._chance(self.world.faults.ack_lost):
            self._trace("ack-lost", topic)
            raise LogUnavailable(f"{topic}[{partition}]: the acknowledgement was lost by the simulator")
        self.maybe_preempt(f"after append to {topic}[{partition}] at {done.first_offset}")

    def max_records(self, topic: str, wanted: int) -> int:
        """Batches are cut at random."""
        if topic not in self.topics.layout.topics or wanted <= 1:
            return wanted
        return self.rng.randint(1, min(wanted, self.world.options.batch_max_records))

    def visible_end(self, topic: str, partition: int) -> int | None:
        """Where the topic seems to end for this node; None: where it does."""
        if not self.cut.blinds(topic, self.world.now_ms):
            return None
        if topic in self.topics.outputs.values():  # an end that is stale must not pass for the end
            raise LogUnavailable(f"{topic}[{partition}]: cannot be read, cut off by the simulator")
        return self.cut.frozen.setdefault((topic, partition), self.world.log.end_offset(topic, partition))

    def disturbed(self, topic: str, partition: int, values: Sequence[bytes]) -> Sequence[bytes]:
        """Deltas are lost, repeated, swapped and corrupted on the way to this one reader."""
        faults = self.world.faults
        if topic not in self.topics.deltas or not self.world.disturbs:
            return values
        seen: list[bytes] = []
        for index, value in enumerate(values):
            if index < len(values) - 1 and self._chance(faults.delta_lost):  # what comes after it shows the loss
                self._trace("delta-lost", f"[{partition}]")
                continue
            if self._chance(faults.delta_corrupt):
                self._trace("delta-corrupt", f"[{partition}]")
                seen.append(self._corrupt(value))
                continue
            seen.append(value)
            if self._chance(faults.delta_repeated):
                seen.insert(self.rng.randint(0, len(seen)), value)
                self._trace("delta-repeated", f"[{partition}]")
        if len(seen) > 1 and self._chance(faults.delta_swapped):
            self.rng.shuffle(seen)
            self._trace("delta-swapped", f"[{partition}]")
        return seen

    def _corrupt(self, value: bytes) -> bytes:
        if len(value) < 6:
            return b""
        kind = self.rng.choice(["bit", "cut", "version"])
        if kind == "cut":
            return value[: self.rng.randrange(len(value))]
        if kind == "version":
            body = value[5:]
            version = FORMAT_VERSION + 1
            return bytes([version]) + zlib.crc32(body, zlib.crc32(bytes([version]))).to_bytes(4, "big") + body
        at = self.rng.randrange(len(value))
        return value[:at] + bytes([value[at] ^ (1 << self.rng.randrange(8))]) + value[at + 1 :]

    def after_read(self, topic: str) -> None:
        """Between the scan of an output's tail and its use others may write to it."""
        if topic in self.topics.outputs.values():
            self.maybe_preempt(f"after read of {topic}")

    def deleted(self, topic: str, partition: int, offset: int) -> None:
        """The node has trimmed one of the job's own topics."""
        self._trace("trimmed", f"{topic}[{partition}] before {offset}")

    # --- calls of the store and the driver ----------------------------------------------------------------------

    def _before_store(self, verb: str) -> None:
        if self.dead:
            return
        if verb == "save" and self._chance(self.world.faults.store_unavailable):
            self._trace("store-unavailable")
            raise _unavailable("refused by the simulator")
        self.maybe_preempt(f"before checkpoint {verb}")

    def _after_store(self, verb: str, name: str) -> None:
        if verb == "save":
            self._trace("saved", name)
            self._trace_part("part-saved", name)
            for file in self.world.store.copies(name):
                if self._chance(self.world.faults.checkpoint_damaged) and self.world.loss.may_damage(file):
                    self._trace("checkpoint-damaged", f"{self.world.store.damage(file, self.rng)} {file}")
        if verb == "load":
            self._trace_part("part-loaded", name)
        if verb == "load" and "/merged/" in name:
            self._trace("merged-loaded", name)
        if not self.dead:
            self.maybe_preempt(f"after checkpoint {verb}")

    def _trace_part(self, what: str, name: str) -> None:
        if self.world.options.most_parts and (below := rests_on(self.world.store.load(name))):
            self._trace(what, f"on {len(below)}: {name}")

    def _crashpoint(self, point: str) -> None:
        if not self.dead and self._chance(self.world.faults.crash_at_point):
            self._trace("crash", point)
            raise Crash(point)

    def maybe_preempt(self, where: str) -> None:
        """Stop here, in the midst of a step, and let the others live on; this node may be dead when it comes back."""
        if self.world.depth >= MAX_DEPTH:
            return
        if self.stall_ms and self.stall_point == 0:
            duration_ms, self.stall_ms = self.stall_ms, 0
        elif self._chance(self.world.faults.preempt):
            duration_ms = self.rng.randint(1, max(1, self.world.faults.preempt_max_ms))
        else:
            self.stall_point -= self.stall_ms > 0
            return
        self._trace("preempted", f"{where} for {duration_ms} ms")
        self.world.go_on_without(duration_ms)
        self.world.appended_ms = self.world.now_ms  # the quiet time begins now: this node may have much to send
        self._trace("resumed", where)
        if self.dead:
            raise Crash("killed while it was paused")

    def _chance(self, rate: float) -> bool:
        return rate > 0 and self.rng.random() < rate

    def _trace(self, what: str, detail: str = "") -> None:
        self.world.trace.add(self.world.now_ms, what, f"{self.name} {detail}")


def _parts(options: Options) -> PartsConfig:
    """Of states of some hundred bytes, of which a part has more than half."""
    if not options.most_parts:
        return PartsConfig()
    return PartsConfig(0, options.most_parts, 100.0, 0.8 if options.parts_pause else 100.0, options.parts_pause)


def _unavailable(reason: str) -> StoreUnavailable:
    from nodes.checkpoints.store import StoreUnavailable

    return StoreUnavailable(reason)
