"""Windows driven by data: the simulation's flows of them, cut anew and crashed, against results in plain Python."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holon import Job, Json
from holon.dataflow import Change, Flow
from holon.dataflow.sliced import shards
from holon.job import DEAD, LATE
from nodes.sim.drawing import draw
from nodes.sim.driven import expected
from nodes.sim.driven.jobs import by_between, by_counts
from nodes.sim.flows.jobs import Given
from nodes.sim.jobs import Event
from tests.laws.flow_events import partitions_of_events, payloads_of, with_watermarks
from tests.laws.forms import in_both_forms
from tests.laws.recut_runs import Outcome, Run, record_by_record

assert settings.default is not None
EXAMPLES = max(12, settings.default.max_examples // 8)  # one costs as much as several of other laws
WINDOW_MS = 48
OPTIONS = replace(draw(0, case="flow-counts"), window_ms=WINDOW_MS, delay_ms=5)
FLOWS: dict[str, Callable[..., Job]] = {"flow-counts": by_counts, "flow-between": by_between}


form = in_both_forms((shards, "LEAST_KEYS"))
"""Slices in the form that they have, or in that of many rows."""


@pytest.mark.parametrize("case", FLOWS)
@settings(max_examples=EXAMPLES)
@given(
    partitions=partitions_of_events(300, most=12), seed=st.integers(0, 2**32), lateness_ms=st.sampled_from([0, 0, 30])
)
def test_windows_follow_from_rows_in_their_order_wherever_batches_are_cut_and_whatever_crashes(
    case: str, partitions: list[list[Event]], seed: int, lateness_ms: int
) -> None:
    for events in partitions:
        for event in events:
            event.amount *= 2  # both sides of what begins and ends windows
    flow = FLOWS[case](OPTIONS, Given(Event, "events", "results", lateness_ms=lateness_ms))
    payloads = payloads_of(partitions)
    outcome = Run(flow, payloads, random.Random(seed)).run(largest=6, crash=0.1)
    plain = record_by_record(flow, payloads)
    assert (outcome.results, outcome.counts) == (plain.results, plain.counts)
    assert outcome.snapshots == plain.snapshots, "open windows are equal to the byte, too"
    _check_positions(outcome)
    placed = [
        (partition, event, None if at is None else at - lateness_ms)
        for partition, events in enumerate(partitions)
        for event, at in with_watermarks(events, OPTIONS.delay_ms)
    ]
    wanted = Counter(map(_text, expected.RESULTS[case](WINDOW_MS, placed)))
    assert Counter(map(_text, _values(outcome, lambda name: name not in (LATE, DEAD)))) == wanted
    fates = expected.fates(WINDOW_MS, [(event, at) for _, event, at in placed])
    assert len(_values(outcome, lambda name: name == LATE)) == sum(fate.letters for fate in fates)
    late = sum(fate.late for fate in fates)
    assert [sum(each) for each in zip(*outcome.counts, strict=True)] == [len(fates) - late, 0, late, 0]


def _check_positions(outcome: Outcome) -> None:
    """The position of a result is the end of the slice that completes it; those of an output ascend."""
    slice_ms = WINDOW_MS // 3
    for (_, output, _, _), some in outcome.results.items():
        positions = [identity.position for identity, _ in some]
        assert positions == sorted(positions)
        for identity, value in some if output not in (LATE, DEAD) else ():
            row = json.loads(value)
            if row.get("final") and not row["timed_out"]:
                assert identity.position == (row["end"] - 1) // slice_ms * slice_ms + slice_ms


class Rises:
    """Windows of one's own: the ids of a key while they rise; a row that is less begins another one."""

    slice_ms, timeout_ms = 40, 150
    marks = (lambda e: e["id"],)

    def next(self, state: Any, *marks: Any) -> Change:
        (number,) = marks
        return Change((number, "rises"), closes=state is not None and number < state[0])

    def describe(self) -> str:
        return "rises"


def _of_own() -> Flow:
    """Rows of two streams of the same records, one of which has each twice; keys of several kinds."""
    flow = Flow("own")
    events = flow.source("events", Json[Any](dict), time=lambda e: e["ts"], out_of_order=5, max_future_skew_ms=None)
    twice = events.filter(lambda e: e["amount"] > 1).flat_map(lambda e: [e, {**e, "id": e["id"] // 2}])
    keyed = events.union(twice).key_by(lambda e: (e["key"], "a") if e["key"] < 2 else str(e["key"]))
    rises = keyed.window(Rises()).agg(
        lambda g: (g.key, g.window.start_ms, g.window.end_ms, g.count(), g.sum(lambda e: e["id"]), g.timed_out)
    )
    rises.sink("all")
    rises.key_by(lambda row: row[3] % 2).window(Rises2()).agg(lambda g: (g.key, g.sum(lambda r: r[4]))).sink("again")
    return flow


class Rises2(Rises):
    """The same of counts of rows of windows."""

    marks = (lambda row: row[3],)


OWN = _of_own().job


@settings(max_examples=EXAMPLES)
@given(partitions=partitions_of_events(200, most=12), seed=st.integers(0, 2**32))
def test_windows_of_ones_own_take_rows_of_unions_and_of_windows_in_their_order(
    partitions: list[list[Event]], seed: int
) -> None:
    payloads = payloads_of(partitions)
    outcome = Run(OWN, payloads, random.Random(seed)).run(largest=6, crash=0.1)
    plain = record_by_record(OWN, payloads)
    assert (outcome.results, outcome.counts, outcome.snapshots) == (plain.results, plain.counts, plain.snapshots)
    rows: dict[Any, list[tuple[int, int, int]]] = defaultdict(list)
    for partition, events in enumerate(partitions):
        for event, at in with_watermarks(events, 5):
            if at is None or (event["ts"] // 40 + 1) * 40 > at:
                key = [event["key"], "a"] if event["key"] < 2 else str(event["key"])
                ids = [*[event["id"], event["id"] // 2] * (event["amount"] > 1), event["id"]]
                rows[_text(key)] += [(event["ts"], partition, number) for number in ids]
    wanted = []
    for key, some in rows.items():
        for window, timed_out in _rising(sorted(some, key=lambda row: row[:2])):
            first, end = window[0][0], window[0][0] + 150 if timed_out else window[-1][0] + 1
            wanted.append([json.loads(key), first, end, len(window), sum(row[2] for row in window), timed_out])
    assert Counter(map(_text, _values(outcome, lambda name: name == "main"))) == Counter(map(_text, wanted))
    total = sum(row[4] for row in wanted)
    assert sum(row[1] for row in _values(outcome, lambda name: name == "again")) == total


def _rising(rows: list[tuple[int, int, int]]) -> list[tuple[list[tuple[int, int, int]], bool]]:
    """Rows cut where a number is less than the one before, or 150 ms are over; and whether they are, for each."""
    found: list[list[tuple[int, int, int]]] = []
    for row in rows:
        if not found or row[0] >= found[-1][0][0] + 150 or row[2] < found[-1][-1][2]:
            found.append([])
        found[-1].append(row)
    later = [*(window[0][0] for window in found[1:]), 10**9]
    return [(window, begin >= window[0][0] + 150) for window, begin in zip(found, later, strict=True)]


def _values(outcome: Outcome, chosen: Any) -> list[Any]:
    return [json.loads(value) for key, some in outcome.results.items() if chosen(key[1]) for _, value in some]


def _text(row: Any) -> str:
    return json.dumps(row, sort_keys=True)
