"""Functions that ask which Struct a value is: by columns they give what Python gives row by row, from every format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon import JsonColumns
from holon.arrow import ArrowColumns
from holon.dataflow.rows import Rows
from tests.laws.row_functions import check_same, imported
from tests.unit.holon.formats.arrow_arrays import stream

pytestmark = pytest.mark.usefixtures("loops_installed")


class P(msgspec.Struct, tag=True):
    x: int


class Q(msgspec.Struct, tag=True):
    x: int
    y: str = ""


class A(msgspec.Struct, tag_field="kind", tag=1):
    a: int
    t: str = msgspec.field(name="text", default="")


class B(A, tag=2):
    """One that inherits from another one of the union."""

    b: float = 0.5


class C(msgspec.Struct, tag_field="kind", tag=3):
    a: int | None = None
    inner: P | Q | None = None


class Row(msgspec.Struct):
    n: int
    u: A | B | C
    v: B | C | None = None
    w: A | None = None
    s: str | None = None


class Out(msgspec.Struct):
    number: Any
    text: Any = ""


Either = A | B | C
NAMES = "A, B, C, P, Q, Out, Row"
PAIR = (A, C)

INTS = st.sampled_from([0, 1, 3, -7, 2**53 + 1, 2**63 - 1, -(2**63)]) | st.integers(-9, 9)
TEXTS = st.sampled_from(["", "web", "Zürich", 'a "b"\n'])
FLOATS = st.sampled_from([0.0, -0.0, 0.5, 1e300]) | st.integers(-9, 9).map(float)
AS = st.builds(A, INTS, TEXTS)
BS = st.builds(B, INTS, TEXTS, FLOATS)
CS = st.builds(C, st.none() | INTS, st.none() | st.builds(P, INTS) | st.builds(Q, INTS, TEXTS))
EITHERS = AS | BS | CS
ROWS = st.lists(
    st.builds(Row, INTS, EITHERS, st.none() | BS | CS, st.none() | AS, st.none() | TEXTS),
    max_size=8,
)

ASKS = st.sampled_from(
    [
        "isinstance(r.u, A)",
        "isinstance(r.u, (B, C))",
        "isinstance(r.u, PAIR)",
        "isinstance(r.v, B | None)",
        "isinstance(r.v, C)",
        "isinstance(r.w, A)",
        "isinstance(r.u, (int, C))",
        "isinstance(r.u.inner, Q)",
        "isinstance(r, Row)",
        "type(r.u) is B",
        "type(r.u) is not A",
        "type(r.v) in (A, B)",
        "type(r.w) == A",
        "r.v is None",
        "r.u.a == 3",
        "r.u.b > r.n",
    ]
)
NUMBERS = ["0", "r.n", "r.u.a", "r.v.a", "r.u.b", "r.w.a", "r.u.inner.x", "r.v.b + r.u.a", "len(r.u.t)"]
OTHERS = ["'x'", "r.s", "r.u.t", "r.v.inner.y", "r.u", "r.v", "r.u.inner", "type(r.u).__name__", "f'{r.n}:{r.u.a}'"]
VALUES = st.sampled_from([*NUMBERS, *OTHERS])
PLAIN_FUNCTIONS = st.one_of(
    ASKS,
    ASKS.map(lambda one: f"{{A: 1, B: 2, C: 3}}[type(r.u)] if {one} else r.u.a"),
    st.tuples(ASKS, ASKS).map(lambda p: f"{p[0]} and not {p[1]}"),
    st.tuples(ASKS, VALUES, VALUES).map(lambda p: f"{p[1]} if {p[0]} else {p[2]}"),
    st.tuples(ASKS, VALUES, ASKS, VALUES, VALUES).map(lambda p: f"{p[1]} if {p[0]} else {p[3]} if {p[2]} else {p[4]}"),
    st.tuples(ASKS, VALUES, VALUES, VALUES).map(lambda p: f"Out({p[1]}, {p[2]}) if {p[0]} else Out({p[3]}, r.s)"),
    st.tuples(ASKS, VALUES, VALUES).map(lambda p: f"({p[1]}, {p[2]}) if {p[0]} else None"),
).map(lambda text: f"lambda r: {text}")
CASES = st.sampled_from(
    [
        ("A(a=x)", "x + r.n"),
        ("A(a=x)", "Out(x, r.s)"),
        ("A(x, y)", "(y, x)"),
        ("B(b=x) if x > 1", "f'{x}'"),
        ("B()", "r.n"),
        ("B() as one", "one.b"),
        ("A() | C()", "r.n"),
        ("C(inner=P(x=x))", "x"),
        ("C(inner=Q() as q)", "q.y.upper()"),
        ("C(a=None)", "0"),
        ("A(absent=x)", "x"),
        ("A(a=3)", "'three'"),
        ("Row(u=A(a=x))", "x"),
        ("Row(absent=x)", "x"),
        ("P(x)", "x"),
        ("None", "-1"),
        ("int()", "1"),
    ]
)
MATCHES = st.tuples(
    st.sampled_from(["r.u", "r.v", "r.w", "r.u.inner", "r"]), st.lists(CASES, min_size=1, max_size=4), st.booleans()
).map(lambda p: _match(*p))


def _match(subject: str, cases: list[tuple[str, str]], has_rest: bool) -> str:
    cases = [*cases, ("_", "r.n")] if has_rest else cases
    lines = (f"        case {pattern}:\n            return {value}" for pattern, value in cases)
    return "\n".join(["def function(r):", f"    match {subject}:", *lines])


INNER = pa.struct({"type": pa.string(), "x": pa.int64(), "y": pa.string()})
EITHER = {"kind": pa.int64(), "a": pa.int64(), "text": pa.string(), "b": pa.float64(), "inner": INNER}
SCHEMA = pa.schema(
    {"n": pa.int64(), "u": pa.struct(EITHER), "v": pa.struct(EITHER), "w": pa.struct(EITHER), "s": pa.string()}
)


def columns(rows: Sequence[Any], form: str, of: Any = Row) -> Rows:
    """The rows as a format gives them; ``objects``: as a step does that needs these."""
    zeros = np.zeros(len(rows), np.int64)
    if form == "objects":
        return Rows(zeros, zeros, objects=list(rows))
    if form == "json":
        read: Any = JsonColumns(of).decode(list(map(msgspec.json.encode, rows)))
    else:
        batch = pa.RecordBatch.from_pylist(msgspec.to_builtins(rows), SCHEMA)
        read = ArrowColumns(of).decode([stream(batch)] if rows else [])
    assert not read.bad
    return Rows(zeros, np.arange(len(rows)), columns=read.columns, struct=of)


@given(PLAIN_FUNCTIONS | MATCHES, ROWS, st.integers(0, 8), st.sampled_from(["json", "arrow", "objects"]))
def test_fields_of_several_structs_give_what_python_gives_row_by_row(
    text: str, rows: list[Row], cut: int, form: str
) -> None:
    function = imported(text, f"from {__name__} import {NAMES}, PAIR")
    check_same(function, Row, rows, cut, lambda some: columns(some, form), MAY_NOT_FOLLOW)


MAY_NOT_FOLLOW = ("ways through", "not used")


@given(
    PLAIN_FUNCTIONS | MATCHES, st.lists(EITHERS, max_size=8), st.integers(0, 8), st.sampled_from(["json", "objects"])
)
def test_rows_of_several_structs_give_what_python_gives_row_by_row(
    text: str, rows: list[Any], cut: int, form: str
) -> None:
    for field in ("r.u", "r.v", "r.w"):
        text = text.replace(field, "r")
    text = text.replace("r.s", "r.a").replace("r.n", "r.a")
    function = imported(text, f"from {__name__} import {NAMES}, PAIR")
    check_same(function, Either, rows, cut, lambda some: columns(some, form, Either), MAY_NOT_FOLLOW)
