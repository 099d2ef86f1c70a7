"""Law: functions of single records that go by columns give what they give record by record, however runs are cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holon.dataflow.record_functions.followed import followed_sources
from tests.laws.row_functions import (
    ATTEMPTS,
    FLOATS_OF_PARTS,
    IMPORTS,
    INTS_OF_A_TIME,
    INTS_OF_PARTS,
    INTS_OF_TABLES,
    NO_TIMES,
    OF_A_TIME,
    OF_PARTS,
    OF_TABLES,
    TEXTS,
    TIME_TEXTS,
    imported,
)
from tests.unit.holon.dataflow.followed_records import Policy, check_by_columns, job_of

pytestmark = pytest.mark.usefixtures("loops_installed")

MAY_NOT_FOLLOW = ("different lengths", "ways through it", "not used")

INTS = st.integers(-9, 30) | st.sampled_from([2**31, 2**53 + 1, 2**63 - 1, -(2**63)])
EVENTS = st.fixed_dictionaries(
    {
        "ts": st.integers(0, 60),
        "a": INTS | st.sampled_from([2**63, 10**30, "one", None, 1.5]),
        "x": st.sampled_from([0.0, -0.0, 0.5, 1e308, 7, "no"]) | st.floats(allow_nan=False, allow_infinity=False),
        "f": st.booleans(),
        "t": st.sampled_from([*TEXTS, '"\\', "\x00"]),
    },
    optional={
        "n": st.none() | INTS,
        "s": st.none() | st.sampled_from(["", "web"]),
        "p": st.none() | st.fixed_dictionaries({"city": st.sampled_from(["Bern", "Rom"])}, optional={"zone": INTS}),
        "tags": st.lists(st.sampled_from(["a", "b"]), max_size=3),
        "d": st.sampled_from(TIME_TEXTS) | st.sampled_from(NO_TIMES),
        "g": st.dictionaries(st.sampled_from(TEXTS[:3]), st.integers(-1, 3), max_size=2),
        "other": st.integers(),
    },
)
RIGHT = st.fixed_dictionaries(
    {"ts": st.integers(20, 40), "a": st.integers(0, 9), "x": st.floats(-9, 9), "f": st.booleans(), "t": st.just("web")},
    optional={
        "n": st.none() | st.integers(0, 5),
        "s": st.just("app"),
        "p": st.just({"city": "Bern", "zone": 2}),
        "d": st.sampled_from(TIME_TEXTS),
    },
)
RECORDS = st.lists((EVENTS | RIGHT).map(lambda event: json.dumps(event).encode()) | st.just(b"{"), max_size=24)
IN_ORDER = st.lists(RIGHT, min_size=5, max_size=30).map(
    lambda events: [json.dumps(event | {"ts": 20 + place}).encode() for place, event in enumerate(events)]
)


def _sampled(*kinds: list[str]) -> Any:
    """One of any kind. Deferred, since the name of a strategy has all that it draws from."""
    return st.deferred(lambda: st.one_of(*map(st.sampled_from, kinds)))


A_TIME = "datetime.fromisoformat(event.d)"
TIMES = st.sampled_from(["event.ts", "event.ts", "ctx.timestamp_ms", "event.ts + 3", "event.ts - 2", "event.a",
                         f"int({A_TIME}.timestamp() * 1000)"])  # fmt: skip
INTEGERS = _sampled(
    ["1", "event.a", "len(event.t)", "len(event.tags)", "event.a // 2", "event.a % event.n",
     "0 if event.n is None else event.n", "self.limit", "event.a * event.a"],
    [one.format(A_TIME) for one in INTS_OF_A_TIME],
    [one.format("event") for one in INTS_OF_TABLES],
    [one.format("event") for one in INTS_OF_PARTS],
)  # fmt: skip
NUMBERS = (
    INTEGERS
    | st.sampled_from([one.format("event") for one in FLOATS_OF_PARTS])
    | st.sampled_from(["event.x", "event.x / event.a", "event.n", "max(event.a, event.x)", "event.f"])
)
KEYS = _sampled(
    ["event.t", "event.a", "event.s", "event.t.upper()", "self.name", "event.p.city", "event.f",
     '(event.t, "b")', "(event.t, event.a)", 'f"{event.t}/{event.a:03d}"', 'f"{event.x}"', "(f'{event.n}', 1)"],
    [one.format(A_TIME) for one in OF_A_TIME],
    [one.format("event") for one in OF_TABLES],
    [one.format("event") for one in OF_PARTS],
)  # fmt: skip
INSERTS = st.one_of(
    st.tuples(st.just("count"), INTEGERS, TIMES),
    st.tuples(st.sampled_from(["top", "low", "mean"]), NUMBERS, TIMES),
    st.tuples(st.just("sums"), st.builds("({}, {})".format, KEYS, NUMBERS), TIMES),
    st.tuples(st.just("boxes"), st.builds("({}, ({}, {}, {}))".format, KEYS, INTEGERS, NUMBERS, NUMBERS), TIMES),
    st.tuples(st.just("seen"), KEYS, TIMES),
    st.tuples(st.just("best"), st.builds("({}, {})".format, NUMBERS, KEYS), TIMES),
    st.tuples(st.just("tags"), st.builds('("{}", {})'.format, st.sampled_from(["add", "remove"]), KEYS), TIMES),
    st.tuples(st.just("ranks"), st.builds("({}, {})".format, KEYS, NUMBERS), TIMES),
).map(lambda one: f"self.{one[0]}.insert({one[1]}, {one[2]})")
FORMATTED = ['f"{event.t}-{event.s}"', '"<" + f"{event.a:02d}" + ">"', 'f"{event.x:.1f}" if event.f else "no"']
USES = ['ctx.emit({"b": text, "c": event.a})', "ctx.emit((text, 1))", "self.sums.insert((text, 1), event.ts)"]
NAMED = st.builds(
    "text = {}; self.seen.insert(text, {}); {}".format, st.sampled_from(FORMATTED), TIMES, st.sampled_from(USES)
)
EMITS = st.one_of(
    st.builds("({}, {})".format, KEYS, NUMBERS),
    st.builds('{{"a": {}, "b": {}}}'.format, KEYS, NUMBERS),
    KEYS | NUMBERS | st.sampled_from(["event", "event.p", "event.tags", "None", '"x"']),
).map(lambda value: f"ctx.emit({value})")
CONDITIONS = st.sampled_from(
    ["event.a > self.limit", 'event.t in ("web", "app")', "event.p is None", "event.f and event.x < 1.0",
     "event.n is not None and event.n > 2", "event.x", "event.s", "event.tags", "not event.tags",
     "event.p is not None and event.p.zone is not None", "event.t in SIZES", "MAYBE.get(event.t) is not None"]
)  # fmt: skip


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _attempt(attempt: tuple[str, str], failed: list[str], behind: list[str]) -> list[str]:
    """A value that may fail, a clause that may catch that, and what both ways do."""
    used = "self.sums.insert((event.t, value), event.ts)"
    clause = ["try:", f"    value = {attempt[0].format('event')}", f"except {attempt[1]}:"]
    return (
        [*clause, *_indented(failed), *behind, used] if failed[-1] == "return" else [*clause, *_indented(failed), used]
    )


BLOCKS: Any = st.recursive(
    st.lists(INSERTS | INSERTS | EMITS | NAMED, min_size=1, max_size=2),
    lambda inner: st.one_of(
        st.tuples(CONDITIONS, inner).map(lambda p: [f"if {p[0]}:", *_indented(p[1])]),
        st.tuples(CONDITIONS, inner, inner).map(lambda p: [f"if {p[0]}:", *_indented(p[1]), "else:", *_indented(p[2])]),
        st.tuples(CONDITIONS, inner).map(lambda p: [f"if {p[0]}:", "    return", *p[1]]),
        st.tuples(inner, inner).map(lambda p: [*p[0], *p[1]]),
        st.builds(_attempt, st.sampled_from(ATTEMPTS), inner.map(lambda one: [*one, "return"]), inner),
        st.builds(_attempt, st.sampled_from(ATTEMPTS), inner.map(lambda one: [*one, "value = event.a"]), inner),
    ),
    max_leaves=4,
)
CUTS = st.lists(st.integers(0, 30), max_size=4).map(sorted)
POLICIES = st.sampled_from(["fail", "dead-letter"])
FILTERS = st.sampled_from([None, None, lambda event: event.a > 2, lambda event: event.t == "web" or event.f])


@given(BLOCKS, RECORDS | IN_ORDER, CUTS, POLICIES, FILTERS, st.sampled_from([0, 5, 100]))
@example(["self.count.insert(1, event.ts)"], [b'{"ts":%d,"a":1,"x":1,"f":true,"t":""}' % n for n in range(40)],
         [20], "fail", None, 0)  # fmt: skip
def test_columns_and_records(
    body: list[str], records: list[bytes], cuts: list[int], policy: Policy, wanted: Any, behind_ms: int
) -> None:
    process = imported("\n".join(["def function(self, event, ctx):", *_indented(body)]), IMPORTS)
    job = job_of(process, policy, wanted, behind_ms)
    (found,) = followed_sources(job)
    if found.form is None:
        assert any(word in found.why_not for word in MAY_NOT_FOLLOW), found.why_not
        return
    check_by_columns(job, records, cuts)
