"""The queries as flows: what the plain oracle expects, and what the processing functions give, in JSON and in atoms."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import pytest

from holon import Job
from holon.testing import JobTestDriver
from nexmark.flows import FLOWS, nexmark_flow
from nexmark.flows.events import NexmarkRows
from nexmark.flows.rows import FullBid, Sale, date_of, minute_of
from nexmark.generator import GeneratorConfig
from nexmark.loading import Stream, load
from nexmark.model import AUCTION, BASE_TIME_MS, BID
from nexmark.oracle import ExpectedResults, Row, compare, expected_plain
from nexmark.queries import QUERIES, TOPIC, nexmark_job
from nexmark.runs.plan import RunPlan
from nexmark.times import format_time_ms, parse_time_ms
from nodes.api import SettingsError
from nodes.log import MemoryLog
from tests.unit.nexmark_records import ALIVE, DEAD, auction, bid, person

PARTITIONS = 3
# 40 s of event time, so that there are several windows, and sessions end.
CONFIG = GeneratorConfig(seed=9, events_per_s=60)
STREAMS = {rows: Stream(TOPIC, 2_400, PARTITIONS, CONFIG, atom_rows=rows) for rows in (0, 64)}


@pytest.fixture(scope="module")
def logs() -> Iterator[dict[int, MemoryLog]]:
    found = {rows: MemoryLog() for rows in STREAMS}
    for rows, log in found.items():
        load(log, STREAMS[rows])
    yield found


def run(job: Job, records: Sequence[Sequence[bytes]], at_once: int) -> JobTestDriver:
    test = JobTestDriver(job, partitions=len(records))
    for first in range(0, max(map(len, records)), at_once):
        for partition, values in enumerate(records):
            test.feed(partition, *values[first : first + at_once])
    test.finish()
    return test


def check(expected: ExpectedResults, test: JobTestDriver) -> None:
    assert compare(expected.rows, test.outputs()).first == []
    counts = test.counts
    found = type(expected.counts)(*(getattr(counts, field.name) for field in fields(expected.counts)))
    assert expected.counts.differences(found) == []


@pytest.mark.slow
@pytest.mark.parametrize("atom_rows", STREAMS)
@pytest.mark.parametrize("query", FLOWS)
def test_a_flow_gives_what_the_oracle_expects(query: str, atom_rows: int, logs: dict[int, MemoryLog]) -> None:
    log = logs[atom_rows]
    records = [log.read(TOPIC, partition, 0).values for partition in range(PARTITIONS)]
    test = run(nexmark_flow(query, atoms=atom_rows).job, records, 2 if atom_rows else 100)
    assert test.outputs()
    check(expected_plain(query, log, TOPIC, atoms=bool(atom_rows)), test)


@pytest.mark.slow
@pytest.mark.parametrize("query", [query for query in FLOWS if query in QUERIES])
def test_a_flow_gives_what_the_processing_function_gives(query: str, logs: dict[int, MemoryLog]) -> None:
    records = [logs[0].read(TOPIC, partition, 0).values for partition in range(PARTITIONS)]
    flow, procedural = (run(job, records, 100) for job in (nexmark_flow(query).job, nexmark_job(query)))
    assert compare(procedural.outputs(), flow.outputs()).first == []
    assert flow.counts == procedural.counts


@pytest.mark.parametrize("query", FLOWS)
def test_broken_unusual_late_and_border_records_are_as_the_oracle_has_them(query: str) -> None:
    more: dict[str, Any] = {"channel": "Apple", "url": "https://a/b/c/d?x=1&channel_id=7"}
    border = [bid(price, f"00:00:{at}", 3, **more) for price, at in ((900, "09.999"), (900, "10.000"), (7, "20.000"))]
    tied = [bid(900, "00:00:09.999", 3, **more)] * 2
    sales = [
        auction(3, "00:00:09", "00:00:12"),
        auction(3, "00:00:09.5", "00:00:10", 11),
        auction(4, "00:00:11", "00:00:12"),
    ]
    people = [person("00:00:09.500"), person("00:00:09.600", name="eve"), person("00:00:21.000", 8)]
    late = [bid(5, "00:00:04.000", **more), bid(6, "00:00:13.000", **more), bid(8, date="2024-12-31", **more)]
    ranks = [bid(price, "00:00:20.001", 4) for price in (9_999, 10_000, 999_999, 1_000_000)]
    largest = [bid(2**63 - 1, "00:00:20.002", 5)] * 2
    records = [
        [*border, *sales, *people, *tied, *late, *border, *ranks, *largest],
        [*DEAD.values(), *ALIVE.values(), *sales],
        [*people, *sales, bid(2_000_000, "19:59:59.999", **more), bid(3_000_000, "20:00:00", **more), *late],
    ]
    log = MemoryLog()
    log.create_topic(TOPIC, len(records))
    for number, values in enumerate(records):
        log.append(TOPIC, number, values)
    expected = expected_plain(query, log, TOPIC)
    assert expected.counts.dead > 25
    check(expected, run(nexmark_flow(query).job, records, 5))


@pytest.mark.parametrize("query", FLOWS)
def test_a_flow_has_thirty_lines_at_most(query: str) -> None:
    assert len(inspect.getsource(FLOWS[query].write).splitlines()) <= 30


@pytest.mark.parametrize("day", ["0001-01-01", "0400-02-29", "1969-12-31", "1970-01-01", "2000-02-29", "2100-03-01"])
def test_dates_and_minutes_are_those_of_the_calendar(day: str) -> None:
    for start_ms in (parse_time_ms(f"{day} 00:00:00"), parse_time_ms(f"{day} 23:59:59")):
        for further in range(0, 400, 31):
            time_ms = start_ms + further * 86_400_000
            assert f"{date_of(time_ms)} {minute_of(time_ms)}" == format_time_ms(time_ms)[:16]


def test_rows_are_named_in_snake_case_and_have_times_as_numbers() -> None:
    columns = NexmarkRows({"bid": FullBid, "auction": Sale}).by_columns().decode(
        [bid(5, "00:00:01.500"), auction(4, "00:00:02", "00:00:03")]
    ).columns  # fmt: skip
    assert list(columns["kind"]) == [BID, AUCTION]
    assert list(columns["bid.date_time"]) == ["2025-01-01 00:00:01.500", ""]
    assert list(columns["auction.time_ms"] - BASE_TIME_MS) == list(columns["time_ms"] - BASE_TIME_MS) == [1_500, 2_000]
    assert list(columns["auction.expires"]) == [0, BASE_TIME_MS + 3_000]


def test_a_query_that_has_the_other_form_only_is_refused_by_name() -> None:
    assert RunPlan("q11", api="dataflow", format="arrow").job_reference == "nexmark.flows:q11?atoms=1"
    for query, api, says in (
        ("q11", "procedural", "leave --api procedural out"),
        ("query1", "dataflow", "no flow yet"),
    ):
        with pytest.raises(SettingsError, match=says):
            RunPlan(query, api=api)  # type: ignore[arg-type]


def test_runs_take_the_flow_where_there_is_one() -> None:
    without = {query for query in QUERIES if RunPlan(query).job_reference == f"nexmark.queries:{query}"}
    assert without == {"query1"}
    assert {RunPlan(query).job_reference for query in {*FLOWS} - without} == {
        f"nexmark.flows:{q}" for q in {*FLOWS} - without
    }
    plan = RunPlan("q7", api="procedural", format="arrow")
    assert (plan.job_reference, plan.form) == ("nexmark.queries:q7?atoms=1", "procedural")
    assert plan.job().fingerprint() != RunPlan("q7", format="arrow").job().fingerprint()


@pytest.mark.slow
def test_the_events_of_a_flow_are_not_made_as_objects() -> None:
    """Every bid is read as columns, and only what a query gives is made."""
    for query in FLOWS:
        steps = nexmark_flow(query).explain()
        assert all(step.how == "columns" for step in steps[1:3]), query


def test_rows_of_results_have_the_columns_of_the_benchmark() -> None:
    records = [
        [
            bid(2_000_000, "07:00:00.000", channel="BAIDU", url="a/b/c/d/e"),
            bid(9, "07:00:30", 2, channel="x", url="channel_id="),
        ]
    ]
    found: dict[str, list[Row]] = {
        query: run(nexmark_flow(query).job, records, 10).outputs() for query in ("q14", "q21", "q22")
    }
    common = {"auction": 1, "bidder": 7}
    assert found["q14"] == [
        common | {"price": "1816000.000", "bidTimeType": "otherTime", "dateTime": "2025-01-01 07:00:00.000",
                  "extra": "x", "c_counts": 0}
    ]  # fmt: skip
    assert [(row["auction"], row["channel_id"]) for row in found["q21"]] == [(1, "3"), (2, "")]
    assert found["q22"][0] == common | {"price": 2_000_000, "channel": "BAIDU", "dir1": "d", "dir2": "e", "dir3": None}
