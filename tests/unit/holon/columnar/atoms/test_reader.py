"""Atoms: records that hold a batch of events each. Events are counted, named and set aside one by one."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from holon import (
    WCRDT,
    Batch,
    Context,
    Decoded,
    Job,
    JobError,
    Local,
    ProcessingFunction,
    Source,
    Tumbling,
    Window,
    on_window,
)
from holon.arrow import ArrowColumns, write_atom
from holon.columnar.payloads import BinaryColumn
from holon.formats.formats import count_events
from holon.testing import JobTestDriver
from wcrdt import GCounter

COLUMNS = ArrowColumns({"at": int, "name": str})


def atom(*rows: tuple[int | None, str | None]) -> bytes:
    """An atom of events with a time and a name."""
    times, names = [row[0] for row in rows], [row[1] for row in rows]
    return write_atom(pa.record_batch({"at": pa.array(times, pa.int64()), "name": pa.array(names, pa.string())}))


def names(*texts: str, at: int = 1) -> bytes:
    return atom(*((at, text) for text in texts))


class Echo(ProcessingFunction[Any]):
    """Emits every name, and those with an ``x`` twice; fails at ``boom``."""

    seen = WCRDT(GCounter(), Tumbling(10))

    def process_batch(self, batch: Batch[Any], ctx: Context, /) -> None:
        self.seen.insert_many(np.ones(len(batch), np.int64), batch.ts_ms)
        texts = list(batch["name"])
        assert "boom" not in texts
        ctx.emit_many(texts)
        twice = np.array([row for row, text in enumerate(texts) if "x" in text], np.intp)
        if len(twice):
            ctx.emit_many([texts[row] + "!" for row in twice], rows=twice)

    @on_window(seen, scope="global")
    async def answer(self, window: Window, ctx: Context) -> None:
        ctx.emit(await self.seen.window_value(window))


def job(**options: Any) -> Job[Any]:
    return Job("atoms", Source("in", COLUMNS, timestamp="at"), Echo, output="out", **options)


def run(*records: bytes, cut: bool = False, **options: Any) -> JobTestDriver:
    """All records in one run, or (``cut``) each in one of its own."""
    test = JobTestDriver(job(**options))
    for part in [[record] for record in records] if cut else [records]:
        test.feed(0, *part)
    test.finish()
    return test


def identities(test: JobTestDriver) -> list[tuple[int, int, Any]]:
    return [(i.position, i.n, msgspec.json.decode(v)) for _, i, v in test.raw_outputs() if i is not None]


def counts(test: JobTestDriver) -> tuple[int, int, int, int]:
    found = test.counts
    return found.accepted, found.filtered, found.late, found.dead


@pytest.mark.parametrize("cut", [False, True])
def test_what_the_events_of_an_atom_emit_is_numbered_within_the_record(cut: bool) -> None:
    test = run(names("a", "bx", "c"), names("x"), names("d"), cut=cut)
    assert identities(test)[:-1] == [
        (0, 0, "a"), (0, 1, "bx"), (0, 2, "bx!"), (0, 3, "c"), (1, 0, "x"), (1, 1, "x!"), (2, 0, "d"),
    ]  # fmt: skip
    assert counts(test) == (5, 0, 0, 0) and test.outputs()[-1] == 5


def test_results_of_one_call_are_numbered_too() -> None:
    assert [place[:2] for place in identities(run(names("a", "b"), names("c")))[:-1]] == [(0, 0), (0, 1), (1, 0)]


def test_after_a_failure_the_same_atoms_give_the_same_identities() -> None:
    test = JobTestDriver(job())
    test.feed(0, names("a", "bx"))
    test.checkpoint(0)
    test.feed(0, names("c", "dx", "e"))
    before = identities(test)
    test.fail(0)
    test.finish()
    assert identities(test)[: len(before)] == before and counts(test) == (5, 0, 0, 0)


def test_a_damaged_atom_is_one_dead_letter_with_its_bytes() -> None:
    whole = names("a", "b")
    broken = [whole[:-60], b"", b"garbage", bytes(8) + whole[8:], b'{"at": 1, "name": "json"}']
    test = run(whole, *broken, names("c"))
    assert counts(test) == (3, 0, 0, len(broken))
    assert [(letter["offset"], base64.b64decode(letter["payload"])) for letter in test.dead()] == [
        *enumerate(broken, 1)
    ]
    assert all("place" not in letter and letter["reason"] for letter in test.dead())


def test_an_atom_without_a_column_or_with_one_of_another_type_is_dead_and_says_which() -> None:
    lacking = write_atom(pa.record_batch({"at": pa.array([1, 2])}))
    other = write_atom(pa.record_batch({"at": pa.array([1.5]), "name": pa.array(["a"])}))
    test = run(lacking, other)
    assert ["name" in test.dead()[0]["reason"], "at is double" in test.dead()[1]["reason"]] == [True, True]
    assert counts(test) == (0, 0, 0, 2)


def test_events_that_are_null_late_or_out_of_range_are_set_aside_one_by_one_and_can_be_put_back() -> None:
    test = run(atom((25, "a"), (3, "late"), (None, "null"), (26, None), (2**60, "far"), (27, "b"), (4, "late too")))
    assert counts(test) == (2, 0, 2, 3)
    assert [(letter["offset"], letter["place"]) for letter in test.late()] == [(0, 1), (0, 6)]
    assert [letter["place"] for letter in test.dead()] == [2, 3, 4]
    assert [identity and (identity.position, identity.n) for _, identity, _ in test.raw_outputs("late")] == [
        (0, 0),
        (0, 1),
    ]
    again = run(*(base64.b64decode(letter["payload"]) for letter in test.late()))
    assert again.outputs()[:2] == ["late", "late too"]


def test_a_text_that_is_not_utf_8_is_one_dead_event() -> None:
    texts = pa.array([b"good", b"\xff", "sch\u00f6n".encode()], pa.binary()).view(pa.string())
    test = run(write_atom(pa.record_batch({"at": pa.array([1, 1, 1]), "name": texts})))
    assert test.outputs()[:2] == ["good", "sch\u00f6n"] and counts(test) == (2, 0, 0, 1)


def test_texts_that_point_beyond_their_column_are_a_dead_atom() -> None:
    record = names("abc", "def")
    ends = np.array([0, 3, 6], np.int32).tobytes()
    assert record.count(ends) == 1
    for wrong in ([0, 3, 700], [0, 7, 6], [-8, 3, 6]):
        test = run(record.replace(ends, np.array(wrong, np.int32).tobytes()))
        assert counts(test) == (0, 0, 0, 1) and test.dead()[0]["reason"]


def test_an_atom_that_makes_the_function_fail_is_buried_whole_and_counts_all_its_events() -> None:
    test = run(names("a"), names("b", "boom", "c"), names("d"), on_error="dead-letter")
    assert [value for _, _, value in identities(test)] == ["a", "d", 2]
    assert counts(test) == (2, 0, 0, 3) and len(test.dead()) == 1
    assert test.tasks[0].records.events == 5


def test_an_atom_without_events_is_passed_over() -> None:
    test = run(atom(), names("a"), atom())
    assert test.outputs() == ["a", 1] and counts(test) == (1, 0, 0, 0)


def test_columns_lie_where_the_records_are_and_several_records_are_joined() -> None:
    one, two = names("a", "b"), names("c")
    found = COLUMNS.decode(BinaryColumn.of([one, two]))
    assert found.columns["at"].tolist() == [1, 1, 1] and list(found.columns["name"]) == ["a", "b", "c"]
    assert found.rows is not None and found.places is not None
    assert (found.rows.tolist(), found.places.tolist()) == ([0, 0, 1], [0, 1, 0])
    records = BinaryColumn.of([one])
    alone = COLUMNS.decode(records).columns
    assert np.shares_memory(alone["at"], records.buffer) and alone["name"].buffer is records.buffer
    assert count_events(COLUMNS, [one, two, b"no atom"]) == 4


def test_columns_within_structs_of_all_types_are_read() -> None:
    struct = pa.StructArray.from_arrays(
        [pa.array([1.5, 2.5]), pa.array([True, False]), pa.array([7, 8], pa.timestamp("ms"))], names=["f", "b", "t"]
    )
    format = ArrowColumns({"s.f": float, "s.b": bool, "s.t": datetime})
    found = format.decode([write_atom(pa.record_batch({"s": struct}))] * 2).columns
    assert {name: column.tolist() for name, column in found.items()} == {
        "s.f": [1.5, 2.5] * 2, "s.b": [True, False] * 2, "s.t": [7, 8] * 2,
    }  # fmt: skip
    with pytest.raises(JobError, match="object"):
        ArrowColumns({"x": object})


class Pairs:
    """Atoms of a user's own that give events: two bytes each."""

    def decode(self, payloads: Sequence[bytes]) -> Decoded[dict[str, Any]]:
        events = [
            {"ts": payload[at], "do": payload[at + 1]} for payload in payloads for at in range(0, len(payload), 2)
        ]
        rows = np.repeat(np.arange(len(payloads)), [len(payload) // 2 for payload in payloads])
        places = np.concatenate([np.arange(len(payload) // 2) for payload in payloads])
        return Decoded(rows, events=events, places=places)

    def events_in(self, payload: bytes) -> int:
        return len(payload) // 2

    def single(self, payload: bytes, place: int) -> bytes:
        return payload[2 * place : 2 * place + 2]

    def describe(self) -> str:
        return "pairs"


class Waiting(ProcessingFunction[Any]):
    """Counts; at ``do`` 1 waits for the window before, at 2 fails."""

    seen = WCRDT(GCounter(), Tumbling(10))
    total = Local(0)

    async def process(self, event: dict[str, Any], ctx: Context, /) -> None:
        self.seen.insert(1, ctx.timestamp_ms)
        self.total.value += 1
        ctx.emit(self.total.value)
        if event["do"] == 1:
            start = (ctx.timestamp_ms // 10 - 1) * 10
            ctx.emit(100 + await self.seen.window_value(Window(start, start + 10)))
        assert event["do"] != 2

    @on_window(seen)
    def answer(self, window: Window, ctx: Context) -> None:
        return None


def waiting(*records: bytes, **options: Any) -> JobTestDriver:
    source = Source("in", Pairs(), timestamp=lambda event: event["ts"])
    test = JobTestDriver(Job("waiting", source, Waiting, output="out", **options), partitions=2)
    test.feed(0, *records)
    return test


def test_events_of_an_atom_wait_one_after_the_other_and_are_numbered_on() -> None:
    test = waiting(bytes([1, 0, 12, 1, 13, 0, 25, 1]), bytes([26, 0]))
    assert test.waiting() == [0]
    test.feed(1, bytes([40, 0]))
    test.finish()
    assert identities(test)[:6] == [(0, 0, 1), (0, 1, 2), (0, 2, 101), (0, 3, 3), (0, 4, 4), (0, 5, 102)]
    assert identities(test)[6] == (1, 0, 5)


def test_an_event_that_fails_buries_its_atom_unless_one_before_it_has_waited() -> None:
    test = waiting(bytes([1, 0]), bytes([2, 0, 3, 2]), bytes([4, 0]), on_error="dead-letter")
    assert [value for _, _, value in identities(test)] == [1, 2] and counts(test) == (2, 0, 0, 2)
    test = waiting(bytes([1, 0, 12, 1, 13, 2]), on_error="dead-letter")
    with pytest.raises(Exception, match="offset 0"):
        test.feed(1, bytes([40, 0]))
