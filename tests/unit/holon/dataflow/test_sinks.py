"""Sinks write rows from their columns where the process has compiled loops: outputs, keys and letters are the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holon import Json
from holon.columnar.loops import install, installed
from holon.dataflow import Flow, Tumbling
from holon.testing import JobTestDriver

ROWS = 200
OUTPUTS = ("main", "rated", "totals", "sums", "dead")


class Bid(msgspec.Struct):
    at: int
    auction: int
    price: int
    rate: float
    note: str | None = None


class Rated(msgspec.Struct, rename="camel"):
    is_dear: bool
    note: str | None
    total_rate: float
    parts: tuple[int, str]


def records() -> list[Any]:
    notes = ["plain", 'a "b"', "ü", None, "x" * 40]
    bids = [Bid(10 * n, n % 7, n % 50, {77: 1e308, 20: 1e307}.get(n, n / 8), notes[n % 5]) for n in range(ROWS)]
    return [*map(msgspec.json.encode, bids), b"{", b'{"at":1}', b'{"at":1,"auction":2,"price":3,"rate":1}']


def answers(cut: int) -> dict[str, Any]:
    """The outputs of a flow: rows as they are, routed by a key that fails once, and rows that JSON cannot hold once."""
    flow = Flow("sinks", on_error="dead-letter")
    bids = flow.source("in", Json(Bid), time=lambda b: b.at, max_future_skew_ms=None)
    bids.filter(lambda b: b.price != 3).sink("keyed", key=lambda b: 100 // (b.price - 9))
    bids.map(lambda b: Rated(b.price > 9, b.note, b.rate * 10, (b.auction, "part"))).sink("rated")
    totals = bids.key_by(lambda b: b.at).window(Tumbling("1s")).agg(lambda g: (g.key, g.sum(lambda b: b.rate) * 100))
    totals.sink("totals", key=lambda t: 100 // (t[0] - 1500))
    totals.sink("sums")
    test = JobTestDriver(flow.job, partitions=2)
    given = records()
    for first in range(0, len(given), cut):
        test.feed(0, *given[first : first + cut])
    test.finish()
    return {name: test.raw_outputs(name) for name in OUTPUTS}


@pytest.mark.slow
@pytest.mark.usefixtures("loops_installed")
def test_rows_leave_by_columns_as_they_do_by_objects() -> None:
    found = [answers(cut) for cut in (1000, 37)]
    loops = installed()
    install(None)
    try:
        expected = [answers(cut) for cut in (1000, 37)]
    finally:
        install(loops)
    assert found == expected
    assert [len(expected[0][name]) for name in OUTPUTS] == [191, 196, 193, 194, 10]


@pytest.mark.parametrize("topic", ["late", "dead", "unstable", "main"])
def test_a_topic_may_be_called_as_an_output_of_the_runtime(topic: str) -> None:
    flow = Flow("named")
    rows = flow.source("rows", Json(Bid), time=lambda r: r.at, max_future_skew_ms=None)
    rows.sink("all")
    rows.sink(topic)
    outputs = flow.job.outputs
    assert {output.topic for output in outputs.values()} == {"all", topic, "named.late", "named.dead", "named.unstable"}
    test = JobTestDriver(flow.job)
    test.feed("rows", Bid(1, 2, 3, 4.0))
    test.finish()
    assert len(test.outputs("all")) == len(test.outputs(f"sink:{topic}")) == 1
