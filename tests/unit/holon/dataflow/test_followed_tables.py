"""Functions that look fields up in dicts of constants work on columns, and give what the dicts hold then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

import msgspec
import numpy as np
import pytest

from holon import Context, Json, Window, on_window
from holon.columnar.payloads import Texts
from holon.dataflow import Flow, Group, Tumbling
from holon.dataflow.expressions import column_of
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.rows import Rows
from holon.dataflow.steps import followed
from tests.unit.holon.dataflow.followed_records import (
    States,
    by_columns,
    check_by_columns,
    job_of,
    noted_ways,
    record,
    seen,
)

pytestmark = pytest.mark.usefixtures("loops_installed")


class Row(msgspec.Struct):
    t: str
    a: int


class Left(msgspec.Struct, tag="left"):
    n: int


class Right(msgspec.Struct, tag="right"):
    m: float


class Turn(msgspec.Struct):
    body: Left | Right


class Size(Enum):
    SMALL = 1

    def of(self, number: int) -> str:
        return str(number)


class Same:
    def __eq__(self, other: object) -> bool:
        raise AssertionError("code of a key runs")

    def __hash__(self) -> int:
        return hash("web")


class Odd(Enum):
    ONE = 1

    def __hash__(self) -> int:
        return hash("web")


class Growing(dict[str, int]):
    def __missing__(self, key: str) -> int:
        self[key] = len(self)
        return self[key]


SIZES = {"web": 1, "app": 2, "": 3}
DAYS = {"web": "2025-11-24", "app": "2026-11-24T10:00:00Z", "": "2024-02-29"}
SHARES: Final = MappingProxyType({0: 0.5, 1: 1.5, 2: -0.0, "web": 9.5})
NAMES = {"web": "Web", "app": "App", "": "none"}
MAYBE = {"web": None, "app": 3}
PAIRS = {("web", 0): "first", ("app", 1): "second"}
KINDS = {Left: "left", Right: "right"}
BIG = {"web": 10**30, "app": 1, "": 2}
MIXED = {"web": 1, "app": True, "": 2.5}

TAGS = {"web": ["a"]}
OBJECTS = {Same(): 1}
ODD = {Odd.ONE: 1}
GROWING = Growing()
DEFAULTS: Any = defaultdict(int, web=1)
PROXY = MappingProxyType(Growing())
WEIGHED = {"web": Size.SMALL}
NOTED: dict[str, int] = {"web": 1}


def rows_of(times: int = 8) -> tuple[list[Row], Rows]:
    rows = [Row(text, number) for number, text in enumerate(["web", "app", "", "web"] * times)]
    rows = [Row(row.t, row.a % 3) for row in rows]
    places = np.arange(len(rows))
    columns = {"t": Texts.of([row.t for row in rows]), "a": np.array([row.a for row in rows])}
    return rows, Rows(places, places, columns=columns, struct=Row)


@pytest.mark.parametrize("times", [1, 20])
@pytest.mark.parametrize(
    "function",
    [
        lambda r: SIZES[r.t],
        lambda r: SIZES[r.t] * 2 + SIZES.get("web", 0) + SIZES["app"],
        lambda r: SIZES.get(r.t),
        lambda r: SIZES.get(r.t + "x", r.a),
        lambda r: SIZES.get(r.t, 7) if r.t in SIZES and r.a not in SHARES else -1,
        lambda r: SHARES[r.a],
        lambda r: (SHARES.get(r.t), SHARES.get(r.t, r.t)),
        lambda r: NAMES[r.t].upper() + NAMES.get(r.t, "-").lower(),
        lambda r: f"{NAMES[r.t]}-{SIZES[r.t]}",
        lambda r: MAYBE.get(r.t, 0) is None or MAYBE.get(r.t) == 3,
        lambda r: 0 if MAYBE.get(r.t) is None else MAYBE[r.t] + 1,
        lambda r: PAIRS.get((r.t, r.a), "none"),
        lambda r: PAIRS.get((r.t, 1)),
        lambda r: BIG[r.t],
        lambda r: MIXED[r.t],
        lambda r: "app" in SIZES,
        lambda r: (SIZES["web"], r.t),
    ],
)
def test_look_ups_are_those_of_python(function: Callable[[Any], Any], times: int) -> None:
    decision, why = followed(function, Row, checked=True)
    assert decision is not None, why
    rows, columns = rows_of(times)
    assert list(map(repr, as_list(column_of(decision, columns)))) == [repr(function(row)) for row in rows]
    assert as_list(column_of(decision, columns.take(np.array([], np.intp)))) == []


def test_numbers_and_texts_that_are_looked_up_are_columns() -> None:
    _, columns = rows_of(20)
    functions: list[Callable[[Any], Any]] = [lambda r: SIZES[r.t], lambda r: NAMES[r.t], lambda r: SHARES[r.a]]
    made = [column_of(followed(one, Row, checked=True)[0], columns) for one in functions]  # type: ignore[arg-type]
    assert [type(one) for one in made] == [np.ndarray, Texts, np.ndarray]


@pytest.fixture
def noted() -> Iterator[None]:
    before = dict(NOTED)
    yield
    NOTED.clear()
    NOTED.update(before)


@pytest.mark.usefixtures("noted")
def test_a_dict_is_read_when_rows_are() -> None:
    decision, _ = followed(lambda r: (NOTED[r.t], NOTED["web"], "late" in NOTED), Row, checked=True)
    _, columns = rows_of(20)
    assert decision is not None
    NOTED.update({"app": 5, "": 6, "web": 4, "late": 1})
    assert as_list(column_of(decision, columns.take(np.arange(3)))) == [(4, 4, True), (5, 4, True), (6, 4, True)]
    del NOTED["web"]
    with pytest.raises(KeyError, match="web"):
        column_of(decision, columns)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda r: TAGS[r.t], "'TAGS', a dict"),
        (lambda r: OBJECTS.get(r.t), "'OBJECTS', a dict"),
        (lambda r: ODD.get(r.t), "'ODD', a dict"),
        (lambda r: GROWING[r.t], "'GROWING', a Growing"),
        (lambda r: DEFAULTS[r.t], "'DEFAULTS', a defaultdict"),
        (lambda r: PROXY[r.t], "'PROXY', a mappingproxy"),
        (lambda r: WEIGHED[r.t].of(r.a), "of of Size"),
        (lambda r: NOTED.setdefault(r.t, 1), "'setdefault' of a dict"),
        (lambda r: NOTED.pop(r.t), "'pop' of a dict"),
        (lambda r: len(SIZES) + r.a, "more than looking up"),
        (lambda r: r.a if SIZES else 0, "more than looking up"),
        (lambda r: isinstance(SIZES, Row) and r.a, "more than looking up"),
        (lambda r: (SIZES, r.a), "more than looking up"),
        (lambda r: SIZES, "more than looking up"),
        (lambda r: r.t == SIZES, "more than looking up"),
        (lambda r: SIZES[[r.t]], "a list of expressions"),  # type: ignore[index]
        (lambda r: SIZES[r.t].real, "the attribute 'real'"),
    ],
)
def test_other_dicts_and_uses_are_not_followed(function: Callable[[Any], Any], why: str) -> None:
    decision, found = followed(function, Row, checked=True)
    assert decision is None and why in found


def test_a_row_fails_at_what_comes_first() -> None:
    decision, why = followed(lambda r: 1 // r.a + (0 if NAMES[r.t + "x"] is None else 1), Row, checked=True)
    assert decision is not None, why
    _, columns = rows_of()
    with pytest.raises(ZeroDivisionError):
        column_of(decision, columns.take(np.array([0])))
    with pytest.raises(KeyError):
        column_of(decision, columns.take(np.array([1])))


def _by_size(self: Any, event: Any, ctx: Context) -> None:
    self.sums.insert((NAMES[event.t], SIZES.get(event.t, 0)), event.ts)
    ctx.emit((SIZES[event.t], SHARES.get(event.a)))


@pytest.mark.parametrize("policy", ["fail", "dead-letter"])
def test_a_key_that_is_missing_is_the_failure_of_its_record(policy: Any) -> None:
    good = [record(place, a=place % 4, t=["web", "app"][place % 2]) for place in range(60)]
    assert check_by_columns(job_of(_by_size, policy), good, [20])["ways"] == [True, True, True]
    bad = [*good[:7], record(7, t="tv"), *good[8:]]
    found = check_by_columns(job_of(_by_size, policy), bad, [20])
    shown = found["error"] if policy == "fail" else found["outputs"]["dead"][0][2].decode()
    assert "KeyError: 'tv'" in shown and not found["ways"][0]


class Changes(States):
    weights = NOTED

    @on_window(States.count)
    async def change(self, window: Window, ctx: Context) -> None:
        NOTED["web"] += 1

    def process(self, event: Any, ctx: Context) -> None:
        self.count.insert(NOTED["web"], event.ts)
        self.sums.insert((event.t, self.weights[event.t]), event.ts)


@pytest.mark.usefixtures("noted")
def test_what_a_handler_changes_shows_at_the_same_records() -> None:
    job = job_of(Changes.process)
    job = type(job)("changes", job.sources[0], Changes, output="out")
    records = [record(place) for place in range(60)]
    found, start = [], NOTED["web"]
    for made in (by_columns(job), job):
        NOTED["web"] = start
        with noted_ways() as ways:
            found.append(seen(made, records, [15, 30]))
        assert all(ways) and NOTED["web"] > start
    assert found[0] == found[1]


@pytest.mark.parametrize("lazy", [False, True])
def test_classes_are_keys(lazy: bool) -> None:
    decision, why = followed(lambda r: (KINDS[type(r.body)], getattr(r.body, "n", 0)), Turn, checked=True)
    assert decision is not None, why
    bodies = [Left(3), Right(0.5), Left(5)]
    columns = {"body": bodies, "body.Left": [Left(3), None, Left(5)], "body.Right": [None, Right(0.5), None]}
    if lazy:
        columns |= {"body.Left.n": [3, None, 5], "body.Right.m": [None, 0.5, None]}  # type: ignore[dict-item]
    places = np.arange(3)
    rows = Rows(places, places, columns=columns, struct=Turn)
    assert as_list(column_of(decision, rows)) == [("left", 3), ("right", 0), ("left", 5)]


def test_groups_look_up_and_read_times() -> None:
    def result(g: Group[str, Row]) -> Any:
        day = datetime.fromisoformat(DAYS[g.key])
        return (NAMES.get(g.key), day.year, SIZES[g.key] * g.sum(lambda r: SIZES.get(r.t, 0) + r.a))

    flow = Flow("tables", columnar=True)
    rows = flow.source("rows", Json(Row), time=lambda r: r.a)
    rows.key_by(lambda r: r.t).window(Tumbling.of(minutes=1)).agg(result).sink("out")
    made = rows_of()[0]
    sums = {key: sum(SIZES[row.t] + row.a for row in made if row.t == key) for key in SIZES}
    expected = [[NAMES[key], datetime.fromisoformat(DAYS[key]).year, SIZES[key] * sums[key]] for key in SIZES]
    assert sorted(flow.collect({"rows": made})) == sorted(expected)
