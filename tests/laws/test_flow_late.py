"""Late rows of flows: the simulation's flow of them, cut anew and crashed, against its results in plain Python."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from holon.job import DEAD, LATE
from nodes.sim.drawing import draw
from nodes.sim.flows import expected
from nodes.sim.flows.jobs import Given, by_late_rows
from nodes.sim.jobs import Event
from tests.laws.flow_events import partitions_of_events, payloads_of, with_watermarks
from tests.laws.recut_runs import Run

WINDOW_MS = 20
OPTIONS = replace(draw(0, case="flow-late-rows"), window_ms=WINDOW_MS, delay_ms=5)
FLOW = by_late_rows(OPTIONS, Given(Event, "events", "results"))


@given(partitions=partitions_of_events(150), seed=st.integers(0, 2**32))
def test_late_rows_are_the_same_wherever_batches_are_cut_and_whatever_crashes(
    partitions: list[list[Event]], seed: int
) -> None:
    payloads = payloads_of(partitions)
    outcome = Run(FLOW, payloads, random.Random(seed)).run(largest=6, crash=0.1)
    timed = [pair for events in partitions for pair in with_watermarks(events, OPTIONS.delay_ms)]
    fates = expected.fates_of_late_rows(WINDOW_MS, timed)
    found = {name: [value for key, some in outcome.results.items() if key[1] == name for _, value in some]
             for name in FLOW.outputs}  # fmt: skip
    results = Counter(json.dumps(json.loads(value), sort_keys=True)
                      for name, values in found.items() if name not in (LATE, DEAD) for value in values)  # fmt: skip
    assert results == Counter(json.dumps(row, sort_keys=True) for row in expected.by_late_rows(WINDOW_MS, timed))
    assert len(found[LATE]) == sum(fate.letters for fate in fates)
    late, filtered = sum(fate.late for fate in fates), sum(fate.filtered for fate in fates)
    assert [sum(each) for each in zip(*outcome.counts, strict=True)] == [
        len(fates) - late - filtered,
        filtered,
        late,
        0,
    ]
