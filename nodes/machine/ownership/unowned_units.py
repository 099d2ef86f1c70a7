"""Units that nobody owns for long: then whoever sees it first takes them, whoever should.

Observers may differ on which nodes keep pace (one that joined later has not seen which node lost its work). So each may
expect another one to take a unit, for ever. Claims are compared on the control topic: that several try costs nothing
but the trying.
"""

from __future__ import annotations

from collections.abc import Iterable

from nodes.machine.membership.pace import LAST_RESORT_TIMES

ORPHANED_TIMES = LAST_RESORT_TIMES
"""So many suspicions' times without a living owner: the failover of a node that is not believed is over by then."""


class UnownedUnits:
    """The view of one observer; times in its running time."""

    def __init__(self, failure_timeout_ms: int) -> None:
        self._patience_ms = ORPHANED_TIMES * failure_timeout_ms
        self._since_ms: dict[int, int] = {}

    def update(self, units: Iterable[int], now_ms: int) -> None:
        """These have no living owner now."""
        self._since_ms = {unit: self._since_ms.get(unit, now_ms) for unit in units}

    def are_due(self, now_ms: int) -> bool:
        """Whether any node may take one."""
        return any(now_ms - since_ms >= self._patience_ms for since_ms in self._since_ms.values())

    def may_take(self, unit: int, now_ms: int) -> bool:
        """Whether nobody has taken it for so long that any node may."""
        since_ms = self._since_ms.get(unit)
        return since_ms is not None and now_ms - since_ms >= self._patience_ms
