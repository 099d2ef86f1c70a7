"""Notices: a node's reports to its operator beside errors. Nothing that it computes follows from them."""

from __future__ import annotations

from collections.abc import Callable

from nodes.machine.node import Node
from nodes.streams.held_frontier import HELD_END_MS, HELD_MS, FrontierWatch, held_text

CHECK_INTERVAL_MS = 500
AGAIN_MS = 60_000
"""The interval at which a held frontier is logged again."""


class Notices:
    """Call ``poll`` once a turn; ``report`` gets a line for each thing that is new."""

    def __init__(self, node: Node, report: Callable[[str], None]) -> None:
        self._node = node
        self._report = report
        self._waits = False
        self._warned_of_times = False
        self._frontier = FrontierWatch(node.work)
        self._checked_ms = -CHECK_INTERVAL_MS
        self._reported_ms: int | None = None
        self._is_held = False

    def poll(self, now_ms: int) -> dict[str, float]:
        """Figures for the heartbeats that have changed; ``now_ms`` is the node's clock."""
        self._check_uncheckpointed()
        if self._node.work.unusual_time and not self._warned_of_times:
            self._warned_of_times = True
            self._report(self._node.work.unusual_time)
        if not 0 <= now_ms - self._checked_ms < CHECK_INTERVAL_MS:
            self._checked_ms = now_ms
            return self._check_frontier(now_ms)
        return {}

    def _check_frontier(self, now_ms: int) -> dict[str, float]:
        """All nodes report it in their heartbeats; only the owner of the partition logs it, so it is logged once."""
        node, through_ms = self._node, self._frontier.poll(now_ms)
        if through_ms is None:
            self._reported_ms = None
            was_held, self._is_held = self._is_held, False
            return {HELD_MS: 0.0} if was_held else {}  # what a heartbeat leaves out counts as before
        self._is_held = True
        if self._reported_ms is None or now_ms - self._reported_ms >= AGAIN_MS:
            held = self._frontier.held(through_ms)
            owner = node.ownership.owner(held.partitions[0].partition) if held.partitions else None
            if node.config.node == (owner or min(node.ownership.members, default=None)):
                self._reported_ms = now_ms
                self._report(held_text(held))
        return {HELD_MS: float(self._frontier.held_ms), HELD_END_MS: float(through_ms)}

    def _check_uncheckpointed(self) -> None:
        """Once when input begins to wait for checkpoints, and once when it goes on."""
        deltas = self._node.work.uncheckpointed
        if deltas.over != self._waits:
            self._waits = deltas.over
            self._report(
                f"input waits: {deltas.total_bytes >> 20} MB of deltas are in no checkpoint, above the "
                f"{deltas.limit_bytes >> 20} MB of node.max_uncheckpointed_mb; it goes on when checkpoints are saved"
                if self._waits
                else "input goes on: checkpoints cover what was broadcast"
            )
