"""Idle partitions: which of this node's are, and how far a punctuation may take them.

Two rules for this file. A partition is idle only by its high watermark on the log, requested after the silence.
Partitions of others are idle where their last delta on the broadcast is a punctuation, whatever this node's clock
shows.

Standbys watch their partitions as owners do, and punctuate where the owner is late with it. Of two punctuations behind
one position the broadcast accepts the first, and of a delta and a punctuation, too.

A silence is measured in *running time* (as failures are): a step counts for at most a third of the timeout. So a node
that is busy, stopped or starved does not take its own pause for one. Records that are on the log and were not read, for
whatever reason (other partitions come first, drift is bounded, a fetch is late), show in the log's answer.

A bound no higher than the frontier of the others would be the obvious one. With it two partitions without records hold
each other, and with them every window, for ever. Lateness is judged by a partition's own watermark, so going further
than an idle neighbour costs nobody a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodes.machine.config import WantedInput
from nodes.machine.partitions import Partitions
from wcrdt.replica.replica import Punctuation, Slot
from wcrdt.replica.slots import Position
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodes.machine.events import InputEndRequested
    from nodes.machine.runner import Runner

STEPS = 3
"""So many steps at least make up the timeout."""
REQUEST_MS = 40
"""Owners request ends this often at least, twice over: a standby waits so much longer than for a result."""
JUDGE_MS = 10
"""How often standbys look for what could be punctuated."""


def bound_ms(slots: Sequence[Slot], partition: int) -> int:
    """The least watermark of the other partitions that are not idle; if all are, the largest.

    Partitions whose input has ended do not count: their watermark is no time.
    """
    others = [slot for p, slot in enumerate(slots) if p != partition and slot.record.watermark_ms < END_OF_TIME_MS]
    active = [slot.record.watermark_ms for slot in others if not slot.idle]
    return min(active) if active else max((slot.record.watermark_ms for slot in others), default=BEFORE_TIME_MS)


class IdlePartitions:
    """The silences of a workload's partitions. Does nothing for those whose source has no idle timeout."""

    def __init__(self, work: Partitions) -> None:
        self.work = work
        self._timeouts_ms = [partition.source.idle_timeout_ms for partition in work.run.layout]
        # Each timeout has a running time of its own: a step's share of it depends on the timeout.
        self._running_ms = {timeout_ms: 0 for timeout_ms in self._timeouts_ms if timeout_ms is not None}
        self._silent: dict[int, tuple[Runner, int, int]] = {}  # whose, from which input offset on, since when
        self._at_end: list[Runner] = []  # in this step
        self._sent: dict[int, tuple[Position, int]] = {}
        self._due: dict[int, tuple[Runner, Position, int]] = {}  # of standbys: whose and where, since when
        self._judged_ms = -JUDGE_MS

    def passed(self, passed_ms: int) -> None:
        """A step, so long after the last one."""
        for timeout_ms in self._running_ms:
            self._running_ms[timeout_ms] += min(passed_ms, max(1, timeout_ms // STEPS))
        self._at_end.clear()

    def silent_inputs(self) -> list[WantedInput]:
        """Partitions of which nothing was read for so long, where it matters whether there is something."""
        if not self._running_ms:
            return []
        found = []
        for runner in self._watched():
            if self._is_silent(runner) and self._is_wanted(runner) and self._next(runner) is not None:
                found.append(WantedInput(runner.partition, runner.key, runner.task.next_offset, None))
        return found

    def input_end_requested(self, answer: InputEndRequested) -> None:
        """The log's answer: the partition is idle, or its silence begins anew, since its records were not read."""
        runner = self.work.runner(answer.partition, answer.version)
        if runner is None or runner.task.next_offset != answer.offset:
            return
        if answer.end == answer.offset:
            self._at_end.append(runner)
        elif answer.end > answer.offset:
            self._silent.pop(answer.partition, None)

    def settle(self) -> None:
        """At the end of a step: see what is silent, and punctuate what is idle."""
        if not self._running_ms:
            return
        watched = self._watched()
        self._silent = {runner.partition: self._silence(runner) for runner in watched}
        self._judge(watched)
        for runner in self._at_end:
            punctuation = self._next(runner) if runner in watched else None
            if punctuation is not None:
                self._sent[runner.partition] = (punctuation.after, self._now(runner.partition))
                if runner.standby is not None:
                    runner.standby.punctuate(punctuation, self.work.replicas.running_ms)
                self.work.effects.append(runner.broadcast(punctuation))

    def is_on_its_way(self, runner: Runner) -> bool:
        """Whether a punctuation behind the runner's position was written here and not read yet.

        Records that it took meanwhile would be void.
        """
        sent = self._sent.get(runner.partition)
        if sent is None or sent[0] != runner.task.position:
            return False
        return self._now(runner.partition) - sent[1] < self.work.config.failure_timeout_ms

    def may_come(self, runner: Runner) -> bool:
        """Whether another node may have written a punctuation behind the runner's position, which is not here yet.

        Its silence may have begun sooner than the one that this node has seen.
        """
        slot, partition = self.work.replica.slots[runner.partition], runner.partition
        if slot.record.position != runner.task.position:
            return False
        since, timeout_ms = self._silent.get(partition), self._timeouts_ms[partition]
        is_long = timeout_ms is not None and since is not None and 2 * (self._now(partition) - since[2]) >= timeout_ms
        return slot.idle or is_long

    def _watched(self) -> list[Runner]:
        timeouts = self._timeouts_ms
        return [
            runner
            for runner in self.work.running()
            if timeouts[runner.partition] is not None and (runner.standby is None or runner.standby.level)
        ]

    def _judge(self, watched: Sequence[Runner]) -> None:
        """Find what standbys could punctuate, and since when nothing has come of it."""
        now_ms = self.work.replicas.running_ms
        if now_ms - self._judged_ms < JUDGE_MS:
            return
        before, self._due, self._judged_ms = self._due, {}, now_ms
        for runner in watched:
            if runner.standby is not None and self._is_silent(runner) and self._next(runner) is not None:
                due, at = before.get(runner.partition), runner.task.position
                same = due is not None and due[0] is runner and due[1] == at
                self._due[runner.partition] = due if same and due is not None else (runner, at, now_ms)

    def _is_wanted(self, runner: Runner) -> bool:
        """True of an owner; of a standby where the owner is late."""
        if runner.standby is None or runner.standby.deltas.active_standby.active:
            return True
        due = self._due.get(runner.partition)
        if due is None or due[0] is not runner or due[1] != runner.task.position:
            return False
        return self.work.replicas.running_ms - due[2] >= runner.standby.result_patience_ms + REQUEST_MS

    def _is_silent(self, runner: Runner) -> bool:
        since = self._silent.get(runner.partition)
        return since is not None and since[0] is runner and self._is_over(runner.partition, since[2])

    def _now(self, partition: int) -> int:
        """The running time by which the partition's silence is measured."""
        timeout_ms = self._timeouts_ms[partition]
        assert timeout_ms is not None, f"partition {partition} is never idle"
        return self._running_ms[timeout_ms]

    def _is_over(self, partition: int, since_ms: int) -> bool:
        """Whether its timeout has passed since then."""
        timeout_ms = self._timeouts_ms[partition]
        return timeout_ms is not None and self._running_ms[timeout_ms] - since_ms >= timeout_ms

    def _silence(self, runner: Runner) -> tuple[Runner, int, int]:
        before, offset = self._silent.get(runner.partition), runner.task.next_offset
        if before is not None and before[0] is runner and before[1] == offset:
            return before
        return (runner, offset, self._now(runner.partition))

    def _next(self, runner: Runner) -> Punctuation | None:
        """The record to write if the partition is idle; None if that would change nothing, or no node could take it."""
        task, slot = runner.task, self.work.replica.slots[runner.partition]
        end = self.work.ownership.end_offset(runner.partition)
        if task.waiting or task.records.ended or (end is not None and end > task.next_offset):
            return None
        if slot.record.position != task.position:
            return None  # its last delta has not been read back
        watermark_ms = max(bound_ms(self.work.replica.slots, runner.partition), task.watermark_ms)
        if slot.idle and watermark_ms == task.watermark_ms:
            return None
        sent = self._sent.get(runner.partition)
        if sent is not None and sent[0] == task.position and not self._is_over(runner.partition, sent[1]):
            return None  # on its way, unless it was damaged
        return Punctuation(runner.partition, task.position, watermark_ms)
