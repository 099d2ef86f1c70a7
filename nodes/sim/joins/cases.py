"""The simulated flows with joins, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from nodes.sim.case import TWELFTH_SEED, Case
from nodes.sim.flows.jobs import Given
from nodes.sim.joins.jobs import by_join

if TYPE_CHECKING:
    from nodes.sim.options import Options

JOINS = ("flow-joins", "flow-joins-backlog", "flow-joins-late")


def cases_of_joins(given: Given, idle_timeout_ms: Callable[[Options], int]) -> dict[str, Case]:
    """``given``: of all that have neither idle timeouts nor lateness."""

    def idle(options: Options) -> Given:
        return replace(given, idle_timeout_ms=idle_timeout_ms(options))

    def late(options: Options) -> Given:
        return replace(given, lateness_ms=options.window_ms)

    joins = Case(lambda options: by_join(options, given), windowed=False, since=TWELFTH_SEED)
    return {
        "flow-joins": joins,
        "flow-joins-backlog": replace(joins, make=lambda o: by_join(o, idle(o)), idle=True, backlog=True),
        "flow-joins-late": replace(joins, make=lambda o: by_join(o, late(o)), late_by=1),
    }
