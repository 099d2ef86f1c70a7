"""The simulated flows with windows driven by data, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from nodes.sim.case import SEVENTH_SEED, Case
from nodes.sim.driven.jobs import by_between, by_counts
from nodes.sim.flows.jobs import Given

if TYPE_CHECKING:
    from nodes.sim.options import Options

COUNTS = (
    "flow-counts",
    "flow-counts-backlog",
    "flow-counts-late",
    "flow-counts-sharded",
    "flow-counts-sharded-late",
)
BETWEEN = ("flow-between", "flow-between-backlog", "flow-between-late", "flow-between-sharded")


def cases_driven_by_data(given: Given, idle_timeout_ms: Callable[[Options], int]) -> dict[str, Case]:
    """``given``: of all that have neither idle timeouts nor lateness."""

    def idle(options: Options) -> Given:
        return replace(given, idle_timeout_ms=idle_timeout_ms(options))

    def late(options: Options) -> Given:
        return replace(given, lateness_ms=options.window_ms)

    counts = Case(lambda options: by_counts(options, given), windowed=False, since=SEVENTH_SEED)
    between = replace(counts, make=lambda options: by_between(options, given))
    return {
        "flow-counts": counts,
        "flow-counts-backlog": replace(counts, make=lambda o: by_counts(o, idle(o)), idle=True, backlog=True),
        "flow-counts-late": replace(counts, make=lambda o: by_counts(o, late(o)), late_by=1),
        "flow-counts-sharded": replace(counts, make=lambda o: by_counts(o, given, sharded=True)),
        "flow-counts-sharded-late": replace(counts, make=lambda o: by_counts(o, late(o), sharded=True), late_by=1),
        "flow-between": between,
        "flow-between-backlog": replace(between, make=lambda o: by_between(o, idle(o)), idle=True, backlog=True),
        "flow-between-late": replace(between, make=lambda o: by_between(o, late(o)), late_by=1),
        "flow-between-sharded": replace(counts, make=lambda o: by_between(o, given, sharded=True)),
    }
