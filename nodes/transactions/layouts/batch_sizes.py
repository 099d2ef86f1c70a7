"""How much one batch of copies ahead of a move may have: as much as keeps epochs short.

A batch takes a round trip of the log, so short batches are slow where nothing else is to be done. A long one is work
that epochs wait for. So a batch that has arrived doubles the next one where no epoch was in work meanwhile. Else it
adds a quarter of a step, and an epoch that was long takes three quarters of the batch away. Long is longer than before
the plan, by a factor. All nodes see the same epochs, so all give way.
"""

from __future__ import annotations

from transactional.epochs.ledger import Ledger

FEWER = 4
"""A long epoch leaves a batch this part of its size."""
LEAST_SHARE = 4
"""A batch has at least this part of what one step makes: a migration ends, whatever the load."""
LONG_TIMES = 1.5
"""p99 may double during a migration: requests wait for the epoch before theirs, too."""
SHORT_MS = 15
"""An epoch that takes no longer is never a long one: clocks count in milliseconds, and idle jobs have short epochs."""
USUAL_WEIGHT = 1 / 16
"""Of the newest epoch in what is usual."""


class BatchSizes:
    """Of one node. ``step_bytes``: of copies that one step makes; ``most_bytes``: of a batch. As many: none adapts."""

    def __init__(self, step_bytes: int, most_bytes: int) -> None:
        self._step_bytes = step_bytes
        self._most_bytes = most_bytes
        self._bytes = step_bytes
        self._usual_ms: float | None = None
        self._done: int | None = None
        self._since_ms: int | None = None  # since then the epoch is in work
        self._layout = 0
        self._arrived: tuple[int | None, int] = (None, 0)
        self._was_long = self._was_busy = False  # since the last batch that has arrived

    def turn(self, ledger: Ledger, now_ms: int) -> int:
        """The bytes of the next batch, after what this turn of the loop has read."""
        took_ms, plan = self._ended(ledger, now_ms), ledger.layouts.open_plan
        if plan is None:
            if took_ms is not None:
                usual_ms = took_ms if self._usual_ms is None else self._usual_ms
                self._usual_ms = usual_ms + USUAL_WEIGHT * (took_ms - usual_ms)
            return self._bytes
        if plan.layout.number != self._layout:
            self._layout, self._arrived, self._was_long = plan.layout.number, (None, 0), False
            self._was_busy = self._since_ms is not None
        if self._most_bytes > self._step_bytes:
            self._adapt(ledger, took_ms)
        return self._bytes

    def _adapt(self, ledger: Ledger, took_ms: float | None) -> None:
        if took_ms is not None and took_ms > max(SHORT_MS, LONG_TIMES * (self._usual_ms or 0.0)):
            self._bytes, self._was_long = max(self._step_bytes // LEAST_SHARE, self._bytes // FEWER), True
        sender = ledger.copies.sender
        arrived = sender, 0 if sender is None else len(ledger.copies.of(self._layout, sender).batches)
        if arrived != self._arrived:
            if arrived[0] == self._arrived[0] and not self._was_long:
                more = self._step_bytes // LEAST_SHARE if self._was_busy else self._bytes
                self._bytes = min(self._most_bytes, self._bytes + more)
            self._arrived, self._was_long, self._was_busy = arrived, False, self._since_ms is not None

    def _ended(self, ledger: Ledger, now_ms: int) -> float | None:
        """How long each of the epochs took that have ended since the last turn; None: none has."""
        took_ms, done = None, ledger.done
        if self._done is not None and done > self._done and self._since_ms is not None:
            took_ms = max(0, now_ms - self._since_ms) / (done - self._done)
        if done != self._done:
            self._done, self._since_ms = done, None
        if self._since_ms is None and ledger.is_open(done + 1):
            self._since_ms, self._was_busy = now_ms, True
        return took_ms
