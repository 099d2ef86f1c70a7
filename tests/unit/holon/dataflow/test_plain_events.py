"""Flows and jobs of dataclasses, TypedDicts and NamedTuples: what goes by columns, and which objects they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict

import msgspec
import pytest

from holon import Json, ProcessingFunction, Source, Tumbling
from holon.dataflow import Flow, FlowError
from holon.dataflow.record_functions.followed import followed_sources
from holon.dataflow.steps import followed
from holon.job import Job
from tests.unit.holon.dataflow.followed_records import check_by_columns, job_of

pytestmark = pytest.mark.usefixtures("loops_installed")


@dataclass
class Place:
    lat: float
    lon: float = 0.5

    def shown(self) -> str:
        return f"{self.lat}/{self.lon}"


@dataclass
class Order:
    ts: int
    user: str
    price: float = 1.0
    place: Place | None = None
    places: list[Place] = field(default_factory=list)

    @property
    def cents(self) -> int:
        return int(self.price * 100)


class DictPlace(TypedDict):
    lat: float
    lon: float


class DictOrder(TypedDict):
    ts: int
    user: str
    price: float
    place: DictPlace | None
    places: list[DictPlace]


class TupleOrder(NamedTuple):
    ts: int
    user: str
    price: float = 1.0
    place: Place | None = None


@dataclass(frozen=True)
class Total:
    user: str
    total: float
    more: list[int] = field(default_factory=list)


class Pair(NamedTuple):
    user: str
    total: float = 0.0


def place(number: int) -> dict[str, float] | None:
    return {"lon": 1.0, "lat": number / 4} if number % 2 else None


RECORDS = [
    json.dumps({"user": f"u{n % 3}", "price": n / 2, "ts": n, "place": place(n),
                "places": [place(1), place(n | 1)][: n % 3]}).encode() for n in range(40)
]  # fmt: skip
ARRAYS = [json.dumps([n, f"u{n % 3}", n / 2, place(n)]).encode() for n in range(40)]
ORDERS, DICTS, TUPLES = (
    [msgspec.json.decode(one, type=of) for one in records]
    for of, records in ((Order, RECORDS), (DictOrder, RECORDS), (TupleOrder, ARRAYS))
)


def flow_of(of: Any, *steps: tuple[str, Callable[[Any], Any]]) -> Flow:
    flow = Flow("plain")
    stream: Any = flow.source("in", Json(of))
    for verb, function in steps:
        stream = getattr(stream, verb)(function)
    stream.sink("out")
    return flow


def hows(flow: Flow) -> list[str]:
    return [step.how for step in flow.explain()[1:-1]]


def results(of: Any, *steps: tuple[str, Callable[[Any], Any]]) -> list[Any]:
    """Those of a flow of which all steps go by columns."""
    flow = flow_of(of, *steps)
    assert hows(flow) == ["columns"] * len(steps)
    return flow.collect({"in": ARRAYS if of is TupleOrder else RECORDS})


def test_fields_of_a_dataclass_are_columns() -> None:
    found = results(Order, ("filter", lambda o: o.price > 3 and o.place is not None), ("map", lambda o: o.place.lat))
    assert found == [o.place.lat for o in ORDERS if o.price > 3 and o.place is not None]
    assert results(Order, ("map", lambda o: sum(one.lat for one in o.places))) == [
        sum(one.lat for one in o.places) for o in ORDERS
    ]
    assert results(Order, ("filter_map", lambda o: o.place), ("map", lambda p: p.lon + p.lat))[:2] == [1.25, 1.75]
    assert results(Order, ("filter_map", lambda o: o.place), ("filter", lambda p: p.lat < 0.5)) == [
        {"lat": 0.25, "lon": 1.0}
    ]


def test_keys_of_a_typed_dict_are_columns() -> None:
    taken = results(
        DictOrder,
        ("filter", lambda o: o["price"] > 3 and o["place"] is not None),
        ("map", lambda o: (o["place"]["lat"], o.get("user"), o.get("zzz", 7), "user" in o, "zzz" in o)),
    )
    assert taken == [
        [o["place"]["lat"], o["user"], 7, True, False] for o in DICTS if o["price"] > 3 and o["place"] is not None
    ]
    assert results(DictOrder, ("map", lambda o: o["place"].get("lat") if o["place"] else "none")) == [
        o["place"]["lat"] if o["place"] else "none" for o in DICTS
    ]
    assert results(DictOrder, ("map", lambda o: sum(one["lat"] + one.get("lon", 0) for one in o["places"]))) == [
        sum(one["lat"] + one["lon"] for one in o["places"]) for o in DICTS
    ]


def test_dicts_inside_of_one_are_rows_with_columns() -> None:
    there = [o["place"] for o in DICTS if o["place"] is not None]
    place: Callable[[Any], Any] = lambda o: o["place"]  # noqa: E731 (its code is read)
    assert results(DictOrder, ("filter_map", place), ("map", lambda p: p["lat"])) == [p["lat"] for p in there]
    kept = results(DictOrder, ("filter_map", place), ("filter", lambda p: p["lat"] > 1))
    assert list(map(list, kept)) == [["lon", "lat"]] * len([p for p in there if p["lat"] > 1])
    flow = flow_of(DictOrder, ("filter_map", place), ("map", lambda p: repr(p)))
    assert flow.collect({"in": RECORDS}) == list(map(repr, there))


class DictInner(TypedDict):
    z: int


class DictItem(TypedDict):
    lat: float
    tags: list[str]
    inner: DictInner
    rates: dict[str, int]


class DictItems(TypedDict):
    items: list[DictItem]
    more: list[DictItem | None] | None


@pytest.mark.parametrize("count", [2, 40])
def test_dicts_that_are_items_of_a_loop_have_their_values(count: int) -> None:
    item = {"lat": 1.5, "tags": ["x", "yz"], "inner": {"z": 3}, "rates": {"k": 2}}
    rows: list[Any] = [{"items": [item], "more": [item, None]}, {"items": [], "more": None}] * (count // 2)
    functions: list[Callable[[Any], Any]] = [
        lambda e: sum(one["lat"] for one in e["items"]),
        lambda e: sum(one["rates"]["k"] for one in e["items"]),
        lambda e: sum(len(tag) for one in e["items"] for tag in one["tags"]),
        lambda e: sum(one.get("lat") if one is not None else 7 for one in e["more"]) if e["more"] is not None else -1,
        lambda e: max((one["lat"] for one in e["items"] if "lat" in one), default=0.0),
    ]
    for function in functions:
        flow = flow_of(DictItems, ("map", function))
        assert hows(flow) == ["columns"]
        assert flow.collect({"in": [json.dumps(row).encode() for row in rows]}) == list(map(function, rows))


def test_parts_of_a_named_tuple_are_columns() -> None:
    def swapped(order: TupleOrder) -> Any:
        ts, user, price, where = order
        return user, ts + order[0] + order[-4], price, where

    assert results(TupleOrder, ("map", swapped)) == [
        [o.user, 3 * o.ts, o.price, None if o.place is None else {"lat": o.place.lat, "lon": 1.0}] for o in TUPLES
    ]


def test_rows_that_leave_as_they_are_come_as_msgspec_writes_them() -> None:
    """The keys of a TypedDict in the order of its record."""
    for of, records in ((Order, RECORDS), (DictOrder, RECORDS), (TupleOrder, ARRAYS)):
        flow = flow_of(of, ("filter", (lambda o: o["ts"] > 3) if of is DictOrder else lambda o: o.ts > 3))
        wanted = [msgspec.json.encode(msgspec.json.decode(one, type=of)) for one in records[4:]]
        assert [json.dumps(one) for one in flow.collect({"in": records})] == [
            json.dumps(msgspec.json.decode(one)) for one in wanted
        ]


@pytest.mark.parametrize(("of", "events"), [(Order, ORDERS), (DictOrder, DICTS), (TupleOrder, TUPLES)])
def test_functions_that_are_called_get_what_msgspec_makes(of: Any, events: list[Any]) -> None:
    flow = flow_of(of, ("map", lambda o: (type(o).__name__, repr(o))))
    assert hows(flow)[0].startswith("row by row")
    found = flow.collect({"in": ARRAYS if of is TupleOrder else RECORDS})
    assert found == [[type(one).__name__, repr(one)] for one in events]


@pytest.mark.parametrize(
    ("of", "function", "why"),
    [
        (Order, lambda o: o.cents, "attribute 'cents'"),
        (Order, lambda o: o.place.shown() if o.place is not None else "", "attribute 'shown'"),
        (Order, lambda o: o["user"], "needs the value"),
        (DictOrder, lambda o: o["zzz"] if "zzz" in o else o["yyy"], "no such key"),
        (DictOrder, lambda o: list(o.items()), "'items' of a DictOrder"),
        (DictOrder, lambda o: o.user, "'user' of a DictOrder"),
        (DictOrder, lambda o: {**o, "more": 1}, "'keys' of a DictOrder"),
        (DictOrder, lambda o: o["place"].lat if o["place"] is not None else 0, "'lat' of a DictPlace"),
        (TupleOrder, lambda o: o[9], "needs the value"),
        (TupleOrder, lambda o: o[1:], "needs the value"),
    ],
)
def test_what_is_no_field_is_left_to_python(of: Any, function: Any, why: str) -> None:
    decision, why_not = followed(function, of, checked=True)
    assert decision is None and why in why_not


def test_a_missing_field_of_a_dataclass_is_refused_as_of_a_struct() -> None:
    with pytest.raises(FlowError, match="Order has no field 'prise'; it has ts, user, price"):
        flow_of(Order, ("map", lambda o: o.prise))


def test_a_key_of_a_dict_that_is_none_fails_as_in_python() -> None:
    flow = Flow("plain", on_error="dead-letter")
    flow.source("in", Json(DictOrder)).map(lambda o: o["place"]["lat"]).sink("out")
    assert hows(flow) == ["columns"]
    with pytest.warns(UserWarning, match="'NoneType' object is not subscriptable"):
        found = flow.collect({"in": RECORDS})
    assert found == [o["place"]["lat"] for o in DICTS if o["place"] is not None]


def test_steps_behind_a_filter_that_may_change_rows_get_its_objects() -> None:
    def doubled(order: Any) -> bool:
        order.price = order.price * 2
        return True

    def doubled_key(order: Any) -> bool:
        order["price"] = order["price"] * 2
        return True

    assert flow_of(Order, ("filter", doubled), ("map", lambda o: o.price)).collect({"in": RECORDS[:3]}) == [0, 1.0, 2.0]
    dicts = flow_of(DictOrder, ("filter", doubled_key), ("map", lambda o: o["price"]))
    assert dicts.collect({"in": RECORDS[:3]}) == [0, 1.0, 2.0]


def test_named_tuples_are_keys_and_dataclasses_are_not() -> None:
    flow = Flow("keys")
    keyed = flow.source("in", Json(Order), time=lambda o: o.ts).key_by(lambda o: Pair(o.user, 1))
    keyed.window(Tumbling(100)).agg(lambda g: (g.key, g.count())).sink("out")
    assert sorted(flow.collect({"in": RECORDS})) == [[["u0", 1], 14], [["u1", 1], 13], [["u2", 1], 13]]
    with pytest.raises(FlowError, match="Place: take a tuple of its fields"):
        Flow("keys").source("in", Json(Order)).key_by(lambda o: o.place).window(Tumbling(9)).agg(
            lambda g: g.count()
        ).sink("out")


def test_rows_of_dataclasses_are_joined() -> None:
    flow = Flow("joined")
    left = flow.source("a", Json(TupleOrder), time=lambda o: 0).map(lambda o: Pair(o.user, o.price))
    right = flow.source("b", Json(Order), time=lambda o: 0).map(lambda o: Total(o.user, o.price)).map(
        lambda t: Pair(t.user, t.total)
    )  # fmt: skip
    windows = [one.key_by(lambda o: o.user).window(Tumbling(10)) for one in (left, right)]
    windows[0].join(windows[1]).sink("out")
    found = flow.collect({"a": ARRAYS[:2], "b": RECORDS[1:3]})
    assert found == [{"left": ["u1", 0.5], "right": ["u1", 0.5]}]


@pytest.mark.parametrize("of", [Order, DictOrder])
def test_a_job_of_plain_events_goes_by_columns(of: Any) -> None:
    def process(self: Any, event: Any, ctx: Any) -> None:
        if event.price > 2 and event.place is not None:
            self.sums.insert((event.user, event.place.lat), event.ts)
        ctx.emit(event)

    def process_dict(self: Any, event: Any, ctx: Any) -> None:
        if event["price"] > 2 and event["place"] is not None:
            self.sums.insert((event["user"], event["place"]["lat"]), event["ts"])
        ctx.emit(event)

    time: Any = (lambda o: o["ts"]) if of is DictOrder else (lambda o: o.ts)
    job = job_of(process_dict if of is DictOrder else process, "dead-letter", timestamp=time, of=of)
    odd = [b"{", b'{"ts":1}', b'{"ts":"x","user":"a"}', RECORDS[3].replace(b"3", str(2**63).encode())]
    found = check_by_columns(job, [*RECORDS, *odd, *RECORDS], [30])
    assert True in found["ways"]


@dataclass
class Validated:
    ts: int

    def __post_init__(self) -> None:
        if self.ts < 0:
            raise ValueError("before 1970")


class Counting(ProcessingFunction[Any]):
    def process(self, event: Any, ctx: Any) -> None:
        ctx.emit(event.ts)


def test_a_type_that_checks_itself_is_read_record_by_record() -> None:
    job: Job[Any] = Job("checked", Source("in", Json(Validated), lambda one: one.ts), Counting, output="out")
    (found,) = followed_sources(job)
    assert found.why_not == (
        "its format is not Json of a Struct, dataclass or TypedDict: Validated checks itself (__post_init__)"
    )
    flow = flow_of(Validated, ("map", lambda one: one.ts))
    assert flow.explain()[0].how == "row by row: Validated checks itself (__post_init__), so its events are objects"
    with pytest.warns(UserWarning, match="before 1970"):
        assert flow.collect({"in": [b'{"ts":-1}', b'{"ts":1}']}) == [1]
