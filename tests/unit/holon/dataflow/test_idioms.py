"""Idioms that people write first go by columns: members of sets, values that may be None, enums, and made lists."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, Flag, IntEnum
from functools import partial
from typing import Any

import msgspec
import pytest

from holon import Context, Job, Json, JsonColumns, Source, UserFunctionError
from holon.dataflow import Flow
from holon.dataflow.following.declared import is_plain_enum
from holon.dataflow.following.rewritten_code import identities, rewritten
from holon.testing import JobTestDriver
from tests.unit.holon.dataflow.followed_records import Event as Record
from tests.unit.holon.dataflow.followed_records import States, check_by_columns, record
from tests.unit.holon.dataflow.row_columns import rows_with, values_by

pytestmark = pytest.mark.usefixtures("loops_installed")


class Kind(Enum):
    WEB = "web"
    APP = "app"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Named(Enum):
    ONE = "one"

    @property
    def value(self) -> str:  # type: ignore[override]
        return "mine"


class Place(msgspec.Struct):
    city: str
    zip: int | None = None


class Event(msgspec.Struct):
    at: int
    user: str
    qty: int
    amount: float
    kind: Kind = Kind.WEB
    level: Level = Level.LOW
    named: Named = Named.ONE
    note: str | None = None
    place: Place | None = None
    tags: list[str] = []
    scores: dict[str, float] = {}
    marks: list[int] = []
    is_open: bool = False


VIPS = {"ann", "bob"}
LEVELS = frozenset({1, 3})
PAIRS = {("ann", 1)}
ROWS = [
    Event(
        place,
        user,
        qty,
        amount,
        [Kind.WEB, Kind.APP][place % 2],
        [Level.LOW, Level.HIGH][place % 2],
        Named.ONE,
        [None, "", "note"][place % 3],
        [None, Place("Bern", 3000), Place("Zug")][place % 3],
        ["b", "a", "b"][: place % 4],
        {"x": 0.5, "y": amount} if place % 2 else {},
        [2, 1, 2**53][: place % 4],
        place % 3 == 0,
    )
    for place, (user, qty, amount) in enumerate(
        [("ann", 1, 0.5), ("bob", 2, -1.0), ("eve", 3, 2.0), ("", 0, 0.0), ("ann", -1, 1e300), ("zoe", 64, 3.0)] * 12
    )
]

FOLLOWED: list[Callable[[Event], Any]] = [
    lambda e: e.user in {"ann", "eve"},
    lambda e: e.qty not in {0, 1},
    lambda e: e.user in VIPS,
    lambda e: e.level in LEVELS,
    lambda e: (e.user, e.qty) in PAIRS,
    lambda e: e.qty if "ann" in VIPS else e.user,
    lambda e: e.qty if 2 in LEVELS and e.qty in LEVELS else e.user,
    lambda e: "vip" if e.user in VIPS and e.note not in {None, ""} else "none",
    lambda e: e.note and e.note.upper(),
    lambda e: e.note.upper() if e.note else "?",
    lambda e: e.place.city if e.place else "?",
    lambda e: (e.place and e.place.zip) or 0,
    lambda e: e.kind.value,
    lambda e: (e.kind.name, e.level.name.lower(), e.level.value + 1),
    lambda e: e.qty**2 + (e.qty << 1) + (e.qty >> 1),
    lambda e: (~e.qty, +e.amount, 2**e.qty, e.amount**0.5),
    lambda e: bool(e.note) and bool(e.qty),
    lambda e: sorted(e.tags),
    lambda e: sorted(e.scores, reverse=True),
    lambda e: len(set(e.tags)),
    lambda e: "a" in set(e.tags) or not list(e.scores.values()),
    lambda e: {"tags": list(e.tags), "once": sorted(set(e.tags))},
    lambda e: sorted(tag.upper() for tag in e.tags),
    lambda e: tuple(place for place, tag in enumerate(e.tags) if tag == "b"),
    lambda e: [tag + e.user for tag in e.tags],
    lambda e: {"user": e.user, "tags": [tag.upper() for tag in e.tags if tag in VIPS or tag != "a"]},
    lambda e: [(tag, e.qty) for tag in e.tags],
    lambda e: ",".join(e.tags),
    lambda e: ("-".join((e.user, e.kind.value, "x")), "".join([e.user, e.user])),
    lambda e: "/".join(tag.upper() for tag in e.tags if tag != "a"),
    lambda e: "/".join([tag + e.user for tag in e.tags]),
    lambda e: "+".join(sorted(set(e.tags))) or "+".join(["none", "at all"]),
    lambda e: "+".join("a" for _ in e.tags),
    lambda e: ", ".join((e.user, e.qty)),
    lambda e: "b" in e.tags,
    lambda e: ("" in e.tags, 2 in e.marks, True in e.marks, "2" in e.marks, 2.5 in e.marks, 3 in e.tags),
    lambda e: (bool(e.tags), bool(e.marks), bool(e.user), not e.user, bool(e.scores)),
    lambda e: "some" if e.tags else "none",
    lambda e: e.kind is Kind.APP,
    lambda e: (
        "app" if e.kind is Kind.APP else "web" if e.kind is Kind.WEB and Kind.WEB.value in e.tags else e.kind.name
    ),
    lambda e: 1 if e.level is not Level.LOW else e.qty,
    lambda e: [place for place, tag in enumerate(e.tags) if e.kind is Kind.WEB and tag != "a"],
    lambda e: (e.is_open is True, e.is_open is not False, e.note is None, e.place is not None and e.kind is Kind.APP),
    lambda e: [[other + tag for other in e.tags] for tag in e.tags],
    lambda e: len(frozenset(e.tags)),
]


def seen(function: Callable[[Any], Any]) -> Any:
    flow = Flow("idioms")
    flow.source("in", Json(Event), time=lambda e: e.at).map(function).sink("out")
    test = JobTestDriver(flow.job)
    how = flow.explain()[1].how
    try:
        test.feed(0, *ROWS)
        test.finish()
    except UserFunctionError as error:
        return how, str(error)
    return how, test.raw_outputs("out")


@pytest.mark.parametrize("function", FOLLOWED)
def test_idioms_go_by_columns(function: Callable[[Event], Any]) -> None:
    how, *found = seen(function)
    assert how == "columns", how
    assert found == list(seen(partial(function))[1:])


class Access(Flag):
    READ = 1
    WRITE = 2


def _tries(e: Event) -> int:
    try:
        return int(e.user) if e.user in VIPS and e.kind is Kind.WEB else len(e.kind.value)
    except ValueError:
        return -1


def test_members_are_asked_for_within_try() -> None:
    how, *found = seen(_tries)
    assert how == "columns" and found == list(seen(partial(_tries))[1:])


def test_values_of_several_flags_are_looked_up_each() -> None:
    assert is_plain_enum(Kind) and is_plain_enum(Level) and not any(map(is_plain_enum, (Access, Named, str, None)))


def changes(row: dict[str, list[str]]) -> tuple[list[str], list[str]]:
    row["one"].append("more")
    return row["one"], row["other"]


def test_of_two_lists_that_are_made_alike_each_is_another() -> None:
    def function(around: Callable[[Any], Any]) -> Any:
        flow = Flow("apart")
        rows = flow.source("in", Json(Event), time=lambda e: e.at)
        rows.map(around(lambda e: {"one": sorted(e.tags), "other": sorted(e.tags)})).map(changes).sink("sorted")
        made = around(lambda e: {"one": [tag.strip() for tag in e.tags], "other": [tag.strip() for tag in e.tags]})
        rows.map(made).map(changes).sink("made")
        return flow.job

    found = []
    for around in (lambda one: one, partial):
        test = JobTestDriver(function(around))
        test.feed(0, *ROWS)
        test.finish()
        found.append((test.outputs("sorted"), test.outputs("made")))
    assert found[0] == found[1]


def test_a_set_of_the_module_is_read_when_rows_are() -> None:
    names = {"ann"}
    flow = Flow("changing")
    flow.source("in", Json(Event), time=lambda e: e.at).map(lambda e: e.user in names).sink("out")
    assert flow.explain()[1].how == "columns"
    names.add("eve")
    assert flow.collect({"in": ROWS[:3]}) == [True, False, True]


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda e: e.named.value, "attribute 'value' of a Named"),
        (lambda e: e.kind is (Kind.WEB if e.qty else Kind.APP), "`is`"),
        (lambda e: (e.kind is Kind.WEB) is (e.level is Level.LOW), "`is`"),
        (lambda e: len(VIPS) + e.qty, "a set for more than asking for a member"),
        (lambda e: sorted(e.tags, key=len), "it needs the value itself"),
        (lambda e: ",".join((f"{e.qty}", e.user)), "it needs the value itself"),
        (lambda e: VIPS.union(e.tags), "'union' of a set"),
        (lambda e: [tag.strip() for tag in e.tags][-1], "a list that a comprehension has made"),
        (lambda e: e.user in {e.note, "a"}, "it needs the value itself"),
        (lambda e: set(e.tags).pop(), "attribute 'pop'"),
    ],
)
def test_other_uses_get_each_row(function: Callable[[Event], Any], why: str) -> None:
    how, *found = seen(function)
    assert how.startswith("row by row") and why in how, how
    assert found == list(seen(partial(function))[1:])


class Listed(msgspec.Struct):
    user: str
    qty: int
    tags: list[str]
    marks: list[int]


def test_code_with_many_constants_is_left_as_it_is() -> None:
    code = (lambda e: ",".join(e.tags) if e.kind is Kind.APP or e.is_open is True else "").__code__
    many = code.replace(co_consts=(*code.co_consts, *range(100)))
    value_of = {"Kind": Kind}.get
    assert rewritten(code, value_of, id) is not code and len(identities(code, value_of)) == 2
    assert rewritten(many, value_of, id) is many and not identities(many, value_of)


LISTS = [
    lambda e: "b" in e.tags,
    lambda e: ("" in e.tags, 2 in e.marks, True in e.marks, "2" in e.marks, 2.5 in e.marks, 3 in e.tags),
    lambda e: (bool(e.tags), bool(e.marks), bool(e.user), not e.user),
    lambda e: e.qty if e.tags else -e.qty,
]


@pytest.mark.parametrize("function", LISTS)
def test_lists_that_compiled_loops_have_read_need_no_objects(function: Callable[[Any], Any]) -> None:
    rows = [Listed(row.user, row.qty, row.tags, row.marks) for row in ROWS]
    columns = JsonColumns(Listed).decode([msgspec.json.encode(row) for row in rows]).columns
    assert columns["tags"].lengths() is not None
    assert values_by(function, rows_with(columns, Listed), Listed) == list(map(function, rows))


def _chooses(self: Any, event: Any, ctx: Context) -> None:
    if event.t in self.HELD and event.a in self.wanted:
        self.count.insert(event.a, event.ts)
    elif event.t not in VIPS:
        ctx.emit((event.t, event.a in {3, 4}))


def test_sets_of_a_processing_function_are_asked_for_members() -> None:
    sets = {"HELD": frozenset({"web", "app"}), "wanted": {1, 2}}
    function = type("Chosen", (States,), {"process": _chooses} | sets)
    job = Job("chosen", Source("events", Json(Record), lambda event: event.ts), function, output="out")
    records = [record(place, a=place % 5, t=["web", "app", "ann", ""][place % 4]) for place in range(60)]
    found = check_by_columns(job, records)
    assert found["ways"].count(True) >= 2 and "error" not in found
