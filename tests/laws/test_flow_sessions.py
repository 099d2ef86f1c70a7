"""Sessions of flows: the simulation's flow of them, cut anew and crashed, against its results in plain Python."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon import Json, Session, Tumbling
from holon.dataflow import Flow
from holon.dataflow.sessions import open_sessions
from holon.dataflow.sliced import shards
from holon.job import DEAD, LATE
from nodes.sim.drawing import draw
from nodes.sim.flows import expected
from nodes.sim.flows.jobs import Given, by_sessions
from nodes.sim.jobs import Event
from tests.laws.flow_events import partitions_of_events, payloads_of, with_watermarks
from tests.laws.forms import in_both_forms
from tests.laws.recut_runs import Outcome, Run, record_by_record

WINDOW_MS = 48
OPTIONS = replace(draw(0, case="flow-sessions"), window_ms=WINDOW_MS, delay_ms=5)
FLOW = by_sessions(OPTIONS, Given(Event, "events", "results"))


form = in_both_forms((shards, "LEAST_KEYS"), (open_sessions, "LEAST_KEYS"))
"""Slices and open sessions in the form that they have, or in that of many keys."""


@given(partitions=partitions_of_events(300), seed=st.integers(0, 2**32))
def test_sessions_are_the_same_wherever_batches_are_cut_and_whatever_crashes(
    partitions: list[list[Event]], seed: int
) -> None:
    payloads = payloads_of(partitions)
    outcome, plain = (
        Run(FLOW, payloads, random.Random(seed)).run(largest=6, crash=0.1),
        record_by_record(FLOW, payloads),
    )
    assert (outcome.results, outcome.counts) == (plain.results, plain.counts)
    assert outcome.snapshots == plain.snapshots, "open sessions are equal to the byte, too"
    placed = [
        (partition, event, at)
        for partition, events in enumerate(partitions)
        for event, at in with_watermarks(events, OPTIONS.delay_ms)
    ]
    wanted = Counter(map(_text, expected.by_sessions(WINDOW_MS, placed)))
    assert Counter(map(_text, _values(outcome, lambda name: name not in (LATE, DEAD)))) == wanted
    fates = expected.fates_of_sessions(WINDOW_MS, [(event, at) for _, event, at in placed])
    assert len(_values(outcome, lambda name: name == LATE)) == sum(fate.letters for fate in fates)
    late = sum(fate.late for fate in fates)
    assert [sum(each) for each in zip(*outcome.counts, strict=True)] == [len(fates) - late, 0, late, 0]


def _stages() -> Flow:
    """Sessions of windows, sessions of these, and windows of those."""
    flow = Flow("stages")
    events = flow.source("events", Json(Event), time=lambda e: e.ts, max_future_skew_ms=None)
    tens = events.key_by(lambda e: e.key).window(Tumbling(10)).agg(lambda g: (g.key, g.count()))
    found = tens.key_by(lambda row: row[0]).window(Session(20, 7))
    sums = found.agg(lambda g: (g.key, g.window.start_ms, g.window.end_ms, g.sum(lambda row: row[1])))
    sums.sink("sums")
    again = sums.key_by(lambda row: row[0] % 2).window(Session(60))
    both = again.agg(lambda g: (g.key, g.window.end_ms, g.count(), g.sum(lambda row: row[3])))
    both.sink("again")
    both.window(Tumbling(100)).agg(lambda g: (g.window.end_ms, g.sum(lambda row: row[3]))).sink("hundreds")
    return flow


STAGES = _stages().job


@pytest.mark.long
@given(partitions=partitions_of_events(300, most=15), seed=st.integers(0, 2**32))
def test_sessions_of_windows_and_of_sessions_too(partitions: list[list[Event]], seed: int) -> None:
    partitions = [sorted(events, key=lambda event: event.ts) for events in partitions]  # none is late
    payloads = payloads_of(partitions)
    outcome = Run(STAGES, payloads, random.Random(seed)).run(largest=6, crash=0.1)
    plain = record_by_record(STAGES, payloads)
    assert (outcome.results, outcome.snapshots) == (plain.results, plain.snapshots)
    counts = Counter((event.key, event.ts // 10 * 10 + 9) for events in partitions for event in events)
    sums = [
        [key, some[0][0], some[-1][0] + 20, sum(count for _, count in some)]
        for key, some in _cut(20, [(key, ts, count) for (key, ts), count in counts.items()])
    ]
    ended = [(key % 2, end // 7 * 7 + 6, total) for key, _, end, total in sums]
    again = [[key, some[-1][0] + 60, len(some), sum(total for _, total in some)] for key, some in _cut(60, ended)]
    hundreds: Counter[int] = Counter()
    for _, end, _, total in again:
        hundreds[(end // 15 * 15 + 14) // 100 * 100 + 100] += total
    assert sorted(_values(outcome, lambda name: name == "main")) == sorted(sums)
    assert sorted(_values(outcome, lambda name: name == "again")) == sorted(again)
    assert sorted(_values(outcome, lambda name: name == "hundreds")) == sorted(map(list, hundreds.items()))


def _cut(gap: int, rows: list[tuple[int, int, int]]) -> list[tuple[int, list[tuple[int, int]]]]:
    """Keys, times and numbers: by key and time, cut where none came for longer than the gap."""
    found: list[tuple[int, list[tuple[int, int]]]] = []
    for key, ts, number in sorted(rows):
        if not found or found[-1][0] != key or ts - found[-1][1][-1][0] > gap:
            found.append((key, []))
        found[-1][1].append((ts, number))
    return found


def _values(outcome: Outcome, chosen: Any) -> list[Any]:
    return [json.loads(value) for key, some in outcome.results.items() if chosen(key[1]) for _, value in some]


def _text(row: Any) -> str:
    return json.dumps(row, sort_keys=True)
