"""Late rows of flows: the simulation's flow of them, cut anew and crashed, against its results in plain Python."""

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
from nodes.sim.flows.jobs import Given, by_late_rows
from nodes.sim.jobs import Event
from tests.laws.recut_runs import Run

WINDOW_MS = 20
OPTIONS = replace(draw(0, case="flow-late-rows"), window_ms=WINDOW_MS, delay_ms=5)
FLOW = by_late_rows(OPTIONS, Given(Event, "events", "results"))
EVENTS = st.builds(
    Event, ts=st.integers(0, 150), id=st.integers(0, 99), key=st.integers(0, 3), amount=st.integers(0, 3)
)


@given(partitions=st.lists(st.lists(EVENTS, max_size=20), min_size=1, max_size=3), seed=st.integers(0, 2**32))
def test_late_rows_are_the_same_wherever_batches_are_cut_and_whatever_crashes(
    partitions: list[list[Event]], seed: int
) -> None:
    payloads = [[json.dumps(_plain(event)).encode() for event in events] for events in partitions]
    outcome = Run(FLOW, payloads, random.Random(seed)).run(largest=6, crash=0.1)
    timed = [pair for events in partitions for pair in _with_watermarks(events)]
    fates = expected.fates_of_late_rows(WINDOW_MS, timed)
    found = {name: [value for key, some in outcome.results.items() if key[1] == name for _, value in some]
             for name in FLOW.outputs}  # fmt: skip
    results = Counter(json.dumps(json.loads(value), sort_keys=True)
                      for name, values in found.items() if name not in (LATE, DEAD) for value in values)  # fmt: skip
    assert results == Counter(json.dumps(row, sort_keys=True) for row in expected.by_late_rows(WINDOW_MS, timed))
    assert len(found[LATE]) == sum(fate.letter for fate in fates)
    late, filtered = sum(fate.late for fate in fates), sum(fate.filtered for fate in fates)
    assert [sum(each) for each in zip(*outcome.counts, strict=True)] == [
        len(fates) - late - filtered,
        filtered,
        late,
        0,
    ]


def _plain(event: Event) -> dict[str, Any]:
    return {"ts": event.ts, "id": event.id, "key": event.key, "amount": event.amount}


def _with_watermarks(events: list[Event]) -> list[tuple[dict[str, Any], int | None]]:
    found, watermark = [], None
    for event in events:
        found.append((_plain(event), watermark))
        promised = event.ts - OPTIONS.delay_ms
        watermark = promised if watermark is None else max(watermark, promised)
    return found
