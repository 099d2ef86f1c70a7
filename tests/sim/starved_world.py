"""Nodes of a transactional job that get a small share of a CPU, in slices with pauses between them, in virtual time.

Two rules for this file. A turn takes as long as its work costs on the slices that its node gets, and its writes are on
the log only then. The nodes, their drivers and their protocol are the real ones.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from nodes.log.contract import Appended, FetchedRecords
from nodes.log.memory import MemoryLog
from nodes.machine import facts as f
from nodes.machine import messages as m
from nodes.machine.ownership.ownership import Ownership
from nodes.transactions.driver import TransactionDriver
from nodes.transactions.topics import FIRST_INCARNATION
from tests.sim.recorded_log import RecordedLog
from tests.unit.txn_stage import SEQUENCERS, Stage, counters
from transactional.requests.requests import WireRequest, partition_of, request_record

HEALTHY_MS = 5_000.0
"""So long nodes have a CPU each; then they are starved."""
PARTITIONS = 2
UNITS = SEQUENCERS + PARTITIONS
KEYS = 40
BEAT_MS = 50.0
LOOK_MS = 20.0
"""Between two looks of a node for which nothing comes."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Milliseconds of CPU: of a turn, a record read or written, a file of a checkpoint, a partition taken over."""

    turn: float = 0.4
    read: float = 0.05
    request: float = 1.0
    file: float = 5.0
    taken: float = 150.0


class Slices:
    """When a node runs: ``share`` of a CPU, in slices of some ms; now and then it waits for much longer."""

    def __init__(self, draw: Random, share: float) -> None:
        self._draw = draw
        self._starved = share
        self._begin_ms = self._end_ms = 0.0  # of the slice at hand, or the next one

    def run(self, now_ms: float, cost_ms: float) -> Iterator[float]:
        """The beginnings of the slices that the work takes from now on, and at last when it is done."""
        at_ms, left_ms = now_ms, cost_ms
        while True:
            while self._end_ms <= at_ms:
                self._next()
            at_ms = max(at_ms, self._begin_ms)
            yield at_ms
            if left_ms <= self._end_ms - at_ms:
                yield at_ms + left_ms
                return
            left_ms -= self._end_ms - at_ms
            at_ms = self._end_ms

    def _next(self) -> None:
        share = self._starved if self._end_ms >= HEALTHY_MS else 1.0
        length_ms = self._draw.uniform(2, 12)
        pause_ms = length_ms * (1 / share - 1) * self._draw.expovariate(1) if share < 1 else 0.0
        if share < 1 and self._draw.random() < 0.01:
            pause_ms *= 8
        self._begin_ms = self._end_ms + pause_ms
        self._end_ms = self._begin_ms + length_ms


@dataclass(slots=True)
class Sent:
    topic: str
    partition: int
    values: Sequence[bytes]
    done: Callable[[int], None]


class SlowLog(RecordedLog):
    """The records of a turn wait in ``outbox`` until that is over; ``read_records`` and ``writes`` count its work."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.turning = False
        self.outbox: list[Sent] = []
        self.read_records = 0

    def append(self, topic: str, partition: int, values: Sequence[bytes], **more: Any) -> Appended:
        if self.turning:
            self.outbox.append(Sent(topic, partition, values, lambda end: None))
            return Appended(self.end_offset(topic, partition), len(values), 0)
        return super().append(topic, partition, values, **more)

    def send(self, topic: str, partition: int, values: Sequence[bytes], **more: Any) -> None:
        if not self.turning:
            return super().send(topic, partition, values, **more)
        self.outbox.append(Sent(topic, partition, values, more.get("done", lambda end: None)))
        return None

    def arrive(self, sent: Sent) -> None:
        done = super().append(sent.topic, sent.partition, sent.values)
        sent.done(done.first_offset + done.count)

    def read(self, topic: str, partition: int, offset: int, **more: Any) -> FetchedRecords:
        chunk = super().read(topic, partition, offset, **more)
        self.read_records += len(chunk)
        return chunk


@dataclass(slots=True)
class StarvedMember:
    name: str
    driver: TransactionDriver
    slices: Slices
    beat_ms: float = 0.0
    committed: int = 0
    owned: set[int] = field(default_factory=set)
    dead: bool = False


class StarvedWorld:
    """Let time pass with ``run``; then ask for ``moves`` and what nodes hold."""

    def __init__(self, seed: int, shares: Sequence[float], *, a_second: float, costs: Costs | None = None) -> None:
        self.draw = Random(seed)
        self.costs = Costs() if costs is None else costs
        self.now_ms = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._pushed = 0
        self.stage = Stage(
            counters("starved", PARTITIONS), interval_ms=1_000, trim_ms=10_000, new_log=lambda **more: SlowLog()
        )
        assert isinstance(self.stage.log, SlowLog)
        self.log: SlowLog = self.stage.log
        self.members = [self._member(number, share) for number, share in enumerate(shares)]
        self.asked = 0
        self.most: dict[str, int] = {}
        self.ownership, self._folded_to = Ownership(UNITS), 0
        self.claims: list[tuple[float, int, str, str | None]] = []
        self.releases = 0
        if a_second:
            self._push(0.0, lambda: self._ask(1000 / a_second))

    def _member(self, number: int, share: float) -> StarvedMember:
        name = f"n{number}"
        member = StarvedMember(name, self.stage.start(name), Slices(Random(f"{number} {self.draw.random()}"), share))
        self._push(self.draw.uniform(0, 500), lambda: self._turn(member))
        return member

    def _push(self, at_ms: float, what: Callable[[], None]) -> None:
        self._pushed += 1
        heapq.heappush(self._queue, (at_ms, self._pushed, what))

    def run(self, until_ms: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Whether ``until`` has come to hold."""
        while self._queue and self._queue[0][0] <= until_ms:
            at_ms, _, what = heapq.heappop(self._queue)
            self.now_ms = max(self.now_ms, at_ms)
            self.stage.now_ms = int(self.now_ms)
            what()
            if until():
                return True
        return False

    def kill(self, member: StarvedMember) -> None:
        member.dead = True

    def _ask(self, each_ms: float) -> None:
        """The next request; nobody waits for its reply."""
        self.asked += 1
        name = f"r{self.asked}"
        wire = WireRequest(name, "count", f"k{self.draw.randrange(KEYS)}", "add", [1])
        self.log.append(self.stage.topics.requests, partition_of(name, SEQUENCERS), [request_record(wire)])
        self._push(self.now_ms + each_ms, lambda: self._ask(each_ms))

    def _turn(self, member: StarvedMember) -> None:
        """The node looks at what is there; what follows is on the log when it has had the CPU time for it."""
        if member.dead:
            return
        log, driver, costs = self.log, member.driver, self.costs
        waits = driver.waits_for()
        ready = [where for where in waits if log.end_offset(*where) > waits[where]]
        files, log.read_records, log.turning = len(self.stage.store.files), 0, True
        driver.turn(ready if driver.has_begun else None)
        log.turning = False
        sent, log.outbox = log.outbox, []
        owned = set(driver.node.partitions)
        ran, member.committed = driver.steps.tally.committed - member.committed, driver.steps.tally.committed
        cost_ms = costs.turn + costs.read * (log.read_records + len(sent)) + costs.request * ran
        cost_ms += costs.file * max(0, len(self.stage.store.files) - files)
        cost_ms += costs.taken * len(owned - member.owned)
        member.owned = owned
        self._measure(driver)
        at_ms = self.now_ms
        for at_ms in member.slices.run(self.now_ms, cost_ms):
            if at_ms - max(member.beat_ms, self.now_ms) >= BEAT_MS:  # the watchdog's thread
                member.beat_ms = at_ms
                self._push(at_ms, lambda: self._beat(member))
        self._push(at_ms, lambda: self._over(member, sent))

    def _beat(self, member: StarvedMember) -> None:
        if not member.dead:
            beat = m.encode(m.Heartbeat(FIRST_INCARNATION, member.name, 0))
            self.log.append(self.stage.topics.heartbeats, 0, [beat])

    def _over(self, member: StarvedMember, sent: list[Sent]) -> None:
        if member.dead:
            return
        for each in sent:
            self.log.arrive(each)
        member.beat_ms = self.now_ms
        self._fold()
        waits = member.driver.waits_for()
        news = any(self.log.end_offset(*where) > at for where, at in waits.items())
        self._push(self.now_ms + (0 if news else LOOK_MS), lambda: self._turn(member))

    def _fold(self) -> None:
        """See who owns what."""
        topic = self.stage.topics.control
        assert self._folded_to >= self.log.start_offset(topic, 0), "control was trimmed before it was folded"
        for value in MemoryLog.read(self.log, topic, 0, self._folded_to).values:
            self._folded_to += 1
            for fact in self.ownership.apply(m.decode_control(value)):
                if isinstance(fact, f.PartitionClaimed):
                    self.claims.append((self.now_ms, fact.partition, fact.node, fact.previous))
                self.releases += isinstance(fact, f.PartitionReleased)

    def _measure(self, driver: TransactionDriver) -> None:
        """The memory of the node, at most."""
        node = driver.node
        held = {
            "requests read ahead": max((each.held for each in node.sequencers.values()), default=0),
            "epochs": len(node.ledger.epochs),
            "commits": max((each.kept_commits for each in node.partitions.values()), default=0),
            "calls": max((len(each.received) for each in node.partitions.values()), default=0),
        }
        for name, count in held.items():
            self.most[name] = max(count, self.most.get(name, 0))

    def moves(self, since_ms: float = HEALTHY_MS) -> dict[int, int]:
        """How often each unit has changed its owner since then, but for the first time."""
        found = dict.fromkeys(range(UNITS), 0)
        owner: dict[int, str] = {}
        for at_ms, unit, node, _ in self.claims:
            found[unit] += unit in owner and owner[unit] != node and at_ms >= since_ms
            owner[unit] = node
        return found

    @property
    def committed(self) -> int:
        return sum(each.committed for each in self.members)
