"""The reader by compiled loops where much has arrived: blocks, headers that nobody asks for, what jobs make of it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from holon import OutputId
from holon.columnar.loops import install
from holon.formats.input_run import Input
from holon.testing import JobTestDriver
from nexmark.generator import GeneratorConfig
from nexmark.loading import Stream
from nexmark.queries import TOPIC, nexmark_job
from nodes.compiled import loading as compiled
from nodes.log.contract import FetchedRecords, Log
from nodes.log.kafka.direct.fetched.inflate import inflated
from tests.integration.kafka_broker import session_log
from tests.integration.log_makers import read_by_columns
from tests.unit.nexmark_records import ALIVE, DEAD

RECORDS = 24_000
APPENDED = 12_000


def test_a_backlog_is_read_as_it_was_written_with_the_headers_that_are_asked_for(tmp_path: Path) -> None:
    """Records of two topics and partitions, of all sizes, read in turn; of one topic the headers are left out."""
    rng = random.Random(7)
    noise = rng.randbytes(RECORDS)
    values = [noise[row : row + row % 401] for row in range(RECORDS)]
    headers = [b"h%d" % row if row % 7 else b"" for row in range(RECORDS)]
    places = [("plain", 0), ("plain", 1), ("bare", 0)]
    with session_log(tmp_path) as log:
        for topic, partitions in (("plain", 2), ("bare", 1)):
            log.create_topic(topic, partitions)
        for place in places:
            for start in range(0, RECORDS, APPENDED):
                part = slice(start, start + APPENDED)
                log.append(*place, values[part], headers=headers[part])
        assert compiled.ensure(), "numba is part of the development environment"
        assert log.use_columns("bare")
        install(None)  # the log keeps them; other tests of this process do without
        at = dict.fromkeys(places, 0)
        found: dict[tuple[str, int], list[FetchedRecords]] = {place: [] for place in places}
        while min(at.values()) < RECORDS:
            for place in places:
                chunk = log.read(*place, at[place], max_records=rng.choice([700, 20_000]))
                found[place].append(chunk)
                at[place] = chunk.next_offset
    for place, chunks in found.items():
        assert [value for chunk in chunks for value in chunk.values] == values
        expected = [b""] * RECORDS if place[0] == "bare" else headers
        assert [header for chunk in chunks for header in chunk.headers] == expected
        assert [offset for chunk in chunks for offset in chunk.offsets.tolist()] == list(range(RECORDS))


def test_a_compressed_backlog_is_inflated_once_though_its_reader_is_slower_than_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_bytes = [0]

    def counted(*arguments: Any) -> tuple[int, memoryview]:
        behind, plain = inflated(*arguments)
        plain_bytes[0] += len(plain)
        return behind, plain

    monkeypatch.setattr("nodes.log.kafka.direct.fetch_requests.inflated", counted)
    values = [b"%d " % row * 8 for row in range(200_000)]
    with session_log(tmp_path) as log:
        log.create_topic("packed", 1)
        assert compiled.ensure(), "numba is part of the development environment"
        assert log.use_columns()
        install(None)
        for start in range(0, len(values), APPENDED):
            log.send("packed", 0, values[start : start + APPENDED])
        log.poll_acks(wait=True)
        found: list[bytes] = []
        while len(found) < len(values):
            found += log.read("packed", 0, len(found), max_records=20_000).values
    assert found == values
    assert 0 < plain_bytes[0] < 1.2 * sum(map(len, values)) + 12 * len(values)


@pytest.mark.parametrize("already", [False, True])
def test_what_is_on_its_way_is_acknowledged_after_the_log_turns_to_columns(already: bool, tmp_path: Path) -> None:
    with session_log(tmp_path) as log:
        log.create_topic("t", 1)
        if already:
            read_by_columns(log)
        ends: list[int] = []
        log.send("t", 0, [b"a", b"b"], done=ends.append)
        read_by_columns(log)
        log.poll_acks(wait=True)
        assert ends == [2]


STREAMS = {"json": Stream(TOPIC, 9_000, 2, GeneratorConfig(seed=6, events_per_s=200)),
           "arrow": Stream(TOPIC, 9_000, 2, GeneratorConfig(seed=6, events_per_s=200), atom_rows=500)}  # fmt: skip
Emitted = list[tuple[int, OutputId | None, bytes]]


def results(log: Log, query: str, atoms: int, max_records: int) -> dict[str, Emitted]:
    """All that a job emits, with identities, where it reads so many records at once."""
    test = JobTestDriver(nexmark_job(query, atoms=atoms, max_future_skew_ms=10**9), partitions=2)
    for partition, task in enumerate(test.tasks):
        end = log.end_offset(TOPIC, partition)
        while task.next_offset < end:
            chunk = log.read(TOPIC, partition, task.next_offset, max_records=max_records)
            task.feed(Input(chunk.offsets, chunk.timestamps_ms, chunk.values, chunk.next_offset))
    test.finish()
    return {output: test.raw_outputs(output) for output in ("main", "late", "dead")}


@pytest.mark.long
@pytest.mark.parametrize("of", STREAMS)
def test_jobs_give_the_same_bytes_whichever_reader_reads_the_log(of: str, tmp_path: Path) -> None:
    """Two runs over one log: by confluent-kafka in Python, and by the compiled loops; odd and dead records among it."""
    stream, odd = STREAMS[of], [*DEAD.values(), *ALIVE.values()]
    with session_log(tmp_path / "plain") as log, session_log(tmp_path / "plain") as fast:
        log.create_topic(TOPIC, 2)
        for partition in range(2):
            half = stream.records_in(partition) // 2
            log.append(TOPIC, partition, stream.encode(partition, 0, half))
            log.append(TOPIC, partition, odd + stream.encode(partition, 0, 5))  # these are late
            log.append(TOPIC, partition, stream.encode(partition, half, stream.records_in(partition)))
        queries = ("q0", "q4", "q7", "q8")
        plain = {query: results(log, query, stream.atom_rows, 1_000) for query in queries}
        assert compiled.ensure(), "numba is part of the development environment"
        try:
            assert fast.use_columns(TOPIC)
            for query in queries:
                assert results(fast, query, stream.atom_rows, 3_000) == plain[query], query
        finally:
            install(None)
    assert all(plain[query]["main"] and plain[query]["dead"] for query in queries) and plain["q7"]["late"]
