"""Times that compiled loops read are those of ``datetime``, and so are the reasons of those that are refused."""

from __future__ import annotations

import json
import random
from datetime import datetime
from typing import Any

import msgspec
import pytest

from holon import JsonColumns
from holon.columnar.loops import installed
from holon.columnar.payloads import Texts
from holon.time.event_time import times_of_columns
from tests.json_records import a_time

pytestmark = pytest.mark.usefixtures("loops_installed")

USUAL = (
    "2026-11-24T02:30:00Z",
    "2026-11-24 02:30:00",
    "2026-11-24T02:30:00.123456789Z",
    "2024-02-29T23:59:59.999+23:59",
    "1969-12-31T23:59:59.9999994-00:00",
    "0001-01-01T00:00:00+05:00",
    "9999-12-31T23:59:59.999999-23:59",
)


class Dated(msgspec.Struct):
    at: datetime
    again: datetime | None = None


def both_ways(columns: Any, unit: str, count: int) -> list[tuple[list[int], list[tuple[int, str]]]]:
    """Times and reasons with the loops, and without."""
    found, loops = [], installed()
    for given in (columns, {name: list(column) for name, column in columns.items()}):
        times, bad = times_of_columns("at", given, count, unit)
        found.append((times.tolist(), bad))
    assert loops is not None
    return found


@pytest.mark.parametrize("seed", range(20))
def test_texts_are_the_times_that_python_reads(seed: int) -> None:
    draw = random.Random(seed)
    texts = [a_time(draw) for _ in range(1000)]
    with_loops, without = both_ways({"at": Texts.of(texts)}, "iso", len(texts))
    assert with_loops == without


@pytest.mark.parametrize("seed", range(20))
def test_datetimes_of_records_are_the_times_of_their_objects(seed: int) -> None:
    draw = random.Random(seed)
    payloads = [b'{"at":%s}' % json.dumps(a_time(draw)).encode() for _ in range(1000)]
    found = JsonColumns(Dated).decode(payloads).columns
    count = len(found["at"])
    assert count > 500
    with_loops, without = both_ways(found, "datetime", count)
    assert with_loops == without


def test_usual_times_need_no_python() -> None:
    times = Texts.of(USUAL * 10).epoch_ms()
    assert times is not None and len(times[1]) == 0
    columns = JsonColumns(Dated)
    payloads = [b'{"at":"%s","again":"%s"}' % (text.encode(), text.encode()) for text in USUAL] * 10
    found = columns.decode(payloads)
    assert found.rows is None and columns.slow_records == 0
    wanted = [repr(msgspec.json.decode(payload, type=Dated).at) for payload in payloads]
    assert list(map(repr, found.columns["at"])) == wanted == list(map(repr, found.columns["again"]))
    assert repr(found.columns["at"][3]) == wanted[3] and list(map(repr, found.columns["at"][3:6])) == wanted[3:6]
