"""Law: functions of records of which much may be missing give what Python gives, however the records were read.

The functions are as people write them; the records come in batches of any size, with and without compiled loops, so
their columns are arrays, lists of lists, or objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon import Context, Job, Json, ProcessingFunction, Source
from holon.columnar.loops import install
from holon.dataflow import Flow
from holon.testing import JobTestDriver
from nodes.compiled.loading import Compiled


class Kind(Enum):
    A = "a"
    B = "b"


class Small(msgspec.Struct, tag="small"):
    v: int
    w: str | None = None


class Large(msgspec.Struct, tag="large"):
    v: int
    inner: Small | None = None


class Item(msgspec.Struct):
    k: Kind
    body: Small | Large | None = None
    ts: datetime | None = None
    amount: Decimal | None = None
    attrs: dict[str, int] | None = None


class Event(msgspec.Struct):
    at: int
    body: Small | Large | None = None
    items: list[Item] = []
    one: Item | None = None
    attrs: dict[str, list[int]] = {}
    name: str | None = None
    pairs: list[tuple[str, int]] = []
    numbers: list[int | None] = []
    nested: list[list[Item]] = []


def by_cases(e: Event) -> int:
    n = 0
    for i in e.items:
        match i.body:
            case Small(v=v):
                n += v
            case Large(inner=None):
                n -= 1
            case Large(inner=inner):
                n += inner.v
    return n


def first_inner(e: Event) -> str | None:
    for i in e.items:
        if isinstance(i.body, Large) and i.body.inner is not None:
            return i.body.inner.w
    return ""


def when(e: Event) -> str:
    return "never" if e.one is None or e.one.ts is None else e.one.ts.isoformat()


def until_x(e: Event) -> int:
    total = 0
    for key, values in e.attrs.items():
        if len(values) > 1:
            total += values[0]
        if key == "x":
            break
    return total


def without_a(e: Event) -> int:
    total = 0
    for name, count in e.pairs:
        if name == "a":
            continue
        total += count
    return total


def latest(e: Event) -> int:
    best = None
    for i in e.items:
        if i.ts is not None and (best is None or i.ts > best):
            best = i.ts
    return best.year if best is not None else 0


def of_either(e: Event) -> str | None:
    if isinstance(e.body, Small):
        return e.body.w if e.body.w is not None else "w"
    return str(e.body.inner.v) if isinstance(e.body, Large) and e.body.inner else "z"


def last_kind(e: Event) -> str:
    last = "q"
    for i in e.items:
        if i.body is None:
            continue
        if i.body.v > 2:
            last = i.k.value
            break
    else:
        last = "none"
    return last


def along(e: Event) -> int:
    out = 0
    for number, item in zip(e.numbers, e.items):  # noqa: B905 (the shorter one ends it)
        if number is None or item.body is None:
            continue
        out += number * item.body.v
    return out


def of_rows(e: Event) -> int:
    n = 0
    for row in e.nested:
        for i in row:
            if i.body is not None:
                n += i.body.v
                break
    return n


def unchecked(e: Event) -> int:
    """It fails where Python does."""
    return sum(i.body.v for row in e.nested for i in row)  # type: ignore[union-attr]


FUNCTIONS: list[Callable[[Event], Any]] = [
    by_cases, first_inner, when, until_x, without_a, latest, of_either, last_kind, along, of_rows, unchecked,
    lambda e: sum((i.amount for i in e.items if i.amount is not None), Decimal(0)),
    lambda e: [i.k.value for i in e.items if i.k is Kind.A],
    lambda e: (e.name or "none").upper() + str(len(e.items)),
    lambda e: [number for number in e.numbers if number is not None],
    lambda e: sum(i.attrs.get("z", 0) for i in e.items if i.attrs),
    lambda e: {"kinds": [i.k.name for i in e.items], "pairs": len(e.pairs)},
    lambda e: e.items[0].amount if e.items and e.items[0].amount else None,
    lambda e: max((i.body.v for i in e.items if i.body is not None), default=-1),
    lambda e: (sorted(e.attrs), [len(values) for values in e.attrs.values()]),
]  # fmt: skip

NUMBERS = st.integers(0, 4)
SMALL = st.fixed_dictionaries(
    {"type": st.just("small"), "v": NUMBERS}, optional={"w": st.sampled_from([None, "w", "é"])}
)
LARGE = st.fixed_dictionaries({"type": st.just("large"), "v": NUMBERS}, optional={"inner": st.none() | SMALL})
TIMES = st.sampled_from([None, "2026-11-24T01:02:03Z", "2025-01-01T00:00:00+02:00"])
ITEMS = st.fixed_dictionaries(
    {"k": st.sampled_from("ab")},
    optional={"body": st.none() | SMALL | LARGE, "ts": TIMES, "amount": st.sampled_from([None, "1.20", "3"]),
              "attrs": st.sampled_from([None, {}, {"z": 2}, {"y": 1}])},
)  # fmt: skip
RECORDS = st.fixed_dictionaries(
    {"at": st.just(5)},
    optional={"body": st.none() | SMALL | LARGE, "items": st.lists(ITEMS, max_size=3), "one": st.none() | ITEMS,
              "attrs": st.dictionaries(st.sampled_from("xyé"), st.lists(NUMBERS, max_size=2)),
              "name": st.sampled_from([None, "", "bob", "é"]), "numbers": st.lists(st.none() | NUMBERS, max_size=3),
              "pairs": st.lists(st.tuples(st.sampled_from("ab"), NUMBERS), max_size=3),
              "nested": st.lists(st.lists(ITEMS, max_size=2), max_size=2)},
).map(msgspec.json.encode)  # fmt: skip


@pytest.fixture(params=["loops", "no loops"], autouse=True, scope="module")
def _reading(request: pytest.FixtureRequest, loops: Compiled) -> Iterator[None]:
    install(loops if request.param == "loops" else None)
    yield
    install(None)


def plainly(function: Callable[[Event], Any], records: Sequence[bytes]) -> tuple[list[Any], list[int], list[int]]:
    """What Python gives: values, the places of these that are true, and those of records that fail."""
    values, true, failed = [], [], []
    for place, record in enumerate(records):
        try:
            value = function(msgspec.json.decode(record, type=Event))
        except (AttributeError, TypeError):
            failed.append(place)
        else:
            values.append(value)
            true += [place] * bool(value)
    return values, true, failed


def ran(job: Job[Any], records: Sequence[bytes]) -> tuple[list[Any], list[int]]:
    """Results, and offsets of dead letters."""
    test = JobTestDriver(job)
    test.feed(0, *records)
    test.finish()
    return test.outputs(), [letter["offset"] for letter in test.dead()]


def as_json(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


@given(st.sampled_from(FUNCTIONS), st.lists(RECORDS, max_size=6), st.sampled_from([1, 1, 12]))
def test_functions_of_optional_parts(function: Callable[[Event], Any], records: list[bytes], times: int) -> None:
    """``times``: the records come so often, in one batch."""
    records = records * times
    values, true, failed = plainly(function, records)
    mapped, kept = Flow("mapped", on_error="dead-letter"), Flow("kept", on_error="dead-letter")
    mapped.source("in", Json(Event), time=lambda e: e.at).map(function).sink("out")
    found, dead = ran(mapped.job, records)
    assert (as_json(found), dead) == (as_json(values), failed)
    kept.source("in", Json(Event), time=lambda e: e.at).filter(function).map(lambda e: e.at).sink("out")
    found, dead = ran(kept.job, records)
    assert (len(found), dead) == (len(true), failed)

    class Emits(ProcessingFunction[Event]):
        def process(self, event: Event, ctx: Context) -> None:
            ctx.emit(function(event))

    source = Source("in", Json(Event), timestamp=lambda e: e.at)
    found, dead = ran(Job("emits", source, Emits, output="out", on_error="dead-letter"), records)
    assert (as_json(found), dead) == (as_json(values), failed)
