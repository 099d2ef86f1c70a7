"""Units that nobody owns for long: then any node claims them, also one that is not their successor.

Observers may differ on which nodes keep pace (one that joined later has not seen which node lost its work). So each may
expect another one to take a unit, for ever. Claims are ordered on the control topic, so several claims of one unit do
no harm.
"""

from __future__ import annotations

from collections.abc import Iterable

from nodes.machine.membership.pace import LAST_RESORT_TIMES

ORPHANED_TIMES = LAST_RESORT_TIMES
"""So many failure timeouts without a live owner: the failover of a node with the longest backoff is over by then."""


class UnownedUnits:
    """The view of one observer; times in its running time."""

    def __init__(self, failure_timeout_ms: int) -> None:
        self._patience_ms = ORPHANED_TIMES * failure_timeout_ms
        self._since_ms: dict[int, int] = {}

    def update(self, units: Iterable[int], now_ms: int) -> None:
        """These have no live owner now."""
        self._since_ms = {unit: self._since_ms.get(unit, now_ms) for unit in units}

    def are_due(self, now_ms: int) -> bool:
        """Whether any node may take one."""
        return any(now_ms - since_ms >= self._patience_ms for since_ms in self._since_ms.values())

    def may_take(self, unit: int, now_ms: int) -> bool:
        """Whether nobody has taken it for so long that any node may."""
        since_ms = self._since_ms.get(unit)
        return since_ms is not None and now_ms - since_ms >= self._patience_ms
