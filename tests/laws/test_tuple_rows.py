"""Law: flows of functions that give tuples give what the same flows give of which nothing is followed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holon import Json, Tumbling
from holon.columnar.encoding import FEW
from holon.dataflow import Flow
from tests.laws.row_functions import IMPORTS, check_same_flow, imported
from tests.laws.test_flow_expressions import ROWS, Row

pytestmark = pytest.mark.usefixtures("loops_installed")

PARTS = st.sampled_from(
    ["r.a", "r.b", "r.t", "r.t.upper()", "r.f", "(r.a, r.t)", "None", "[1, 2]", '{"z": r.a}', 'f"{r.t}/{r.a}"', "7"]
)
TUPLES = st.one_of(
    st.tuples(PARTS, PARTS).map(lambda p: f"({p[0]}, {p[1]})"),
    st.tuples(PARTS, PARTS).map(lambda p: f"(r.t, {p[0]}, {p[1]})"),
    st.sampled_from(["(r.a,)", "(r.t, r.a)", "(r.a, r.t, r.b) + (1,)"]),
)
GIVING = TUPLES | st.tuples(TUPLES, TUPLES).map(lambda p: f"{p[0]} if r.f else {p[1]}")
KEPT = st.sampled_from(["r[0] == r[0]", 'r[0] != "web"', "len(r) > 1", "r > (1, 2)", "r[-1]", 'r < ("b",)', "7 in r"])
TAKING = st.sampled_from(
    ["r", "r[0]", "r[-1]", "r[1:]", "(r, r[0])", "r[2]", '{"a": r[0], "b": r}', "r + (1,)", "r == (1, 2)", "str(r)",
     "r.count(7)", "r.index(7)", "r[0] + r[0]", "max(r)", "r[1][0]", "r[0].upper()", "len(r)", "r[r[0]]"]
)  # fmt: skip
KEYS = st.sampled_from(["r[0]", "(r[0], len(r))", "r", "r[1]"])
SUMS = st.sampled_from(["len(r)", "r[0]", "r[1]", "r[-1]"])


@given(GIVING, KEPT, TAKING, KEYS, SUMS, ROWS, st.sampled_from(["fail", "dead-letter"]))
@example("(r.t, r.a)", 'r[0] != "web"', "(r, r[0])", "r[0]", "r[1]",
         [Row(n, 2, 0.5, True, "ab"[n % 2]) for n in range(2 * FEW)], "fail")  # fmt: skip
@example("(r.t, r.a) if r.a > 3 else (r.a, r.b)", "len(r) > 1", "r[0] + 1", "r[1]", "r[0]",
         [Row(n, 2, 0.5, True, "ab"[n % 2]) for n in range(9)], "dead-letter")  # fmt: skip
def test_flows_of_tuples(giving: str, kept: str, taking: str, key: str, summed: str, rows: list[Row], policy: Any
                         ) -> None:  # fmt: skip
    texts = [f"lambda r: {one}" for one in (giving, kept, taking, key, summed)]
    given_rows = [row for row in rows if abs(row.a) < 2**40 and abs(row.b) < 2**40 and abs(row.x) < 1e300]

    def flow_of(around: Callable[..., Any]) -> Flow:
        functions = [imported(text, f"from {__name__} import Row\n{IMPORTS}") for text in texts]
        first, keep, taken, by = map(around, functions[:4])
        total = functions[4]
        flow = Flow("tuples", on_error=policy)
        made = flow.source("rows", Json(Row), time=lambda r: 5).map(first)
        kept_rows = made.filter(keep)
        kept_rows.map(taken).sink("all")
        groups = kept_rows.key_by(by).window(Tumbling("10s"))
        groups.agg(lambda g: (g.key, g.count(), g.sum(total))).sink("out")
        return flow

    check_same_flow(flow_of, given_rows)
