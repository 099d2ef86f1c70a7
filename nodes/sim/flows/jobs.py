"""Flows for the simulation. Their results are computed a second time in ``expected.py`` beside this file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from holon import Job, Json, Session, Sliding, Tumbling
from holon.dataflow import Flow, Stream
from wcrdt import Sum

if TYPE_CHECKING:
    from nodes.sim.options import Options

PLACES = 80
"""Keys of the flow with many of them."""


class Total(msgspec.Struct):
    """One key of one window."""

    end: int
    key: int
    count: int
    amount: int
    last: int


class Part(msgspec.Struct):
    """An event under another key."""

    place: int
    amount: int


class Doubled(msgspec.Struct):
    """One event with twice its amount."""

    id: int
    double: int


class Largest(msgspec.Struct):
    """The key with the most events on one partition."""

    end: int
    largest: int
    count: int


class Span(msgspec.Struct):
    """A window of windows."""

    end: int
    span: int
    sum: int


class Shared(msgspec.Struct):
    """A number by the count of one key."""

    end: int
    key: int
    share: int


class Counted(msgspec.Struct):
    """One key of one window."""

    end: int
    key: int
    count: int
    amount: int


class Late(msgspec.Struct):
    """A row that came too late, and the end of its window."""

    late: int
    end: int


class Update(msgspec.Struct):
    """One key of one window so far."""

    end: int
    key: int
    count: int
    amount: int
    final: bool
    retracted: bool


class Odd(msgspec.Struct):
    """Rows of odd keys in a window."""

    end: int
    odd: int


class Visit(msgspec.Struct):
    """One session of a key."""

    key: int
    first: int
    end: int
    visits: int
    amount: int


class OwnVisit(msgspec.Struct):
    """One session of a key on one partition."""

    own: int
    first: int
    last: int


class Missed(msgspec.Struct):
    """An event that came too late for its session."""

    missed: int


class Gift(msgspec.Struct):
    """An event for nothing."""

    gift: int


class Order(msgspec.Struct):
    """An event of the second topic: its time is ``amount`` behind ``ts``."""

    ts: int
    id: int
    key: int
    amount: int


@dataclass(frozen=True, slots=True)
class Given:
    """The simulation's own: what events are, the job's topics, and its settings."""

    event: type[Any]
    topic: str
    output: str
    lateness_ms: int = 0
    idle_timeout_ms: int | None = None
    second_topic: str = ""

    def late(self, options: Options) -> Given:
        """With an allowed lateness of one window."""
        return replace(self, lateness_ms=options.window_ms)

    def idle(self, options: Options) -> Given:
        """With an idle timeout."""
        return replace(self, idle_timeout_ms=idle_timeout_ms(options))


def idle_timeout_ms(options: Options) -> int:
    """Of jobs that allow idleness."""
    return options.idle_timeout_ms or options.failure_timeout_ms


def source_of(flow: Flow, options: Options, given: Given) -> Stream[Any]:
    """The simulation's events."""
    return flow.source(
        given.topic,
        Json[Any](given.event),
        time=lambda e: e.ts,
        out_of_order=options.delay_ms,
        idle=given.idle_timeout_ms,
        max_future_skew_ms=None,
    )


def by_flow(options: Options, given: Given) -> Job:
    """Keys of odd amounts are turned around; of each window's keys with two records those with the two largest sums."""
    flow = Flow("flow", lateness=given.lateness_ms)
    totals = (
        source_of(flow, options, given)
        .key_by(lambda e: -1 - e.key if e.amount % 2 else e.key)
        .window(Tumbling(options.window_ms))
        .agg(lambda g: Total(g.window.end_ms, g.key, g.count(), g.sum(lambda e: e.amount), g.max(lambda e: e.id)))
    )
    totals.filter(lambda total: total.count > 1).top(2, by=lambda total: total.amount, ties="all").sink(given.output)
    return flow.job


def _parts(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {"place": columns["id"] % PLACES, "amount": columns["amount"]}


def by_verbs(options: Options, given: Given) -> Job:
    """Fails at marked records. Of dear ones and those for nothing sums by 80 keys; of dear ones each key's amounts.

    Cheap ones of odd keys are doubled, in the order of their ids; other cheap ones are filtered.
    """
    flow = Flow("flow-verbs", on_error="dead-letter")
    sound = source_of(flow, options, given).filter(lambda e: 1 // (1 - e.mark) > 0)
    dear, cheap = sound.split(lambda e: e.amount > 3)
    windows = Tumbling(options.window_ms)
    some = dear.union(cheap.filter(lambda e: e.amount == 0)).map_columns(_parts, Part)
    some.key_by(lambda p: p.place).window(windows).fold(Sum(), lambda p: p.amount).sink(
        given.output, key=lambda row: row[0]
    )
    dear.key_by(lambda e: e.key).window(windows).distinct(lambda e: e.amount).map(
        lambda row: {"key": row[0], "amount": row[1]}
    ).sink("amounts")
    cheap.filter_map(lambda e: Doubled(e.id, 2 * e.amount) if e.key % 2 else None).sink("doubled", key=lambda d: d.id)
    return flow.job


def by_late_rows(options: Options, given: Given) -> Job:
    """Windows by key of which late rows have an output, and longer ones of odd keys of which they have letters.

    Gifts have an output of their own, late or not. Late rows of an amount of 2 reach no output.
    """
    flow = Flow("flow-late-rows", lateness=given.lateness_ms)
    events = source_of(flow, options, given)
    ones = (
        events.filter(lambda e: e.amount != 1)
        .key_by(lambda e: e.key)
        .window(Tumbling(options.window_ms))
        .agg(lambda g: Counted(g.window.end_ms, g.key, g.count(), g.sum(lambda e: e.amount)))
    )
    ones.sink(given.output)
    size = options.window_ms
    ones.late.filter(lambda e: e.amount != 2).map(lambda e: Late(e.id, (e.ts // size + 1) * size)).sink("late-ones")
    odd = events.filter(lambda e: e.key % 2 == 1).window(Tumbling(3 * options.window_ms))
    odd.agg(lambda g: Odd(g.window.end_ms, g.count())).sink("odd")
    events.filter(lambda e: e.amount == 0).map(lambda e: Gift(e.id)).sink("gifts")
    return flow.job


def by_dead_rows(options: Options, given: Given) -> Job:
    """Fails at marked records, at keys with two records in a window, and at windows with three of the others."""
    flow = Flow("flow-dead-rows", on_error="dead-letter")
    sound = source_of(flow, options, given).filter(lambda e: 1 // (1 - e.mark) > 0)
    shares = (
        sound.key_by(lambda e: e.key)
        .window(Tumbling(options.window_ms))
        .agg(lambda g: (g.window.end_ms, g.key, g.count()))
        .map(lambda row: Shared(row[0], row[1], 12 // (row[2] - 2)))
    )
    shares.top(3, by=lambda row: row.key).sink(given.output, key=lambda row: row.key)
    threes = shares.window(Tumbling(3 * options.window_ms))
    threes.agg(lambda g: Span(g.window.end_ms, 3, 60 // (g.count() - 3))).sink("threes")
    return flow.job


def by_stages(options: Options, given: Given) -> Job:
    """Each partition's largest key; windows of all partitions and of each, in windows three and six times as long."""
    flow = Flow("flow-stages")
    events, windows = source_of(flow, options, given), Tumbling(options.window_ms)
    each = (
        events.per_partition()
        .key_by(lambda e: e.key)
        .window(windows)
        .agg(lambda g: Largest(g.window.end_ms, g.key, g.count()))
    )
    each.top(1, by=lambda part: part.count).sink(given.output)
    counts = events.window(windows).agg(lambda g: g.count()).union(each.all_partitions().map(lambda part: part.count))
    threes = counts.window(Tumbling(3 * options.window_ms)).agg(
        lambda g: Span(g.window.end_ms, 3, g.sum(lambda count: count))
    )
    threes.sink("threes")
    threes.window(Tumbling(6 * options.window_ms)).agg(
        lambda g: Span(g.window.end_ms, 6, g.max(lambda span: span.sum))
    ).sink("sixes")
    return flow.job


def by_sessions(options: Options, given: Given, *, sharded: bool = False) -> Job:
    """Sessions of all partitions and, of odd keys, of each; windows of sessions; rows that are late for sessions.

    ``sharded``: the partitions share the keys of the former.
    """
    flow = Flow("flow-sessions", lateness=given.lateness_ms)
    events, session = source_of(flow, options, given), Session(options.window_ms // 2)
    visits = (
        events.key_by(lambda e: e.key, sharded=sharded)
        .window(session)
        .agg(lambda g: Visit(g.key, g.window.start_ms, g.window.end_ms, g.count(), g.sum(lambda e: e.amount)))
    )
    visits.sink(given.output, key=lambda visit: visit.key)
    visits.late.map(lambda e: Missed(e.id)).sink("missed")
    visits.window(Tumbling(3 * options.window_ms)).agg(
        lambda g: Span(g.window.end_ms, 3, g.sum(lambda visit: visit.visits))
    ).sink("threes")
    odd = events.filter(lambda e: e.key % 2 == 1).per_partition().key_by(lambda e: e.key).window(session)
    odd.agg(lambda g: OwnVisit(g.key, g.window.start_ms, g.max(lambda e: e.ts))).sink("own-visits")
    return flow.job


def by_sliding(options: Options, given: Given, *, sharded: bool = False) -> Job:
    """The largest keys of windows that overlap six times, over all partitions; windows of these, and those of each.

    Rows that are late for all windows of the first have an output. Odd keys have windows on each partition.
    ``sharded``: the partitions share the keys of the first windows, of which all leave.
    """
    flow = Flow("flow-sliding", lateness=given.lateness_ms)
    events, slide_ms = source_of(flow, options, given), slide_of(options)
    counts = (
        events.key_by(lambda e: e.key, sharded=sharded)
        .window(Sliding(6 * slide_ms, slide_ms))
        .agg(lambda g: Counted(g.window.end_ms, g.key, g.count(), g.sum(lambda e: e.amount)))
    )
    shown = counts if sharded else counts.top(2, by=lambda row: row.amount, ties="all")
    shown.sink(given.output, key=lambda row: row.key)
    counts.late.map(lambda e: Missed(e.id)).sink("missed")
    counts.window(Sliding(12 * slide_ms, 3 * slide_ms)).agg(
        lambda g: Span(g.window.end_ms, 12, g.sum(lambda row: row.count))
    ).sink("twelves")
    odd = events.filter(lambda e: e.key % 2 == 1).per_partition().window(Sliding(4 * slide_ms, slide_ms))
    odd.agg(lambda g: Odd(g.window.end_ms, g.count())).sink("odd")
    return flow.job


def slide_of(options: Options) -> int:
    """How far the windows of that flow are apart."""
    return max(1, options.window_ms // 3)


def by_early(options: Options, given: Given, *, sharded: bool = False) -> Job:
    """Early results by key as upserts; and of odd keys, on each partition, with retractions. Late rows have an output.

    Slices of the latter do not divide the window. ``sharded``: the partitions share the keys of the former.
    """
    flow = Flow("flow-early", lateness=given.lateness_ms)
    events, windows = source_of(flow, options, given), Tumbling(2 * options.window_ms)
    by_key = events.key_by(lambda e: e.key, sharded=sharded)
    early = by_key.window(windows, early=early_of(options), updates="upsert")
    totals = early.agg(
        lambda g: Update(g.window.end_ms, g.key, g.count(), g.sum(lambda e: e.amount), g.final, g.retracted)
    )
    totals.sink(given.output, key=lambda row: row.key)
    totals.late.map(lambda e: Missed(e.id)).sink("missed")
    odd = events.filter(lambda e: e.key % 2 == 1).per_partition()
    odd.window(windows, early=options.window_ms - 1, updates="retract").agg(
        lambda g: Update(g.window.end_ms, -1, g.count(), g.max(lambda e: e.amount), g.final, g.retracted)
    ).sink("odd")
    return flow.job


def early_of(options: Options) -> int:
    """How far the early results of that flow are apart."""
    return max(1, options.window_ms // 3)


def by_topics(options: Options, given: Given) -> Job:
    """Events of two topics, which have times, out-of-orderness and idle timeouts of their own, by key in one window.

    Odd keys of the second topic have windows of their own instead.
    """
    flow = Flow("flow-topics")
    events = source_of(flow, options, given)
    orders = flow.source(
        given.second_topic,
        Json(Order),
        time=lambda o: o.ts + o.amount,
        out_of_order=second_delay_ms(options),
        idle=None if given.idle_timeout_ms is None else 2 * given.idle_timeout_ms,
        max_future_skew_ms=None,
    )
    even, odd = orders.split(lambda o: o.key % 2 == 0)
    windows = Tumbling(options.window_ms)
    both = events.map(lambda e: Part(e.key, e.amount)).union(even.map(lambda o: Part(o.key, 10 * o.amount)))
    both.key_by(lambda p: p.place).window(windows).agg(
        lambda g: Counted(g.window.end_ms, g.key, g.count(), g.sum(lambda p: p.amount))
    ).sink(given.output)
    odd.window(windows).agg(lambda g: Odd(g.window.end_ms, g.count())).sink("odd")
    return flow.job


def second_delay_ms(options: Options) -> int:
    """How far records of the second topic come behind the newest one."""
    return options.delay_ms + options.window_ms // 2
