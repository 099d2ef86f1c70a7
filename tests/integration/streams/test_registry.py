"""Avro records and a schema registry in a process of its own: what it answers, and what a fleet does without it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import fastavro
import msgspec
import pytest

from holon.formats.registry import RegisteredSchema, UnknownSchema, head_of
from holon.protobuf import Protobuf
from nodes.cli.checks.topic_report import lines, topic_report
from nodes.errors import Unreachable
from nodes.schema_registry.client import RegistryClient
from nodes.settings.schema_registry import RegistrySettings
from nodes.settings.value_types import Secret
from tests.integration import jobs_mixed
from tests.integration.certificates import make_certificates
from tests.integration.fleet_support import SLOWLY_SUSPECTED, Command, Stage, owners
from tests.integration.jobs_mixed import INPUT, Event
from tests.integration.jobs_registry import FIRST, SECOND
from tests.integration.registry_server import RegistryProcess
from tests.integration.scraping import ports, scrape, total

JOB = "tests.integration.jobs_registry:job"


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RegistryProcess]:
    made = RegistryProcess(tmp_path / "schemas.json")
    yield made
    made.away()


class AvroStage(Stage):
    """Events as Avro, by one of two schemas: of partition 0 by ``schema``, of the others by the first."""

    def __init__(self, folder: Path, registry: RegistryProcess, *definitions: str) -> None:
        self.reference = f"{JOB}?port={registry.port}"
        super().__init__(folder, *(definitions or (SLOWLY_SUSPECTED,)))
        self.ids = [registry.register("in-value", json.dumps(schema)) for schema in (FIRST, SECOND)]
        self.schema = 0

    def put(self, partition: int, *rows: bytes) -> None:
        number = self.schema if partition == 0 else 0
        schema = fastavro.parse_schema([FIRST, SECOND][number])
        events = [msgspec.json.decode(row, type=Event) for row in rows]
        self.events[partition] += events
        self.log.append(INPUT, partition, [self.written(schema, self.ids[number], event) for event in events])

    @staticmethod
    def written(schema: Any, id: int, event: Event) -> bytes:
        out = BytesIO()
        out.write(head_of(id))
        fastavro.schemaless_writer(out, schema, msgspec.to_builtins(event) | {"source": None})
        return out.getvalue()


@pytest.mark.long
def test_a_fleet_waits_for_a_registry_only_where_it_must_and_is_exact(
    tmp_path: Path, registry: RegistryProcess
) -> None:
    stage = AvroStage(tmp_path, registry)
    stage.feed(800)
    run = stage.open()
    printed: SimpleQueue[tuple[int, str]] = SimpleQueue()
    with stage.fleet(2, lines=printed) as fleet:
        monitor = stage.monitor(run)
        stage.until(monitor, lambda: sum(monitor.taken()) == stage.fed, "all is read", fleet)
        registry.away()
        waits_at = monitor.taken()[0]
        stage.schema = 1
        stage.feed(800)
        ends = [len(stage.events[partition]) for partition in range(stage.partitions)]
        stage.until(monitor, lambda: monitor.taken()[1:] == ends[1:], "the others go on", fleet)
        assert monitor.taken()[0] == waits_at
        scraped = [scrape(port) for port in ports(monitor).values()]
        assert total(scraped, "holon_partitions_awaiting_schema") == 1
        number = owners(monitor)[0]
        assert number is not None and fleet.kill(number)
        stage.until(monitor, lambda: owners(monitor)[0] == 1 - number, "partition 0 is taken over", fleet)
        stage.log.append(INPUT, 1, [head_of(99) + b"\x02", b"\x01older", head_of(stage.ids[0]) + b"\x02"])
        assert monitor.taken()[0] == waits_at
        registry.back()
        done = stage.finish(run, fleet)
        fleet.await_lines()
    stage.assert_exact()
    assert (done.counts().accepted, done.counts().dead) == (stage.fed, 3)
    said = [text for _, text in iter(lambda: printed.get() if printed.qsize() else None, None)]
    away = [text for text in said if "does not answer" in text and "in[0] waits, and all others go on" in text]
    assert 1 <= len(away) <= 2, "once a node"
    assert any(f"{registry.url} answers again" in text for text in said)
    assert any(f"the schema registry {registry.url} has no schema 99" in text for text in said)
    with Command("dlq", "list", stage.reference, "--json", stage=stage) as command:
        reasons = sorted(letter["reason"] for letter in command.json()["letters"])
    assert reasons == [
        "the registry has no schema 99",
        "the value begins with 01, not with the 00 of a schema registry",
        "the value ends too early: it is damaged, or of another schema",
    ]
    stage.log.close()


@pytest.mark.long
def test_a_schema_that_is_registered_between_the_reads_of_two_nodes_means_the_same_to_both(
    tmp_path: Path, registry: RegistryProcess
) -> None:
    """The first node finds it lacking; the second one reads all again, and would find it."""
    stage = AvroStage(tmp_path, registry, "node.checkpoint_interval_ms=600000")
    stage.feed(200)
    run = stage.open()
    later = jobs_mixed.event(1000)
    stage.log.append(INPUT, 0, [stage.written(fastavro.parse_schema(FIRST), 3, later)])
    at = stage.log.end_offset(INPUT, 0) - 1
    letters = partial(stage.log.end_offset, "mixed.dead", 0)
    with stage.fleet(1) as fleet:
        monitor = stage.monitor(run)
        stage.until(monitor, lambda: letters() == 1 and monitor.progress[0] == at + 1, "it is dead", fleet)
        assert registry.register("in-value", json.dumps({**FIRST, "doc": "the third"})) == 3
        stage.add(fleet, 1)
        assert fleet.kill(0)
        stage.until(monitor, lambda: owners(monitor)[0] == 1, "partition 0 is taken over", fleet)
        with Command("dlq", "replay", stage.reference, f"0:{at}", "--json", stage=stage) as command:
            assert command.json()["appended"] == {"0": 1}
        stage.events[0].append(later)
        done = stage.finish(run, fleet)
    stage.assert_exact()
    assert (done.counts().accepted, done.counts().dead, letters()) == (stage.fed, 1, 1)
    with Command("dlq", "list", stage.reference, "--json", stage=stage) as command:
        assert [(x["offset"], x["reason"]) for x in command.json()["letters"]] == [(at, "the registry has no schema 3")]
    stage.log.append(INPUT, 1, [head_of(99) + b"\x02"])  # no node reads it: the job is done
    for command in ("replay", "profile"):
        more = ("--seconds", "0.01") if command == "profile" else ()
        with Command(command, stage.reference, *more, "--json", stage=stage) as running:
            found = running.json()
        assert (found["dead_by_schema"], found["undecided_schemas"]) == (1, 1)
        assert found.get("deterministic", True)
    stage.log.close()


def test_the_registry_s_answers_are_told_apart(tmp_path: Path, registry: RegistryProcess) -> None:
    address = '{"type":"record","name":"Address","fields":[{"name":"city","type":"string"}]}'
    registry.register("of%2Faddress", address)
    refers = [{"name": "Address", "subject": "of/address", "version": 1}]
    id = registry.register("in-value", '{"type":"array","items":"Address"}', references=refers)
    client = RegistryClient(registry.url, RegistrySettings())
    found = client.fetch(id)
    assert found == RegisteredSchema(
        '{"type":"array","items":"Address"}', references=(("Address", RegisteredSchema(address)),)
    )
    assert client.fetch(77) == UnknownSchema()
    registry.register("row.proto", 'syntax = "proto3"; message Row { int64 n = 1; }', "PROTOBUF")
    refers = [{"name": "row.proto", "subject": "row.proto", "version": 1}]
    text = 'syntax = "proto3"; import "row.proto"; message Rows { repeated Row rows = 1; }'
    rows = registry.register("rows-value", text, "PROTOBUF", refers)
    form = Protobuf(dict[str, Any], registry=registry.url)
    values = [head_of(rows) + b"\x00\x0a\x02\x08\x05"]
    form.schemas.learn(rows, client.fetch(rows))
    assert form.decode(values).events == [{"rows": [{"n": 5}]}]
    with pytest.raises(Unreachable, match=r"HTTP 404; is this the address of a schema registry\?"):
        RegistryClient(f"{registry.url}/elsewhere", RegistrySettings()).fetch(id)
    registry.away()
    with pytest.raises(Unreachable, match=r"does not answer: .*refused"):
        client.fetch(id)


def test_a_registry_with_tls_and_a_password(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    pem = tmp_path / "broker.pem"
    registry = RegistryProcess(tmp_path / "schemas.json", "ann:pa:ss", pem, pem)
    url = registry.url.replace("http:", "https:")
    try:
        trusted = RegistrySettings("ann", Secret("pa:ss"), str(tmp_path / "authority.pem"))
        assert RegistryClient(url, trusted).fetch(1) == UnknownSchema()
        wrong = RegistrySettings("ann", Secret("sesame"), str(tmp_path / "authority.pem"))
        with pytest.raises(Unreachable, match=r"HTTP 401 .*set schema_registry\.username") as raised:
            RegistryClient(url, wrong).fetch(1)
        assert "sesame" not in str(raised.value)
        with pytest.raises(Unreachable, match="certificate"):
            RegistryClient(url, RegistrySettings()).fetch(1)
    finally:
        registry.away()
    with pytest.raises(Unreachable, match="the password would cross the network unencrypted"):
        RegistryClient("http://registry.invalid", wrong).fetch(1)


def test_a_report_on_a_topic_says_which_schemas_its_last_records_name(tmp_path: Path) -> None:
    stage = Stage(tmp_path, partitions=2)
    stage.log.append(INPUT, 0, [head_of(7) + b"\x02", head_of(5)])
    named = topic_report(stage.settings, INPUT)
    assert named.schema_ids == [5, 7] and "Avro(..., registry=URL)" in named.advice[-1]
    assert "schemas of a registry: 5, 7" in lines(named)
    stage.log.append(INPUT, 1, [b'{"id":1}'])
    assert topic_report(stage.settings, INPUT).schema_ids == []
    stage.log.close()
