"""Functions of groups that ask for None give by columns what Python gives for the rows of each group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from holon import Json
from holon.dataflow import Flow, Tumbling
from tests.laws.test_flow_expressions import Inner, Row, imported
from wcrdt import Lattice

assert settings.default is not None
EXAMPLES = max(12, settings.default.max_examples // 2)
SMALL = st.integers(-9, 9)
ROWS = st.lists(
    st.builds(
        Row,
        SMALL,
        st.integers(0, 9),
        st.just(0.0),
        st.booleans(),
        st.sampled_from(["", "web"]),
        st.none() | SMALL,
        st.none() | st.sampled_from(["", "web"]),
        st.none() | st.builds(Inner, SMALL, st.none() | st.sampled_from(["", "web"])),
    ),
    max_size=12,
)
OF_ROW = st.sampled_from(
    [
        "0 if r.n is None else r.n",
        "r.a if r.p is None else r.p.z",
        "-1 if r.s is None else r.a % 7",
        "r.b if r.p is None or r.p.w is None else 3",
        "r.a * 2",
    ]
).map(lambda text: f"lambda r: {text}")
VALUES = st.one_of(
    st.just("g.count()"),
    st.tuples(st.sampled_from(["sum", "max", "min", "distinct"]), OF_ROW).map(lambda p: f"g.{p[0]}({p[1]})"),
    OF_ROW.map(lambda of: f"g.fold(Sum(), {of})"),
)
FUNCTIONS = st.one_of(
    st.tuples(VALUES, VALUES).map(lambda p: f"(g.key, {p[0]}, {p[1]})"),
    st.tuples(VALUES, VALUES).map(lambda p: f"{p[0]} if g.key is None else (g.key, {p[1]})"),
    st.tuples(VALUES, VALUES).map(lambda p: f"(g.key is not None, {p[0]} is None, {p[1]})"),
    st.tuples(VALUES, VALUES, VALUES).map(lambda p: f"{p[0]} if {p[1]} is not None and {p[1]} > 1 else ({p[2]},)"),
    st.tuples(VALUES, VALUES).map(lambda p: f"(0 if {p[0]} is None else {p[0]} - g.count(), {p[1]})"),
).map(lambda text: f"lambda g: {text}")
KEYS: list[Callable[[Row], Any] | None] = [lambda r: r.s, lambda r: r.t, lambda r: (r.s, r.a % 3), lambda r: r.n, None]


class PlainGroup:
    """The rows of one key."""

    def __init__(self, key: Any, rows: list[Row]) -> None:
        self.key = key
        self._rows = rows

    def count(self) -> int:
        return len(self._rows)

    def sum(self, of: Callable[[Row], int]) -> int:
        return sum(map(of, self._rows))

    def max(self, of: Callable[[Row], int]) -> int:
        return max(map(of, self._rows))

    def min(self, of: Callable[[Row], int]) -> int:
        return min(map(of, self._rows))

    def distinct(self, of: Callable[[Row], int]) -> int:
        return len(set(map(of, self._rows)))

    def fold(self, lattice: Lattice[Any, Any], of: Callable[[Row], int]) -> int:
        return self.sum(of)


@settings(max_examples=EXAMPLES, deadline=None)
@given(FUNCTIONS, ROWS, st.sampled_from(KEYS))
def test_functions_of_groups_give_what_python_gives_for_their_rows(
    text: str, rows: list[Row], key: Callable[[Row], Any] | None
) -> None:
    function = imported(text, "from wcrdt import Sum")
    flow = Flow("groups")
    source = flow.source("rows", Json(Row), time=lambda r: r.b, out_of_order=100)
    grouped = source if key is None else source.key_by(key)
    grouped.window(Tumbling(1000)).agg(function).sink("out")
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(None if key is None else key(row), []).append(row)
    expected = [function(PlainGroup(one, found)) for one, found in groups.items()]
    wanted = msgspec.json.decode(msgspec.json.encode(expected))
    assert sorted(map(repr, flow.collect({"rows": rows}))) == sorted(map(repr, wanted)), flow.explain()[1].how
