"""Joins of flows give the pairs of plain Python, in the same order wherever batches are cut and whatever crashes."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon import Assigner, GlobalWindow, Json, Sliding, Tumbling
from holon.dataflow import Flow
from tests.laws.recut_runs import Run, record_by_record


class Row(msgspec.Struct):
    side: int
    at: int
    n: int
    k: int | None
    t: str
    x: float
    f: bool


class Part(msgspec.Struct):
    """The other side has fields of its own."""

    code: int | None
    text: str
    part: int
    number: int


ROWS = st.builds(
    Row,
    side=st.integers(0, 2),
    at=st.integers(0, 45),
    n=st.sampled_from([0, 1, 2, 3, -(2**63), 2**63 - 1]),
    k=st.none() | st.integers(0, 2),
    t=st.sampled_from(["", "a", "\N{SNOWMAN}"]),
    x=st.sampled_from([0.5, 1.0, 2.0]),
    f=st.booleans(),
)
INPUTS = st.lists(st.lists(ROWS, max_size=14), min_size=1, max_size=3)
KEYS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "int or none": (lambda row: row.k, lambda part: part.code),
    "int": (lambda row: row.n, lambda part: part.number),
    "computed": (lambda row: row.n % 3, lambda part: part.part),
    "text": (lambda row: row.t, lambda part: part.text),
    "tuple": (lambda row: (row.t, row.n % 3), lambda part: (part.text, part.part)),
    "int and text": (lambda row: row.n if row.f else row.t, lambda part: part.number),
    "row by row": (lambda row: repr(row.k), lambda part: repr(part.code)),
}
WINDOWS: list[Assigner] = [Tumbling(10), Sliding(20, 10), GlobalWindow()]


def part_of(row: Row) -> Part:
    return Part(row.k, row.t, row.n % 3, row.n)


def joined(key: str, windows: Assigner) -> Flow:
    flow = Flow("joined")
    rows = flow.source("rows", Json(Row), time=lambda row: row.at, out_of_order=100, bounded=True)
    left, right = KEYS[key]
    parts = rows.filter(lambda row: row.side > 0).map(lambda row: Part(row.k, row.t, row.n % 3, row.n))
    pairs = rows.filter(lambda row: row.side < 2).key_by(left).window(windows).join(parts.key_by(right))
    pairs.filter(lambda both: both.left.x < 2 or both.right.part > 0).sink("out")
    return flow


def expected_of(partitions: list[list[Row]], key: str, windows: Assigner) -> dict[int, list[Any]]:
    """The pairs of each partition."""
    left, right = KEYS[key]
    parts: dict[Any, list[Part]] = defaultdict(list)
    for row in (row for rows in partitions for row in rows if row.side > 0):
        for window in windows.windows_for(row.at):
            parts[window].append(part_of(row))
    found: dict[int, list[Any]] = {}
    for partition, rows in enumerate(partitions):
        mine: dict[Any, list[Row]] = defaultdict(list)
        for row in (row for row in rows if row.side < 2):
            for window in windows.windows_for(row.at):
                mine[window].append(row)
        found[partition] = [
            {"left": msgspec.to_builtins(row), "right": msgspec.to_builtins(part)}
            for window in sorted(mine, key=lambda window: window.end_ms)
            for row in mine[window]
            for part in parts[window]
            if left(row) == right(part) and (row.x < 2 or part.part > 0)
        ]
    return found


JOBS = {(key, windows.describe()): joined(key, windows).job for key in KEYS for windows in WINDOWS}


@pytest.mark.parametrize("windows", WINDOWS, ids=repr)
@given(key=st.sampled_from(sorted(KEYS)), partitions=INPUTS, seed=st.integers(0, 2**32))
def test_pairs_are_those_of_plain_python_in_order(
    key: str, windows: Assigner, partitions: list[list[Row]], seed: int
) -> None:
    payloads = [list(map(msgspec.json.encode, rows)) for rows in partitions]
    job = JOBS[key, windows.describe()]
    outcome = Run(job, payloads, random.Random(seed)).run(largest=6, crash=0.1)
    found = {
        partition: [json.loads(value) for key, some in outcome.results.items() if key[0] == partition
                    for _, value in some]
        for partition in range(len(partitions))
    }  # fmt: skip
    assert found == expected_of(partitions, key, windows)
    assert outcome.results == record_by_record(job, payloads).results
