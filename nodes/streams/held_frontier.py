"""A held frontier: windows wait although others have passed their end, because a partition is empty, silent or behind.

Nothing here decides anything: it is for people, in the view, the account and the nodes' log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from holon.input_layout import InputLayout
from nodes.time_texts import event_time
from wcrdt.replica.replica import Replica
from wcrdt.windows.assigners import BEFORE_TIME_MS, END_OF_TIME_MS

if TYPE_CHECKING:
    from nodes.machine.workload import Workload

HELD_AFTER_MS = 5_000
"""For so long no window has been completed, while one waits."""
HELD_MS, HELD_END_MS = "held_ms", "held_end_ms"
"""Names in a node's heartbeats: for how long, and the watermark that completes the first window that waits."""
NAMED = 8


class HeldPartition(msgspec.Struct, frozen=True):
    """``watermark_ms`` None: it never had a record with an event time. ``lag``: records that wait in it, if known.

    ``place``: its topic and partition there, where the job reads several topics.
    """

    partition: int
    watermark_ms: int | None
    offset: int
    lag: int | None = None
    place: str | msgspec.UnsetType = msgspec.UNSET


class HeldFrontier(msgspec.Struct, frozen=True):
    """Partitions that keep the first waiting window open, the one that is furthest behind first.

    ``since_ms``: since when, in ms since 1970 UTC by the log's clock; 0 where only the time that has passed is known.
    ``idle_timeout_ms``: the longest one of these partitions; None: one of them has none.
    """

    partitions: list[HeldPartition]
    since_ms: int
    held_ms: int
    idle_timeout_ms: int | None

    @property
    def numbers(self) -> list[int]:
        return [each.partition for each in self.partitions]


class FrontierWatch:
    """One node's view of it: for how long the first window that waits has waited. Call ``poll`` at intervals."""

    def __init__(self, work: Workload) -> None:
        self._work = work
        self._waits: tuple[int, int] | None = None  # the end of the window, since when
        self.held_ms = 0

    def poll(self, now_ms: int) -> int | None:
        """The watermark that completes the window, once it has waited for long; None if nothing is held."""
        replica = self._work.replica
        end_ms = self._first_waiting(replica)
        if end_ms is None or self._waits is None or self._waits[0] != end_ms:
            self._waits = None if end_ms is None else (end_ms, now_ms)
        self.held_ms = 0 if self._waits is None else now_ms - self._waits[1]
        return None if end_ms is None or self.held_ms < HELD_AFTER_MS else end_ms + replica.lateness_ms

    def _first_waiting(self, replica: Replica) -> int | None:
        """The end of the first open window that some partition has passed."""
        complete_ms = replica.complete_through_ms
        # An input that has ended is ahead of all that is still read: that is no reason to wait for anybody.
        marks = [slot.record.watermark_ms for slot in replica.slots if slot.record.watermark_ms < END_OF_TIME_MS]
        reached_ms = max(marks, default=BEFORE_TIME_MS) - replica.lateness_ms
        if reached_ms <= complete_ms:
            return None
        return min((end_ms for end_ms in self._ends(replica, complete_ms) if end_ms <= reached_ms), default=None)

    def _ends(self, replica: Replica, after_ms: int) -> Iterator[int]:
        for name, shape in replica.shapes.items():
            end_ms = None if shape.stage else replica.first_end(name, after_ms)
            if end_ms is not None:
                yield end_ms
        for runner in self._work.owned():
            end_ms = runner.task.scope.own.first_end(after_ms)
            if end_ms is not None:
                yield end_ms

    def held(self, through_ms: int) -> HeldFrontier:
        """For people; ``through_ms`` is what ``poll`` gave."""
        marks = {p: slot.record.watermark_ms for p, slot in enumerate(self._work.replica.slots)}
        offsets = {p: slot.record.position[0] for p, slot in enumerate(self._work.replica.slots)}
        layout = self._work.run.layout
        found = [held_partition(layout, p, marks[p], offsets[p], None) for p in sorted(marks) if marks[p] < through_ms]
        timeout_ms = layout.idle_timeout_ms(each.partition for each in found)
        return HeldFrontier(behind_first(found), 0, self.held_ms, timeout_ms)


def held_text(held: HeldFrontier) -> str:
    """One line: since when, which partitions, and what can be done."""
    named = ", ".join(_named(each) for each in held.partitions[:NAMED])
    rest = sorted(each.partition for each in held.partitions[NAMED:])
    also = f" and {len(rest)} more: {_ranges(rest)}" if rest else ""
    several = len(held.partitions) != 1
    since = f" (since {_clock(held.since_ms)})" if held.since_ms else ""
    advice = (
        "a silent partition holds all windows open: Source(idle_timeout_ms=...) passes over it"
        if held.idle_timeout_ms is None
        else f"idle_timeout_ms={held.idle_timeout_ms} passes over a partition that is silent for so long, not over one "
        f"that has records to read"
    )
    return (
        f"no window was completed for {held.held_ms // 1000} s{since}: partition{'s' * several} {named}{also} "
        f"hold{'s' * (not several)} the frontier; {advice}"
    )


def behind_first(found: list[HeldPartition]) -> list[HeldPartition]:
    """Partitions without an event time before all others."""
    return sorted(found, key=lambda each: (each.watermark_ms is not None, each.watermark_ms or 0, each.partition))


def held_partition(
    layout: InputLayout, partition: int, watermark_ms: int, offset: int, lag: int | None
) -> HeldPartition:
    """One that is behind; before its first record with an event time it has no watermark."""
    place = msgspec.UNSET if len(layout.sources) == 1 else str(layout[partition].place)
    return HeldPartition(partition, watermark_ms if watermark_ms > BEFORE_TIME_MS else None, offset, lag, place)


def _named(each: HeldPartition) -> str:
    lag = f", {each.lag:,} records to read" if each.lag else ""
    where = f"{each.place}, " if each.place else ""
    if each.watermark_ms is None:
        return f"{each.partition} ({where}no event time yet{lag})"
    return f"{each.partition} ({where}watermark {_clock(each.watermark_ms)}, offset {each.offset}{lag})"


def _clock(ms: int) -> str:
    return event_time(min(ms, END_OF_TIME_MS))


def _ranges(numbers: list[int]) -> str:
    """``4-7, 9``: ascending numbers, short."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
