"""The simulated flows with windows driven by data, by name."""

from __future__ import annotations

from dataclasses import replace

from nodes.sim.case import SEVENTH_SEED, Case
from nodes.sim.driven.jobs import by_between, by_counts
from nodes.sim.flows.jobs import Given

COUNTS = (
    "flow-counts",
    "flow-counts-backlog",
    "flow-counts-late",
    "flow-counts-sharded",
    "flow-counts-sharded-late",
)
BETWEEN = ("flow-between", "flow-between-backlog", "flow-between-late", "flow-between-sharded")


def cases_driven_by_data(given: Given) -> dict[str, Case]:
    """``given``: of all that have neither idle timeouts nor lateness."""

    counts = Case(lambda options: by_counts(options, given), windowed=False, since=SEVENTH_SEED)
    between = replace(counts, make=lambda options: by_between(options, given))
    return {
        "flow-counts": counts,
        "flow-counts-backlog": replace(counts, make=lambda o: by_counts(o, given.idle(o)), idle=True, backlog=True),
        "flow-counts-late": replace(counts, make=lambda o: by_counts(o, given.late(o)), late_by=1),
        "flow-counts-sharded": replace(counts, make=lambda o: by_counts(o, given, sharded=True)),
        "flow-counts-sharded-late": replace(
            counts, make=lambda o: by_counts(o, given.late(o), sharded=True), late_by=1
        ),
        "flow-between": between,
        "flow-between-backlog": replace(between, make=lambda o: by_between(o, given.idle(o)), idle=True, backlog=True),
        "flow-between-late": replace(between, make=lambda o: by_between(o, given.late(o)), late_by=1),
        "flow-between-sharded": replace(counts, make=lambda o: by_between(o, given, sharded=True)),
    }
