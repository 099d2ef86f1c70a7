"""A flow over two topics, cut anew and crashed, against its results in plain Python."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from holon.job import DEAD, LATE
from nodes.sim.drawing import draw
from nodes.sim.expected import expect
from nodes.sim.jobs import CASES, Event
from tests.laws.flow_events import partitions_of_events, payloads_of
from tests.laws.recut_runs import Run

CASE = "flow-topics"


@given(parts=st.tuples(partitions_of_events(150), partitions_of_events(150)), seed=st.integers(0, 2**32))
def test_a_flow_over_two_topics_equals_plain_python_wherever_it_is_cut(
    parts: tuple[list[list[Event]], list[list[Event]]], seed: int
) -> None:
    first, second = parts
    second = second[: len(first)]
    first = first[: len(second) + 1]
    partitions = [*first, *second]
    options = replace(draw(0, case=CASE), window_ms=20, delay_ms=5, partitions=len(partitions), poison=0.0)
    counts = tuple(CASES[CASE].topics(len(partitions)).values())
    assert counts == (len(first), len(second))
    payloads = payloads_of(partitions)
    flow = CASES[CASE].make(options)
    outcome = Run(flow, payloads, random.Random(seed), topic_partitions=counts).run(largest=6, crash=0.1)
    wanted = expect(options, [[(0, payload) for payload in some] for some in payloads])
    found = {name: [value for key, some in outcome.results.items() if key[1] == name for _, value in some]
             for name in flow.outputs}  # fmt: skip
    results = Counter(json.dumps(json.loads(value), sort_keys=True)
                      for name, values in found.items() if name not in (LATE, DEAD) for value in values)  # fmt: skip
    assert results == wanted.results
    letters = [(one["topic"], one["partition"], one["offset"]) for one in map(json.loads, found[LATE])]
    places = [
        (topic, number) for topic, count in CASES[CASE].topics(len(partitions)).items() for number in range(count)
    ]
    assert Counter(letters) == Counter((*places[partition], offset) for partition, offset in wanted.letters)
