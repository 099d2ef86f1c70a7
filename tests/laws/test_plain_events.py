"""Law: functions of dataclasses, TypedDicts and NamedTuples give by columns what Python gives of msgspec's objects."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holon import Json, Tumbling
from holon.dataflow import Flow, FlowError
from holon.dataflow.record_functions.followed import followed_sources
from tests.laws.row_functions import IMPORTS, check_same_flow, imported
from tests.laws.test_flow_expressions import CONDITIONS, FUNCTIONS, NONE_FUNCTIONS, NUMBERS
from tests.laws.test_record_functions import BLOCKS, CUTS, IN_ORDER, MAY_NOT_FOLLOW, POLICIES, RECORDS
from tests.unit.holon.dataflow.followed_records import Policy, check_by_columns, job_of

pytestmark = pytest.mark.usefixtures("loops_installed")


@dataclasses.dataclass
class Inner:
    z: int
    w: str | None = None


@dataclasses.dataclass(slots=True)
class Row:
    a: int
    b: int
    x: float
    f: bool
    t: str
    n: int | None = 0
    s: str | None = ""
    p: Inner | None = None
    d: str = "2026-11-24T02:30:00Z"
    g: dict[str, int] = dataclasses.field(default_factory=dict)


class DictInner(TypedDict):
    z: int
    w: str | None


class DictRow(TypedDict):
    a: int
    b: int
    x: float
    f: bool
    t: str
    n: int | None
    s: str | None
    p: DictInner | None
    d: str
    g: dict[str, int]


class TupleRow(NamedTuple):
    a: int
    b: int
    x: float
    f: bool
    t: str
    n: int | None = 0
    s: str | None = ""
    p: Inner | None = None
    d: str = "2026-11-24T02:30:00Z"
    g: dict[str, int] = {}  # noqa: RUF012 (of a NamedTuple)


@dataclasses.dataclass(frozen=True)
class Total:
    t: Any
    c: Any
    more: list[int] = dataclasses.field(default_factory=list)


class Pair(NamedTuple):
    t: Any
    c: Any = 1


_KEYS = ("a", "b", "x", "f", "t", "n", "s", "p", "d", "g", "ts", "tags", "items", "nums", "floats", "z", "w", "city",
         "zone", "sku", "price", "count", "note", "marks")  # fmt: skip
NAMES = f"from {__name__} import Inner, Pair, Total\n{IMPORTS}\n" + "\n".join(f'K_{name} = "{name}"' for name in _KEYS)
"""Keys have names, since functions are drawn with quotes of both kinds."""


def by_keys(text: str, row: str) -> str:
    """The text of a function of objects as one of dicts."""
    fields = "|".join(_KEYS)
    return re.sub(rf"\b{row}\.({fields})\b(?:\.(z|w|city|zone)\b)?", lambda m: _looked_up(row, m), text)


def _looked_up(row: str, match: re.Match[str]) -> str:
    inner = "" if match[2] is None else f"[K_{match[2]}]"
    return f"{row}[K_{match[1]}]{inner}"


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "t": st.sampled_from(["web", "app", "", "Zürich", "7"]),
            "a": st.integers(-9, 9) | st.sampled_from([2**53 + 1, 2**63 - 1]),
            "b": st.integers(-3, 3),
            "x": st.sampled_from([0.0, -0.0, 0.5, 7.25]),
            "f": st.booleans(),
            "n": st.none() | st.integers(0, 5),
            "s": st.none() | st.sampled_from(["", "web"]),
            "p": st.none() | st.fixed_dictionaries({"z": st.integers(-2, 9), "w": st.none() | st.just("web")}),
            "d": st.sampled_from(["2026-11-24T02:30:00Z", "no"]),
            "g": st.dictionaries(st.sampled_from(["web", ""]), st.integers(-1, 3), max_size=2),
        }
    ),
    max_size=40,
)
SHORTENED = st.lists(st.sampled_from(["n", "s", "p", "d", "g", "x", "other"]), max_size=3)
MADE = st.one_of(
    st.tuples(NUMBERS, NUMBERS).map(lambda p: f"Total(r.t, {p[0]}) if {p[1]} else Total(c=1, t={p[1]}, more=[r.b])"),
    st.tuples(NUMBERS, CONDITIONS).map(lambda p: f"Pair(r.t, {p[0]}) if {p[1]} else Pair(r.s)"),
    NUMBERS.map(lambda one: f"Total(Pair(r.t, {one}), Inner({one}))"),
    NUMBERS.map(lambda one: f"Pair(r.t, {one})._replace(c=r.b)"),
    st.sampled_from(["r.p", "Total(r.p, r)", "(r, r.t)", "Pair(*(r.t, r.a))", "Inner(r.a, r.s) if r.f else r.p"]),
).map(lambda one: f"lambda r: {one}")
TAKING = st.sampled_from(
    ["lambda r: r.c", "lambda r: (r.t, r.c)", "lambda r: Pair(r.t, r)", "lambda r: r", "lambda r: r[1]",
     "lambda r: f'{r.t}'", "lambda r: Total(r.t, r.t)", "lambda r: r.more", "lambda r: len(r)", "lambda r: r[5]",
     "def function(r):\n    one, other = r\n    return other, one", "lambda r: r.t.z", "lambda r: r.z + 1",
     "lambda r: dataclasses.replace(r, t=1)", "lambda r: isinstance(r, Pair)", "lambda r: r == Pair('web')"]
)  # fmt: skip
FORMS: Any = {Row: "objects", DictRow: "dicts", TupleRow: "tuples"}


def record_of(of: Any, row: dict[str, Any], lacking: list[str]) -> bytes:
    """A record of a row; objects lack some of their members, and have another one."""
    if of is TupleRow:
        return json.dumps([row[name] for name in TupleRow._fields]).encode()
    return json.dumps({name: value for name, value in {**row, "more": 1}.items() if name not in lacking}).encode()


@given(st.sampled_from(list(FORMS)), FUNCTIONS | NONE_FUNCTIONS | MADE, CONDITIONS, st.none() | TAKING, ROWS, SHORTENED)
@example(Row, "lambda r: Total(r.t, r.a)", "r.a > 1", "lambda r: r.c", [], [])
def test_functions_of_plain_events(
    of: Any, text: str, condition: str, second: str | None, rows: list[dict[str, Any]], lacking: list[str]
) -> None:
    texts = [text, f"lambda r: {condition}", "lambda r: r.t"]
    if of is DictRow:
        texts = [by_keys(each, "r") for each in texts]
    first, wanted, key = (imported(each, NAMES) for each in texts)
    then = None if second is None else imported(second, f"import dataclasses\n{NAMES}")
    records = [record_of(of, row, lacking if place % 3 else []) for place, row in enumerate(rows)] + [b"{", b"[]", b"3"]

    def flow_of(around: Callable[..., Any]) -> Flow:
        flow = Flow("plain", on_error="dead-letter")
        source = flow.source("in", Json(of), time=lambda r: 0)
        chosen = source.filter(around(wanted))
        made = chosen.map(around(first))
        (made if then is None else made.map(around(then))).sink("all")
        chosen.key_by(around(key)).window(Tumbling(10)).agg(lambda g: (g.key, g.count())).sink("out")
        return flow

    try:
        flow_of(lambda function: function)
    except FlowError as error:  # where it is written, as of a Struct
        assert "has no field" in str(error) or "a key is an int" in str(error)
        return
    check_same_flow(flow_of, records)


@dataclasses.dataclass
class Place:
    city: str
    zone: int | None = None


@dataclasses.dataclass(frozen=True)
class Item:
    sku: str
    price: float
    count: int
    note: str | None = None
    marks: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Event:
    ts: int
    a: int
    x: float
    f: bool
    t: str
    n: int | None = 0
    s: str | None = None
    p: Place | None = None
    tags: list[str] = dataclasses.field(default_factory=list)
    d: str = "2026-11-24T02:30:00Z"
    g: dict[str, int] = dataclasses.field(default_factory=dict)
    items: list[Item] = dataclasses.field(default_factory=list)
    nums: list[int] = dataclasses.field(default_factory=list)
    floats: list[float] = dataclasses.field(default_factory=list)


class DictPlace(TypedDict):
    city: str
    zone: int | None


class DictEvent(TypedDict):
    ts: int
    a: int
    x: float
    f: bool
    t: str
    n: int | None
    s: str | None
    p: DictPlace | None
    tags: list[str]
    d: str
    g: dict[str, int]


_FILLED = {"n": 0, "s": None, "p": None, "tags": [], "d": "2026-11-24T02:30:00Z", "g": {}}


def filled(payload: bytes) -> bytes:
    """The record with all keys, some at its end; as it is if it is no object."""
    try:
        found = json.loads(payload)
    except ValueError:
        return payload
    if isinstance(found.get("p"), dict):
        found["p"] = {"zone": None, **found["p"]}
    return json.dumps({**found, **{name: one for name, one in _FILLED.items() if name not in found}}).encode()


@given(st.sampled_from([Event, DictEvent]), BLOCKS, RECORDS | IN_ORDER, CUTS, POLICIES, st.sampled_from([0, 5, 100]))
@example(DictEvent, ["self.count.insert(1, event.ts)"],
         [b'{"ts":%d,"a":1,"x":1,"f":true,"t":""}' % n for n in range(40)], [20], "fail", 0)  # fmt: skip
def test_records_of_plain_events(
    of: Any, body: list[str], records: list[bytes], cuts: list[int], policy: Policy, behind_ms: int
) -> None:
    text = "\n".join(["def function(self, event, ctx):", *(f"    {line}" for line in body)])
    time: Any = (lambda event: event["ts"]) if of is DictEvent else (lambda event: event.ts)
    if of is DictEvent:
        text, records = by_keys(text, "event"), list(map(filled, records))
    job = job_of(imported(text, NAMES), policy, None, behind_ms, time, of)
    (found,) = followed_sources(job)
    if found.form is None:
        assert any(word in found.why_not for word in MAY_NOT_FOLLOW), found.why_not
        return
    check_by_columns(job, records, cuts)
