"""Rows that fit no file are set aside with the reason, each once, whatever is killed where."""

from __future__ import annotations

import csv
import io
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.errors import JobError
from holon.files import Files
from holon.outputs.identity import OutputId, Track
from nodes.errors import RunFailed
from nodes.file_sinks.dead_rows import DEAD_FOLDER, DeadRow, encoded
from nodes.file_sinks.formats import format_of
from nodes.file_sinks.rows import Misfit
from nodes.log import MemoryLog
from tests.unit.file_sinks import HOUR_MS, JOB, TOPIC, HookedStore, Killed, output_log, sink_of

DEAD: dict[str, Any] = {"on_error": "dead-letter"}


class Row(msgspec.Struct):
    n: int
    name: str = ""


def append(log: MemoryLog, partition: int, payloads: list[bytes]) -> None:
    first = log.end_offset(TOPIC, partition)
    places = [(first + number + 1) * HOUR_MS for number in range(len(payloads))]
    headers = [OutputId(JOB, 0, partition, Track.WINDOW, place, 0).to_bytes() for place in places]
    log.append(TOPIC, partition, payloads, headers=headers)


def dead_in(store: HookedStore) -> list[DeadRow]:
    files = [data for name, data in sorted(store.values.items()) if name.startswith(f"{DEAD_FOLDER}/")]
    return [msgspec.json.decode(line, type=DeadRow) for data in files for line in data.splitlines()]


def files_in(store: HookedStore) -> dict[str, bytes]:
    """All but commits, which say which process may set rows aside, and of which some may be left."""
    return {name: data for name, data in store.values.items() if not name.startswith("_holon/0")}


def rows_in(store: HookedStore) -> Counter[tuple[str, ...]]:
    """Rows of CSV files, beside the folder."""
    found: Counter[tuple[str, ...]] = Counter()
    for name, data in store.values.items():
        if name.endswith(".csv"):
            found.update(tuple(row) for row in list(csv.reader(io.StringIO(data.decode())))[1:])
    return found


def test_rows_that_fit_no_file_are_set_aside_with_the_reason() -> None:
    log, store = output_log(1), HookedStore()
    append(log, 0, [b'{"n":1}', b"\xff", b'{"n":"x"}', b'{"n":2,"name":"b"}', b'{"n":{}}'])
    sink = sink_of(log, store, "out/{n}", format="parquet", row=Row, batch_rows=9, **DEAD)
    sink.turn(0.0)
    assert (sink.rows, sink.file_count, sink.dead, sink.rows_written, sink.offsets) == (2, 2, 3, 2, [5])
    assert sorted(name for name in store.values if name.endswith(".parquet")) == [
        "1/part-00000-000000000000-000000000004.parquet",
        "2/part-00000-000000000000-000000000004.parquet",
    ]
    found = dead_in(store)
    assert [(each.topic, each.partition, each.offset, each.row, each.base64) for each in found] == [
        (TOPIC, 0, 1, None, b"\xff"),
        (TOPIC, 0, 2, '{"n":"x"}', None),
        (TOPIC, 0, 4, '{"n":{}}', None),
    ]
    assert "it has no folder: " in found[0].reason and "it is no Row (Expected `int`" in found[1].reason
    sink.succeed()
    assert store.values["_SUCCESS"].endswith(b'"rows":2,"files":2,"dead":3}')
    assert sink_of(log, store, "out/{n}", format="parquet", row=Row, **DEAD).turn(0.0) is False


@pytest.mark.slow
@pytest.mark.parametrize("done", [False, True])
def test_a_process_that_is_killed_at_any_change_leaves_each_row_in_one_place(done: bool) -> None:
    """The next process refuses rows that fit no file: what was promised before is done as it was promised."""
    good, bad = [b'{"n":%d}' % n for n in range(20)], [b"{", b"\xff"]

    def written() -> MemoryLog:
        log = output_log(1)
        append(log, 0, [good[0], *bad, *good[1:10]])
        return log

    def work(log: MemoryLog, store: HookedStore, **policy: Any) -> None:
        sink = sink_of(log, store, format="csv", batch_rows=3, **policy)
        sink.turn(0.0)
        if log.end_offset(TOPIC, 0) == 12:
            append(log, 0, good[10:])
        sink.turn(9.0, flush=True)

    whole = HookedStore()
    work(written(), whole, **DEAD)
    assert rows_in(whole) == Counter((str(n),) for n in range(20)) and len(dead_in(whole)) == 2
    for number in range(whole.changes):
        log, store = written(), HookedStore()
        with pytest.raises(Killed):
            work(log, store.killed_at(number, done=done), **DEAD)
        if not any(name.endswith(".commit") for name in store.values):
            with pytest.raises(RunFailed, match=r"offset 1 does not fit a csv file: .*--on-error dead-letter"):
                work(log, store)
            work(log, store, **DEAD)
        else:
            work(log, store)
        assert files_in(store) == files_in(whole), number


def test_columns_are_those_of_the_first_rows_that_have_some() -> None:
    log, store = output_log(2), HookedStore()
    append(log, 0, [b"{", b'{"a":%d}' % 2**70])
    append(log, 1, [b'{"a":1}', b'{"a":%d}' % 2**70, b'{"a":2}', b'{"a":"x"}', b'{"a":3}'])
    sink = sink_of(log, store, format="parquet", batch_rows=9, **DEAD)
    sink.turn(0.0)
    assert (sink.rows, sink.dead) == (3, 4)
    assert [(each.partition, each.offset) for each in dead_in(store)] == [(0, 0), (0, 1), (1, 1), (1, 3)]
    assert dead_in(store)[3].reason.startswith("a is 'x', and its column int64")


def test_a_batch_of_dead_rows_alone_goes_on_and_the_mark_says_so() -> None:
    log, store = output_log(1), HookedStore()
    append(log, 0, [b"{"] * 3)
    sink = sink_of(log, store, **DEAD)
    sink.turn(0.0)
    assert (sink.rows, sink.file_count, sink.dead, sink.caught_up()) == (0, 0, 3, True)
    assert len(dead_in(store)) == 3


@given(
    st.lists(st.sampled_from([b'{"n":1}', b'{"n":1.5}', b'{"n":"x"}', b"{", b'{"m":1}', b'{"n":null}', b"7"])),
    st.sampled_from(["csv", "jsonl", "parquet"]),
)
def test_dead_are_the_rows_that_do_not_fit_alone(payloads: list[bytes], name: Any) -> None:
    made = format_of(name, None)
    if made.has_columns:
        made.use(made.inferred([b'{"n":1}']))

    def fits(payload: bytes) -> bool:
        try:
            made.encode([payload])
        except Misfit:
            return False
        return True

    data, dead = encoded(made, payloads)
    fit = [payload for payload in payloads if fits(payload)]
    assert sorted(dead) == [place for place, payload in enumerate(payloads) if not fits(payload)]
    assert data == (made.encode(fit) if fit else None)


def test_another_policy_is_refused() -> None:
    with pytest.raises(JobError, match='on_error must be "fail" or "dead-letter", got \'stop\''):
        Files("out", on_error="stop")  # pyright: ignore[reportArgumentType]
