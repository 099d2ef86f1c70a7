"""Availability: while one node is cut off, the windows of the others complete, and it answers nothing false.

Some seeds have this one fault and no other, so that a bound is known within which things must happen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodes.sim.faults.network_partitions import make_cut
from nodes.sim.inputs.decoding import delay_ms, event_of
from nodes.sim.jobs import CASES
from nodes.sim.node_process import InvariantBroken
from wcrdt.codec import encode
from wcrdt.windows.assigners import BEFORE_TIME_MS

if TYPE_CHECKING:
    from nodes.sim.faults.stage import Stage
    from nodes.sim.node_process import NodeProcess
    from nodes.sim.options import Options
    from wcrdt.replica.replica import Replica
    from wcrdt.windows.assigners import Window

FROM_MS, UNTIL_MS = 700, 3000
EVERY_STEPS = 10


def bound_ms(options: Options) -> int:
    """After so long what is on the log must show: silence is noticed, partitions are claimed, loaded and replayed."""
    return (
        3 * options.failure_timeout_ms
        + 4 * options.heartbeat_interval_ms
        + 2 * options.broadcast_interval_ms
        + 60 * options.tick_ms
    )


class Isolation:
    """Cuts a node off and watches."""

    def __init__(self, world: Stage) -> None:
        self.world = world
        self.victim: NodeProcess | None = None
        self.believed: dict[tuple[str, Window], bytes] = {}
        self.checks = 0
        self._events = [
            (feed.at_ms, feed.partition, event)
            for feed in world.feeds
            if (event := event_of(world.options, feed.partition, feed.payload)) is not None
        ]
        self._reached = 0
        self._watermarks = [BEFORE_TIME_MS] * world.options.partitions

    def step(self) -> None:
        """To be called at every step. Raises ``InvariantBroken``."""
        world, now_ms = self.world, self.world.now_ms
        if now_ms < FROM_MS or now_ms >= UNTIL_MS:
            return
        if self.victim is None:
            self.victim = world.rng.choice(world.processes)
            patience_ms = world.rng.choice([world.options.failure_timeout_ms, 10_000])
            self.victim.cut_off(make_cut(world.options.isolation, self.victim.topics, UNTIL_MS, patience_ms))
        if world.steps % EVERY_STEPS == 0 and not self.victim.dead:
            self._note(self.victim.node.replica)
        due_ms = now_ms - bound_ms(world.options)
        if due_ms >= FROM_MS:
            self._demand(due_ms)

    def _note(self, replica: Replica) -> None:
        self.believed |= complete(replica)

    def _demand(self, due_ms: int) -> None:
        """Everybody else knows of what was on the log at ``due_ms``."""
        while self._reached < len(self._events) and self._events[self._reached][0] <= due_ms:
            _, partition, event = self._events[self._reached]
            self._watermarks[partition] = max(self._watermarks[partition], self._promised(event))
            self._reached += 1
        wanted = min(self._watermarks)
        self.checks += 1
        for process in self.world.processes:
            if process is not self.victim and process.node.replica.frontier_ms < wanted:
                raise InvariantBroken(
                    f"{bound_ms(self.world.options)} ms after records up to {wanted} were on the log, "
                    f"{process.name} has frontier {process.node.replica.frontier_ms}: "
                    f"{[slot.record.watermark_ms for slot in process.node.replica.slots]}, wanted {self._watermarks}"
                )

    def _promised(self, event: dict[str, int]) -> int:
        case = CASES[self.world.options.case]
        if case.manual:
            return event["ts"] if event["id"] % 3 == 0 else BEFORE_TIME_MS
        return event["ts"] - delay_ms(self.world.options, event)

    def check(self, whole: Replica) -> None:
        """``whole`` knows everything: what the victim took for final is what everybody reads there."""
        truth = complete(whole)
        for (state, window), value in sorted(self.believed.items()):
            if window.end_ms <= whole.dropped_through_ms:
                continue  # a full slot on the log shows it; answers from it are compared with the results
            if truth.get((state, window)) != value:
                raise InvariantBroken(
                    f"cut off, {state} {window} was {value!r}, everybody reads {truth.get((state, window))!r}"
                )


def complete(replica: Replica) -> dict[tuple[str, Window], bytes]:
    """The values that may be read as final, as bytes."""
    found: dict[tuple[str, Window], bytes] = {}
    for state in sorted(replica.shapes):
        for window in sorted(set(replica.windows(state))):
            if window.end_ms > replica.dropped_through_ms and replica.is_complete(state, window):
                found[state, window] = encode(replica.current_value(state, window))
    return found
