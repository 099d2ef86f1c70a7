"""A flow over the events of ``jobs_mixed``, and its results a second time, in plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from holon import Json
from holon.dataflow import Flow, Session, Tumbling
from tests.integration.jobs_mixed import INPUT, OUTPUT, Event

TOPS = "tops"
LATE_ROWS = "late-seconds"


class Doubled(msgspec.Struct):
    id: int
    amount: int


class Counted(msgspec.Struct):
    end_ms: int
    events: int


class Total(msgspec.Struct):
    end_ms: int
    key: int
    events: int
    amount: int


class Visit(msgspec.Struct):
    key: int
    start_ms: int
    end_ms: int
    events: int
    amount: int


flow = Flow("flowing")
events = flow.source(INPUT, Json(Event), time=lambda event: event.ts)
rare, usual = events.split(lambda event: event.id % 5 == 0)
rare.map(lambda event: Doubled(event.id, event.amount * 2)).sink(OUTPUT)
totals = (
    usual.key_by(lambda event: event.id % 7)
    .window(Tumbling("1s"))
    .agg(lambda g: Total(g.window.end_ms, g.key, g.count(), g.sum(lambda event: event.amount)))
)
totals.top(3, by=lambda total: total.amount).sink(TOPS)

late_flow = Flow("late-rows")
all_events = late_flow.source(INPUT, Json(Event), time=lambda event: event.ts)
counts = all_events.window(Tumbling("1s")).agg(lambda g: Counted(g.window.end_ms, g.count()))
counts.sink(OUTPUT)
counts.late.map(lambda event: Doubled(event.id, event.amount * 2)).sink(LATE_ROWS)
all_events.window(Tumbling("100s")).agg(lambda g: Counted(g.window.end_ms, g.count())).sink(TOPS)

dead_flow = Flow("dead-rows", on_error="dead-letter")
by_key = dead_flow.source(INPUT, Json(Event), time=lambda event: event.ts).key_by(lambda event: event.id % 7)
sums = by_key.window(Tumbling("1s")).agg(lambda g: Total(g.window.end_ms, g.key, g.count(), g.sum(lambda e: e.amount)))
sums.map(lambda total: Doubled(total.key, total.amount // (total.key - 3))).sink(OUTPUT)


def _visits(name: str, *, sharded: bool) -> Flow:
    made = Flow(name)
    events = made.source(INPUT, Json(Event), time=lambda event: event.ts)
    visits = (
        events.key_by(lambda event: event.id % 89, sharded=sharded)
        .window(Session("200ms"))
        .agg(lambda g: Visit(g.key, g.window.start_ms, g.window.end_ms, g.count(), g.sum(lambda e: e.amount)))
    )
    visits.sink(OUTPUT)
    visits.window(Tumbling("1s")).agg(lambda g: g.sum(lambda visit: visit.events)).sink(TOPS)
    return made


visit_flow = _visits("visits", sharded=False)
sharded_visit_flow = _visits("sharded-visits", sharded=True)


def expected_visits(events: Mapping[int, Sequence[Event]], gap_ms: int) -> tuple[Counter[str], Counter[str]]:
    """The lines of both outputs."""
    found: list[list[Event]] = []
    for event in sorted((one for some in events.values() for one in some), key=lambda one: (one.id % 89, one.ts)):
        if not found or found[-1][-1].id % 89 != event.id % 89 or event.ts - found[-1][-1].ts > gap_ms:
            found.append([])
        found[-1].append(event)
    rows = [
        Visit(some[0].id % 89, some[0].ts, some[-1].ts + gap_ms, len(some), sum(one.amount for one in some))
        for some in found
    ]
    seconds: Counter[int] = Counter()
    for row in rows:
        seconds[(row.end_ms // 50 * 50 + 49) // 1000] += row.events
    return _lines(rows), Counter(map(str, seconds.values()))


def expected_dead(events: Mapping[int, Sequence[Event]]) -> tuple[Counter[str], Counter[int]]:
    """The lines of the output, and the window ends of dead rows, of which each has the key 3."""
    totals: Counter[tuple[int, int]] = Counter()
    for event in (one for partition in events.values() for one in partition):
        totals[event.ts // 1000 * 1000 + 1000, event.id % 7] += event.amount
    lines = _lines([Doubled(key, total // (key - 3)) for (_, key), total in totals.items() if key != 3])
    return lines, Counter(end_ms for end_ms, key in totals if key == 3)


def expected_late(events: Mapping[int, Sequence[Event]]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """The lines of the three outputs, in that order."""
    late: list[msgspec.Struct] = []
    seconds: Counter[int] = Counter()
    hundreds: Counter[int] = Counter()
    for partition in events.values():
        newest = 0
        for event in partition:
            end_ms = event.ts // 1000 * 1000 + 1000
            hundreds[event.ts // 100_000 * 100_000 + 100_000] += 1
            if end_ms > newest:
                seconds[end_ms] += 1
            else:
                late.append(Doubled(event.id, event.amount * 2))
            newest = max(newest, event.ts)
    ends = (_lines([Counted(*item) for item in found.items()]) for found in (seconds, hundreds))
    return next(ends), _lines(late), next(ends)


def expected(events: Mapping[int, Sequence[Event]]) -> tuple[Counter[str], Counter[str]]:
    """The lines of both outputs."""
    doubled: list[msgspec.Struct] = []
    windows: dict[int, dict[int, list[Event]]] = defaultdict(lambda: defaultdict(list))
    for event in (one for partition in events.values() for one in partition):
        if event.id % 5 == 0:
            doubled.append(Doubled(event.id, event.amount * 2))
        else:
            windows[event.ts // 1000 * 1000 + 1000][event.id % 7].append(event)
    tops: list[msgspec.Struct] = []
    for end_ms, by_key in windows.items():
        found = [Total(end_ms, key, len(some), sum(e.amount for e in some)) for key, some in sorted(by_key.items())]
        tops += sorted(found, key=lambda total: -total.amount)[:3]
    return _lines(doubled), _lines(tops)


def _lines(rows: Sequence[msgspec.Struct]) -> Counter[str]:
    return Counter(msgspec.json.encode(row).decode() for row in rows)
