"""Sessions of so many keys that slices are columns, against the oracle: rows sorted and cut in plain Python."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest

from holon import Json
from holon.dataflow import Flow, Session, Stream
from holon.dataflow.sessions import open_sessions
from holon.dataflow.sessions.open_sessions import OpenSessions
from holon.program.checkpointable import decoded, encoded
from holon.testing import JobTestDriver
from tests.shares import share_of
from wcrdt import ColumnsOf, GCounter, GSet, Max, Min, RecordOf
from wcrdt.codec import encode_element
from wcrdt.lattices.keyed.columns import KeyedColumns
from wcrdt.lattices.keyed.keys import Unfit

GAP, SLICE = 20, 5


class Event(msgspec.Struct):
    at: int
    key: int
    amount: float = 0.5


KeyOf = Callable[[Event], Any]
KEYS: dict[str, KeyOf] = {
    "ints": lambda e: e.key - 40,
    "wide ints": lambda e: (e.key - 50) * 2**54,
    "texts": lambda e: f"käse-{e.key}" if e.key % 3 else f"{'x' * (e.key % 90)}{e.key}",
    "pairs": lambda e: (e.key % 7, f"{e.key}"),
}
CHANGING: dict[str, KeyOf] = {
    "negative later": lambda e: e.key if e.at < 100 else e.key - 100,
    "beyond 64 bits between": lambda e: e.key * 2**60 if 60 <= e.at < 90 else e.key,
    "one beyond 64 bits": lambda e: 2**70 if e.at in (71, 72) and e.key < 9 else e.key,
    "texts between": lambda e: str(e.key) if 60 <= e.at < 140 else e.key,
    "two kinds later": lambda e: e.key if e.at < 80 or e.key % 2 else (e.key, "even"),
    "pairs of other types": lambda e: (e.key, e.key) if e.at < 100 else (e.key, str(e.key)),
}


class Folds:
    """How many slices columns took in, with many keys or few, and how often they were unfit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: Counter[str] = Counter()
        fold = self._counted(open_sessions.fold)

        def counting(held: Any, arrived: Any, *others: Any) -> Any:
            found = fold(held, arrived, *others)
            self.done["many" if arrived is not None and arrived.height >= 64 else "few"] += 1
            return found

        monkeypatch.setattr(open_sessions, "fold", counting)
        monkeypatch.setattr(open_sessions, "columns_of_objects", self._counted(open_sessions.columns_of_objects))

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*given: Any) -> Any:
            try:
                return function(*given)
            except Unfit:
                self.done["unfit"] += 1
                raise

        return counting


@pytest.fixture
def folds(monkeypatch: pytest.MonkeyPatch) -> Folds:
    return Folds(monkeypatch)


def flow_of(key: KeyOf, session: Session, *, alone: bool = False) -> Flow:
    flow = Flow("sessions")
    events: Any = flow.source("events", Json(Event), time=lambda e: e.at, out_of_order=15, max_future_skew_ms=None)
    stream: Stream[Event] = events.per_partition() if alone else events
    stream.key_by(key).window(session).agg(lambda g: (
        g.key, g.window.start_ms, g.window.end_ms, g.count(), g.sum(lambda e: e.amount),
        g.max(lambda e: e.amount), g.distinct(lambda e: e.at % 7),
    )).sink("out")  # fmt: skip
    return flow


def run(flow: Flow, parts: Sequence[Sequence[Event]], size: int, seed: int = 0) -> JobTestDriver:
    """Feed batches of up to ``size``; partitions save and lose their state now and then, and all at the end."""
    test, rng = JobTestDriver(flow.job, partitions=len(parts)), random.Random(seed)
    for at in range(0, max(map(len, parts)), size):
        for partition, events in enumerate(parts):
            test.feed(partition, *events[at : at + size])
        if rng.random() < (0.3 if size > 1 else 0.01):
            rng.choice((test.checkpoint, test.fail))(rng.randrange(len(parts)))
    test.finish()
    for partition in range(len(parts)):
        test.fail(partition)
    return test


def drawn(seed: int, partitions: int, rows: int, keys: int, span: int = 200) -> list[list[Event]]:
    rng = random.Random(seed)
    times = sorted(rng.randrange(span) for _ in range(rows))
    parts: list[list[Event]] = [[] for _ in range(partitions)]
    for at in sorted(times, key=lambda at: at + rng.randint(0, 14)):
        amount = rng.choice((0.1, 0.2, 1e16, -1e16, 0.3))
        parts[rng.randrange(partitions)].append(Event(at, rng.randrange(keys), amount))
    return parts


def results(events: Sequence[Event], key: KeyOf) -> list[str]:
    found: list[str] = []
    by_key: defaultdict[Any, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda e: e.at):
        by_key[key(event)].append(event)
    for each, rows in by_key.items():
        cuts = [0, *(n for n in range(1, len(rows)) if rows[n].at - rows[n - 1].at > GAP), len(rows)]
        for begin, end in pairwise(cuts):
            some = [event.amount for event in rows[begin:end]]
            numbers = len(some), math.fsum(some), max(some), len({event.at % 7 for event in rows[begin:end]})
            written = list(each) if isinstance(each, tuple) else each
            found.append(repr([written, rows[begin].at, rows[end - 1].at + GAP, *numbers]))
    return sorted(found)


def flat(parts: Sequence[Sequence[Event]]) -> list[Event]:
    return [event for events in parts for event in events]


def outputs(test: JobTestDriver) -> list[str]:
    return sorted(map(repr, test.outputs()))


@pytest.mark.long
@pytest.mark.parametrize("key", share_of(KEYS, 2, __name__))
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("size", [1, 13, 10_000])
def test_sessions_of_many_keys_are_those_of_sorted_rows(folds: Folds, key: str, partitions: int, size: int) -> None:
    rows, span = (2_500, 200) if size > 1 else (500, 40)
    parts = drawn(size, partitions, rows * partitions, 100 * partitions, span)
    test = run(flow_of(KEYS[key], Session(GAP, GAP)), parts, size)
    assert outputs(test) == results(flat(parts), KEYS[key])
    assert folds.done["many"] and not folds.done["unfit"]


@pytest.mark.parametrize("slice_ms", [1, 4, 7, GAP])
@pytest.mark.parametrize(("second", "sessions"), [(GAP - 1, 1), (GAP, 1), (GAP + 1, 2)])
@pytest.mark.parametrize("start", [0, 3, 5])
def test_rows_a_gap_apart_are_together_and_later_ones_are_not(
    folds: Folds, slice_ms: int, second: int, sessions: int, start: int
) -> None:
    events = [Event(start + at, key) for at in (0, second) for key in range(100)]
    test = run(flow_of(KEYS["texts"], Session(GAP, slice_ms)), [events], 1_000)
    assert outputs(test) == results(events, KEYS["texts"])
    assert len(test.outputs()) == 100 * sessions
    assert folds.done["many"]


@pytest.mark.long
@pytest.mark.parametrize("key", share_of(["ints", "texts", "pairs"], 3, __name__))
@pytest.mark.parametrize("slice_ms", [2, SLICE])
def test_sessions_of_thousands_of_keys(folds: Folds, key: str, slice_ms: int) -> None:
    parts = drawn(7, 2, rows=12_000, keys=4_000)
    test = run(flow_of(KEYS[key], Session(GAP, slice_ms)), parts, 700)
    assert outputs(test) == results(flat(parts), KEYS[key])
    assert folds.done["few" if slice_ms == 2 else "many"]


@pytest.mark.long
@pytest.mark.parametrize("key", share_of(CHANGING, 2, __name__))
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("size", [13, 10_000])
def test_keys_that_change_between_slices(folds: Folds, key: str, partitions: int, size: int) -> None:
    parts = drawn(size + 1, partitions, rows=2_500 * partitions, keys=100 * partitions)
    test = run(flow_of(CHANGING[key], Session(GAP, 10)), parts, size)
    assert outputs(test) == results(flat(parts), CHANGING[key])
    assert folds.done["many"]
    assert key == "negative later" or folds.done["unfit"]


def test_sessions_are_columns_again_after_a_key_of_another_kind(folds: Folds) -> None:
    """Its session is open for 80 slices. They are tried again in fewer and fewer of these."""
    events = [Event(at, key) for at in range(0, 2_000, 4) for key in range(at % 8, at % 8 + 70)]
    test = JobTestDriver(flow_of(lambda e: 2**70 if e.at == 400 else e.key, Session(400, SLICE)).job)
    test.feed(0, *events)
    test.finish()
    assert 3 <= folds.done["unfit"] <= 10
    assert folds.done["many"] > 200


@pytest.mark.parametrize("size", [13, 10_000])
def test_many_sessions_of_each_partition(folds: Folds, size: int) -> None:
    parts = drawn(3, 2, rows=4_000, keys=100)
    test = run(flow_of(KEYS["texts"], Session(GAP, GAP), alone=True), parts, size)
    assert outputs(test) == sorted(results(parts[0], KEYS["texts"]) + results(parts[1], KEYS["texts"]))
    assert folds.done["many"] and not folds.done["unfit"]


# --- forms, checkpoints, and what they grow by ------------------------------------------------------------------------

RECORD = RecordOf(first=Min(), last=Max(), count=GCounter(), words=GSet())
BOTTOM: ColumnsOf[Any, Any, Any] = ColumnsOf(RECORD)


def arriving(keys: Sequence[Any], at: int, word: str = "") -> KeyedColumns:
    state = BOTTOM.bottom()
    ones = np.ones(len(keys), np.int64)
    state.insert_many((list(keys), (ones * at, ones * at, ones, [f"{word}{key}" for key in keys])))
    found = state.as_columns()
    assert found is not None
    return found


class Former(msgspec.Struct):
    """As the first release with sessions declared them."""

    states: dict[bytes, bytes]


@pytest.mark.parametrize("keys", [60, 200])
def test_checkpoints_of_releases_that_kept_objects_alone_are_read(keys: int) -> None:
    """Of such a dict each entry is a key and its session, both in canonical bytes."""
    session, half = Session(GAP, SLICE), keys // 2
    states: dict[bytes, bytes] = {}
    for key, last in [(f"k{n}", 3 if n % 2 else 21) for n in range(keys)]:
        record = RECORD.bottom()
        record.insert((1, last, 2, "old"))
        states[encode_element(key)] = msgspec.msgpack.encode(record.to_wire())
    former = msgspec.msgpack.encode({"states": states})
    restored = decoded(former, OpenSessions)
    assert encoded("open", restored) == former, "it has taken in nothing"
    come = arriving([f"k{n}" for n in range(0, keys, 2)], 24)
    closed = restored.take(come, 25, session, BOTTOM, ["count", "words"])
    assert list(closed.keys) == sorted(f"k{n}" for n in range(1, keys, 2))
    assert closed.last.tolist() == [3] * half and next(iter(closed.values["words"])) == ("old",)
    assert list(msgspec.msgpack.decode(encoded("open", restored))) == ["sessions"]
    with pytest.raises(msgspec.ValidationError, match="missing required field `states`"):
        msgspec.msgpack.decode(encoded("open", restored), type=Former)
    restored = decoded(encoded("open", restored), OpenSessions)
    closed = restored.take({}, 45, session, BOTTOM, ["count", "words"])
    assert closed.first.tolist() == [1] * half and list(closed.values["count"]) == [3] * half
    assert next(iter(closed.values["words"])) == ("k0", "old")
    assert encoded("open", restored) == msgspec.msgpack.encode({"states": {}})


def written_by_the_first_release(found: OpenSessions) -> bytes:
    held = vars(found).get("held")
    states = found.states
    if held is not None:
        entries = held.sessions().entries()
        states = {encode_element(key): msgspec.msgpack.encode(entries[key].to_wire()) for key in entries}
    return msgspec.msgpack.encode(Former(states))


@pytest.mark.parametrize("key", ["ints", "pairs"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_job_goes_on_from_checkpoints_of_the_first_release(
    key: str, partitions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = drawn(2, partitions, rows=2_500 * partitions, keys=100 * partitions)
    flow = flow_of(KEYS[key], Session(GAP, 10))
    test = JobTestDriver(flow.job, partitions=partitions)
    for at in range(0, 2_500, 100):
        for partition, events in enumerate(parts):
            test.feed(partition, *events[at : at + 100])
        if at == 1_000:
            with monkeypatch.context() as patch:
                patch.setattr(OpenSessions, "to_bytes", written_by_the_first_release)
                for partition in range(partitions):
                    test.checkpoint(partition)
            for partition in range(partitions):
                test.fail(partition)
    for partition, events in enumerate(parts):
        test.feed(partition, *events[2_500:])
    test.finish()
    assert outputs(test) == results(flat(parts), KEYS[key])


def test_members_of_sessions_that_have_closed_are_let_go() -> None:
    """An index of members only grows, so open sessions go on with another one."""
    found, session = OpenSessions({}), Session(GAP, GAP)
    for slice_number in range(200):
        at = slice_number * GAP
        keys = range(slice_number % 3 * 100, slice_number % 3 * 100 + 100)
        closed = found.take(arriving(keys, at, f"{slice_number}-"), at + GAP, session, BOTTOM, ["words"])
        before = slice_number - 1
        keys = [key + before % 3 * 100 for key in range(100 if slice_number else 0)]
        assert list(closed.keys) == keys
        assert list(closed.values["words"]) == [(f"{before}-{key}",) for key in keys]
    columns = vars(found)["held"].sessions().as_columns()
    assert columns.height == 100
    assert columns.leaf.part("words").size_bytes < 50_000, "of 20,000 members it would have half a megabyte at least"


def test_where_few_keys_come_and_many_sessions_are_open_these_become_objects_and_columns_again() -> None:
    found, session, many = OpenSessions({}), Session(3_000, 1), (0, 700, 1_500)
    forms: list[bool] = []
    for at in range(1_600):
        first = at * 10_000
        closed = found.take(arriving(range(first, first + (600 if at in many else 1)), at), at + 1, session, BOTTOM, [])
        assert not len(closed.first)
        forms.append(vars(found)["held"].sessions().held_as_columns)
    assert forms[0] and [at for at in range(1, 1_600) if forms[at] != forms[at - 1]] == [257, 700, 957, 1_500]
    closed = found.take({}, 10_000, session, BOTTOM, ["count"])
    assert list(closed.keys) == sorted(at * 10_000 + n for at in range(1_600) for n in range(600 if at in many else 1))
    assert set(closed.values["count"]) == {1}
