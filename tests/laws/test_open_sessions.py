"""Open sessions take in slices as columns and as objects: the same sessions close, and the bytes are the same.

A third opinion is plain Python, in which the rows of a key are sorted and cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holon.dataflow.sessions import open_sessions
from holon.dataflow.sessions.columns import Closed
from holon.dataflow.sessions.open_sessions import OpenSessions
from holon.dataflow.sliced import shards
from holon.dataflow.sliced.shards import Slices, columns_of, shard_of, shards_of
from holon.program.checkpointable import decoded, encoded
from wcrdt import Bag, ColumnsOf, CountDistinct, GCounter, GSet, Max, MaxBy, Min, RecordOf, Session, Sum, TopK
from wcrdt.lattices import maps
from wcrdt.lattices.columns import rows_of
from wcrdt.lattices.keyed.columns import KeyedColumns
from wcrdt.lattices.keyed.keys import key_columns

pytestmark = pytest.mark.laws

GAP = 20
APART = [4, 4 + GAP, 5 + GAP, 5 + 2 * GAP]
"""Times that are the gap, or 1 ms more, apart."""
INTS = st.integers(-1, 1)
TEXTS = st.sampled_from(["", "a", "é", "longer than eight bytes"])
WIDE = st.sampled_from([-(2**63), 2**63 - 1, 0, 1])
HUGE = st.sampled_from([2**63, -(2**70), 1, 2])
PAIRS = st.tuples(st.integers(-1, 1), TEXTS)
MIXED = st.one_of(INTS, TEXTS, st.none(), st.just(b"a"))
AMOUNTS = [INTS, INTS, INTS, st.one_of(INTS, st.sampled_from([2**62, -(2**62), 2**80]))]
KINDS = [INTS, INTS, INTS, TEXTS, WIDE, HUGE, PAIRS, MIXED]

Row = tuple[Any, int, int, int]
"""A key, a time, an amount, and the partition that inserts it."""
RECORD = RecordOf(
    first=Min(), last=Max(), n=GCounter(), total=Sum(), words=GSet(), kinds=CountDistinct(), best=MaxBy(), two=TopK(2),
    bag=Bag(),
)  # fmt: skip
NAMES = ["n", "total", "words", "kinds", "best", "two", "bag"]


@pytest.fixture(autouse=True, scope="module")
def columns_of_few_keys() -> Iterator[None]:
    """Slices of one key are columns here, and maps of one key are written as such."""
    patch = pytest.MonkeyPatch()
    for module, name in [(shards, "LEAST_KEYS"), (open_sessions, "LEAST_KEYS"), (maps, "LEAST_KEYS_ON_WIRE")]:
        patch.setattr(module, name, 1)
    yield
    patch.undo()


@st.composite
def rows_of_sessions(draw: st.DrawFn) -> list[Row]:
    """Rows of one kind of key until that changes, since slices do."""
    rows: list[Row] = []
    for begin in range(draw(st.integers(1, 4))):
        keys, amounts = draw(st.sampled_from(KINDS)), draw(st.sampled_from(AMOUNTS))
        times = st.one_of(st.integers(0, 60), st.sampled_from(APART)).map(lambda at, start=begin * 50: start + at)
        rows += draw(st.lists(st.tuples(keys, times, amounts, st.integers(0, 2)), max_size=16))
    return rows


def element(at: int, amount: int) -> Any:
    word = f"{amount % 5} and a word"
    return at, at, abs(amount) % 9, amount, word, amount % 3, (amount % 4, word), (amount % 7, word), word


def slice_of(rows: Sequence[Row]) -> ColumnsOf[Any, Any, Any]:
    state: ColumnsOf[Any, Any, Any] = ColumnsOf(RECORD)
    for key, at, amount, partition in rows:
        state.insert((key, element(at, amount)), actor=partition)
    return state


class Way:
    """Open sessions to which slices come in one form, and the sessions that they have closed."""

    def __init__(self) -> None:
        self.open = OpenSessions({})
        self.closed: list[Any] = []

    def take(self, found: ColumnsOf[Any, Any, Any], end_ms: int, session: Session, *, columns: bool) -> None:
        come = columns_of(found) if columns else None
        arrived = found.entries() if come is None else come.taken(np.arange(come.height))
        closed = self.open.take(arrived, end_ms, session, ColumnsOf(RECORD), NAMES)
        self.closed.append(plain(closed))

    def bytes(self) -> bytes:
        return encoded("open", self.open)

    def restart(self) -> None:
        self.open = decoded(self.bytes(), OpenSessions)


def plain(closed: Closed) -> list[Any]:
    values = [rows_of(closed.values[name]) for name in NAMES]
    return list(zip(rows_of(closed.keys), closed.first.tolist(), closed.last.tolist(), *values, strict=True))


def oracle(rows: Sequence[Row]) -> list[Any]:
    """Key, first, last, and the number, amount and distinct kinds of the rows."""
    by_key: defaultdict[Any, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row[1]):
        by_key[row[0]].append(row)
    found: list[Any] = []
    for key, some in by_key.items():
        begin = 0
        for end in range(1, len(some) + 1):
            if end == len(some) or some[end][1] - some[end - 1][1] > GAP:
                part = some[begin:end]
                amounts = [row[2] for row in part]
                numbers = sum(abs(n) % 9 for n in amounts), sum(amounts)
                found.append((key, part[0][1], part[-1][1], *numbers, len({n % 3 for n in amounts})))
                begin = end
    return found


@pytest.mark.long
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(rows=rows_of_sessions(), slice_ms=st.sampled_from([1, 7, GAP]), data=st.data())
def test_columns_close_what_objects_close_and_keep_the_same_bytes(
    rows: list[Row], slice_ms: int, data: st.DataObject
) -> None:
    session = Session(GAP, slice_ms)
    objects, columns, either = Way(), Way(), Way()
    by_slice: defaultdict[int, list[Row]] = defaultdict(list)
    for row in rows:
        by_slice[row[1] // slice_ms].append(row)
        by_slice[(row[1] + GAP) // slice_ms].extend([])  # one is due there
    for number in sorted(by_slice):
        found, end_ms = slice_of(by_slice[number]), (number + 1) * slice_ms
        objects.take(found, end_ms, session, columns=False)
        columns.take(found, end_ms, session, columns=True)
        either.take(found, end_ms, session, columns=data.draw(st.booleans()))
        assert repr(columns.closed[-1]) == repr(objects.closed[-1]) == repr(either.closed[-1])
        assert columns.bytes() == objects.bytes() == either.bytes()
        if data.draw(st.booleans()):
            either.restart()
            assert either.bytes() == objects.bytes()
    assert objects.bytes() == encoded("open", OpenSessions({})), "all have closed"
    closed = [row for some in objects.closed for row in some]
    found = [(key, first, last, n, total, kinds) for key, first, last, n, total, _, kinds, *_ in closed]
    assert sorted(map(repr, found)) == sorted(map(repr, oracle(rows)))


@given(
    keys=st.sampled_from(
        [
            st.integers(-(2**63), 2**63 - 1),
            st.integers(-200, 200),
            st.text(max_size=40),
            st.binary(max_size=100),
            st.tuples(st.integers(-9, 9), st.text(max_size=3)),
        ]
    ).flatmap(lambda kind: st.lists(kind, min_size=1, max_size=30, unique=True)),
    partitions=st.integers(1, 17),
)
def test_the_shards_of_columns_of_keys_are_those_of_each_key(keys: list[Any], partitions: int) -> None:
    columns = key_columns(keys)
    if columns is not None:
        assert shards_of(columns, partitions).tolist() == [shard_of(key, partitions) for key in keys]
        some = columns.take(np.arange(len(keys))[::2])  # texts and bytes that lie apart
        assert shards_of(some, partitions).tolist() == [shard_of(key, partitions) for key in keys[::2]]


@given(rows=rows_of_sessions(), partitions=st.integers(1, 5))
def test_each_key_of_a_slice_is_in_one_shard_with_what_its_rows_give(rows: list[Row], partitions: int) -> None:
    slices = Slices()
    for found in (slice_of(rows), slice_of([(key, at + 1, amount, by) for key, at, amount, by in rows])):
        parts: dict[Any, Any] = {}
        for shard in range(partitions):
            arrived = slices.shard(found, shard, partitions)
            entries = arrived.objects() if isinstance(arrived, KeyedColumns) else arrived
            assert all(shard_of(key, partitions) == shard for key in entries) and not parts.keys() & entries.keys()
            parts |= entries
        assert {key: part.value for key, part in parts.items()} == dict(found.value)
