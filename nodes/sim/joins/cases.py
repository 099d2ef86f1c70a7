"""The simulated flows with joins, by name."""

from __future__ import annotations

from dataclasses import replace

from nodes.sim.case import TWELFTH_SEED, Case
from nodes.sim.flows.jobs import Given
from nodes.sim.joins.jobs import by_join

JOINS = ("flow-joins", "flow-joins-backlog", "flow-joins-late")


def cases_of_joins(given: Given) -> dict[str, Case]:
    """``given``: of all that have neither idle timeouts nor lateness."""

    joins = Case(lambda options: by_join(options, given), windowed=False, since=TWELFTH_SEED)
    return {
        "flow-joins": joins,
        "flow-joins-backlog": replace(joins, make=lambda o: by_join(o, given.idle(o)), idle=True, backlog=True),
        "flow-joins-late": replace(joins, make=lambda o: by_join(o, given.late(o)), late_by=1),
    }
