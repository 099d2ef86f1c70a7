"""Law: functions that give dicts, and functions of these, give by columns what Python gives row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holon import Json, Tumbling
from holon.columnar.encoding import FEW
from holon.dataflow import Flow
from holon.dataflow.following.results import mapped, struct_of
from holon.dataflow.rows import OBJECTS
from holon.dataflow.steps import followed
from tests.laws.row_functions import IMPORTS, check_same_flow, imported, outcome
from tests.laws.test_flow_expressions import NUMBERS, ROWS, Row, columns

pytestmark = pytest.mark.usefixtures("loops_installed")

MAY_NOT_FOLLOW = (
    *("ZeroDivisionError", "OverflowError", "ValueError", "ways through", "not used", "KeyError", "TypeError"),
    *("rows are objects", "changes a row", "attribute", "needs the value", "no names"),
)
VALUES = NUMBERS | st.sampled_from(
    ["r.t", "r.t.upper()", "r.s", "(r.a, r.t)", '{"z": r.a, "w": r.t}', "[1, 2]", "None", '"x"', "r.p", "r.g", "True",
     'f"{r.t}/{r.a}"', "r.f"]
)  # fmt: skip
DICTS = st.one_of(
    st.tuples(VALUES, VALUES).map(lambda p: f'{{"a": {p[0]}, "t": {p[1]}}}'),
    st.tuples(VALUES, VALUES, VALUES).map(lambda p: f'{{"a": {p[0]}, "t": r.t, "c": {p[1]}, "_x": {p[2]}}}'),
    VALUES.map(lambda one: f'dict(a=r.a, t=r.t, c={one})'),
    VALUES.map(lambda one: f'dict({{"a": {one}}}, t=r.t) | {{"c": 1}}'),
    st.sampled_from(['{"a": r.a}', '{"t": r.t, "a": r.b}', "{}", '{"a b": r.a, "t": r.t}']),
)  # fmt: skip
GIVING = st.one_of(
    DICTS.map(lambda one: f"lambda r: {one}"),
    st.tuples(DICTS, DICTS).map(lambda p: f"lambda r: {p[0]} if r.f else {p[1]}"),
    st.tuples(DICTS, VALUES).map(
        lambda p: f'def function(r):\n    made = {p[0]}\n    if r.a > 1:\n        made["c"] = {p[1]}\n    return made'
    ),
    st.tuples(DICTS, VALUES).map(
        lambda p: f"def function(r):\n    made = {p[0]}\n    made.update(a={p[1]})\n    return made"
    ),
)
TAKING = st.sampled_from(
    ['r["a"]', 'r["t"].upper()', '(r["t"], r["a"])', 'r.get("c", 7)', 'r.get("a")', '"c" in r', "len(r)", "r",
     '{**r, "more": r["a"]}', 'r | {"a": 1}', 'r == {"a": 1, "t": "web"}', 'r["zz"]', 'r["a"] if r["t"] else r["c"]',
     'r["a"] + r["a"]', '(r, r.get("t"))', 'sum(one for one in r.values())', "r.pop('a')", 'r["_x"]', 'r["c"]["z"]',
     '{"again": r, "list": []}', "1 if r else 0", "max(r.values())", "dict(r, t=1)", 'r["a"] > 1', 'r["p"].z']
).map(lambda one: f"lambda r: {one}")  # fmt: skip


def functions_of(*texts: str) -> list[Any]:
    """The functions of these texts, with what they may name."""
    return [imported(text, f"from {__name__} import Row\n{IMPORTS}") for text in texts]


@given(GIVING, st.none() | TAKING, TAKING, ROWS)
@example('lambda r: {"a": r.a, "t": r.t}', 'lambda r: {**r, "more": []}', 'lambda r: (r["a"], r["t"].upper())',
         [Row(1, 2, 0.5, True, "web")] * 3)  # fmt: skip
def test_dicts_by_columns(first: str, second: str | None, third: str, rows: list[Row]) -> None:
    steps = functions_of(first, *([] if second is None else [second]), third)
    row_type: Any = Row
    followed_steps = []
    for step in steps:
        decision, reason = followed(step, row_type, checked=row_type is Row)
        if decision is None:
            assert any(word in reason for word in MAY_NOT_FOLLOW), reason
            break
        row_type = struct_of(decision)
        followed_steps.append((step, decision, row_type))
        if row_type is OBJECTS or row_type is None:
            break

    def python(row: Row) -> Any:
        value: Any = row
        for step, _, _ in followed_steps:
            value = step(value)
        return value

    def by_columns(some: list[Row]) -> list[Any]:
        made = columns(some)
        for _, decision, row_type in followed_steps:
            made = mapped(decision, row_type, made)
        return made.objects()

    expected = [outcome(python, row) for row in rows]
    for row, one in zip(rows, expected, strict=True):
        assert outcome(lambda alone: by_columns([alone])[0], row) == one
    good = [row for row, one in zip(rows, expected, strict=True) if not one.startswith("raises")]
    found = by_columns(good) if good and followed_steps else []
    assert list(map(repr, found)) == [one for one in expected if not one.startswith("raises")][: len(found)]
    assert [repr(one) for one in by_columns(good * FEW)] == list(map(repr, found)) * FEW or not found
    places = [id(one) for one in found if isinstance(one, dict)]
    assert len(set(places)) == len(places)


KEYS = st.sampled_from(['r["t"]', 'r["a"]', '(r["t"], r.get("c"))', 'r["zz"]'])
KEPT = st.sampled_from(['r["a"] == r["a"]', 'r["t"] != "web"', '"t" in r', 'r.get("c")', 'r.setdefault("c", 3) > 2'])
SUMS = st.sampled_from(['r["a"]', 'r.get("c", 1)', 'len(r["t"])', 'r["t"]', "len(r)"])


@given(GIVING, KEPT, KEYS, SUMS, ROWS, st.sampled_from(["fail", "dead-letter"]))
@example('lambda r: {"a": r.a, "t": r.t}', 'r["t"] != "web"', 'r["t"]', 'r["a"]',
         [Row(n, 2, 0.5, True, "ab"[n % 2]) for n in range(9)], "fail")  # fmt: skip
@example('lambda r: {"a": r.a, "t": r.t, "c": 9}', '"t" in r', 'r["t"]', 'r["zz"]',
         [Row(n, 2, 0.5, True, "ab"[n % 2]) for n in range(9)], "dead-letter")  # fmt: skip
def test_flows_of_dicts(giving: str, kept: str, key: str, summed: str, rows: list[Row], policy: Any) -> None:
    texts = (giving, *(f"lambda r: {one}" for one in (kept, key, summed)))
    given_rows = [row for row in rows if abs(row.a) < 2**40 and abs(row.x) < 1e300]

    def flow_of(around: Callable[..., Any]) -> Flow:
        first, keep, by, total = functions_of(*texts)
        flow = Flow("dicts", on_error=policy)
        made = flow.source("rows", Json(Row), time=lambda r: 5).map(around(first))
        made.sink("all")
        groups = made.filter(keep).key_by(by).window(Tumbling("10s"))
        groups.agg(lambda g: {"key": g.key, "n": g.count(), "sum": g.sum(total)}).sink("out")
        return flow

    check_same_flow(flow_of, given_rows)
