"""The largest rows of a window: by columns of numbers they are those of Python's own order."""

from __future__ import annotations

from random import Random
from typing import Any, Literal

import msgspec
import pytest

from holon import Json
from holon.dataflow import Flow, Tumbling


class Row(msgspec.Struct):
    at: int
    key: int
    number: int
    rate: float


def drawn(seed: int) -> list[Row]:
    draw = Random(seed)
    rates = [0.0, -0.0, 0.5, 1e300]
    numbers = [-(2**63), 2**63 - 1, *range(5)]
    return [Row(n % 500, n, draw.choice(numbers), draw.choice(rates)) for n in range(60)]


@pytest.mark.parametrize("ties", ["all", "first"])
@pytest.mark.parametrize("by", ["number", "rate"])
@pytest.mark.parametrize("n", [1, 7, 59, 60, 99])
def test_numbers_are_ordered_as_python_does(n: int, by: str, ties: Literal["all", "first"]) -> None:
    function: Any = (lambda row: row.number) if by == "number" else (lambda row: row.rate)
    for seed in (1, 2):
        rows = drawn(seed)
        flow = Flow("top")
        events = flow.source("in", Json(Row), time=lambda r: r.at)
        each = events.key_by(lambda r: r.key).window(Tumbling("1s"))
        found = each.agg(lambda g: Row(0, g.key, g.max(lambda r: r.number), g.max(lambda r: r.rate)))
        found.top(n, by=function, ties=ties, columnar=True).map(lambda row: row.key).sink("out")
        values = {row.key: getattr(row, by) for row in rows}
        expected = sorted(values, key=values.__getitem__, reverse=True)
        last = values[expected[min(n, len(expected)) - 1]]
        kept = [key for place, key in enumerate(expected) if place < n or (ties == "all" and values[key] == last)]
        assert flow.collect({"in": rows}) == kept
