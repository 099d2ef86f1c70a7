"""Ends of windows that others wait for: which of them the next delta of a partition carries, and whether it is due.

Two rules for this file: nothing here sends; an end that nobody waits for makes no delta leave early.
"""

from __future__ import annotations

from collections.abc import Callable

from holon.program.program import JobProgram
from holon.tracks.task import PartitionTask
from nodes.machine.standby.held_results import Awaited
from wcrdt.replica.replica import Replica
from wcrdt.replica.slots import OwnTrack
from wcrdt.windows.assigners import BEFORE_TIME_MS
from wcrdt.windows.panes import last_end

GATHER_MS = 5
"""How long a delta that closes a window waits for those of the node's other partitions."""


class AwaitedEnds:
    """Of one partition."""

    def __init__(self, task: PartitionTask, replica: Replica, program: JobProgram) -> None:
        self._task = task
        self._replica = replica
        self._program = program
        self._shapes = program.shapes()
        self._closes: tuple[object, int] = (None, BEFORE_TIME_MS)
        self._closed_ms: int | None = None

    def is_due(self, now_ms: int, gathered: Callable[[int], bool]) -> bool:
        """Whether somebody waits for the next delta; ``gathered``: whether all partitions here have come so far."""
        if any(end_ms > BEFORE_TIME_MS for end_ms in self._answers()):
            return True
        through_ms = self._closes_through()
        if through_ms <= BEFORE_TIME_MS:
            return False
        if self._closed_ms is None:
            self._closed_ms = now_ms
        return gathered(through_ms) or now_ms - self._closed_ms >= GATHER_MS

    def sent(self) -> None:
        """The delta leaves."""
        self._closed_ms = None

    def now(self) -> Awaited:
        """The ends that others wait for and that the next delta carries."""
        answered = self._answers()
        if self._task.records.ended or self._task.waiting:
            return Awaited(self._task.scope.record.watermark_ms, answered)
        return Awaited(self._closes_through(), answered)

    def _answers(self) -> tuple[int, ...]:
        """By stage, the last of the ends that it has answered since the last delta and that others wait for.

        These are the ends of its own windows, since results wait until all stages have come as far, and those of the
        windows of later stages. Where windows are private, nobody knows at which ends others wait.
        """
        windows, program = self._task.windows, self._program
        awaited: list[int] = []
        for stage, track in enumerate(self._task.scope.answers[:-1]):
            sent_ms, end_ms = track.broadcast_position[0], track.position[0]
            if end_ms > sent_ms and not program.answers_private:
                later = [name for name, shape in self._replica.shapes.items() if shape.stage > stage]
                found = (self._replica.ended(name, sent_ms, end_ms) for name in later)
                end_ms = max([windows.answered_ms[stage], *(ended[-1].end_ms for ended in found if ended)])
            awaited.append(end_ms if end_ms > sent_ms else BEFORE_TIME_MS)
        return tuple(awaited)

    def _closes_through(self) -> int:
        """The watermark that closes the last window of those that have ended since the last delta.

        Where all wait for this partition alone, also a window of others to which it has nothing to add.
        """
        record = self._task.scope.record
        known = record.position, record.broadcast_watermark_ms, record.watermark_ms, self._replica.changes
        if known != self._closes[0]:  # this is called at every step, and most steps concern others
            self._closes = known, self._find_closed(record)
        return self._closes[1]

    def _find_closed(self, record: OwnTrack) -> int:
        lateness = self._replica.lateness_ms
        sent, now = record.broadcast_watermark_ms - lateness, record.watermark_ms - lateness
        if sent >= now:
            return BEFORE_TIME_MS
        closed: int | None = None
        for name, windows in record.contributions.items():
            panes = self._shapes[name].panes
            for held in windows:
                end = held.end_ms if panes is None else last_end(panes, held, now)
                if end is not None and sent < end <= now and (closed is None or end > closed):
                    closed = end
        if closed is None and record.broadcast_watermark_ms <= self._replica.frontier_ms:
            shard = self._task.scope.shared.shard
            known = [self._replica] if shard is None else [self._replica, shard]
            found = (replica.ended(state, sent, now) for replica in known for state in replica.shapes)
            closed = max((windows[-1].end_ms for windows in found if windows), default=None)
        return BEFORE_TIME_MS if closed is None else closed + lateness
