"""The benchmark's windowed queries on disordered records, against the plain oracle, which shares no code with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holon import Job
from holon.testing import JobTestDriver
from nexmark.flows import FLOWS, nexmark_flow
from nexmark.model import BASE_TIME_MS, format_time_ms
from nexmark.oracle import RecordCounts, compare
from nexmark.oracle.plain import expected_plain
from nexmark.queries import TOPIC, nexmark_job
from nodes.log.memory import MemoryLog
from tests.unit.nexmark_records import auction, bid, person


def event(kind: int, second: int, number: int) -> bytes:
    at = format_time_ms(BASE_TIME_MS + second * 1000).split(" ")[1]
    if kind == 0:
        return person(at, number)
    return auction(number, at, "23:00:00", seller=number) if kind == 1 else bid(number, at, number)


EVENTS = st.builds(event, st.integers(0, 2), st.integers(0, 45), st.integers(1, 3))


STATELESS = ("q0", "q1", "q2", "q14", "q21", "q22")


def flow_job(query: str, **options: int) -> Job:
    return nexmark_flow(query, **options).job


@pytest.mark.parametrize(
    ("query", "job_of"),
    [
        *((query, nexmark_job) for query in ("q4", "q4official", "q5", "q7", "q7max", "q8")),
        *((query, flow_job) for query in FLOWS if query not in STATELESS),
    ],
)
def test_a_query_gives_what_the_oracle_expects_however_disordered_its_input_is(
    query: str, job_of: Callable[..., Job]
) -> None:
    @settings(deadline=None, max_examples=60)
    @given(
        st.lists(st.lists(EVENTS, max_size=12), min_size=2, max_size=2), st.sampled_from([0, 3000]), st.integers(1, 12)
    )
    def holds(partitions: list[list[bytes]], disorder_ms: int, batch: int) -> None:
        log = MemoryLog()
        log.create_topic(TOPIC, len(partitions))
        test = JobTestDriver(job_of(query, out_of_orderness_ms=disorder_ms), partitions=len(partitions))
        for number, records in enumerate(partitions):
            log.append(TOPIC, number, records)
            for first in range(0, len(records), batch):
                test.feed(number, *records[first : first + batch])
        test.finish()
        expected = expected_plain(query, log, TOPIC, out_of_orderness_ms=disorder_ms)
        found = compare(expected.rows, test.outputs())
        assert found.first == []
        counts = test.counts
        assert RecordCounts(counts.accepted, counts.filtered, counts.late, counts.dead) == expected.counts

    holds()
