"""Functions that ask which of several Structs a field or a row is work on columns, and give what Python gives."""

from __future__ import annotations

import abc
from collections.abc import Callable
from types import NoneType
from typing import Any, Generic, TypeVar, Union

import msgspec
import pytest

from holon import Json, Tumbling
from holon.dataflow import Flow, Session, Stream
from holon.dataflow.following.declared import kinds_of, kinds_of_field
from holon.testing import JobTestDriver

T = TypeVar("T")


class Play(msgspec.Struct, tag=1, tag_field="kind", rename={"seconds": "s"}):
    seconds: int
    note: str | None = None


class Loop(Play, tag=2):
    times: int = 2


class Seek(msgspec.Struct, tag=3, tag_field="kind"):
    to: float


class Stop(msgspec.Struct, tag=4, tag_field="kind"):
    reason: str | None = None


class Place(msgspec.Struct):
    city: str


class Event(msgspec.Struct):
    ts: int
    body: Play | Loop | Seek | Stop
    before: Seek | Stop | None = None
    place: Place | None = None


class Row(msgspec.Struct):
    kind: str
    seconds: int


LIMIT = 3
SOME = (Play, Stop)
EITHER = Union[Seek, Stop]  # noqa: UP007 (a form of its own)
BODIES = [Play(1, "a"), Play(7), Loop(3, None, 4), Seek(0.5), Stop("end"), Stop()]
BEFORE = [Seek(1.5), None, Stop("x"), None]
EVENTS = [
    Event(n, BODIES[n % 6], BEFORE[n % 4], Place(f"p{n}") if n % 3 else None) for n in range(60)
]  # so many that the compiled loops read them


def matched(event: Event) -> Any:
    match event.body:
        case Loop(times=times, seconds=seconds):
            return Row("loop", seconds * times)
        case Play(seconds=7):
            return Row("seven", 0)
        case Play(seconds):
            return Row("play", seconds)
        case Seek():
            return Row("seek", 0)
    return Row("stop", 0)


def falls_through(event: Event) -> Any:
    match event.body:
        case Seek(absent=found) | Stop(absent=found):
            return found
        case Seek(to=to) if to > 1:
            return to
    match event:
        case Event(absent=found):
            return found
        case Event(place=Place(city=city), before=Stop(reason=reason)):
            return f"{city}: {event.ts}, {reason}"
        case Event(before=None):
            return None
        case _:
            return event.ts


FUNCTIONS: list[Callable[[Event], Any]] = [
    matched,
    falls_through,
    lambda e: isinstance(e.body, Play),
    lambda e: isinstance(e.body, (Seek, Loop)),
    lambda e: isinstance(e.body, SOME) or isinstance(e.before, EITHER),
    lambda e: isinstance(e.before, Seek | None),
    lambda e: isinstance(e.body, (int, Seek, str)),
    lambda e: type(e.body) is Play,
    lambda e: type(e.body) is not Play and type(e.before) is not NoneType,
    lambda e: type(e.body) in (Play, Stop),
    lambda e: (type(e.body).__name__, e.body.__class__ is Loop, type(e) is Event),
    lambda e: {Play: 1, Loop: 2, Seek: 3, Stop: 4}[type(e.body)] + e.ts,
    lambda e: e.body.seconds + 1 if isinstance(e.body, Play) else -1,
    lambda e: e.body.reason if type(e.body) is Stop else e.before.to if type(e.before) is Seek else "",
    lambda e: "none" if e.before is None else e.before.reason if isinstance(e.before, Stop) else e.before.to,
    lambda e: e.place.city if isinstance(e.place, Place) else "",
    lambda e: 1 if isinstance(e.body, Seek) else True,
    lambda e: e.body if isinstance(e.body, Loop) else None,
]


def mapped(function: Callable[[Event], Any], **options: Any) -> tuple[JobTestDriver, str]:
    flow = Flow("events", **options)
    flow.source("in", Json(Event), time=lambda e: e.ts).map(function).sink("out")
    test = JobTestDriver(flow.job)
    test.feed(0, *EVENTS)
    test.finish()
    return test, flow.explain()[1].how


@pytest.mark.usefixtures("loops_installed")
@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_such_functions_work_on_columns(number: int) -> None:
    test, how = mapped(FUNCTIONS[number])
    assert how == "columns"
    wanted = msgspec.json.decode(msgspec.json.encode(list(map(FUNCTIONS[number], EVENTS))))
    assert list(map(repr, test.outputs())) == list(map(repr, wanted))


@pytest.mark.parametrize(
    "function",
    [lambda e: e.body.seconds, lambda e: (e.before.to, e.ts), lambda e: 0 if isinstance(e.body, Play) else e.body.to],
)
def test_a_field_that_a_struct_lacks_is_the_failure_of_its_records(function: Callable[[Event], Any]) -> None:
    test, how = mapped(function, on_error="dead-letter")
    called, row_by_row = mapped(lambda e: list(map(function, [e]))[0], on_error="dead-letter")  # noqa: RUF015
    assert (how, row_by_row.partition(":")[0]) == ("columns", "row by row")
    assert [letter["offset"] for letter in test.dead()] == [letter["offset"] for letter in called.dead()] != []
    reasons = [letter["reason"] for letter in test.dead()]
    assert reasons == [letter["reason"] for letter in called.dead()]
    assert "object has no attribute" in reasons[0]
    assert test.outputs() == called.outputs()


def test_ways_that_give_a_struct_of_constants_are_rows_with_columns() -> None:
    flow = Flow("rows", columnar=True)
    rows = flow.source("in", Json(Event), time=lambda e: e.ts).map(matched)
    rows.key_by(lambda r: r.kind).window(Tumbling("1h")).agg(lambda g: (g.key, g.sum(lambda r: r.seconds))).sink("out")
    assert flow.collect({"in": EVENTS}) == [["loop", 120], ["play", 10], ["seek", 0], ["seven", 0], ["stop", 0]]


class Nothing(msgspec.Struct):
    pass


def test_ways_may_give_structs_of_constants_beside_other_values() -> None:
    for function in (
        lambda e: Nothing() if isinstance(e.body, Play) else (1, Row("x", 2)),
        lambda e: Row("x", 2) if isinstance(e.body, Seek) else Nothing() if e.ts > 3 else None,
        lambda e: Nothing(),
    ):
        test, how = mapped(function)
        assert how == "columns"
        assert test.outputs() == msgspec.json.decode(msgspec.json.encode(list(map(function, EVENTS))))


class Checks(type(msgspec.Struct)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: Any) -> bool:
        return True


class Anything(msgspec.Struct, metaclass=Checks):
    pass


class Meta(type(msgspec.Struct), abc.ABCMeta):  # type: ignore[misc]
    pass


class Abstract(msgspec.Struct, metaclass=Meta):
    pass


Abstract.register(Seek)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda e: type(e.ts) == int, "it asks for a type"),  # noqa: E721
        (lambda e: isinstance(e.ts + 1, Play), "it asks for a type"),
        (lambda e: type(LIMIT) is int, "it uses `is`"),
        (lambda e: type(LIMIT) in (int, str), "`type` of what is no field"),
        (lambda e: type(e.body) is type(e.before), "it uses `is`"),
        (lambda e: type(e.body) is (Play if e.ts else Seek), "it uses `is`"),
        (lambda e: isinstance(e.body, Anything), "an `isinstance` of its own"),
        (lambda e: isinstance(e.body, object), "it uses 'object'"),
    ],
)
def test_other_types_are_called_for_each_row(function: Callable[[Event], Any], reason: str) -> None:
    test, how = mapped(function)
    assert how.startswith("row by row") and reason in how
    assert test.outputs() == list(map(function, EVENTS))


def test_a_struct_may_be_registered_with_an_abstract_one() -> None:
    test, how = mapped(lambda e: isinstance(e.body, Abstract))
    assert how == "columns"
    assert test.outputs() == [type(e.body) is Seek for e in EVENTS]


def test_rows_that_a_function_has_made_may_be_of_any_type() -> None:
    flow = Flow("made")
    made = flow.source("in", Json(Event), time=lambda e: e.ts).map(lambda e: Event(e.ts, e.place))  # type: ignore[arg-type]
    made.map(lambda e: isinstance(e.body, Place)).sink("out")
    assert "it asks for a type" in flow.explain()[2].how
    assert flow.collect({"in": EVENTS}) == [e.place is not None for e in EVENTS]


class Holds(msgspec.Struct):
    plain: Seek | Stop
    none: Seek | Stop | None = None
    odd: Seek | Stop = None  # type: ignore[assignment]
    made: Seek | Stop = msgspec.field(default_factory=Stop)
    one: Seek | None = None
    mixed: Seek | int | None = None


class Checked(msgspec.Struct):
    plain: Seek | Stop

    def __post_init__(self) -> None:
        self.plain = 3  # type: ignore[assignment]


class Of(msgspec.Struct, Generic[T], tag=True):
    value: T


def test_types_are_known_as_far_as_a_format_checks_them() -> None:
    found = {name: kinds_of_field(Holds, name) for name in Holds.__struct_fields__}
    known = {"plain": (Seek, Stop), "none": (NoneType, Seek, Stop), "one": (NoneType, Seek)}
    assert found == {**dict.fromkeys(("odd", "made", "mixed"), ()), **known}
    assert kinds_of_field(Checked, "plain") == ()
    again = msgspec.defstruct("Seek", [("x", int)], tag="again")
    assert kinds_of(Of[int] | Seek) == kinds_of(Seek | again) == kinds_of(None) == ()


def branches(events: Stream[Any]) -> None:
    """Steps that take rows of all Structs."""
    some = events.filter(lambda e: not isinstance(e, Seek))
    some.map(lambda e: (type(e).__name__, e.seconds if isinstance(e, Play) else e.reason)).sink("maps")
    some.of(Play).map(lambda p: p.seconds).sink("plays")
    some.filter_map(lambda e: None if isinstance(e, Stop) else e.seconds).sink("some")
    totals = events.key_by(lambda e: type(e).__name__).window(Tumbling("1s")).agg(
        lambda g: (g.key, g.count(), g.sum(lambda e: e.seconds if isinstance(e, Play) else 1))
    )  # fmt: skip
    totals.sink("totals")
    events.key_by(lambda e: 1 if type(e) is Stop else 0).window(Session("1s")).agg(lambda g: (g.key, g.count())).sink(
        "sessions"
    )
    events.split(lambda e: isinstance(e, Play))[1].map(lambda e: e.to).sink("fails")


@pytest.mark.slow
@pytest.mark.usefixtures("loops_installed")
@pytest.mark.parametrize("cut", [1, 7, 60])
def test_rows_of_several_structs_give_what_objects_give(cut: int) -> None:
    found = []
    for as_objects in (False, True):
        flow = Flow("kinds", on_error="dead-letter", columnar=not as_objects)
        time = lambda e: 100 * e.seconds if isinstance(e, Play) else 500  # noqa: E731
        events = flow.source("in", Json[Any](Play | Loop | Seek | Stop), time=time, out_of_order="2s")
        branches(events)
        if as_objects:
            events.sink("whole")
        assert flow.explain()[0].how.startswith("row by row" if as_objects else "columns")
        test = JobTestDriver(flow.job)
        for first in range(0, 60, cut):
            test.feed(0, *(event.body for event in EVENTS[first : first + cut]))
        test.finish()
        names = ("main", "plays", "some", "totals", "sessions", "fails")
        assert all(test.outputs(name) for name in names)
        letters = [(letter["offset"], letter["reason"]) for letter in test.dead()]
        found.append(([test.raw_outputs(name) for name in names], letters, test.counts.dead))
    assert found[0] == found[1] and found[0][2] > 5


class Holder(msgspec.Struct):
    event: Event | None = None


class Part(msgspec.Struct, tag=True):
    body: Seek | Stop | None


class Whole(msgspec.Struct, tag=True):
    at: int


@pytest.mark.usefixtures("loops_installed")
def test_structs_within_structs_hold_one_of_several() -> None:
    flow = Flow("inner", columnar=True)
    events = flow.source("in", Json(Holder)).filter_map(lambda h: h.event)
    events.map(lambda e: e.body.times if isinstance(e.body, Loop) else 0).sink("out")
    wanted = [e.body.times if isinstance(e.body, Loop) else 0 for e in EVENTS]
    assert flow.collect({"in": [Holder(one) for e in EVENTS for one in (e, None)]}) == wanted
    flow = Flow("parts", columnar=True)
    parts = flow.source("in", Json[Any](Part | Whole)).of(Part)
    parts.map(lambda p: p.body.to if isinstance(p.body, Seek) else p.body is None).sink("out")
    rows = [row for body in (Seek(2.5), Stop(), None) for row in (Part(body), Whole(1))] * 9
    assert flow.collect({"in": rows}) == [2.5, False, True] * 9


def test_rows_of_joined_streams_are_known_by_their_type_and_not_by_a_column_of_its_name() -> None:
    of_name: Any = msgspec.defstruct("to", [("at", int)], tag=9, tag_field="kind")
    flow = Flow("names")
    events = flow.source("in", Json[Any](Seek | of_name))
    both = events.of(of_name).union(events.of(Seek))
    both.map(lambda e: e.at if isinstance(e, of_name) else -1).sink("out")
    assert flow.explain()[4].how == "columns"
    assert sorted(flow.collect({"in": [Seek(2.5), of_name(3)]})) == [-1, 3]
