"""How far the copies ahead of a move are, and how long they will take by their pace until now."""

from __future__ import annotations

from nodes.machine.ownership.layouts import LayoutProgress
from transactional.epochs.copies import Copies
from transactional.layout_history import Plan

LEAST_MS = 500
"""A shorter time says nothing of the pace."""


class CopyingPace:
    """Of one request, as one node has seen it."""

    def __init__(self) -> None:
        self._begun: tuple[int, int] | None = None  # when, and how many items were to go

    def progress(
        self, copies: Copies, plan: Plan, now_ms: int, before_bytes: int = 0, later_items: int | None = 0
    ) -> LayoutProgress:
        """Of what is logged. Items of a source are known from its first batch on.

        ``before_bytes``: of portions that hold. ``later_items``: of those to come, about; None: that is not known yet.
        """
        copied_bytes, left = copies.progress()
        copied_bytes, left = before_bytes + copied_bytes, left + (later_items or 0)
        has_all = all(copies.of(plan.layout.number, each).batches for each in plan.change.sources)
        if self._begun is None and later_items is not None and (before_bytes or has_all):
            self._begun = now_ms, left
        began_ms, at_first = (now_ms, left) if self._begun is None else self._begun
        took_ms, done = now_ms - began_ms, at_first - left
        left_s = left * took_ms / done / 1000 if took_ms >= LEAST_MS and done > 0 else None
        return LayoutProgress(plan.layout.number, copied_bytes, left, left_s)
