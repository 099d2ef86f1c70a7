"""Functions of flows that give dataclasses and NamedTuples: rows of columns, and objects of their types."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from holon.dataflow.steps import followed
from tests.unit.holon.dataflow.test_plain_events import ORDERS, RECORDS, Order, Pair, Total, flow_of, hows, results

pytestmark = pytest.mark.usefixtures("loops_installed")


def test_results_may_be_dataclasses_and_named_tuples() -> None:
    found = results(
        Order,
        ("map", lambda o: Total(o.user, o.price * 2, [])),
        ("filter", lambda t: t.total > 30),
        ("map", lambda t: t),
    )
    assert found == [{"user": o.user, "total": o.price * 2, "more": []} for o in ORDERS if o.price > 15]
    assert results(Order, ("map", lambda o: Pair(total=o.price, user=o.user)), ("filter", lambda p: p[1] > 15)) == [
        [o.user, o.price] for o in ORDERS if o.price > 15
    ]
    assert results(Order, ("map", lambda o: Pair(o.user)._replace(total=o.price)), ("map", lambda p: p.total)) == [
        o.price for o in ORDERS
    ]
    assert results(Order, ("flat_map", lambda o: [Total(o.user, one.lat) for one in o.places]))[:2] == [
        {"user": "u1", "total": 0.25, "more": []},
        {"user": "u2", "total": 0.25, "more": []},
    ]


def test_rows_that_functions_have_made_are_of_their_type() -> None:
    for made in (lambda o: Total(o.user, o.price), lambda o: Pair(o.user, o.price)):
        flow = flow_of(Order, ("map", made), ("map", lambda row: repr(row)))
        assert hows(flow)[0] == "columns" and hows(flow)[1].startswith("row by row")
        assert flow.collect({"in": RECORDS}) == [repr(made(o)) for o in ORDERS]


def test_replace_of_a_dataclass_is_followed() -> None:
    found = results(
        Order,
        ("map", lambda o: replace(o, price=o.price * 2)),
        ("filter", lambda o: o.price > 30),
        ("map", lambda o: (o.user, o.price, o.places)),
    )
    wanted = [(o.user, o.price * 2, o.places) for o in ORDERS if o.price > 15]
    assert found == [
        [user, price, [{"lat": one.lat, "lon": one.lon} for one in places]] for user, price, places in wanted
    ]
    assert results(Order, ("map", lambda o: dataclasses.replace(Total(o.user, 1.0), total=o.price)))[1] == {
        "user": "u1", "total": 0.5, "more": []
    }  # fmt: skip
    for function, why in (
        (lambda o: replace(o, prise=1), "unexpected keyword argument 'prise'"),
        (lambda o: replace(o.place, lat=1.0), "replace of what is no dataclass"),
        (lambda o: dataclasses.asdict(o), "dataclasses.asdict"),
    ):
        decision, why_not = followed(function, Order, checked=True)
        assert decision is None and why in why_not


def test_lists_of_results_are_new_for_each() -> None:
    def appended(total: Total) -> int:
        total.more.append(1)
        return len(total.more)

    flow = flow_of(Order, ("map", lambda o: Total(o.user, o.price)), ("map", appended))
    assert flow.collect({"in": RECORDS}) == [1] * 40


@dataclass
class Numbered:
    user: str
    number: int = field(default_factory=itertools.count().__next__)


class NumberedStruct(msgspec.Struct):
    user: str
    number: int = msgspec.field(default_factory=itertools.count().__next__)


@dataclass
class Checked:
    user: str

    def __post_init__(self) -> None:
        self.user = self.user.upper()


@dataclass
class Written:
    user: str

    def __init__(self, user: str) -> None:
        self.user = f"<{user}>"


NUMBERED = [{"user": "u0", "number": 0}, {"user": "u1", "number": 1}]


@pytest.mark.parametrize(
    ("function", "why", "first"),
    [
        (lambda o: Numbered(o.user), "another function makes", NUMBERED),
        (lambda o: NumberedStruct(o.user), "another function makes", NUMBERED),
        (lambda o: Checked(o.user), "checks itself", [{"user": "U0"}, {"user": "U1"}]),
        (lambda o: Written(o.user), "it may run __init__ of Written", [{"user": "<u0>"}, {"user": "<u1>"}]),
    ],
)  # fmt: skip
def test_results_whose_making_runs_code_are_made_row_by_row(function: Any, why: str, first: list[Any]) -> None:
    flow = flow_of(Order, ("map", function))
    assert why in hows(flow)[0]
    assert flow.collect({"in": RECORDS})[:2] == first
