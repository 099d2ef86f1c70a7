"""Schemas that input waits for: a partition stops before the first record that has no verdict yet, others go on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from holon import Json, Source
from holon.avro import Avro
from holon.formats.registry import FoundSchema, RegisteredSchema, UnknownSchema, head_of
from holon.input_layout import InputLayout
from nodes.errors import Unreachable
from nodes.log.contract import FetchedRecords
from nodes.machine.ownership.schemas import SchemaFold, SchemaState
from nodes.streams.io.awaited_schemas import (
    FIRST_PAUSE_MS,
    LONGEST_PAUSE_MS,
    MAX_IDS,
    REREAD_MS,
    Answered,
    AwaitedSchemas,
    FoundIds,
)

URL, OTHER = "http://one:8081", "http://other:8081"
SCHEMA = RegisteredSchema('"long"')


class SlowSaver:
    """Requests that are answered when a test says so."""

    def __init__(self) -> None:
        self.work: list[Callable[[], Answered | None]] = []

    def save(self, work: Callable[[], Answered | None]) -> Answered | None:
        self.work.append(work)
        return None

    def finished(self) -> list[Answered]:
        done, self.work = self.work, []
        return [answer for work in done if (answer := work()) is not None]


class Registries:
    """``found`` by address and id; a missing address does not answer."""

    def __init__(self, **found: dict[int, FoundSchema]) -> None:
        self.found = {f"http://{name}:8081": schemas for name, schemas in found.items()}
        self.asked: list[tuple[str, int]] = []

    def fetch(self, url: str, id: int) -> FoundSchema:
        self.asked.append((url, id))
        if url not in self.found:
            raise Unreachable(f"the schema registry {url} does not answer: refused")
        return self.found[url].get(id, UnknownSchema())


class Control:
    """The control topic of one job: what its nodes have written, in order."""

    def __init__(self) -> None:
        self.records: list[FoundIds] = []


class StagedNode:
    """Partitions 0 and 1 name schemas of one registry, 2 of another, 3 names none."""

    def __init__(self, registries: Registries, lines: list[str] | None = None, control: Control | None = None) -> None:
        sources = [
            Source("a", Avro(int, registry=URL)),
            Source("b", Avro(int, registry=OTHER)),
            Source("c", Json(int)),
        ]
        self.control = control or Control()
        self.fold = SchemaFold()
        self.at = 0
        self.savers: list[SlowSaver] = []
        self.schemas = AwaitedSchemas(
            InputLayout(sources, [2, 1, 1]),
            registries.fetch,
            lambda: self.fold,
            self.control.records.append,
            (lambda line: None) if lines is None else lines.append,
            self._saver,
        )

    def _saver(self) -> SlowSaver:
        self.savers.append(SlowSaver())
        return self.savers[-1]

    def listen(self) -> None:
        """Read the control topic on."""
        for found in self.control.records[self.at :]:
            self.fold.take(found.source, found.partition, found.known, found.before)
        self.at = len(self.control.records)

    def turns(self, now_ms: int) -> None:
        """Answers come, and then verdicts."""
        self.schemas.poll(now_ms)
        self.listen()
        self.schemas.poll(now_ms)

    def read(self, partition: int, chunk: FetchedRecords, now_ms: int = 0) -> dict[int, str]:
        """The fates of the records that can be read, by offset."""
        read, refused = self.schemas.readable(partition, chunk, now_ms)
        return {offset: (refused or {}).get(offset, "event") for offset in read.offsets.tolist()}


def chunk(*ids: int, first: int = 10) -> FetchedRecords:
    """Records of these schemas at offsets 10, 12, 14 and so on."""
    values = [head_of(id) + b"\x02" for id in ids]
    offsets = np.arange(first, first + 2 * len(ids), 2, dtype=np.int64)
    end = first + 2 * len(ids)
    return FetchedRecords(offsets, offsets, values, [b""] * len(ids), None, end)


def dead(id: int) -> str:
    return f"the registry has no schema {id}"


def test_a_partition_reads_up_to_the_first_record_of_a_new_schema_and_on_when_it_has_come() -> None:
    registries, lines = Registries(one={1: SCHEMA, 2: SCHEMA}), list[str]()
    node = StagedNode(registries, lines)
    awaited = node.schemas
    read = awaited.readable(0, chunk(1, 1, 2), 0).chunk
    assert (len(read), read.next_offset, awaited.waits(0), awaited.waits(1)) == (0, 10, True, False)
    awaited.poll(1)
    assert awaited.waits(0) and node.control.records == [FoundIds(0, 0, [1, 2], 0)], "an answer is no verdict yet"
    node.turns(2)
    assert not awaited.waits(0) and registries.asked == [(URL, 1), (URL, 2)] and not lines
    assert len(node.read(0, chunk(1, 2))) == 2
    read = awaited.readable(0, chunk(1, 2, 3, 1), 3).chunk
    assert (len(read), read.next_offset, awaited.waits(0)) == (2, 14, True)


def test_one_answer_serves_all_partitions_of_a_registry_alone_and_one_verdict_all_of_a_source() -> None:
    registries = Registries(one={1: SCHEMA}, other={1: SCHEMA})
    node = StagedNode(registries)
    assert node.read(0, chunk(1)) == node.read(1, chunk(1)) == {}
    assert node.schemas.waiting() == {URL: [0, 1]}
    node.turns(1)
    assert registries.asked == [(URL, 1)] and node.schemas.waiting() == {}
    assert node.read(1, chunk(1), 2) == {10: "event"}
    assert node.read(2, chunk(1), 2) == {} and node.read(3, chunk(1), 2) == {10: "event"}


def test_ids_that_are_known_cost_neither_a_request_nor_a_record() -> None:
    registries = Registries(one={1: SCHEMA})
    node = StagedNode(registries)
    node.read(0, chunk(1))
    node.turns(1)
    for _ in range(3):
        assert node.read(0, chunk(1, 1)) == {10: "event", 12: "event"}
    later = StagedNode(registries, control=node.control)
    later.listen()
    later.read(1, chunk(1))
    later.turns(1)
    assert later.read(1, chunk(1)) == {10: "event"}
    assert registries.asked == [(URL, 1)] * 2 and len(node.control.records) == 1, "the second one needs the schema"


def test_a_registry_that_is_away_is_said_once_asked_again_and_holds_nobody_else_up() -> None:
    registries, lines = Registries(other={7: SCHEMA}), list[str]()
    node = StagedNode(registries, lines)
    awaited = node.schemas
    awaited.readable(0, chunk(5), 0)
    awaited.readable(1, chunk(5), 0)
    awaited.readable(2, chunk(7), 0)
    now, asked_at = 0, list[int]()
    while now < 60_000:
        before = len(registries.asked)
        node.turns(now)
        asked_at += [now] * (len(registries.asked) > before)
        now += 50
    pauses = np.diff(asked_at).tolist()
    assert pauses[0] >= FIRST_PAUSE_MS and max(pauses) <= LONGEST_PAUSE_MS + 100, "asked again, and not too often"
    assert awaited.waiting() == {URL: [0, 1]} and not awaited.waits(2)
    assert lines == [f"the schema registry {URL} does not answer: refused; a[0], a[1] wait, and all others go on"]
    registries.found[URL] = {5: SCHEMA}
    while awaited.waits(0):
        node.turns(now)
        now += 50
    assert lines[1:] == [f"the schema registry {URL} answers again"]
    assert len(node.read(0, chunk(5, 5), now)) == 2


def test_an_id_that_the_registry_does_not_know_is_said_and_no_reason_to_wait() -> None:
    registries, lines = Registries(one={}), list[str]()
    node = StagedNode(registries, lines)
    node.read(0, chunk(9))
    node.turns(1)
    assert node.control.records == [FoundIds(0, 0, [], 11)]
    assert node.read(0, chunk(9), 2) == {10: dead(9)}
    assert lines == [f"the schema registry {URL} has no schema 9: records that name it are dead letters"]


@pytest.mark.parametrize("first", [0, 1])
def test_nodes_that_a_registry_has_answered_differently_read_the_same(first: int) -> None:
    """The schema is registered between the two requests, and either node may be the first on the control topic."""
    registries, control = Registries(one={}), Control()
    nodes = [StagedNode(registries, control=control) for _ in range(2)]
    for node in nodes:
        assert node.read(0, chunk(9, 9)) == {}
    nodes[0].schemas.poll(1)
    said, control.records[:] = control.records[:], []
    registries.found[URL] = {9: SCHEMA}
    nodes[1].schemas.poll(2)
    control.records[:] = said + control.records if first == 0 else control.records + said
    for node in nodes:
        node.turns(3)
        now_ms = 4
        while node.schemas.waits(0):
            node.turns(now_ms := now_ms + 50)
    results = [node.read(0, chunk(9, 9), 9_000) for node in nodes]
    assert results[0] == results[1] == dict.fromkeys((10, 12), dead(9) if first == 0 else "event")
    again = StagedNode(registries, control=control)  # a successor that replays, when the registry has it
    again.listen()
    again.read(0, chunk(9, 9, 9))
    again.turns(1)
    assert again.read(0, chunk(9, 9)) == results[0]


def test_an_unknown_id_is_requested_anew_for_later_records_though_not_at_once() -> None:
    registries = Registries(one={})
    node = StagedNode(registries)
    node.read(0, chunk(9))
    node.turns(1)
    assert node.read(0, chunk(9, 9), 2) == {10: dead(9)}, "the second record was not there"
    node.turns(3)
    assert registries.asked == [(URL, 9)], "the pause is not over"
    registries.found[URL] = {9: SCHEMA}
    node.turns(1 + FIRST_PAUSE_MS)
    node.turns(2 + FIRST_PAUSE_MS)
    assert registries.asked == [(URL, 9)] * 2
    assert node.read(0, chunk(9, 9), 400) == {10: dead(9), 12: "event"}
    assert node.control.records == [FoundIds(0, 0, [], 11), FoundIds(0, 0, [9], 0)]


def test_an_answer_that_there_is_no_schema_holds_only_for_records_that_were_there_before_the_request() -> None:
    registries = Registries(one={})
    node = StagedNode(registries)
    node.read(0, chunk(9))
    answer = node.savers[0].work.pop()()
    node.savers[0].work.append(lambda: answer)  # it is on its way
    registries.found[URL] = {9: SCHEMA}
    node.read(1, chunk(9))
    node.turns(1)
    assert node.control.records == [FoundIds(0, 0, [], 11)] and node.schemas.waits(1)
    for now_ms in (2, 2 + FIRST_PAUSE_MS, 3 + FIRST_PAUSE_MS):
        node.turns(now_ms)
    assert node.read(1, chunk(9), 300) == {10: "event"} and node.read(0, chunk(9), 300) == {10: dead(9)}


def test_a_registry_that_lacks_what_others_have_read_there_is_waited_for() -> None:
    registries, lines = Registries(one={}), list[str]()
    node = StagedNode(registries, lines)
    node.control.records.append(FoundIds(1, 0, [9], 0))
    node.listen()
    node.read(0, chunk(9))
    node.turns(1)
    assert node.schemas.waits(0) and len(node.control.records) == 1
    assert lines == [
        f"the schema registry {URL} lacks schema 9, which other nodes have read there; a[0] waits, and all others go on"
    ]
    registries.found[URL] = {9: SCHEMA}
    for now_ms in (500, 501):
        node.turns(now_ms)
    assert node.read(0, chunk(9), 502) == {10: "event"} and lines[1:] == [f"the schema registry {URL} answers again"]


def test_a_verdict_that_does_not_come_back_is_written_again() -> None:
    node = StagedNode(Registries(one={}))
    node.read(0, chunk(9))
    node.schemas.poll(1)
    node.control.records.clear()
    node.turns(REREAD_MS)
    assert node.schemas.waits(0)
    node.turns(REREAD_MS + 1)
    assert not node.schemas.waits(0) and node.read(0, chunk(9), REREAD_MS + 2) == {}
    node.turns(REREAD_MS + 3)
    assert node.read(0, chunk(9), REREAD_MS + 4) == {10: dead(9)}


def test_a_clock_that_is_set_back_delays_no_retry() -> None:
    registries = Registries()
    node = StagedNode(registries)
    node.read(0, chunk(9), 9_000_000)
    node.turns(9_000_000)
    registries.found[URL] = {9: SCHEMA}
    for now_ms in (5, 5 + FIRST_PAUSE_MS, 6 + FIRST_PAUSE_MS):
        node.turns(now_ms)
    assert node.read(0, chunk(9), 300) == {10: "event"}


@pytest.mark.slow
def test_more_ids_than_a_record_holds_are_written_one_record_after_the_other() -> None:
    many = range(1, MAX_IDS + 3)
    node = StagedNode(Registries(one=dict.fromkeys(many, SCHEMA)))
    records = chunk(0, *many)
    now_ms, rounds = 0, 0
    while len(found := node.read(0, records, now_ms)) < len(records):
        rounds += 1
        for _ in range(2):
            node.turns(now_ms := now_ms + REREAD_MS + FIRST_PAUSE_MS)
    assert found[10] == dead(0) and set(found.values()) == {dead(0), "event"} and rounds <= 3
    assert all(len(each.known) <= MAX_IDS for each in node.control.records)


def test_schemas_of_the_job_s_code_need_no_verdict() -> None:
    node = AwaitedSchemas(
        InputLayout([Source("a", Avro(int, registry=URL, schemas={7: '"long"'}))], [1]),
        Registries(one={}).fetch,
        lambda: SchemaFold(SchemaState([(0, [])], [(0, [(99, 0)])])),
        lambda found: None,
    )
    read, refused = node.readable(0, chunk(7, 8), 0)
    assert len(read) == 2 and refused == {12: dead(8)}
