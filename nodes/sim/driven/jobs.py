"""Flows with windows that are driven by data: by count, and between rows. ``expected.py`` has their results again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from holon import Job, Tumbling
from holon.dataflow import Between, Count, Flow, Group
from nodes.sim.flows.jobs import Given, Missed, Span, source_of

if TYPE_CHECKING:
    from nodes.sim.options import Options


class Found(msgspec.Struct):
    """A window of a key, or what it has so far; ``of`` names the step."""

    of: str
    key: int
    first: int
    end: int
    count: int
    amount: int
    last: int
    final: bool = True
    retracted: bool = False
    timed_out: bool = False


def by_counts(options: Options, given: Given, *, sharded: bool = False) -> Job:
    """Each three rows of a key over all partitions; windows of these; rows that come too late.

    Of odd keys, on each partition, each two rows, or the one that came for as long as a window, with early results.
    ``sharded``: the partitions share the keys of the former.
    """
    flow = Flow("flow-counts", lateness=given.lateness_ms)
    events, slice_ms = source_of(flow, options, given), slice_of(options)
    by_key = events.key_by(lambda e: e.key, sharded=sharded)
    found = by_key.window(Count(3, slice=slice_ms)).agg(_found("threes"))
    found.sink(given.output, key=lambda row: row.key)
    found.late.map(lambda e: Missed(e.id)).sink("missed")
    found.window(Tumbling(3 * options.window_ms)).agg(
        lambda g: Span(g.window.end_ms, 3, g.sum(lambda row: row.amount))
    ).sink("spans")
    odd = events.filter(lambda e: e.key % 2 == 1).per_partition().key_by(lambda e: e.key)
    odd.window(Count(2, timeout=options.window_ms), early=slice_ms).agg(_found("twos")).sink("twos")
    return flow.job


def by_between(options: Options, given: Given, *, sharded: bool = False) -> Job:
    """From amounts below 2 to those above 3 of a key, with early results that are retracted; rows that come too late.

    Of odd keys, on each partition, from any amount to the next 0.
    ``sharded``: the partitions share the keys of the former.
    """
    flow = Flow("flow-between", lateness=given.lateness_ms)
    events, slice_ms = source_of(flow, options, given), slice_of(options)
    between = Between[Any](start=lambda e: e.amount < 2, end=lambda e: e.amount > 3, timeout=2 * options.window_ms)
    windows = events.key_by(lambda e: e.key, sharded=sharded).window(between, early=slice_ms, updates="retract")
    found = windows.agg(_found("between"))
    found.sink(given.output, key=lambda row: row.key)
    found.late.map(lambda e: Missed(e.id)).sink("missed")
    runs = Between[Any](start=lambda e: True, end=lambda e: e.amount == 0, timeout=options.window_ms, slice=slice_ms)
    odd = events.filter(lambda e: e.key % 2 == 1).per_partition().key_by(lambda e: e.key)
    odd.window(runs).agg(_found("runs")).sink("runs")
    return flow.job


def _found(of: str) -> Callable[[Group[int, Any]], Found]:
    return lambda g: Found(
        of,
        g.key,
        g.window.start_ms,
        g.window.end_ms,
        g.count(),
        g.sum(lambda e: e.amount),
        g.max(lambda e: e.id),
        g.final,
        g.retracted,
        g.timed_out,
    )


def slice_of(options: Options) -> int:
    """How long slices of these flows are."""
    return max(1, options.window_ms // 3)
