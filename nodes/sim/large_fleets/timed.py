"""A fleet in virtual time in which every turn takes as long as it costs: for sizes that no machine here can run.

Two rules for this file: nodes and drivers are the real ones (``shared.py`` names what most of them share; one shares
nothing); time passes only by ``Costs`` and the way to the log, so that a run is the same every time.

Executed, modelled and omitted parts: ``docs/design/scale.md``.
"""

from __future__ import annotations

import heapq
import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Protocol

from holon.job import Job
from nodes.checkpoints.file_names import CheckpointKey
from nodes.machine.config import NodeConfig
from nodes.machine.node import Node
from nodes.sim.large_fleets.costs import Costs, TurnCounts
from nodes.sim.large_fleets.shared import Shared, SharedDriver, SharedNode, SharedReplica
from nodes.sim.large_fleets.timed_log import Sent, TimedLog
from nodes.sim.store import MemoryCheckpoints
from nodes.streams.driver import CHECK_INTERVAL_MS, Driver
from nodes.streams.jobs import JobTopics, open_job
from wcrdt.replica.replica import Received, SlotDelta
from wcrdt.replica.slots import Applied

MS = 1000
DROP_INTERVAL_US = 500 * MS
FULL_POLL_US = CHECK_INTERVAL_MS * MS
START_US = 2000 * MS
"""All have joined and claimed by then."""


class Input(Protocol):
    """The produced records: at tick n one record for each partition, which represents ``plan.events`` events."""

    def records(self, tick: int) -> Sequence[bytes]: ...
    def time_ms(self, tick: int) -> int: ...


@dataclass(frozen=True, slots=True)
class TimedPlan:
    """A run. ``tick_ms``: between records of a partition, each of which represents ``ticks`` batches of ``events`` in
    all. ``window_ms``: of event time. ``transit_us``: from a send to the record on the log, and its readers awake."""

    nodes: int
    partitions: int
    config: NodeConfig
    events: float
    window_ms: int
    seconds: float = 10.0
    warmup_s: float = 1.0
    tick_ms: int = 50
    ticks: int = 5
    spread_ms: int = 10
    transit_us: int = 2000
    alone: int = 1
    seed: int = 1


@dataclass(slots=True)
class TimedMember:
    """One node. ``alone``: it shares nothing and turns whenever something is there for it."""

    number: int
    name: str
    alone: bool
    node: Node
    driver: Driver
    free_us: float = 0.0
    due_us: float = float("inf")
    taken: int = 0  # deltas of others that it has read, of all that have arrived
    control_at: int = 0
    complete_ms: int = -(1 << 62)
    full_poll_at_us: float = float("-inf")
    done: TurnCounts = field(default_factory=TurnCounts)
    busy_us: float = 0.0
    turns: list[tuple[TurnCounts, float]] = field(default_factory=list)


class TimedReplica(SharedReplica):
    """The records of a turn are known to others, and here, only once they are on the log."""

    turning = False

    def receive(self, delta: SlotDelta) -> Received:
        if self.turning:
            return Received(Applied.ADVANCED)
        return SharedReplica.receive(self, delta)


class TimedFleet:
    """One run. ``costs`` None: turns are measured by ``meter`` (nanoseconds of this thread's CPU time) instead."""

    def __init__(
        self, plan: TimedPlan, job: Job, source: Input, costs: Costs | None, meter: Callable[[], int] = lambda: 0
    ) -> None:
        self.plan = plan
        self.costs = costs
        self.meter = meter
        self.now_us = 0.0
        self.input = source
        self.rng = random.Random(f"timed {plan.seed}")
        self.log = TimedLog(lambda: int(self.now_us // MS))
        self.log.create_topic(job.topics[0], plan.partitions)
        self.run = open_job(self.log, job)
        self.topics = self.log.topics_of = JobTopics.of(self.run)
        self.store = CountedCheckpoints()
        self.shared = Shared(self.log, self.run)
        self.shared.replica = TimedReplica(self.run)
        self.shared.sync()
        self.arrivals: list[float] = []  # when deltas came, over all partitions
        self.closed_us: dict[int, float] = {}
        self.results: list[tuple[float, bytes]] = []
        self.consumed = self.offered = 0.0
        self._complete_ms: int | None = None
        self._dropped_us = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._pushed = 0
        self._holders: dict[int, TimedMember] = {}
        self.members = [self._member(number) for number in range(plan.nodes)]
        for member in self.members:
            self._wake(member, self.rng.uniform(0, 100 * MS))
        self._push(START_US, lambda: self._feed(0))

    def _member(self, number: int) -> TimedMember:
        plan, name, alone = self.plan, f"node-{number}", number < self.plan.alone
        config = replace(plan.config, node=name, number=number, expected=plan.nodes, expect_ms=10_000)
        node = Node(config, self.run) if alone else SharedNode(config, self.shared)
        driver = (Driver if alone else SharedDriver)(node, self.log, self.store, lambda: int(self.now_us // MS))
        if not alone:
            self.shared.inboxes[name] = []
        return TimedMember(number, name, alone, node, driver)

    # --- time -------------------------------------------------------------------------------------------------------

    def _push(self, at_us: float, what: Callable[[], None]) -> None:
        self._pushed += 1
        heapq.heappush(self._queue, (max(at_us, self.now_us), self._pushed, what))

    def until(self, us: float) -> None:
        """Let virtual time pass."""
        while self._queue and self._queue[0][0] <= us:
            self.now_us, _, what = heapq.heappop(self._queue)
            what()
        self.now_us = us

    def live(self) -> None:
        """Start, then the steady input; what came before the end of the warm-up does not count."""
        self.until(START_US + self.plan.warmup_s * 1e6)
        for member in self.members:
            member.done, member.busy_us = TurnCounts(), 0.0
            member.turns.clear()
        self.log.written.clear()
        self.log.records.clear()
        self.results.clear()
        self.closed_us.clear()
        self.consumed = self.offered = 0.0
        self.until(self.now_us + self.plan.seconds * 1e6)

    def _feed(self, tick: int) -> None:
        """The producers' next records, within some milliseconds of each other."""
        plan, stamp = self.plan, self.input.time_ms(tick)
        closes = self.input.time_ms(tick - 1) // plan.window_ms < stamp // plan.window_ms if tick else False
        last_us = 0.0
        for partition, record in enumerate(self.input.records(tick)):
            at_us = self.now_us + self.rng.uniform(0, plan.spread_ms * MS)
            last_us = max(last_us, at_us)
            self._push(at_us, lambda p=partition, r=record: self._produced(p, r))
        if closes:
            self.closed_us[stamp // plan.window_ms * plan.window_ms] = last_us
        self._push(START_US + (tick + 1) * plan.tick_ms * MS, lambda: self._feed(tick + 1))

    def _produced(self, partition: int, record: bytes) -> None:
        self.log.append(self.run.job.topics[0], partition, [record])
        self.offered += self.plan.events
        holder = self._holders.get(partition)
        if holder is not None:
            self._wake(holder, self.now_us)

    # --- turns ------------------------------------------------------------------------------------------------------

    def _wake(self, member: TimedMember, at_us: float) -> None:
        at_us = max(at_us, member.free_us)
        if at_us < member.due_us:
            member.due_us = at_us
            self._push(at_us, lambda: self._due(member, at_us))

    def _due(self, member: TimedMember, at_us: float) -> None:
        if member.due_us != at_us:
            return  # it is to turn sooner
        if not member.alone and self.costs is not None:
            self._read_on(member, self.costs)
            if member.free_us > self.now_us:
                member.due_us = float("inf")
                self._wake(member, member.free_us)
                return
        self._turn(member)

    def _read_on(self, member: TimedMember, costs: Costs) -> None:
        """The turns up to now in which it only took deltas of others: worked out, not executed.

        It began each as soon as it was free and one was there, and took all that had come by then.
        """
        arrivals, idle_us = self.arrivals, costs.turns + costs.slots * self.plan.partitions
        idle_us += costs.runners * len(member.node.work.runners)
        delta_us = costs.deltas_in + costs.folds * self.plan.partitions
        full_poll_us = costs.full_polls * self.plan.partitions
        turns, polls, first = 0, 0, member.taken
        while member.taken < len(arrivals):
            begins_us = max(member.free_us, arrivals[member.taken])
            if begins_us >= self.now_us:
                break
            there = bisect_right(arrivals, begins_us, lo=member.taken)
            cost_us = idle_us + delta_us * (there - member.taken)
            if begins_us - member.full_poll_at_us >= FULL_POLL_US:
                member.full_poll_at_us, polls, cost_us = begins_us, polls + 1, cost_us + full_poll_us
            member.busy_us += cost_us
            member.free_us, member.taken, turns = begins_us + cost_us, there, turns + 1
        parts, read = self.plan.partitions, member.taken - first
        only = TurnCounts(turns, turns * parts, polls * parts, turns * len(member.node.work.runners))
        only.deltas_in, only.folds = read, read * parts
        member.done.add(only)

    def _turn(self, member: TimedMember) -> None:
        counts = TurnCounts(turns=1, slots=self.plan.partitions, runners=len(member.node.work.runners))
        if not member.alone:
            counts.deltas_in, member.taken = len(self.arrivals) - member.taken, len(self.arrivals)
            counts.control, member.control_at = self.shared.control_at - member.control_at, self.shared.control_at
        replica = self.shared.replica
        assert isinstance(replica, TimedReplica)
        checked_ms = member.driver._checked_ms
        saved, owned = self.store.saves, list(member.node.work.runners)
        replica.turning = True
        self.log.begin(counts)
        began_ns = self.meter()
        ready = self.log.wait(member.driver.waits_for(), 0.0) or None if member.alone else None
        again = member.driver.turn(ready)
        spent_us = (self.meter() - began_ns) / 1000
        sent = self.log.end()
        replica.turning = False
        counts.checkpoints = self.store.saves - saved
        counts.folds = counts.deltas_in * self.plan.partitions
        is_full = checked_ms != member.driver._checked_ms
        if is_full if member.alone else self.now_us - member.full_poll_at_us >= FULL_POLL_US:
            counts.full_polls, member.full_poll_at_us = self.plan.partitions, self.now_us
        self._count_windows(member, counts)
        cost_us = self._cost(member, counts, spent_us)
        member.free_us = self.now_us + cost_us
        member.due_us = float("inf")
        if list(member.node.work.runners) != owned:
            self._holders.update(dict.fromkeys(member.node.work.runners, member))
        if sent:
            self._push(member.free_us + self.plan.transit_us, lambda: self._arrived(sent))
        pause_us = 0 if again else member.node.config.heartbeat_interval_ms * MS / 2
        self._wake(member, member.free_us + pause_us)

    def _count_windows(self, member: TimedMember, counts: TurnCounts) -> None:
        complete_ms, window_ms = member.node.replica.complete_through_ms, self.plan.window_ms
        if complete_ms > member.complete_ms:
            if member.complete_ms > -(1 << 61):
                counts.windows = complete_ms // window_ms - member.complete_ms // window_ms
                counts.joins = counts.windows * self.plan.partitions
            member.complete_ms = max(complete_ms, -(1 << 62))

    def _cost(self, member: TimedMember, counts: TurnCounts, spent_us: float) -> float:
        """The duration of the turn; a record that represents several batches is charged as so many turns."""
        if self.costs is None:
            member.turns.append((counts, spent_us))
            member.busy_us += spent_us
            return spent_us
        if member.alone:
            member.turns.append((copy(counts), spent_us))
        records, batches = counts.events, counts.batches
        self.consumed += records * self.plan.events
        more = self.plan.ticks - 1 if 0 < records == batches else 0  # else it is behind, and its batches are larger
        counts.batches += more * batches
        counts.events = max(0.0, records * self.plan.events - counts.batches)
        counts.turns += more
        counts.slots += more * self.plan.partitions
        counts.runners += more * len(member.node.work.runners)
        cost_us = self.costs.us(counts)
        member.done.add(counts)
        member.busy_us += cost_us
        return cost_us

    # --- what arrives -----------------------------------------------------------------------------------------------

    def _arrived(self, sent: list[Sent]) -> None:
        changed = False
        for record in sent:
            self.log.arrive(record)
            if record.topic == self.topics.broadcast:
                self.arrivals += [self.now_us] * len(record.values)
                self.shared.dirty.add(record.partition)
                changed = True
            elif record.topic == self.topics.control:
                changed = True
            elif record.topic in self.topics.outputs.values():
                self.results += [(self.now_us, value) for value in record.values]
        if changed:
            self._moment()

    def _moment(self) -> None:
        """The facts that all nodes can know from now on, and the nodes that read because of them."""
        self.shared.sync()
        complete_ms, window_ms = self.shared.replica.complete_through_ms, self.plan.window_ms
        before_ms, self._complete_ms = self._complete_ms, complete_ms
        over = before_ms is not None and complete_ms // window_ms > before_ms // window_ms
        for member in self.members:
            if member.alone or over or self.shared.inboxes[member.name]:
                self._wake(member, self.now_us)
        if self.now_us - self._dropped_us >= DROP_INTERVAL_US:
            self._dropped_us = self.now_us
            shared = [member for member in self.members if not member.alone]
            self.shared.drop_windows([r for member in shared for r in member.node.work.runners.values()])


class CountedCheckpoints(MemoryCheckpoints):
    """Counts what is saved."""

    def __init__(self) -> None:
        super().__init__()
        self.saves = 0

    def save(self, key: CheckpointKey, data: bytes, copies: int = 1) -> str:
        self.saves += 1
        return super().save(key, data, copies)
