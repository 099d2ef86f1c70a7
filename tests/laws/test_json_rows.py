"""Rows that leave as columns have the bytes of their objects, or their failure, however they are cut."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.columnar.encoding import FEW
from holon.columnar.payloads import BinaryColumn, Texts
from holon.columnar.structs.kinds import NULL, PRESENT
from holon.columnar.structs.lazy import LazyColumn
from holon.dataflow.outputs.json_rows import json_rows
from holon.dataflow.rows import VALUE, Rows
from holon.job import encode_json_column

pytestmark = pytest.mark.usefixtures("loops_installed")

TEXTS = st.sampled_from(["", "web", "x" * 17, 'a "b"', "tab\t", "Zürich", "null", "\x7f"])
OTHERS = st.one_of(
    st.none(),
    TEXTS,
    st.integers(),
    st.floats(),
    st.just(Decimal("1.50")),
    st.just(dt.datetime(2024, 2, 29, tzinfo=dt.UTC)),
    st.just(np.float64(2.5)),
    st.sampled_from([["a\nb", None], {"n": None, "x": 0.5}, (), b"\n"]),
    st.just([float("nan")]),
)


class Inner(msgspec.Struct, rename="upper"):
    z: int
    t: str


class Row(msgspec.Struct, rename="camel"):
    a_int: int
    x: float
    f: bool
    t: str
    maybe: str | None
    p: Inner
    pair: Any
    any: Any


DRAWN = st.builds(
    Row,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(width=16, allow_nan=False, allow_infinity=False) | st.floats(),
    st.booleans(),
    TEXTS,
    st.none() | TEXTS,
    st.builds(Inner, st.integers(-9, 9), TEXTS),
    st.tuples(st.integers(-9, 9), TEXTS),
    OTHERS,
)


def columns_of(rows: Sequence[Row]) -> Rows:
    marks = np.array([NULL if row.maybe is None else PRESENT for row in rows], np.int64)
    columns = {
        "a_int": np.array([row.a_int for row in rows], np.int64),
        "x": np.array([row.x for row in rows], np.float64),
        "f": np.array([row.f for row in rows], np.bool_),
        "t": Texts.of([row.t for row in rows]),
        "maybe": LazyColumn(Texts.of([row.maybe or "" for row in rows]), marks),
        "p.z": np.array([row.p.z for row in rows], np.int64),
        "p.t": Texts.of([row.p.t for row in rows]),
        "pair": (np.array([row.pair[0] for row in rows], np.int64), [row.pair[1] for row in rows]),
        "any": [row.any for row in rows],
    }
    return Rows(np.zeros(len(rows), np.int64), np.arange(len(rows)), columns=columns, struct=Row)


def encoded(values: Sequence[Any]) -> list[bytes] | str:
    try:
        return list(values) if isinstance(values, BinaryColumn) else encode_json_column(values)
    except (ValueError, NotImplementedError, OverflowError, msgspec.MsgspecError) as error:
        return str(error)


@given(st.lists(DRAWN, min_size=1, max_size=4), st.lists(st.integers(0, 99), min_size=FEW, max_size=FEW + 8))
def test_rows_leave_as_their_objects_do(kinds: list[Row], numbers: list[int]) -> None:
    rows = [kinds[number % len(kinds)] for number in numbers]
    assert encoded(json_rows(columns_of(rows))) == encoded(rows)
    cut = len(rows) - numbers[0] % 8
    assert encoded(json_rows(columns_of(rows).take(np.arange(cut)))) == encoded(rows[:cut])


def test_plain_rows_make_no_objects() -> None:
    rows = [
        Row(n, 0.5, n % 2 == 0, 'a "b"' if n == 3 else "web", None, Inner(n, "é"), (n, "x"), [n]) for n in range(99)
    ]
    columns = columns_of(rows)
    found = json_rows(columns)
    assert isinstance(found, BinaryColumn) and not columns.has_objects
    assert list(found) == encode_json_column(rows)


@pytest.mark.parametrize("options", [{"tag": True}, {"array_like": True}, {"omit_defaults": True}])
def test_structs_that_are_written_in_another_way_leave_as_objects(options: dict[str, Any]) -> None:
    struct = msgspec.defstruct("Other", [("n", int, 3)], **options)
    numbers = np.arange(FEW)
    rows = Rows(numbers, numbers, columns={"n": numbers}, struct=struct)
    assert encoded(json_rows(rows)) == encode_json_column([struct(n) for n in range(FEW)])


def test_tuples_leave_as_lists_and_bytes_as_they_are() -> None:
    numbers = np.arange(FEW)
    texts = [f"t{n}" for n in range(FEW)]
    pairs = Rows(numbers, numbers, columns={VALUE: (numbers, (Texts.of(texts), ()))})
    assert isinstance(json_rows(pairs), BinaryColumn)
    assert encoded(json_rows(pairs)) == encode_json_column([(n, (text, ())) for n, text in enumerate(texts)])
    raw = Rows(numbers, numbers, columns={VALUE: [b"raw"] * FEW})
    assert encoded(json_rows(raw)) == [b"raw"] * FEW
