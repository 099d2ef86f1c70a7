"""Functions by columns give what Python gives row by row: values, their types and exceptions, however rows are cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holon.columnar.payloads import Texts
from holon.columnar.structs.kinds import NULL, PRESENT
from holon.columnar.structs.lazy import LazyColumn
from holon.dataflow.rows import Rows
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
    check_same,
    imported,
)

pytestmark = pytest.mark.usefixtures("loops_installed")

EDGES = [0, 1, -1, 2, 3, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63)]


class Inner(msgspec.Struct):
    z: int
    w: str | None = None


class Row(msgspec.Struct):
    a: int
    b: int
    x: float
    f: bool
    t: str
    n: int | None = 0
    s: str | None = ""
    p: Inner | None = None
    d: str = "2026-11-24T02:30:00Z"
    g: dict[str, int] = {}


INTS = st.sampled_from(EDGES) | st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)
FLOATS = st.sampled_from([0.0, -0.0, 0.5, 1e308, float("inf"), float("nan")]) | st.floats()
ROWS = st.lists(
    st.builds(
        Row,
        INTS,
        INTS,
        FLOATS,
        st.booleans(),
        st.sampled_from(TEXTS),
        st.none() | INTS,
        st.none() | st.sampled_from(["", "web"]),
        st.none() | st.builds(Inner, INTS, st.none() | st.sampled_from(["", "web"])),
        st.sampled_from(TIME_TEXTS) | st.sampled_from(NO_TIMES),
        st.dictionaries(st.sampled_from(TEXTS[:3]), st.integers(-1, 3), max_size=2),
    ),
    max_size=12,
)

A_TIME = "datetime.fromisoformat(r.d)"
TIMES = st.sampled_from([one.format(A_TIME) for one in INTS_OF_A_TIME])
LOOK_UPS = st.sampled_from([one.format("r") for one in INTS_OF_TABLES + INTS_OF_PARTS + FLOATS_OF_PARTS])
FIELDS = st.sampled_from(["r.a", "r.b", "r.f", "r.x"])
NUMBERS = st.recursive(
    st.sampled_from(["r.a", "r.b", "r.x", "r.f", "len(r.t)", "0", "1", "3", "-7", "0.5", str(2**63), str(2**53 + 1)])
    | TIMES
    | LOOK_UPS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(lambda p: f"({' '.join(p)})"),
        st.tuples(FIELDS, st.sampled_from("&|^"), inner).map(lambda p: f"({' '.join(p)})"),
        inner.map(lambda one: f"(-{one})"),
        inner.map(lambda one: f"abs({one})"),
        st.tuples(inner, inner).map(lambda p: f"max({p[0]}, {p[1]})"),
        st.tuples(st.sampled_from(["float", "int", "round"]), inner).map(lambda p: f"{p[0]}({p[1]})"),
        inner.map(lambda one: f"len(str({one}))"),
        st.tuples(inner, inner, st.sampled_from("01")).map(lambda p: f"divmod({p[0]}, {p[1]})[{p[2]}]"),
        st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} if {p[1]} else {p[2]})"),
    ),
    max_leaves=5,
)
CONDITIONS = st.one_of(
    st.tuples(NUMBERS, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), NUMBERS).map(" ".join),
    st.sampled_from(
        [
            "len(r.t) == 3",
            'str(r.a).startswith("-")',
            "round(r.x, 1) > 0.3",
            'r.t == "web"',
            '"app" != r.t',
            'r.t in ("web", "app")',
            'r.t.startswith("we")',
            '"e" in r.t',
            'r.t < "web"',
            f"{A_TIME} > EPOCH",
            f"{A_TIME}.hour < 12",
            "r.t in SIZES and SIZES[r.t] > 1",
            "r.a not in SHARES",
        ]
    ),
)
MAYBE = st.sampled_from(["r.n", "r.s", "r.p", "r.a", "r.t", "None", "r.p.w", "(r.n or r.s)"])
NONE_CONDITIONS = st.one_of(
    st.tuples(MAYBE, st.sampled_from(["is", "is not"])).map(lambda p: f"{p[0]} {p[1]} None"),
    st.sampled_from(
        [
            "r.n is not None and r.n > 3",
            "r.s is None or r.s.upper() == 'WEB'",
            "r.p is not None and r.p.z // 2 > r.a and r.p.w is not None",
            "r.p is not None and (r.p.w is None or r.p.w.startswith('w'))",
            "r.n == r.a and r.n is not None",
            "NAMES.get(r.t) is None",
            "(MAYBE.get(r.t) or 0) > 2 and MAYBE[r.t] is not None",
            "MAYBE.get(r.s, r.n) is None",
        ]
    ),
)
NONE_FUNCTIONS = st.one_of(
    st.tuples(NONE_CONDITIONS, NONE_CONDITIONS).map(lambda p: f"({p[0]}) and not ({p[1]})"),
    st.tuples(NONE_CONDITIONS, NUMBERS, NUMBERS).map(lambda p: f"({p[1]}) if {p[0]} else ({p[2]})"),
    st.tuples(NONE_CONDITIONS, NUMBERS).map(lambda p: f"(r.s, {p[1]}) if {p[0]} else (r.n, r.p is None)"),
    st.tuples(NONE_CONDITIONS, NUMBERS).map(lambda p: f"r.n + 1 if {p[0]} else {p[1]}"),
    st.tuples(NONE_CONDITIONS, NUMBERS).map(lambda p: f"Inner({p[1]}, r.s) if {p[0]} else Inner(r.p.z, r.t)"),
).map(lambda text: f"lambda r: {text}")
PIECES = st.one_of(
    st.tuples(NUMBERS, st.sampled_from(["", ":>5"])),
    st.tuples(st.sampled_from(["r.a", "r.b", "r.a // 7"]), st.sampled_from([":d", ":03d", ":020", ":021d"])),
    st.just(("r.t", "")),
).map(lambda p: f"{{{p[0]}{p[1]}}}")
FORMATS = st.lists(PIECES | st.sampled_from(["ü", "{{"]), min_size=1, max_size=3).map(lambda p: f"f'{''.join(p)}'")
MATCHES = st.builds(
    "def function(r):\n    match = LINE.{}(r.t)\n    if {}:\n        return {}\n    return {}, match.{}".format,
    st.sampled_from(["match", "search", "fullmatch"]),
    st.sampled_from(["match is None", "not match"]),
    NUMBERS,
    NUMBERS,
    st.sampled_from(["group(2)", "groups()", 'group("first", 2)']),
)
UNPACKED = st.sampled_from(["e", "b", " "]).map(
    lambda separator: f'def function(r):\n    one, other = r.t.split("{separator}")\n    return other, one.upper()'
)
CAUGHT = st.builds(
    lambda attempt, failed, other: (
        f"def function(r):\n    try:\n        value = {attempt[0].format('r')}\n"
        f"    except {attempt[1]}:\n        {failed}\n    return value, {other}"
    ),
    st.sampled_from(ATTEMPTS),
    st.sampled_from(["return r.b", "value = 0", "value = r.t", "value = -r.b"]),
    NUMBERS,
)
FUNCTIONS = st.one_of(
    NUMBERS,
    FORMATS,
    st.sampled_from([one.format(A_TIME) for one in OF_A_TIME]),
    st.sampled_from([one.format("r") for one in OF_TABLES + OF_PARTS]),
    st.tuples(CONDITIONS, FORMATS, FORMATS, NUMBERS).map(lambda p: f"({p[1]} if {p[0]} else ({p[2]}, {p[3]}))"),
    CONDITIONS,
    st.tuples(CONDITIONS, CONDITIONS).map(lambda p: f"{p[0]} and not ({p[1]})"),
    st.tuples(CONDITIONS, st.sampled_from("&|^"), CONDITIONS).map(lambda p: f"({p[0]}) {p[1]} ({p[2]})"),
    st.tuples(CONDITIONS, NUMBERS, NUMBERS).map(lambda p: f"({p[1]}) if {p[0]} else ({p[2]})"),
    st.tuples(CONDITIONS, NUMBERS).map(lambda p: f"(r.t.upper(), {p[1]}) if {p[0]} else (r.t, 1)"),
).map(lambda text: f"lambda r: {text}")


def int_column(values: list[int]) -> Any:
    return np.array(values, np.int64)


def lazily(values: list[Any], of: Callable[[list[Any]], Any], filler: Any) -> LazyColumn:
    """As the compiled loops give a field that may be None."""
    marks = np.array([NULL if value is None else PRESENT for value in values], np.int64)
    return LazyColumn(of([filler if value is None else value for value in values]), marks)


def columns(rows: list[Row], lazy: bool = False) -> Rows:
    found = {
        "a": np.array([row.a for row in rows], np.int64),
        "b": np.array([row.b for row in rows], np.int64),
        "x": np.array([row.x for row in rows], np.float64),
        "f": np.array([row.f for row in rows], np.bool_),
        "t": Texts.of([row.t for row in rows]),
        "d": Texts.of([row.d for row in rows]),
        "g": [row.g for row in rows],
        "n": lazily([row.n for row in rows], int_column, 0) if lazy else [row.n for row in rows],
        "s": lazily([row.s for row in rows], Texts.of, "") if lazy else [row.s for row in rows],
        "p": [row.p for row in rows],
        "p.z": [None if row.p is None else row.p.z for row in rows],
    }
    return Rows(np.zeros(len(rows), np.int64), np.arange(len(rows)), columns=found, struct=Row)


@given(FUNCTIONS, ROWS, st.integers(0, 12))
@example("lambda r: max(int(r.x), r.a // r.b)", [Row(0, 0, float("inf"), False, "")], 0)  # both sides fail
def test_columns_give_what_python_gives_row_by_row(text: str, rows: list[Row], cut: int) -> None:
    check(text, rows, cut)


@given(MATCHES | UNPACKED | CAUGHT, ROWS, st.integers(0, 12))
def test_functions_with_errors_and_matches_give_what_python_gives(text: str, rows: list[Row], cut: int) -> None:
    check(text, rows, cut)


@given(NONE_FUNCTIONS, ROWS, st.integers(0, 12), st.booleans())
def test_fields_that_may_be_none_give_what_python_gives_row_by_row(
    text: str, rows: list[Row], cut: int, lazy: bool
) -> None:
    check(text, rows, cut, lazy)


def check(text: str, rows: list[Row], cut: int, lazy: bool = False) -> None:
    function = imported(text, f"from {__name__} import Inner\n{IMPORTS}")
    check_same(function, Row, rows, cut, lambda some: columns(some, lazy), MAY_NOT_FOLLOW)


MAY_NOT_FOLLOW = ("ZeroDivisionError", "OverflowError", "ValueError", "ways through", "not used")
"""Reasons of functions of constants, and of drawn ones."""
