"""The flow of a join. Its results are computed a second time in ``expected.py`` beside this file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holon import Job, Tumbling
from holon.dataflow import Flow
from nodes.sim.flows.jobs import Given, Span, source_of

if TYPE_CHECKING:
    from nodes.sim.options import Options


class Met(msgspec.Struct):
    """Two events of one key in a window, not equally dear."""

    met: int
    other: int
    key: int


def by_join(options: Options, given: Given) -> Job:
    """Pairs of dear events and those of odd ids with the same key; how many there are in windows three times as long.

    Cheap events of even ids are filtered. Others may be on both sides.
    """
    flow = Flow("flow-joins", lateness=given.lateness_ms)
    events, windows = source_of(flow, options, given), Tumbling(options.window_ms)
    odd = events.filter(lambda e: e.id % 2 == 1).key_by(lambda e: e.key)
    met = (
        events.filter(lambda e: e.amount > 1)
        .key_by(lambda e: e.key)
        .window(windows)
        .join(odd)
        .filter(lambda both: both.left.amount != both.right.amount)
    )
    met.map(lambda both: Met(both.left.id, both.right.id, both.left.key)).sink(given.output)
    met.window(Tumbling(3 * options.window_ms)).agg(lambda g: Span(g.window.end_ms, 3, g.count())).sink("threes")
    return flow.job
