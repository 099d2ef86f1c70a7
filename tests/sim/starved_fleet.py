"""Nodes of a streaming job that get a small share of a CPU, in slices with pauses between them, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from deploy.stand_ins import WINDOW_MS, BidTicks
from nexmark.queries import nexmark_job
from nodes.log.memory import MemoryLog
from nodes.machine import facts as f
from nodes.machine import messages as m
from nodes.machine.config import NodeConfig
from nodes.machine.ownership.ownership import Ownership
from nodes.sim.large_fleets.costs import Costs, TurnCounts
from nodes.sim.large_fleets.timed import MS, TimedFleet, TimedMember, TimedPlan
from tests.sim.starved_world import HEALTHY_MS, Slices

COSTS = Costs(
    turns=300.0,
    runners=100.0,
    batches=400.0,
    events=100.0,
    deltas_in=200.0,
    deltas_out=200.0,
    sends=200.0,
    checkpoints=5_000.0,
)
LOAD_MS = 150.0
"""CPU time of beginning with a partition."""
TICK_MS = 100


def starved_plan(seed: int, nodes: int, partitions: int, seconds: float) -> TimedPlan:
    """Every node by itself, with the time until a suspicion that nodes have by default."""
    config = NodeConfig("", heartbeat_interval_ms=80, failure_timeout_ms=300, broadcast_interval_ms=200)
    return TimedPlan(
        nodes, partitions, config, 1.0, WINDOW_MS, seconds, tick_ms=TICK_MS, ticks=1, alone=nodes, seed=seed
    )


class StarvedFleet(TimedFleet):
    """Every turn takes as long as its cost takes on the slices that its node gets."""

    def __init__(self, plan: TimedPlan, shares: Sequence[float]) -> None:
        draw = Random(plan.seed)
        self.slices = [Slices(Random(f"{number} {draw.random()}"), share) for number, share in enumerate(shares)]
        self.owned: dict[str, set[int]] = {}
        self.beat_ms = [0.0] * plan.nodes
        self.bids = BidTicks(plan.partitions, plan.tick_ms)
        super().__init__(plan, nexmark_job("q7"), self.bids, COSTS)

    def _cost(self, member: TimedMember, counts: TurnCounts, spent_us: float) -> float:
        cost_ms = super()._cost(member, counts, spent_us) / MS
        owned = set(member.node.work.runners)
        cost_ms += LOAD_MS * len(owned - self.owned.get(member.name, set()))
        self.owned[member.name] = owned
        began_ms = at_ms = self.now_us / MS
        beats = self.beat_ms
        for at_ms in self.slices[member.number].run(began_ms, cost_ms):
            if at_ms - max(beats[member.number], began_ms) >= self.plan.config.heartbeat_interval_ms:
                beats[member.number] = at_ms  # the watchdog's thread
                self._push(at_ms * MS, lambda: self._beat(member))
        beats[member.number] = at_ms
        return (at_ms - began_ms) * MS

    def _beat(self, member: TimedMember) -> None:
        beat = m.encode(m.Heartbeat(self.run.incarnation, member.name, 0))
        self.log.append(self.topics.heartbeats, 0, [beat])

    def moves(self) -> dict[int, int]:
        """How often each partition has changed its owner since nodes are starved."""
        ownership, found = Ownership(self.plan.partitions), dict.fromkeys(range(self.plan.partitions), 0)
        chunk = MemoryLog.read(self.log, self.topics.control, 0, 0, max_records=1 << 30, max_bytes=1 << 40)
        owner: dict[int, str] = {}
        for value, at_ms in zip(chunk.values, chunk.timestamps_ms.tolist(), strict=True):
            for fact in ownership.apply(m.decode_control(value)):
                if isinstance(fact, f.PartitionClaimed):
                    moved = owner.get(fact.partition, fact.node) != fact.node
                    found[fact.partition] += moved and at_ms >= HEALTHY_MS
                    owner[fact.partition] = fact.node
        return found
