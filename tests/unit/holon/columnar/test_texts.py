"""Columns of texts: numbered by the compiled loop as Python would, and as quick as lists row after row."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.columnar.loops import install, installed
from holon.columnar.payloads import Texts
from wcrdt import GCounter, GSet, MapOf

pytestmark = pytest.mark.usefixtures("loops_installed")

MANY = 64


def by_python(values: list[str]) -> tuple[list[int], list[str]]:
    found: dict[str, int] = {}
    numbers = [found.setdefault(value, len(found)) for value in values]
    return numbers, list(found)


def by_loop(values: list[str]) -> tuple[list[int], list[str]]:
    found = Texts.of(values).numbered()
    assert found is not None
    return found[0].tolist(), found[1]


@pytest.mark.slow
@given(st.lists(st.text(max_size=20), min_size=MANY, max_size=300))
def test_equal_texts_get_one_number_in_the_order_in_which_they_come(values: list[str]) -> None:
    assert by_loop(values) == by_python(values)


def test_texts_that_differ_in_one_byte_or_in_length_are_told_apart() -> None:
    base = "x" * 40
    values = [base[:length] for length in range(40)] + [base[:at] + "y" + base[at + 1 :] for at in range(40)]
    values += ["", "\0", "\0\0", "\0" * 8, "\0" * 9, "a", "a\0"]
    assert by_loop(values * 3) == by_python(values * 3)


def test_more_distinct_texts_than_the_first_table_holds_are_numbered() -> None:
    draw = random.Random(3)
    values = [f"key-{draw.randrange(30_000)}" for _ in range(50_000)]
    assert by_loop(values) == by_python(values)


def test_a_map_has_the_same_state_with_and_without_loops() -> None:
    draw = random.Random(4)
    keys = Texts.of([draw.choice(("a", "", "Zürich", f"key-{draw.randrange(50)}")) for _ in range(500)])
    counts, names = np.arange(500), Texts.of([f"n{row % 7}" for row in range(500)])
    loops, states = installed(), []
    for of in (loops, None):
        install(of)
        sums, sets = MapOf[str, int, int](GCounter()), MapOf[str, str, frozenset[str]](GSet())
        sums.insert_many((keys, counts), actor=1)
        sets.insert_many((keys, names), actor=1)
        states.append((sums.to_wire(), sets.to_wire(), sums.value))
    install(loops)
    assert states[0] == states[1]


def test_rows_are_the_same_one_by_one_and_all_at_once() -> None:
    values = [f"{row}é" for row in range(100)]
    texts = Texts.of(values)
    assert [texts[row] for row in range(100)] == values == list(texts) == texts.tolist()
    assert texts[-1] == values[-1] and texts[3:5] == values[3:5]
