"""Early results of flows: the simulation's flow of them, cut anew and crashed, against its results in plain Python."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holon import GlobalWindow, Json
from holon.dataflow import Flow
from holon.dataflow.sliced import shards
from holon.job import DEAD, LATE
from nodes.sim.drawing import draw
from nodes.sim.flows import expected
from nodes.sim.flows.jobs import Given, by_early
from nodes.sim.jobs import Event
from tests.laws.flow_events import partitions_of_events, payloads_of, with_watermarks
from tests.laws.forms import in_both_forms
from tests.laws.recut_runs import Outcome, Run, record_by_record

assert settings.default is not None
EXAMPLES = max(20, settings.default.max_examples // 5)  # one costs as much as several of other laws
WINDOW_MS = 48
OPTIONS = replace(draw(0, case="flow-early"), window_ms=WINDOW_MS, delay_ms=5)


form = in_both_forms((shards, "LEAST_KEYS"))
"""Slices and windows in the form that they have, or in that of many keys."""


@settings(max_examples=EXAMPLES)
@given(
    partitions=partitions_of_events(300, most=12), seed=st.integers(0, 2**32), lateness_ms=st.sampled_from([0, 0, 30])
)
def test_each_result_is_that_of_the_rows_that_came_in_time_before(
    partitions: list[list[Event]], seed: int, lateness_ms: int
) -> None:
    flow = by_early(OPTIONS, Given(Event, "events", "results", lateness_ms=lateness_ms))
    payloads = payloads_of(partitions)
    outcome = Run(flow, payloads, random.Random(seed)).run(largest=6, crash=0.1)
    plain = record_by_record(flow, payloads)
    assert (outcome.results, outcome.counts) == (plain.results, plain.counts)
    assert outcome.snapshots == plain.snapshots, "open windows are equal to the byte, too"
    placed = [
        (partition, event, None if at is None else at - lateness_ms)
        for partition, events in enumerate(partitions)
        for event, at in with_watermarks(events, OPTIONS.delay_ms)
    ]
    wanted = Counter(map(_text, expected.by_early(WINDOW_MS, placed)))
    assert Counter(map(_text, _values(outcome, lambda name: name not in (LATE, DEAD)))) == wanted
    fates = expected.fates_of_early(WINDOW_MS, [(event, at) for _, event, at in placed])
    assert len(_values(outcome, lambda name: name == LATE)) == sum(fate.letters for fate in fates)
    late = sum(fate.late for fate in fates)
    assert [sum(each) for each in zip(*outcome.counts, strict=True)] == [len(fates) - late, 0, late, 0]


def _without_end() -> Flow:
    """Keys of several kinds, for all time, with what each has so far in the order of slices."""
    flow = Flow("endless")
    events = flow.source("events", Json(Event), time=lambda e: e.ts, out_of_order=5, max_future_skew_ms=None)
    keyed = events.key_by(lambda e: e.key if e.key < 2 else str(e.key)).window(GlobalWindow(), early=40)
    keyed.agg(lambda g: (g.key, g.count(), g.distinct(lambda e: e.amount), g.final)).sink("all")
    return flow


ENDLESS = _without_end().job


@settings(max_examples=EXAMPLES)
@given(partitions=partitions_of_events(200, most=12), seed=st.integers(0, 2**32))
def test_a_window_of_all_time_has_what_came_so_far_of_keys_of_several_kinds(
    partitions: list[list[Event]], seed: int
) -> None:
    payloads = payloads_of(partitions)
    outcome = Run(ENDLESS, payloads, random.Random(seed)).run(largest=6, crash=0.1)
    plain = record_by_record(ENDLESS, payloads)
    assert (outcome.results, outcome.snapshots) == (plain.results, plain.snapshots)
    slices: dict[Any, dict[int, list[int]]] = {}
    for events in partitions:
        for event, at in with_watermarks(events, 5):
            end = (max(event["ts"], event["ts"] if at is None else at) // 40 + 1) * 40
            key = event["key"] if event["key"] < 2 else str(event["key"])
            slices.setdefault(key, {}).setdefault(end, []).append(event["amount"])
    wanted: list[Any] = []
    for key, by_end in slices.items():
        amounts: list[int] = []
        for end in sorted(by_end):
            amounts += by_end[end]
            wanted.append([key, len(amounts), len(set(amounts)), False])
        wanted.append([key, len(amounts), len(set(amounts)), True])
    assert Counter(map(_text, _values(outcome, lambda name: name == "main"))) == Counter(map(_text, wanted))


def _values(outcome: Outcome, chosen: Any) -> list[Any]:
    return [json.loads(value) for key, some in outcome.results.items() if chosen(key[1]) for _, value in some]


def _text(row: Any) -> str:
    return json.dumps(row, sort_keys=True)
