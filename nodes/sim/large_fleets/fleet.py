"""A fleet of a thousand nodes in one process: only those turn whom something concerns, and what is equal is shared.

Two rules for this file: nodes and drivers are the real ones (``shared.py`` names what they share, and a few share
nothing, to compare with); virtual time moves only here.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nodes.log.contract import Appended
from nodes.log.memory import MemoryLog
from nodes.machine import messages as m
from nodes.machine.config import NodeConfig
from nodes.machine.effects import Ending
from nodes.machine.events import StopRequested
from nodes.machine.node import Node
from nodes.machine.ownership.ownership import Ownership
from nodes.sim.checks import check_results, outputs
from nodes.sim.drawing import draw
from nodes.sim.inputs.records import make_input
from nodes.sim.jobs import CASES, OUTPUT, TOPIC
from nodes.sim.large_fleets.shared import Shared, SharedDriver, SharedNode
from nodes.sim.node_process import InvariantBroken
from nodes.sim.options import Options
from nodes.sim.replica_checks import caught_up, check_replicas, picture
from nodes.sim.store import MemoryCheckpoints
from nodes.streams.driver import Driver
from nodes.streams.jobs import JobTopics, declare_end, open_job

CASE = "query1"
ALONE = 1
"""So many nodes share nothing."""
DELAY_MS = 3
"""At most so long after something has happened those whom it concerns turn."""
DROP_INTERVAL_MS = 500


def large_options(nodes: int, partitions: int, seed: int) -> Options:
    """A steady input of about six windows, no fault but deaths and departures."""
    return replace(
        draw(seed, case=CASE, calm=True),
        nodes=nodes,
        max_nodes=nodes + 2,
        partitions=partitions,
        records=30,
        empty_partitions=0,
        poison=0.02,
        late=0.1,
        window_ms=1000,
        spread_ms=400,
        delay_ms=0,
        feed_ms=6000,
        preloaded=0.0,
        batch_max_records=1000,
        heartbeat_interval_ms=500,
        failure_timeout_ms=1500,
        broadcast_interval_ms=500,
        checkpoint_interval_ms=1000,
        max_watermark_drift_ms=0,
        replicas=1,
        merged_checkpoint_interval_ms=0,
        group_heartbeats_above=32,
    )


class FleetLog(MemoryLog):
    """Counts bytes by topic and reports what was appended."""

    def __init__(self, fleet: LargeFleet) -> None:
        super().__init__(clock_ms=lambda: fleet.now_ms)
        self._fleet = fleet
        self.appended: dict[str, int] = {}

    def append(
        self,
        topic: str,
        partition: int,
        values: Sequence[bytes],
        *,
        headers: Sequence[bytes] | None = None,
        keys: Sequence[bytes | None] | None = None,
    ) -> Appended:
        self.appended[topic] = self.appended.get(topic, 0) + sum(map(len, values))
        done = super().append(topic, partition, values, headers=headers, keys=keys)
        self._fleet.noticed(topic, partition)
        return done


class FleetMember:
    """One incarnation; ``alone``: it shares nothing."""

    def __init__(self, fleet: LargeFleet, number: int, expected: int, alone: bool) -> None:
        options = fleet.options
        self.name = f"node-{number}"
        self.dead = False
        self.due_ms = 0
        config = NodeConfig(
            node=self.name,
            number=number,
            heartbeat_interval_ms=options.heartbeat_interval_ms,
            failure_timeout_ms=options.failure_timeout_ms,
            broadcast_interval_ms=options.broadcast_interval_ms,
            checkpoint_interval_ms=options.checkpoint_interval_ms,
            max_watermark_drift_ms=options.max_watermark_drift_ms,
            expected=expected,
            expect_ms=10_000,
            group_heartbeats_above=options.group_heartbeats_above,
        )
        self.alone = alone
        self.node: Node = Node(config, fleet.run) if alone else SharedNode(config, fleet.shared)
        driver = Driver if alone else SharedDriver
        self.driver = driver(self.node, fleet.log, fleet.store, lambda: fleet.now_ms)
        if not alone:
            fleet.shared.inboxes[self.name] = []

    @property
    def partitions(self) -> list[int]:
        """The partitions that it processes now."""
        return sorted(self.node.work.runners)


@dataclass(frozen=True, slots=True)
class Report:
    """The work of a large fleet; bytes a second are those that one node reads, in virtual time."""

    nodes: int
    partitions: int
    killed: int
    turns: int
    virtual_ms: int
    results: int
    latency_ms: dict[str, float]
    broadcast_bytes_per_s: int
    heartbeat_bytes_per_s: int
    control_bytes_per_s: int


class LargeFleet:
    """One run. The attributes of a world that ``checks.py`` reads are here under the same names."""

    def __init__(self, nodes: int, partitions: int, seed: int = 1) -> None:
        self.options = large_options(nodes, partitions, seed)
        self.case = CASES[CASE]
        self.rng = random.Random(f"large {seed}")
        self.now_ms = 0
        self.turns = 0
        self._broadcast = ""
        self._holders: dict[int, FleetMember] = {}
        self.log = FleetLog(self)
        self.store = MemoryCheckpoints()
        self.log.create_topic(TOPIC, partitions)
        self.run = open_job(self.log, self.case.make(self.options))
        self.topics = JobTopics.of(self.run)
        self._broadcast = self.topics.broadcast
        self.shared = Shared(self.log, self.run)
        self.shared.sync()
        self.gone: list[tuple[FleetMember, Ending, str]] = []
        self.unsent: list[tuple[str, bytes, bytes]] = []
        self.ends: list[list[int]] = []  # it is never continued
        self.isolation = None
        self.failed = False
        self.input_ended = False
        self.killed = 0
        self._queue: list[tuple[int, int]] = []
        self._complete_ms: int | None = None
        self._dropped_ms = 0
        self._feeds = make_input(self.options, self.rng)
        self._fed = 0
        self.members: list[FleetMember] = []
        for number in range(nodes):
            self.start(expected=nodes, alone=number < ALONE)

    # --- who turns --------------------------------------------------------------------------------------------------

    def start(self, expected: int = 1, alone: bool = False) -> None:
        """Another node joins."""
        member = FleetMember(self, len(self.members), expected, alone)
        self.members.append(member)
        member.due_ms = 1 << 60
        self._wake(member, self.now_ms + 1)

    def kill(self, member: FleetMember) -> None:
        """It is gone, without a notice."""
        member.dead = True
        self.killed += 1
        self.shared.inboxes.pop(member.name, None)

    @property
    def processes(self) -> list[FleetMember]:
        """Those that run."""
        return [member for member in self.members if not member.dead and member.node.left is None]

    def _wake(self, member: FleetMember, at_ms: int) -> None:
        if not member.dead and at_ms < member.due_ms:
            member.due_ms = at_ms
            heapq.heappush(self._queue, (at_ms, self._number(member)))

    def _number(self, member: FleetMember) -> int:
        return member.node.config.number

    def _soon(self) -> int:
        return self.now_ms + self.rng.randint(1, DELAY_MS)

    def noticed(self, topic: str, partition: int) -> None:
        """Something was appended: it concerns the nodes that process that partition; the broadcast is read by all."""
        if topic == TOPIC and partition in self._holders:
            self._wake(self._holders[partition], self._soon())
        elif topic == self._broadcast:
            self.shared.dirty.add(partition)

    def _moment(self) -> None:
        """The facts that all nodes know from now on, and the nodes that have to read because of them."""
        self.shared.sync()
        complete_ms = self.shared.replica.complete_through_ms
        before_ms, self._complete_ms = self._complete_ms, complete_ms
        if before_ms is not None and complete_ms // self.options.window_ms > before_ms // self.options.window_ms:
            for member in self.processes:
                self._wake(member, self._soon())
        for name, inbox in self.shared.inboxes.items():
            if inbox:
                self._wake(self.members[int(name.removeprefix("node-"))], self._soon())
        if self.now_ms - self._dropped_ms >= DROP_INTERVAL_MS:
            self._dropped_ms = self.now_ms
            shared = [member for member in self.processes if not member.alone]
            self.shared.drop_windows([r for member in shared for r in member.node.work.runners.values()])

    def step(self) -> None:
        """Go to the next moment at which something happens, and let all turn whose moment it is."""
        due_ms = self._queue[0][0] if self._queue else self.now_ms + DELAY_MS
        if self._fed < len(self._feeds):
            due_ms = min(due_ms, max(self.now_ms, self._start_ms + self._feeds[self._fed].at_ms))
        self.now_ms = max(self.now_ms, due_ms)
        self._feed()
        self._moment()
        while self._queue and self._queue[0][0] <= self.now_ms:
            at_ms, number = heapq.heappop(self._queue)
            member = self.members[number]
            if not member.dead and member.due_ms == at_ms:
                self._turn(member)

    def _turn(self, member: FleetMember) -> None:
        self.turns += 1
        member.due_ms = 1 << 60
        before = member.partitions
        again = member.driver.turn()
        if member.partitions != before:
            self._holders.update(dict.fromkeys(member.partitions, member))
        if member.node.left is not None:
            self._left(member)
            return
        self._wake(member, self._soon() if again else self.now_ms + self.options.heartbeat_interval_ms // 2)

    def _left(self, member: FleetMember) -> None:
        left = member.node.left
        assert left is not None
        self.shared.inboxes.pop(member.name, None)
        self.gone.append((member, left.ending, left.reason))
        if left.ending is Ending.FAILED:
            raise InvariantBroken(f"{member.name} failed: {left.reason}")

    # --- what happens -----------------------------------------------------------------------------------------------

    @property
    def _start_ms(self) -> int:
        return 2000  # all have joined and claimed by then

    def _feed(self) -> None:
        while self._fed < len(self._feeds) and self._start_ms + self._feeds[self._fed].at_ms <= self.now_ms:
            feed = self._feeds[self._fed]
            self.log.append(TOPIC, feed.partition, [feed.payload])
            self._fed += 1

    def until(self, ms: int) -> None:
        """Let virtual time pass."""
        while self.now_ms < ms:
            self.step()

    def live(self) -> Report:
        """The whole story: start, deaths, a departure and arrivals under load, the end of the input, the checks."""
        options = self.options
        self.until(self._start_ms + options.feed_ms // 3)
        for member in self.rng.sample(self.processes[ALONE:], 5):
            self.kill(member)
        self.until(self._start_ms + options.feed_ms // 2)
        leaving = self.rng.choice(self.processes[ALONE:])
        leaving.driver.dispatch(StopRequested())
        self.start()
        self.start()
        self.until(self._start_ms + 2 * options.feed_ms // 3)
        for member in self.rng.sample(self.processes[ALONE:], 3):
            self.kill(member)
        self.until(self._start_ms + options.feed_ms + options.failure_timeout_ms)
        self.check_shared()
        declare_end(self.log, self.run)
        deadline_ms = self.now_ms + 20 * options.failure_timeout_ms
        while self.processes:
            self.step()
            if self.now_ms > deadline_ms:
                raise InvariantBroken(f"{len(self.processes)} nodes have not left {deadline_ms} ms after the end")
        check_results(self)
        return self.report()

    # --- the end ----------------------------------------------------------------------------------------------------

    def check_shared(self) -> None:
        """O3: what is shared is what anyone finds that reads the same by itself, and so do the nodes that do."""
        alone = [member for member in self.processes if member.alone]
        assert len(alone) == ALONE
        check_replicas(self, alone)
        self.shared.sync()
        for member in alone:
            own = caught_up(self, member)
            self.shared.replica.drop_for_all(own.dropped_through_ms)
            if picture(own) != picture(self.shared.replica):
                raise InvariantBroken(f"the replica of {member.name}, which shares nothing, is not the shared one")
            offset = member.driver.control.position
            if self._folded(offset) != member.node.ownership.digest():
                raise InvariantBroken(f"the ownership of {member.name} is not what is on the log up to {offset}")
        if self._folded(self.shared.control_at) != self.shared.ownership.digest():
            raise InvariantBroken("the shared ownership is not what is on the log")

    def _folded(self, end: int) -> str:
        ownership = Ownership(self.run.partitions)
        for value in self.log.read(self.topics.control, 0, 0, max_records=end).values:
            ownership.apply(m.decode_control(value))
        return ownership.digest()

    def latencies_ms(self) -> list[int]:
        """Of each result: from the append of the last record, over partitions, that closed its window."""
        closed: dict[int, int] = {}
        incomplete: set[int] = set()
        ends: set[int] = set()
        made = list(self._outputs())
        for _, end in made:
            ends.add(end)
        for partition in range(self.options.partitions):
            found = self._closings(partition, sorted(ends))
            for end in ends:
                if end in found:
                    closed[end] = max(closed.get(end, 0), found[end])
                else:
                    incomplete.add(end)  # closed by the end of the input
        return [at_ms - closed[end] for at_ms, end in made if end not in incomplete]

    def _outputs(self) -> list[tuple[int, int]]:
        """(append time, window end) of every result."""
        topic = self.topics.outputs["main"]
        made = []
        for partition in range(self.log.partitions(topic)):
            chunk = self.log.read(topic, partition, 0, max_records=1 << 30)
            ends = (json.loads(value)["end"] for value in chunk.values)
            made += zip(chunk.timestamps_ms.tolist(), ends, strict=True)
        return made

    def _closings(self, partition: int, ends: list[int]) -> dict[int, int]:
        found: dict[int, int] = {}
        chunk = self.log.read(TOPIC, partition, 0, max_records=1 << 30)
        for at_ms, payload in zip(chunk.timestamps_ms.tolist(), chunk.values, strict=True):
            try:
                ts = json.loads(payload)["ts"]
            except (ValueError, TypeError, KeyError):
                continue
            for end in ends:
                if isinstance(ts, int) and end <= ts < 1 << 40 and end not in found:
                    found[end] = at_ms
        return found

    def report(self) -> Report:
        """Figures of the run."""
        found = np.array(self.latencies_ms())
        shares = {"avg": found.mean(), "p50": np.percentile(found, 50), "p99": np.percentile(found, 99)}
        seconds = self.now_ms / 1000
        groups = self.log.appended.get(self.topics.group_heartbeats, 0) / 16
        heartbeat_bytes = self.log.appended[self.topics.heartbeats] + groups
        return Report(
            nodes=self.options.nodes,
            partitions=self.options.partitions,
            killed=self.killed,
            turns=self.turns,
            virtual_ms=self.now_ms,
            results=len(outputs(self, "main")),
            latency_ms={name: round(float(value), 1) for name, value in shares.items()} | {"max": float(found.max())},
            broadcast_bytes_per_s=int(self.log.appended[self.topics.broadcast] / seconds),
            heartbeat_bytes_per_s=int(heartbeat_bytes / seconds),
            control_bytes_per_s=int(self.log.appended[self.topics.control] / seconds),
        )


__all__ = ["OUTPUT", "LargeFleet", "Report", "large_options"]
