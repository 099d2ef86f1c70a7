"""Notices: what a node tells its operator beside errors. Nothing that it computes follows from them."""

from __future__ import annotations

from collections.abc import Callable

from nodes.machine.node import Node


class Notices:
    """Call ``look`` once a turn; ``report`` gets a line for each thing that is new."""

    def __init__(self, node: Node, report: Callable[[str], None]) -> None:
        self._node = node
        self._report = report
        self._waits = False
        self._warned_of_times = False

    def look(self) -> None:
        self._look_at_uncovered()
        if self._node.work.unusual_time and not self._warned_of_times:
            self._warned_of_times = True
            self._report(self._node.work.unusual_time)

    def _look_at_uncovered(self) -> None:
        """Once when input begins to wait for checkpoints, and once when it goes on."""
        uncovered = self._node.work.uncovered
        if uncovered.over != self._waits:
            self._waits = uncovered.over
            self._report(
                f"input waits: {uncovered.total_bytes >> 20} MB of deltas are in no checkpoint, above the "
                f"{uncovered.limit_bytes >> 20} MB of node.uncovered_max_mb; it goes on when checkpoints are saved"
                if self._waits
                else "input goes on: checkpoints cover what was broadcast"
            )
