"""Sources of several Structs: steps that take one of them work on its columns, and give what objects give."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holon import Json, JsonColumns
from holon.dataflow import Flow, FlowError, Stream, Tumbling
from holon.errors import UserFunctionError
from holon.formats.formats import Format
from holon.testing import JobTestDriver


class Place(msgspec.Struct):
    city: str
    lat: float


class Bid(msgspec.Struct, tag="bid"):
    at: int
    auction: int
    price: int
    note: str | None = None
    place: Place | None = None


class Auction(msgspec.Struct, tag="auction"):
    at: int
    id: int
    place: Place
    rate: float = 0.5


class Pause(msgspec.Struct, tag="pause"):
    at: int


class Beat(msgspec.Struct, tag="beat"):
    pass


Event = Bid | Auction | Pause
Records = list[Any]


def drawn(seed: int, rows: int = 120) -> Records:
    """Records of all kinds, and a few that are damaged."""
    rng = random.Random(seed)
    found: Records = []
    for n in range(rows):
        at = 40 * n
        place = Place(rng.choice(["Wien", "Köln", 'a "b"']), rng.random())
        price = rng.choice([rng.randrange(100), 2**63 + n, -(2**70)]) if rng.random() < 0.1 else rng.randrange(100)
        kinds: list[Any] = [
            Bid(at, rng.randrange(5), price, rng.choice([None, "", "ü\n"]), rng.choice([None, place])),
            Auction(at, rng.randrange(5), place, rng.choice([0.5, 1e300])),
            Pause(at),
        ]
        found.append(rng.choice(kinds))
        if rng.random() < 0.1:
            found.append(rng.choice([b"{", b'{"type":"other","at":1}', b'{"type":"bid","at":1}', b'{"at":1}', b"null"]))
    return found


def branches(events: Stream[Any]) -> None:
    """Filters, fields of inner Structs, keys, windows and rows as they are."""
    bids = events.of(Bid)
    bids.filter(lambda b: b.price > 30).key_by(lambda b: b.auction).window(Tumbling("1s")).agg(
        lambda g: (g.key, g.count(), g.max(lambda b: b.price))
    ).sink("bids")
    bids.filter_map(lambda b: b.place).map(lambda p: (p.city, p.lat)).sink("places")
    bids.filter(lambda b: b.note is not None and len(b.note) > 0).sink("notes")
    events.of(Auction).map(lambda a: (a.id, a.place.lat * a.rate)).sink("auctions")
    events.of(Auction).map(lambda a: f"in {a.place.city}").sink("cities")
    events.of(Pause).sink("pauses")


OUTPUTS = ("main", "places", "notes", "auctions", "cities", "pauses", "dead")


def ran(format: Format[Any], records: Records, cut: int, *, objects: bool, time: Any = lambda e: e.at) -> JobTestDriver:
    """The job at the end of the records, in pieces; ``objects``: a step before ``of`` needs them."""
    flow = Flow("kinds", on_error="dead-letter")
    events = flow.source("in", format, time=time, max_future_skew_ms=None)
    branches(events.filter(lambda e: isinstance(e, object)) if objects else events)
    reads = isinstance(flow.job.source.format, JsonColumns)
    assert reads is not objects
    test = JobTestDriver(flow.job)
    for first in range(0, len(records), cut):
        test.feed(0, *records[first : first + cut])
        if first // cut % 3 == 1:
            test.fail(0)
        else:
            test.checkpoint(0)
    test.finish()
    return test


Of = Callable[[Any], Format[Any]]


@pytest.mark.slow
@pytest.mark.usefixtures("loops_installed")
@pytest.mark.parametrize("of", [Json, JsonColumns], ids=["json", "columns"])
@pytest.mark.parametrize(("seed", "cut"), [(1, 1), (2, 7), (3, 40), (4, 1000), (5, 1000)])
def test_columns_of_each_struct_give_what_objects_give(of: Of, seed: int, cut: int) -> None:
    records = drawn(seed)
    by_columns = ran(of(Event), records, cut, objects=False)
    by_objects = ran(of(Event), records, cut, objects=True)
    for output in OUTPUTS:
        assert by_columns.raw_outputs(output) == by_objects.raw_outputs(output)
        assert by_columns.outputs(output), output
    assert by_columns.counts == by_objects.counts


@pytest.mark.usefixtures("loops_installed")
@pytest.mark.parametrize("cut", [5, 1000])
def test_times_differ_by_struct_and_one_that_fails_is_its_records_failure(cut: int) -> None:
    records = [record for record in drawn(9) if not isinstance(record, bytes)]
    time = lambda e: e.at + (1 if e.at % 80 else 7) // (e.at % 200)  # noqa: E731
    by_columns = ran(Json(Event), records, cut, objects=False, time=time)
    by_objects = ran(Json(Event), records, cut, objects=True, time=time)
    assert by_columns.counts == by_objects.counts and by_columns.counts.dead > 5
    for output in OUTPUTS[:-1]:
        assert by_columns.raw_outputs(output) == by_objects.raw_outputs(output)
    numbers = [[letter["offset"] for letter in test.dead()] for test in (by_columns, by_objects)]
    assert numbers[0] == numbers[1]


def test_a_struct_without_fields_has_as_many_rows_as_records() -> None:
    flow = Flow("beats")
    events = flow.source("in", Json[Any](Bid | Beat))
    events.of(Beat).map(lambda b: type(b).__name__).sink("beats")
    events.of(Beat).sink("whole")
    events.of(Bid).map(lambda b: b.price).sink("prices")
    test = JobTestDriver(flow.job)
    test.feed(0, Beat(), Bid(1, 2, 3), Beat())
    assert isinstance(flow.job.source.format, JsonColumns) and flow.explain()[0].how == "columns"
    assert test.outputs() == ["Beat"] * 2
    assert (test.outputs("whole"), test.outputs("prices")) == ([{"type": "beat"}] * 2, [3])


class Checked(msgspec.Struct, tag="checked"):
    at: int

    def __post_init__(self) -> None:
        if self.at < 0:
            raise ValueError("negative")


Named: Any = msgspec.defstruct("type", [("at", int)], tag="named")
"""Its column would be called as that of the tags."""


@pytest.mark.parametrize(
    ("of", "build", "why"),
    [
        (Event, lambda events: events.sink("all"), r"step 2 \(sink, test_kinds.py:\d+\) takes rows of all Structs"),
        (
            Event,
            lambda events: (events.of(Bid).sink("bids"), events.map(lambda e: (e, 1)).sink("rows")),
            r"step 4 \(map, test_kinds.py:\d+\) takes rows of all Structs",
        ),
        (Bid | Checked, lambda events: events.of(Bid).sink("bids"), "its Structs have marked fields, check themselves"),
        (Bid | Named, lambda events: events.of(Bid).sink("bids"), "two of its columns have one name"),
    ],
    ids=["no kind", "a step for all", "a Struct that checks itself", "columns of one name"],
)
def test_rows_are_objects_where_a_step_needs_them(of: Any, build: Callable[[Stream[Any]], object], why: str) -> None:
    flow = Flow("objects")
    build(flow.source("in", Json[Any](of), time=lambda e: e.at))
    assert isinstance(flow.job.source.format, Json)
    assert flow.collect({"in": [Bid(1, 2, 3)]})
    assert re.match(f"row by row: .*{why}", flow.explain()[0].how)
    columnar = Flow("columns", columnar=True)
    try:
        build(columnar.source("in", Json[Any](of), time=lambda e: e.at))
        with pytest.raises(FlowError, match=f"step 1 .*columnar=True, but its records are objects: .*{why}"):
            assert columnar.job
    except FlowError as error:
        assert "its rows are objects" in str(error)  # the step itself is refused


def test_rows_are_objects_where_a_time_cannot_be_followed() -> None:
    flow = Flow("objects")
    flow.source("in", Json[Any](Event), time=lambda e: int(f"{e.at}")).of(Bid).map(lambda b: b.price).sink("out")
    assert isinstance(flow.job.source.format, Json)
    assert flow.collect({"in": [Bid(1, 2, 3), Pause(2)]}) == [3]


def test_a_function_that_fails_names_its_record() -> None:
    flow = Flow("fails")
    flow.source("in", Json[Any](Event)).of(Bid).map(lambda b: 1 // b.price).sink("out")
    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        flow.collect({"in": [Pause(1), Bid(1, 2, 3), Bid(1, 2, 0)]})
