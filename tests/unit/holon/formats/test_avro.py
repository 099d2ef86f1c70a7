"""Avro: the wire format of a schema registry, writers' schemas read as types, and what becomes a dead letter."""

from __future__ import annotations

import enum
import importlib
import json
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import msgspec
import numpy as np
import pytest

from holon import Job, JobError, Output, RecordKey, Source, Tombstone
from holon.avro import Alias, Avro, AvroColumns, schema_of
from holon.columnar.record_parts import RecordParts
from holon.dataflow import Flow, Tumbling
from holon.formats.registry import RegisteredSchema, UnknownSchema, head_of
from holon.testing import JobTestDriver

URL = "https://registry.example:8081"
ADDRESS = {
    "type": "record",
    "name": "shop.Address",
    "fields": [{"name": "city", "type": "string"}, {"name": "zip", "type": ["null", "string"], "default": None}],
}
CLICK: dict[str, Any] = {
    "type": "record",
    "name": "shop.Click",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "user_id", "type": "string"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["VIEW", "BUY"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "to", "type": ["null", "shop.Address"], "default": None},
        {"name": "session", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ratio", "type": "float"},
    ],
}
BYTES = bytes.fromhex(
    "0000000002dcbccccaef6606616e6e0404e2020402610262000202780500020a4bc3b66c6e020a35303636374830303030303030302d3030"
    "30302d303030302d303030302d303030303030303030303035cebf020000003f"
)
"""As confluent-kafka 2.16's AvroSerializer has written it by ``CLICK``, which the registry knew as schema 2."""


class Kind(enum.Enum):
    VIEW = "VIEW"
    BUY = "BUY"


class Address(msgspec.Struct):
    city: str
    zip: str | None = None


class Click(msgspec.Struct):
    at: datetime
    user: Annotated[str, Alias("uid", "user_id")]
    price: Decimal
    kind: Kind
    tags: list[str]
    counts: dict[str, int]
    session: UUID
    day: date
    ratio: float
    to: Address | None = None
    shop: str = "main"


class Item(msgspec.Struct):
    """Of a record that a test writes."""

    at: int
    name: str
    price: float = 0.0


def registered(schema: Any, *references: tuple[str, RegisteredSchema]) -> RegisteredSchema:
    return RegisteredSchema(json.dumps(schema), references=references)


def reading(type: Any, schema: Any) -> Avro[Any]:
    """A format that knows schema 2 only."""
    return Avro(type, registry=URL, schemas={2: schema})


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": of} for field, of in fields]}


def test_a_confluent_record_is_read_as_a_struct() -> None:
    form = Avro(Click, registry=URL)
    assert form.schemas is not None
    form.schemas.learn(2, registered(CLICK, ("shop.Address", registered(ADDRESS))))
    found = form.decode([BYTES])
    assert found.bad == []
    at, day = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC), date(2026, 1, 2)
    assert found.events == [
        Click(at, "ann", Decimal("12.50"), Kind.BUY, ["a", "b"], {"x": -3}, UUID(int=5), day, 0.5,
              Address("Köln", "50667"))
    ]  # fmt: skip


def test_only_what_cannot_be_read_is_a_bad_record_and_says_why() -> None:
    form = Avro(Click, registry=URL)
    assert form.schemas is not None
    form.schemas.learn(2, registered(CLICK, ("shop.Address", registered(ADDRESS))))
    form.schemas.learn(9, UnknownSchema())
    form.schemas.learn(10, RegisteredSchema("message Click {}", "PROTOBUF"))
    form.schemas.learn(11, registered(record(("shop", "string"))))
    enum_at = BYTES.index(b"ann") + 6
    damaged = BYTES[:enum_at] + b"\x08" + BYTES[enum_at + 1 :]
    payloads = [b"", b'{"at":1}', BYTES, BYTES[:-1], BYTES + b"\x00", head_of(9), head_of(10), head_of(11) + b"\x02a"]
    found = form.decode([*payloads, damaged, BYTES.replace(b"ann", b"\xff\xfe\xfd")])
    assert found.rows is not None and found.rows.tolist() == [2] and len(found.events) == 1
    assert [f"{row} {reason}" for row, reason in found.bad] == [
        "0 the value has 0 bytes, less than the header of a schema registry",
        "1 the value begins with 7b, not with the 00 of a schema registry",
        "3 the value ends too early: it is damaged, or of another schema",
        "4 1 bytes are left behind the value: it is of another schema",
        "5 the registry has no schema 9",
        "6 schema 10: the schema is PROTOBUF, not AVRO",
        "7 Object missing required field `at`",
        "8 there is no such branch of a union or symbol of an enum: it is damaged, or of another schema",
        "9 a text is not UTF-8",
    ]


def test_schemas_of_several_writers_are_read_side_by_side() -> None:
    class Row(msgspec.Struct):
        a: float
        b: str = "none"

    form = Avro(Row, registry=URL, schemas={1: record(("a", "int")), 2: record(("b", "string"), ("a", "double"))})
    one, two = head_of(1) + b"\x06", head_of(2) + b"\x04hi" + np.float64(0.5).tobytes()
    assert form.decode([one, two, one]).events == [Row(3.0), Row(0.5, "hi"), Row(3.0)]


def test_a_logical_type_is_a_number_where_a_number_is_declared() -> None:
    schema = record(("at", {"type": "long", "logicalType": "timestamp-micros"}))
    payload = head_of(2) + b"\x80\x80\xd2\x9f\x98\xc2\xcd\x05"
    at = reading(msgspec.defstruct("Row", [("at", int)]), schema).decode([payload]).events[0].at
    assert at == 1_577_836_800_000_000 // 1 and reading(dict[str, Any], schema).decode([payload]).events == [
        {"at": datetime.fromtimestamp(at / 1e6, UTC)}
    ]


def test_the_record_of_several_structs_is_the_one_of_the_schemas_name() -> None:
    class Cat(msgspec.Struct, tag="cat"):
        lives: int

    class Dog(msgspec.Struct, tag="dog"):
        name: str

    schemas = {
        1: record(("lives", "int"), name="zoo.Cat"),
        2: record(("name", "string"), name="zoo.dog"),
        3: record(("name", "string"), name="zoo.Cow"),
    }
    payloads = [head_of(1) + b"\x12", head_of(2) + b"\x06Rex", head_of(3) + b"\x06Bea"]
    found = Avro(Cat | Dog, registry=URL, schemas=schemas).decode(payloads)
    assert found.events == [Cat(9), Dog("Rex")]
    assert found.bad == [(2, "schema 3: the schema is of Cow, and no Struct of Cat, Dog has that name or tag")]
    columns = AvroColumns(Cat | Dog, registry=URL, schemas=schemas).decode(payloads).columns
    assert list(columns["Cat.lives"]) == [9, None] and list(columns["type"]) == ["cat", "dog"]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (record(("next", ["null", "R"])), "the schema is recursive: R has a R inside"),
        (record(("many", {"type": "array", "items": "null"})), "the schema has an array of items that take no bytes"),
        ({"type": "record"}, "the schema is no Avro"),
        ("nothing", "the schema is no Avro"),
        (record(("a", "unheard.Of")), "the schema is no Avro"),
    ],
)
def test_schemas_that_bytes_could_misuse_are_refused(schema: Any, why: str) -> None:
    ((row, reason),) = reading(dict[str, Any], schema).decode([head_of(2) + b"\x02" * 100]).bad
    assert row == 0 and reason.startswith(f"schema 2: {why}")


def test_a_short_schema_that_means_a_million_types_is_refused() -> None:
    inner: Any = record(("a", "int"), name="T0")
    for number in range(1, 30):
        inner = record(("a", inner), ("b", f"T{number - 1}"), name=f"T{number}")
    ((_, reason),) = reading(dict[str, Any], inner).decode([head_of(2)]).bad
    assert reason == "schema 2: the schema has more than 10000 types, or is deeper than 64"


def test_records_without_a_header_are_of_the_one_schema() -> None:
    form = Avro(Item, schema=schema_of(Item))
    assert form.decode([form.record_of(Item(5, "x", 0.5)), b""]).events == [Item(5, "x", 0.5)]
    with pytest.raises(JobError, match=r"schema= of Avro\(Item\): the schema is no Avro"):
        Avro(Item, schema="itme")


def test_marked_fields_come_from_the_record() -> None:
    class Row(msgspec.Struct):
        key: Annotated[str, RecordKey]
        gone: Annotated[bool, Tombstone]
        name: Annotated[str, Alias("label")] = ""

    schema = record(("label", "string"))
    parts = RecordParts([b"k1", b"k2"], {}, np.array([False, True]))
    payloads, stamps = [head_of(2) + b"\x04hi", b""], np.zeros(2, np.int64)
    assert reading(Row, schema).decode_records(payloads, stamps, parts).events == [
        Row("k1", False, "hi"),
        Row("k2", True),
    ]
    bare = Avro(Row, schema=schema).decode_records([b"\x04hi", b""], stamps, parts)
    assert bare.events == [Row("k1", False, "hi"), Row("k2", True)]
    columns = AvroColumns(Row, registry=URL, schemas={2: schema}).decode_records(payloads, stamps, parts).columns
    assert {name: list(column) for name, column in columns.items()} == {
        "key": ["k1", "k2"],
        "gone": [False, True],
        "name": ["hi", ""],
    }


def test_missing_schemas_are_those_of_well_formed_headers_that_nobody_has_asked_for() -> None:
    form = reading(Click, CLICK)
    assert form.schemas is not None
    payloads = [BYTES, b"\x01abcd", b"", head_of(7), head_of(300), head_of(7)]
    assert form.schemas.missing(payloads) == (3, [7, 300])
    form.schemas.learn(7, UnknownSchema())
    assert form.schemas.missing(payloads) == (4, [300])
    form.schemas.learn(7, registered(CLICK))
    assert form.schemas.get(7) == UnknownSchema(), "the first answer stays"
    assert form.schemas.missing(payloads[:4]) is None
    with pytest.raises(JobError, match=r"schema 300 of https://registry.example:8081 is not known here"):
        form.decode(payloads)


def test_neither_the_address_nor_what_is_known_is_part_of_the_job() -> None:
    def job(form: Any) -> Job[Any]:
        return Job("j", Source("in", form), process=lambda event, ctx: None).fingerprint()

    first, second = Avro(Item, registry=URL), Avro(Item, registry="http://localhost:8081/registry/")
    before = job(first)
    assert first.decode([first.record_of(Item(1, "x"))]).events == [Item(1, "x")]
    assert second.schemas is not None
    second.schemas.learn(5, registered(CLICK))
    assert job(first) == job(second) == before
    assert job(Avro(Item, schema=schema_of(Item))) != before


@pytest.mark.parametrize(
    "url", ["registry:8081", "ftp://registry", "http://", "https://me:secret@registry", "https://registry?token=secret"]
)
def test_an_address_with_a_secret_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(JobError, match=r"set schema_registry\.username and schema_registry\.password") as raised:
        Avro(Item, registry=url)
    assert "secret" not in str(raised.value)


def test_what_cannot_be_declared_says_what_to_do() -> None:
    with pytest.raises(JobError, match="registry=URL where records name their schema, or schema=SCHEMA"):
        Avro(Item)
    with pytest.raises(JobError, match="array_like: it has no names"):
        Avro(msgspec.defstruct("Listed", [("a", int)], array_like=True), registry=URL)
    with pytest.raises(JobError, match=r"AvroColumns needs a msgspec\.Struct"):
        AvroColumns(dict[str, int], registry=URL)
    with pytest.raises(JobError, match="Alias takes the names"):
        Alias()
    with pytest.raises(JobError, match="has no column 'nmae'; it has at, name, price"):
        Source("in", AvroColumns(Item, registry=URL), timestamp="nmae")


def test_tests_feed_objects_to_jobs_and_flows() -> None:
    flow = Flow("totals")
    items = flow.source("items", Avro(Item, registry=URL), time=lambda item: item.at)
    items.key_by(lambda item: item.name).window(Tumbling("1s")).agg(
        lambda g: {"name": g.key, "sum": g.sum(lambda item: item.price)}
    ).sink("totals")
    assert isinstance(flow.job.sources[0].format, AvroColumns)
    rows = flow.collect({"items": [Item(1, "a", 2.0), Item(500, "b", 1.0), Item(900, "a", 0.5)]})
    assert sorted((row["name"], row["sum"]) for row in rows) == [("a", 2.5), ("b", 1.0)]
    test = JobTestDriver(flow.job)
    test.feed(0, Item(1, "a"), b"\x07")
    assert [letter["reason"] for letter in test.dead()] == [
        "the value has 1 bytes, less than the header of a schema registry"
    ]


def test_an_encoder_writes_the_header_of_its_schema_or_none() -> None:
    form = Avro(Item, schema=schema_of(Item))
    assert form.encoder(258)(Item(1, "x")) == b"\x00\x00\x00\x01\x02" + form.encoder()(Item(1, "x"))
    named = Avro(Item, registry=URL, schemas={258: schema_of(Item)})
    assert named.decode([form.encoder(258)(Item(1, "x"))]).events == [Item(1, "x")]
    with pytest.raises(JobError, match="the schema does not take"):
        form.encoder()({"at": "x"})  # type: ignore[arg-type]
    jobs = [
        Job("j", Source("in", form), process=lambda event, ctx: None, output=Output("out", encode=form.encoder(id)))
        for id in (1, 1, 2)
    ]
    prints = [job.fingerprint() for job in jobs]
    assert prints[0] == prints[1] != prints[2]


def test_lines_of_json_become_records_and_others_stay_as_they_are() -> None:
    form = Avro(Item, registry=URL)
    found = form.decode([form.from_json(line) for line in (b'{"at":1,"name":"a"}', b'{"at":"x"}', b"{")])
    assert (found.events, [row for row, _ in found.bad]) == ([Item(1, "a")], [1, 2])


def test_a_plain_install_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    monkeypatch.delitem(sys.modules, "holon.avro")
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'holon-streams\[avro\]'"):
        importlib.import_module("holon.avro")
