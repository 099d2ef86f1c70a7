"""Schemas that input waits for: a partition stops before the first record that cannot be read yet, others go on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from holon import Json, Source
from holon.avro import Avro
from holon.formats.registry import FoundSchema, RegisteredSchema, UnknownSchema, head_of
from holon.input_layout import InputLayout
from nodes.errors import Unreachable
from nodes.log.contract import FetchedRecords
from nodes.streams.io.awaited_schemas import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, Answered, AwaitedSchemas

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


def stage(registries: Registries, lines: list[str]) -> AwaitedSchemas:
    """Partitions 0 and 1 name schemas of one registry, 2 of another, 3 names none."""
    sources = [
        Source("a", Avro(int, registry=URL)),
        Source("b", Avro(int, registry=OTHER)),
        Source("c", Json(int)),
    ]
    return AwaitedSchemas(InputLayout(sources, [2, 1, 1]), registries.fetch, lines.append, SlowSaver)


def chunk(*ids: int) -> FetchedRecords:
    """Records of these schemas at offsets 10, 12, 14 and so on."""
    values = [head_of(id) + b"\x02" for id in ids]
    offsets = np.arange(10, 10 + 2 * len(ids), 2, dtype=np.int64)
    end = 10 + 2 * len(ids)
    return FetchedRecords(offsets, offsets, values, [b""] * len(ids), None, end)


def test_a_partition_reads_up_to_the_first_record_of_a_new_schema_and_on_when_it_has_come() -> None:
    registries, lines = Registries(one={1: SCHEMA, 2: SCHEMA}), list[str]()
    awaited = stage(registries, lines)
    read = awaited.readable(0, chunk(1, 1, 2), 0)
    assert (len(read), read.next_offset, awaited.waits(0), awaited.waits(1)) == (0, 10, True, False)
    awaited.poll(1)
    assert not awaited.waits(0) and registries.asked == [(URL, 1), (URL, 2)] and not lines
    assert len(awaited.readable(0, chunk(1, 2), 2)) == 2
    read = awaited.readable(0, chunk(1, 2, 3, 1), 3)
    assert (len(read), read.next_offset, awaited.waits(0)) == (2, 14, True)


def test_what_one_partition_has_asked_for_is_known_to_all_of_its_registry_alone() -> None:
    registries, lines = Registries(one={1: SCHEMA}, other={1: SCHEMA}), list[str]()
    awaited = stage(registries, lines)
    assert len(awaited.readable(0, chunk(1), 0)) == len(awaited.readable(1, chunk(1), 0)) == 0
    assert awaited.waiting() == {URL: [0, 1]}
    awaited.poll(1)
    assert registries.asked == [(URL, 1)] and awaited.waiting() == {}
    assert len(awaited.readable(1, chunk(1), 2)) == 1
    assert len(awaited.readable(2, chunk(1), 2)) == 0
    assert len(awaited.readable(3, chunk(1), 2)) == 1


def test_a_registry_that_is_away_is_said_once_asked_again_and_holds_nobody_else_up() -> None:
    registries, lines = Registries(other={7: SCHEMA}), list[str]()
    awaited = stage(registries, lines)
    awaited.readable(0, chunk(5), 0)
    awaited.readable(1, chunk(5), 0)
    awaited.readable(2, chunk(7), 0)
    now, asked_at = 0, list[int]()
    while now < 60_000:
        before = len(registries.asked)
        awaited.poll(now)
        asked_at += [now] * (len(registries.asked) > before)
        now += 50
    pauses = np.diff(asked_at).tolist()
    assert pauses[0] >= FIRST_PAUSE_MS and max(pauses) <= LONGEST_PAUSE_MS + 100, "asked again, and not too often"
    assert awaited.waiting() == {URL: [0, 1]} and not awaited.waits(2)
    assert lines == [f"the schema registry {URL} does not answer: refused; a[0], a[1] wait, and all others go on"]
    registries.found[URL] = {5: SCHEMA}
    while awaited.waits(0):
        awaited.poll(now)
        now += 50
    assert lines[1:] == [f"the schema registry {URL} answers again"]
    assert len(awaited.readable(0, chunk(5, 5), now)) == 2


def test_an_id_that_the_registry_does_not_know_is_said_and_no_reason_to_wait() -> None:
    registries, lines = Registries(one={}), list[str]()
    awaited = stage(registries, lines)
    awaited.readable(0, chunk(9), 0)
    awaited.poll(1)
    assert len(awaited.readable(0, chunk(9, 9), 2)) == 2
    assert lines == [f"the schema registry {URL} has no schema 9: records that name it are dead letters"]
