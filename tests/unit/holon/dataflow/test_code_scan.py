"""Functions are followed only where no code runs that was not read: of Structs and enums, too."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import pytest

from holon.dataflow.expressions import column_of
from holon.dataflow.following.column_functions import as_list
from holon.dataflow.rows import Rows
from holon.dataflow.steps import followed


class Row(msgspec.Struct):
    a: int
    t: str


class Plain(msgspec.Struct):
    a: Any


class Labelled(msgspec.Struct):
    a: Any

    def label(self) -> str:
        return f"{self.a}"

    @property
    def doubled(self) -> Any:
        return f"{self.a}{self.a}"

    @staticmethod
    def shown(a: Any) -> str:
        return f"{a}"


class Inherits(Labelled):
    pass


class Equal(msgspec.Struct):
    a: Any

    def __eq__(self, other: object) -> bool:
        return f"{self.a}" == "1"

    __hash__ = None  # type: ignore[assignment]


class Size(Enum):
    SMALL = 1

    def of(self, a: Any) -> str:
        return f"{a}"

    @cached_property
    def large(self) -> int:
        return 1000


class Number(IntEnum):
    ONE = 1


SIZES = (Size.SMALL, 3)


def passed_on(made: Any) -> Any:
    return made.label() == "1"


def with_default(row: Row, size: Size = Size.SMALL) -> Any:
    return size.of(row.a) == "1"


@pytest.mark.parametrize(
    ("function", "member"),
    [
        (lambda r: Labelled(r.a).label() == "1", "label of Labelled"),
        (lambda r: Labelled.label(Labelled(r.a)) == "1", "label of Labelled"),
        (lambda r: len(Labelled(r.a).doubled), "doubled of Labelled"),
        (lambda r: Labelled.shown(r.a) == "1", "shown of Labelled"),
        (lambda r: Inherits(r.a).label() == "1", "label of Inherits"),
        (lambda r: passed_on(Labelled(r.a)), "label of Labelled"),
        (lambda r: Equal(r.a) == Plain(1), "__eq__ of Equal"),
        (lambda r: Size.SMALL.of(r.a) == "1", "of of Size"),
        (lambda r: SIZES[0].of(r.a) == "1", "of of Size"),
        (lambda r: r.a + Size.SMALL.large, "large of Size"),
        (with_default, "of of Size"),
    ],
)
def test_code_of_classes_is_not_followed(function: Callable[..., Any], member: str) -> None:
    decision, why = followed(function, Row, checked=True)
    assert decision is None and why == f"it may run {member}"


@pytest.mark.parametrize(
    "function",
    [
        lambda r: Labelled(r.a),
        lambda r: Plain(r.a) == Plain(1),
        lambda r: r.a + Number.ONE,
        lambda r: r.a + Size.SMALL.value,
    ],
)
def test_classes_without_code_that_runs_are_followed(function: Callable[..., Any]) -> None:
    decision, why = followed(function, Row, checked=True)
    assert decision is not None, why


class Private(msgspec.Struct):
    _type: str
    _path: str
    _apply: int


def by_type(row: Private) -> Any:
    match row:
        case Private(_type="x", _path=path):
            return path
    return row._apply


@pytest.mark.parametrize("function", [lambda r: (r._type, r._path, r._apply), by_type, lambda r: r._type == "x"])
def test_fields_may_be_called_as_what_placeholders_have(function: Callable[..., Any]) -> None:
    decision, why = followed(function, Private, checked=True)
    assert decision is not None, why
    rows = [Private("x", "y", 1), Private("z", "y", 2)]
    columns: Any = {name: [getattr(row, name) for row in rows] for name in Private.__struct_fields__}
    places = np.arange(2)
    found = column_of(decision, Rows(places, places, columns=columns, struct=Private))
    assert as_list(found) == list(map(function, rows))
