"""Events and lines of JSON as atoms: the same events come back, and lines that are none stay as they are."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest

from holon.arrow import Arrow, ArrowColumns
from holon.formats.arrow.writing import ROWS_OF_ATOM
from holon.job import Job, Source
from holon.testing import JobTestDriver


class Kind(enum.Enum):
    OPEN = "open"


class Place(msgspec.Struct):
    lat: float
    name: str = "ü"


class Event(msgspec.Struct, omit_defaults=True):
    at: datetime
    kind: Kind = Kind.OPEN
    place: Place | None = None
    price: Decimal | None = None
    id: UUID = UUID(int=7)
    day: date = date(2024, 1, 2)
    hour: time = time(3, 4)
    took: timedelta = timedelta(seconds=5)
    data: bytes = b"\0"
    tags: list[str] = []
    counts: dict[str, int] = {}


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    name: str


FULL = Event(
    datetime(2024, 1, 1, tzinfo=UTC), Kind.OPEN, Place(1.5), Decimal("1.50"), UUID(int=1), date(2020, 1, 1),
    time(1, 2, 3), timedelta(days=-1), b"a\0", ["x", "y"], {"a": 1},
)  # fmt: skip


@pytest.mark.parametrize("event", [FULL, Event(datetime(2024, 1, 1, tzinfo=UTC)), Cat(9), Dog("Rex")])
def test_an_event_is_read_as_it_was_written_from_an_object_and_from_json(event: Any) -> None:
    of = Event if isinstance(event, Event) else Cat | Dog
    form = Arrow(of)
    records = [form.record_of(event), form.from_json(msgspec.json.encode(event))]
    assert form.decode(records).events == [event, event]
    columns = ArrowColumns(of)
    assert columns.decode([columns.record_of(event)]).bad == []


def test_lines_that_are_no_event_stay_and_are_dead_letters() -> None:
    form = ArrowColumns(Place)
    lines = [b'{"lat":1}', b'{"lat":"x"}', b"{", b"\xff", b"[1]"]
    found = form.decode([form.from_json(line) for line in lines])
    assert list(found.columns["lat"]) == [1.0] and [index for index, _ in found.bad] == [1, 2, 3, 4]
    assert [form.from_json(line) for line in lines[1:]] == lines[1:]


def test_columns_by_path_take_the_values_of_objects_within_objects() -> None:
    form = ArrowColumns({"at": datetime, "place.lat": float, "place.name": str | None})
    line = b'{"at":"2024-01-01T00:00:01Z","place":{"lat":2,"name":null}}'
    found = form.decode([form.from_json(line)]).columns
    assert {name: list(column) for name, column in found.items()} == {
        "at": [1_704_067_201_000], "place.lat": [2.0], "place.name": [None],
    }  # fmt: skip
    assert form.from_json(b'{"place":3}') == b'{"place":3}'


def test_many_lines_become_a_few_atoms_with_the_events_in_their_order() -> None:
    form = Arrow(Event)
    events = [Event(datetime(2024, 1, 1, tzinfo=UTC), tags=["x"] * (number % 2)) for number in range(4)]
    lines = [msgspec.json.encode(event) for event in events]
    records = form.atoms_of([lines[0], *lines, b"{"])
    assert len(records) == 5 and records[-1] == b"{", "rows that lack other fields are in atoms of their own"
    assert form.decode(records[:-1]).events == [events[0], *events]
    many = ArrowColumns(Place).atoms_of([b'{"lat":1.5}'] * (ROWS_OF_ATOM + 1))
    assert [ArrowColumns(Place).events_in(record) for record in many] == [ROWS_OF_ATOM, 1]
    mixed = Arrow(dict[str, Any])
    assert mixed.decode(mixed.atoms_of([b'{"a":1}', b'{"a":"x"}'])).events == [{"a": 1}, {"a": "x"}]


def test_tests_of_jobs_take_events_and_columns_say_how_they_are_read() -> None:
    seen: list[float] = []

    def process_batch(batch: Any, ctx: Any) -> None:
        seen.extend(batch["place.lat"])

    class Visit(msgspec.Struct):
        place: Place
        kinds: list[Kind] = []

    job: Any = Job("j", Source("t", ArrowColumns(Visit)), process_batch=process_batch)
    test = JobTestDriver(job)
    test.feed(0, Visit(Place(1.5)), {"place": {"lat": 2.5}})
    test.finish()
    assert seen == [1.5, 2.5]
    assert job.sources[0].format.columns_read() == [
        ("place", "struct", True), ("place.lat", "float", True), ("place.name", "text", True), ("kinds", "list", False),
    ]  # fmt: skip
