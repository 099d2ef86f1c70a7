"""Columns without None, and the lengths of rows: equal for records read by loops, in small batches, and by Python."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holon import Batch, JsonColumns
from holon.columnar.payloads import Texts
from holon.formats.json_columns import FEW

pytestmark = [pytest.mark.laws, pytest.mark.usefixtures("loops_installed")]

FILLED: dict[str, Any] = {"number": -1, "level": 0.5, "sure": False, "name": "nobody", "count": -1, "pet.Cat.lives": 0}
MEASURED = ("name", "tags", "words", "by_name")


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    name: str


class Row(msgspec.Struct):
    number: int | None
    level: float | None
    sure: bool | None
    name: str | None
    tags: list[int]
    words: list[str] | None
    by_name: dict[str, int]
    pet: Cat | Dog
    count: int | None = 7


TEXTS = st.text(max_size=5)
INTS = st.integers(-(2**63), 2**63 - 1)
ROWS = st.builds(
    Row,
    number=st.none() | INTS,
    level=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    sure=st.none() | st.booleans(),
    name=st.none() | TEXTS,
    tags=st.lists(INTS, max_size=3),
    words=st.none() | st.lists(TEXTS, max_size=3),
    by_name=st.dictionaries(TEXTS, INTS, max_size=2),
    pet=st.builds(Cat, INTS) | st.builds(Dog, TEXTS),
    count=st.none() | INTS | st.just(7),
)


def batch_of(payloads: list[bytes]) -> Batch[Row]:
    decoded = JsonColumns(Row).decode(payloads)
    assert decoded.rows is None
    zeros = np.zeros(len(payloads), np.int64)
    return Batch(zeros, zeros, decoded.columns, ())


def value_at(row: Row, path: str) -> Any:
    if path == "pet.Cat.lives":
        return row.pet.lives if isinstance(row.pet, Cat) else None
    return getattr(row, path)


@given(st.lists(ROWS, min_size=FEW, max_size=2 * FEW), st.booleans())
@example([Row(2**70, 1.0, True, "é", [], None, {}, Cat(2**80), None)] * FEW, True)
def test_columns_without_none_are_those_of_python_however_records_are_read(rows: list[Row], omit: bool) -> None:
    given = [msgspec.to_builtins(row) for row in rows]
    for one in given:
        if omit and one["count"] == 7:
            del one["count"]
    payloads = [msgspec.json.encode(one) for one in given]
    together, parts = batch_of(payloads), [batch_of(payloads[at : at + 5]) for at in range(0, len(payloads), 5)]
    for name, value in FILLED.items():
        wanted = [value if (found := value_at(row, name)) is None else found for row in rows]
        columns = [each.filled(name, value) for each in (together, *parts)]
        assert list(columns[0]) == wanted
        assert [each for column in columns[1:] for each in column] == wanted
        if all(type(each) is not int or -(2**63) <= each < 2**63 for each in wanted):
            of = Texts if name == "name" else np.ndarray
            assert all(isinstance(column, of) for column in columns)
            assert len({getattr(column, "dtype", None) for column in columns}) == 1
    for name in MEASURED:
        wanted = [0 if (found := value_at(row, name)) is None else len(found) for row in rows]
        assert together.lengths(name).tolist() == wanted
        assert [each for part in parts for each in part.lengths(name).tolist()] == wanted
