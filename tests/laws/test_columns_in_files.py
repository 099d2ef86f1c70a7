"""Maps whose columns lie in files keep the laws, and have the bytes of those in memory."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodes.streams.mapped_columns import MappedColumns
from tests.laws.test_keyed_columns import INNER, SMALL, TEXTS
from wcrdt import (
    Average,
    Bag,
    ColumnsOf,
    CountDistinct,
    GCounter,
    Histogram,
    Lattice,
    MapOf,
    Max,
    MaxBy,
    Min,
    Quantiles,
    RecordOf,
    Sum,
    ThetaSketch,
    TopK,
    check_laws,
    decode,
    encode,
)
from wcrdt.column_memory import install_column_memory
from wcrdt.lattices import maps
from wcrdt.lattices.rows.row_log import RowLog

pytestmark = pytest.mark.laws

EXAMPLES = max(10, settings.default.max_examples // 10)
LAWFUL = [
    "average of floats",
    "set of texts",
    "bag",
    "theta that estimates",
    "record",
]

KINDS: dict[str, tuple[Lattice[Any, Any], int]] = {
    "counts": (GCounter(), 1),
    "averages": (Average(), 1),
    "histograms": (Histogram([10, 20]), 1),
    "extremes": (RecordOf(least=Min(), most=Max()), 2),
    "distinct": (CountDistinct(), 1),
    "sketches": (ThetaSketch(5), 1),
    "bags": (Bag(), 1),
    "quantiles": (Quantiles(), 1),
    "records": (RecordOf(count=GCounter(), sum=Sum(), least=Min()), 3),
    "arguments": (MaxBy(), 2),
    "rankings": (TopK(2), 2),
}
"""By name, a lattice and how many numbers its element has."""

ROOM_BYTES = 100_000
"""For what is short: a seventh of the shortest column of the test below."""


@pytest.fixture
def files(tmp_path: Path) -> Iterator[MappedColumns]:
    """Columns of any length lie in files here."""
    made = MappedColumns(str(tmp_path), 0, lambda line: pytest.fail(line), 4 << 20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maps, "LEAST_KEYS", 1)
        patch.setattr(maps, "LEAST_KEYS_ON_WIRE", 1)
        install_column_memory(made, 1)
        try:
            yield made
        finally:
            install_column_memory(None)


@pytest.mark.parametrize("name", LAWFUL)
def test_columns_in_files_keep_the_laws(name: str, files: MappedColumns) -> None:
    inner, elements = INNER[name]
    check_laws(MapOf(inner), st.tuples(st.one_of(SMALL, TEXTS), elements), max_examples=EXAMPLES)


def inserted(state: Any, batches: list[tuple[int, int, int]], width: int, names: Any) -> Iterator[bytes]:
    """The bytes of each delta, and of the state behind it."""
    for actor, rows, seed in batches:
        drawn = np.random.default_rng(seed)
        keys = drawn.integers(0, 400, rows)
        numbers = tuple(drawn.integers(0, 30, rows) for _ in range(width))
        column = keys if names is None else [names[key] for key in keys.tolist()]
        yield encode(state.insert_many((column, numbers if width > 1 else numbers[0]), actor=actor))
        yield encode(state)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 900), st.integers(0, 2**32 - 1)), max_size=6),
    of_texts=st.booleans(),
    budget=st.sampled_from([0, 5_000, 1 << 30]),
)
def test_bytes_are_those_of_columns_in_memory(
    name: str, batches: list[tuple[int, int, int]], of_texts: bool, budget: int, files: MappedColumns
) -> None:
    inner, width = KINDS[name]
    names = [f"key {number} {'é' * (number % 5)}" for number in range(400)] if of_texts else None
    files.budget_bytes = budget
    state = MapOf(inner)
    found = list(inserted(state, batches, width, names))
    copy, other = state.copy(), MapOf(inner)
    assert encode(decode(encode(state), other)) == encode(state)
    assert other.merge(state) == bool(batches)
    install_column_memory(None)
    try:
        plain = MapOf(inner)
        assert found == list(inserted(plain, batches, width, names))
        assert encode(copy) == encode(other) == encode(plain)
        assert repr(copy.value) == repr(plain.value)
    finally:
        install_column_memory(files)


class Counting:
    """A memory that knows the columns which it gave."""

    def __init__(self) -> None:
        self.given: list[ref[Any]] = []

    def filled(self, rows: int, fill: Any, dtype: np.dtype[Any]) -> Any:
        return self.kept(np.full(rows, fill, dtype))

    def kept(self, column: Any) -> Any:
        self.given.append(ref(column))
        return column

    @property
    def size_bytes(self) -> int:
        """Of those that are still there."""
        gc.collect()
        columns = [column() for column in self.given]
        there = {id(column): column.nbytes for column in columns if column is not None}
        return sum(there.values())


@pytest.mark.parametrize("of_texts", [False, True])
@pytest.mark.parametrize("way", ["inserted", "decoded", "merged", "copied"])
@pytest.mark.parametrize("name", KINDS)
def test_what_a_map_holds_for_long_lies_there(name: str, way: str, of_texts: bool) -> None:
    """Each array that grows with the keys is one that the memory gave, however the map came about."""
    inner, width = KINDS[name]
    rows = 60_000
    keys = np.arange(rows) * 1_000_003
    column: Any = [f"key {number}" for number in keys.tolist()] if of_texts else keys
    numbers = tuple(np.arange(rows) % 1000 + 1 for _ in range(width))
    state, memory = ColumnsOf(inner), Counting()
    parts = numbers if width > 1 else numbers[0]
    if way == "inserted":
        install_column_memory(memory)
    try:
        state.insert_many((column, parts))
        install_column_memory(memory)
        if way == "decoded":
            state = decode(encode(state), state)
            state.insert_many((column[:10], tuple(part[:10] for part in numbers) if width > 1 else parts[:10]))
        elif way == "merged":
            merged = ColumnsOf(inner)
            merged.merge(state)
            state = merged
        elif way == "copied":
            state = state.copy()
        held = state.as_columns()
        assert held is not None
        shares_keys = way in ("merged", "copied")
        size = held.leaf.size_bytes if shares_keys else held.size_bytes
        if shares_keys and name in ("sketches", "arguments", "rankings"):
            size = 0  # hashes and payloads are shared, too: they are replaced as a whole
        assert memory.size_bytes >= size - ROOM_BYTES
        assert held.size_bytes > 4 * ROOM_BYTES
    finally:
        install_column_memory(None)


@pytest.mark.parametrize("way", ["inserted", "decoded"])
@pytest.mark.parametrize("inner", [MaxBy(), TopK(2)], ids=["arguments", "rankings"])
def test_payloads_that_are_texts_lie_there(inner: Lattice[Any, Any], way: str) -> None:
    rows = 60_000
    keys, texts = np.arange(rows), [f"payload {number}" for number in range(rows)]
    state, memory = ColumnsOf(inner), Counting()
    if way == "inserted":
        install_column_memory(memory)
    try:
        for _ in range(2):
            state.insert_many((keys, (np.arange(rows), texts)))
        install_column_memory(memory)
        if way == "decoded":
            state = decode(encode(state), state)
        held = state.as_columns()
        assert held is not None and held.leaf.size_bytes > 20 * rows
        assert memory.size_bytes >= held.leaf.size_bytes - ROOM_BYTES
    finally:
        install_column_memory(None)


@pytest.mark.parametrize("way", ["inserted", "decoded", "joined"])
def test_columns_of_a_log_of_rows_lie_there(way: str) -> None:
    rows, memory = 40_000, Counting()
    given = np.arange(rows), np.arange(rows) / 4
    log = RowLog(2)
    install_column_memory(memory)
    try:
        for begin in range(0, rows, 1_000 if way == "joined" else rows):
            log.insert_many(tuple(column[begin : begin + (1_000 if way == "joined" else rows)] for column in given))
        wire = encode(log)
        if way == "decoded":
            log = decode(wire, log)
        assert memory.size_bytes >= 16 * rows
        assert [column[-1] for column in log.value] == [rows - 1, (rows - 1) / 4]
    finally:
        install_column_memory(None)
    assert encode(log) == wire
