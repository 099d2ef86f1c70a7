"""A standby: how one replica of a partition keeps pace with the claim holder, and when it publishes instead.

Two rules for this file. Patience counts only time in which the standby could have received the other's results
(``Replicas``). While there is a backlog of input nothing is late, since the order in which nodes work it off proves
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from nodes.machine.standby.active_standby import ResultPace
from nodes.machine.standby.held_results import HeldDeltas, HeldOutputs, Logged
from wcrdt.replica.replica import Punctuation
from wcrdt.replica.slots import Position

PROBE_RECORDS = 2000
"""How far a standby that was behind reads beyond the claim holder to find out whether there is a backlog."""
HELD_MAX = 100_000
"""Results that are held at most: then no input is taken."""
BACKLOG_PATIENCE = 20
"""Times the patience: how long nothing may come from the claim holder while there is a backlog."""


@dataclass(frozen=True, slots=True)
class Patience:
    """In ms of running time: for ``results`` and for what others wait for, for deltas that nobody waits for."""

    results: int
    deltas: int

    @classmethod
    def of(cls, standby_after_ms: int, broadcast_interval_ms: int, rank: int) -> Patience:
        """``rank`` 0 is the first standby; the next ones wait longer, so that it is first to step in.

        Deltas that nobody waits for leave at the interval, and may build on one that did.
        """
        results = standby_after_ms * (rank + 1)
        return cls(results, 2 * broadcast_interval_ms + results)


class PartitionStandby:
    """The part that makes a runner a standby.

    ``free``: it reads input as it comes; else it follows the claim holder. ``level``: it has come as far as the
    broadcast once, when that was read to its end.
    """

    def __init__(self, patience: Patience, rank: int, pace: ResultPace) -> None:
        self.rank = rank
        self.patience = patience
        self.pace = pace
        self.outputs = HeldOutputs(patience.results, pace)
        self.deltas = HeldDeltas(patience.deltas, pace)
        self.free = self.level = False
        self._paused: tuple[Position, int] | None = None
        self._free_since_ms = 0
        self._level_since_ms: int | None = None
        self._ran_over = False

    def ranked(self, rank: int, patience: Patience) -> None:
        """Its place in the order has changed."""
        self.rank, self.patience = rank, patience
        self.outputs.active_standby.window_ms, self.deltas.active_standby.window_ms = patience.results, patience.deltas

    # --- pace -----------------------------------------------------------------------------------------------------

    def limit(self, next_offset: int, logged: Logged) -> int | None:
        """Where reading has to stop for now; None: nowhere."""
        if self.outputs.count >= HELD_MAX:
            return next_offset
        if self.free:
            return None
        if next_offset < logged.record[0]:
            return logged.record[0]
        if self._ran_over and next_offset > logged.record[0]:
            return next_offset
        return logged.record[0] + PROBE_RECORDS

    def fed(self, next_offset: int, limit: int | None, more: bool, now_ms: int) -> None:
        """Input was processed up to ``next_offset``; ``more``: the read was cut, so there may be a backlog."""
        self._level_since_ms = None
        self._ran_over = more or (limit is not None and next_offset >= limit)
        if self._ran_over:
            self.free = False
            self.outputs.active_standby.measures_from_ms = self.deltas.active_standby.measures_from_ms = None
        else:
            self._set_free(now_ms)

    def pauses(self, position: Position, now_ms: int) -> bool:
        """Whether the idle partition's next record is to wait: punctuations before it may be on their way."""
        if self._paused is None or self._paused[0] != position:
            self._paused = position, now_ms
        return self._pause_left_ms(now_ms) > 0

    def is_pausing(self, position: Position, now_ms: int) -> bool:
        """Whether a record waits at this position."""
        return self._paused is not None and self._paused[0] == position and self._pause_left_ms(now_ms) > 0

    def _pause_left_ms(self, now_ms: int) -> int:
        if self._paused is None:
            return 0
        return self._paused[1] + self.result_patience_ms - now_ms

    def _set_free(self, now_ms: int) -> None:
        if not self.free:
            self.free, self._free_since_ms = True, now_ms
            self.outputs.active_standby.measures_from_ms = self.deltas.active_standby.measures_from_ms = now_ms

    # --- patience -------------------------------------------------------------------------------------------------

    def judge(self, next_offset: int, logged: Logged, now_ms: int) -> None:
        """Become active where something is late; to be called when all that is on the log has just been read."""
        self.level |= next_offset >= logged.record[0]
        self._find_level(next_offset, logged, now_ms)
        awaited = self._is_late(self.deltas.awaited_ms(logged), self.patience.results, now_ms)
        if awaited or self._is_late(self.outputs.made_ms(), self.patience.results, now_ms):
            self.outputs.active_standby.take()
        if awaited or self._is_late(self.deltas.made_ms(), self.patience.deltas, now_ms):
            self.deltas.active_standby.take()

    def _find_level(self, next_offset: int, logged: Logged, now_ms: int) -> None:
        """Where no input comes behind what the log shows, this replica is not behind either."""
        ran_over = self._ran_over and next_offset > logged.record[0]
        if self.free or next_offset < logged.record[0]:
            self._level_since_ms = None
        elif self._level_since_ms is None:
            self._level_since_ms = now_ms
        elif now_ms - self._level_since_ms >= self.patience.deltas and not ran_over:
            self._set_free(now_ms)

    def punctuate(self, punctuation: Punctuation, now_ms: int) -> None:
        """The standby writes one, since the owner is late with it: then its results are late, too."""
        self.deltas.punctuate(punctuation, now_ms)
        self.outputs.active_standby.take()

    @property
    def result_patience_ms(self) -> int:
        """How long a result may take that the owner can write."""
        return self.pace.patience_ms(self.patience.results)

    def due_ms(self, logged: Logged, now_ms: int) -> int:
        """How long until something may be late."""
        limits = [
            (self.deltas.awaited_ms(logged), self.patience.results),
            (self.outputs.made_ms(), self.patience.results),
            (self.deltas.made_ms(), self.patience.deltas),
        ]
        left = [self._left_ms(made, limit, now_ms) for made, limit in limits if made is not None]
        if (pause_ms := self._pause_left_ms(now_ms)) > 0:
            left.append(pause_ms)
        return max(1, min(left, default=1000))

    def _is_late(self, made_ms: int | None, patience_ms: int, now_ms: int) -> bool:
        return made_ms is not None and self._left_ms(made_ms, patience_ms, now_ms) <= 0

    def _left_ms(self, made_ms: int, patience_ms: int, now_ms: int) -> int:
        if self.free:
            return max(made_ms, self._free_since_ms) + self.pace.patience_ms(patience_ms) - now_ms
        return made_ms + BACKLOG_PATIENCE * patience_ms - now_ms

    @property
    def holds(self) -> bool:
        """True if something waits to be seen on the log."""
        return self.outputs.count > 0 or len(self.deltas) > 0
