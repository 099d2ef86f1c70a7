"""Sessions of flows: the simulation's flow of them, cut anew and crashed, against its results in plain Python."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holon.job import DEAD, LATE
from nodes.sim.drawing import draw
from nodes.sim.flows import expected
from nodes.sim.flows.jobs import Given, by_sessions
from nodes.sim.jobs import Event
from tests.laws.recut_runs import Outcome, Run, record_by_record

WINDOW_MS = 48
OPTIONS = replace(draw(0, case="flow-sessions"), window_ms=WINDOW_MS, delay_ms=5)
FLOW = by_sessions(OPTIONS, Given(Event, "events", "results"))
EVENTS = st.builds(
    Event, ts=st.integers(0, 300), id=st.integers(0, 99), key=st.integers(0, 3), amount=st.integers(0, 3)
)


@given(partitions=st.lists(st.lists(EVENTS, max_size=20), min_size=1, max_size=3), seed=st.integers(0, 2**32))
def test_sessions_are_the_same_wherever_batches_are_cut_and_whatever_crashes(
    partitions: list[list[Event]], seed: int
) -> None:
    payloads = [[json.dumps(_plain(event)).encode() for event in events] for events in partitions]
    outcome, plain = (
        Run(FLOW, payloads, random.Random(seed)).run(largest=6, crash=0.1),
        record_by_record(FLOW, payloads),
    )
    assert (outcome.results, outcome.counts) == (plain.results, plain.counts)
    assert outcome.snapshots == plain.snapshots, "open sessions are equal to the byte, too"
    placed = [
        (partition, event, at) for partition, events in enumerate(partitions) for event, at in _with_watermarks(events)
    ]
    wanted = Counter(map(_text, expected.by_sessions(WINDOW_MS, placed)))
    assert Counter(map(_text, _values(outcome, lambda name: name not in (LATE, DEAD)))) == wanted
    fates = expected.fates_of_sessions(WINDOW_MS, [(event, at) for _, event, at in placed])
    assert len(_values(outcome, lambda name: name == LATE)) == sum(fate.letter for fate in fates)
    late = sum(fate.late for fate in fates)
    assert [sum(each) for each in zip(*outcome.counts, strict=True)] == [len(fates) - late, 0, late, 0]


def _values(outcome: Outcome, chosen: Any) -> list[Any]:
    return [json.loads(value) for key, some in outcome.results.items() if chosen(key[1]) for _, value in some]


def _text(row: Any) -> str:
    return json.dumps(row, sort_keys=True)


def _plain(event: Event) -> dict[str, Any]:
    return {"ts": event.ts, "id": event.id, "key": event.key, "amount": event.amount}


def _with_watermarks(events: list[Event]) -> list[tuple[dict[str, Any], int | None]]:
    found, watermark = [], None
    for event in events:
        found.append((_plain(event), watermark))
        promised = event.ts - OPTIONS.delay_ms
        watermark = promised if watermark is None else max(watermark, promised)
    return found
