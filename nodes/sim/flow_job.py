"""The simulated job that is written as a flow: windows by a computed key, and the largest of their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holon import Job, Json, Tumbling
from holon.dataflow import Flow

if TYPE_CHECKING:
    from nodes.sim.options import Options


class Total(msgspec.Struct):
    """One key of one window."""

    end: int
    key: int
    count: int
    amount: int
    last: int


def by_flow(options: Options, event: type[Any], topic: str, output: str) -> Job:
    """Keys of odd amounts are turned around; of each window's keys with two records those with the two largest sums."""
    flow = Flow("flow")
    events = flow.source(
        topic, Json[Any](event), time=lambda e: e.ts, out_of_order=options.delay_ms, max_future_skew_ms=None
    )
    totals = (
        events.key_by(lambda e: -1 - e.key if e.amount % 2 else e.key)
        .window(Tumbling(options.window_ms))
        .agg(lambda g: Total(g.window.end_ms, g.key, g.count(), g.sum(lambda e: e.amount), g.max(lambda e: e.id)))
    )
    totals.filter(lambda total: total.count > 1).top(2, by=lambda total: total.amount, ties="all").sink(output)
    return flow.job
