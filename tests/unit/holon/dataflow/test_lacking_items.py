"""Items of which some lack what others have: their fields are read where the function reads them, however rows came.

Below two dozen records, and without compiled loops, the columns of a record's lists are objects.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import msgspec
import pytest

from holon import Json
from holon.columnar.loops import install
from holon.dataflow import Flow
from holon.dataflow.steps import followed
from nodes.compiled.loading import Compiled
from tests.unit.holon.dataflow.followed_records import Event, check_by_columns, job_of

ZONED = {"sku": "b", "price": 2.0, "count": 3, "p": {"city": "ulm", "zone": 4}}
NESTED = [
    [],
    [[]],
    [[{"sku": "a", "price": 0.5, "count": 1}], []],
    [[{"sku": "a", "price": 0.5, "count": 1, "p": None}, ZONED], [{**ZONED, "count": 9}]],
    [[ZONED, {"sku": "c", "price": 1.0, "count": 2}]],
]
Function = Callable[[Event], Any]


def cities(event: Event) -> int:
    total = 0
    for row in event.nested:
        for item in row:
            if item.p is not None:
                total += len(item.p.city)
    return total


def first_city(event: Event) -> str:
    for row in event.nested:
        for item in row:
            if item.p is not None:
                return item.p.city
    return "none"


def zones(event: Event) -> int | None:
    zone: int | None = 0
    for item in event.items:
        if item.p is None:
            continue
        zone = item.p.zone
        if item.count > 5:
            break
    return zone


FUNCTIONS: list[Function] = [
    cities,
    first_city,
    zones,
    lambda event: sum(item.price for row in event.nested for item in row),
    lambda event: [item.p.city for row in event.nested for item in row if item.p is not None],
    lambda event: any(item.p is not None and item.p.city == "ulm" for item in event.items),
    lambda event: [item.p.zone for item in event.items if item.p is not None and item.p.zone is not None],
    lambda event: max((item.count for row in reversed(event.nested) for item in row), default=0),
]


def records(rows: int) -> list[dict[str, Any]]:
    return [
        {"ts": 5, "a": 1, "x": 1.0, "f": True, "t": "t", "nested": NESTED[n % 5], "items": [*chain(*NESTED[n % 5])]}
        for n in range(rows)
    ]


@pytest.fixture(params=["loops", "no loops"], autouse=True)
def _reading(request: pytest.FixtureRequest, loops: Compiled) -> Any:
    install(loops if request.param == "loops" else None)
    yield
    install(None)


@pytest.mark.parametrize("rows", [1, 2, 5, 40])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_flows_have_the_values_of_python(function: Function, rows: int) -> None:
    assert followed(function, Event, checked=True)[0] is not None
    flow = Flow("items")
    flow.source("events", Json(Event), time=lambda event: event.ts).map(function).sink("out")
    given = records(rows)
    assert flow.collect({"events": given}) == [function(msgspec.convert(one, Event)) for one in given]


@pytest.mark.parametrize("rows", [1, 40])
def test_so_have_inserts_and_results_of_process(rows: int) -> None:
    def process(self: Any, event: Any, ctx: Any) -> None:
        for row in event.nested:
            for item in row:
                if item.p is not None:
                    self.sums.insert((item.p.city, item.p.zone), event.ts)
        ctx.emit(sum(item.count for row in event.nested for item in row))

    check_by_columns(job_of(process), [msgspec.json.encode(one) for one in records(rows)], [rows // 2])
