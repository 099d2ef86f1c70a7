"""Windows that take rows for different times in one flow give what each gives in a flow of its own."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holon import Between, Count, GlobalWindow, Json, Session, Sliding, Tumbling
from holon.dataflow import Flow, Group, Stream
from holon.job import LATE
from nodes.sim.jobs import Event
from tests.laws.flow_events import partitions_of_events, payloads_of
from tests.laws.recut_runs import Outcome, Run, record_by_record


def _row(g: Group[int, Event]) -> Any:
    return (g.key, g.window.start_ms, g.window.end_ms, g.count(), g.sum(lambda e: e.ts))


def _marked(g: Group[int, Event]) -> Any:
    return (g.key, g.window.start_ms, g.window.end_ms, g.count(), g.final, g.retracted)


def _tumbling(events: Stream[Event], lateness: int | None, name: str) -> None:
    rows = events.key_by(lambda e: e.key).window(Tumbling(48, 7), lateness=lateness).agg(_row)
    rows.sink(name)
    rows.late.map(lambda e: (e.key, e.ts)).sink(f"{name}-late")


def _panes(events: Stream[Event], lateness: int | None, name: str) -> None:
    rows = events.key_by(lambda e: e.key).window(Sliding(40, 5), lateness=lateness).agg(_row)
    rows.sink(name)
    rows.window(Tumbling(60)).agg(lambda g: (g.window.end_ms, g.count(), g.sum(lambda row: row[3]))).sink(f"{name}-60")


def _sharded(events: Stream[Event], lateness: int | None, name: str) -> None:
    events.key_by(lambda e: e.key, sharded=True).window(Sliding(30, 15), lateness=lateness).agg(_row).sink(name)


def _alone(events: Stream[Event], lateness: int | None, name: str) -> None:
    found = events.per_partition().key_by(lambda e: e.key).window(Tumbling(48), lateness=lateness).agg(_row)
    found.sink(name)


def _sessions(events: Stream[Event], lateness: int | None, name: str) -> None:
    rows = events.key_by(lambda e: e.key).window(Session(20, 7), lateness=lateness).agg(_row)
    rows.sink(name)
    rows.key_by(lambda row: row[0] % 2).window(Session(60)).agg(lambda g: (g.key, g.count())).sink(f"{name}-again")


def _counts(events: Stream[Event], lateness: int | None, name: str) -> None:
    events.key_by(lambda e: e.key).window(Count(3, timeout=90, slice=10), lateness=lateness).agg(_row).sink(name)


def _between(events: Stream[Event], lateness: int | None, name: str) -> None:
    windows = Between[Event](start=lambda e: e.ts % 3 == 0, end=lambda e: e.ts % 3 == 1, timeout=70, slice=10)
    events.key_by(lambda e: e.key).window(windows, lateness=lateness).agg(_row).sink(name)


def _early(events: Stream[Event], lateness: int | None, name: str) -> None:
    windows = events.key_by(lambda e: e.key).window(Tumbling(48), lateness=lateness, early=12, updates="retract")
    windows.agg(_marked).sink(name)


def _all_time(events: Stream[Event], lateness: int | None, name: str) -> None:
    windows = events.key_by(lambda e: e.key).window(GlobalWindow(), lateness=lateness, early=50, updates="upsert")
    windows.agg(_marked).sink(name)


def _join(events: Stream[Event], lateness: int | None, name: str) -> None:
    odd, even = events.split(lambda e: e.ts % 2 == 1)
    pairs = odd.key_by(lambda e: e.key).window(Tumbling(30), lateness=lateness).join(even.key_by(lambda e: e.key))
    pairs.map(lambda both: (both.left.key, both.left.ts, both.right.ts)).sink(name)


KINDS: tuple[Callable[[Stream[Event], int | None, str], None], ...] = (
    _tumbling,
    _panes,
    _sharded,
    _alone,
    _sessions,
    _counts,
    _between,
    _early,
    _all_time,
    _join,
)


def _flow(kinds: list[tuple[int, int | None]], lateness: int = 0) -> Flow:
    """Of kinds by their places, each with its lateness."""
    flow = Flow("lateness", lateness=lateness)
    events = flow.source("events", Json(Event), time=lambda e: e.ts, out_of_order=5, max_future_skew_ms=None)
    for place, own in kinds:
        KINDS[place](events, own, KINDS[place].__name__)
    return flow


def _rows(outcome: Outcome) -> dict[str, Counter[str]]:
    """The results of each output, without the order of windows that different partitions answer."""
    found: dict[str, Counter[str]] = {}
    for (_, name, *_), some in outcome.results.items():
        if name != LATE:
            found.setdefault(name, Counter()).update(json.dumps(json.loads(value)) for _, value in some)
    return found


def _by_topic(flow: Flow, outcome: Outcome) -> dict[str, Counter[str]]:
    return {flow.job.outputs[name].topic: rows for name, rows in _rows(outcome).items() if rows}


_KINDS = st.lists(
    st.tuples(st.integers(0, len(KINDS) - 1), st.sampled_from([0, 4, 20, 60])),
    min_size=2,
    max_size=4,
    unique_by=lambda kind: kind[0],
)


@given(kinds=_KINDS, partitions=partitions_of_events(300), seed=st.integers(0, 2**32))
def test_windows_of_one_flow_do_not_see_the_lateness_of_each_other(
    kinds: list[tuple[int, int]], partitions: list[list[Event]], seed: int
) -> None:
    payloads = payloads_of(partitions)
    both = _flow([*kinds])
    plain = record_by_record(both.job, payloads)
    wanted: dict[str, Counter[str]] = {}
    for place, lateness in kinds:
        one = _flow([(place, None)], lateness)
        wanted |= _by_topic(one, record_by_record(one.job, payloads))
    assert _by_topic(both, plain) == wanted
    outcome = Run(both.job, payloads, random.Random(seed)).run(largest=6, crash=0.1)
    assert (outcome.results, outcome.counts, outcome.snapshots) == (plain.results, plain.counts, plain.snapshots)
