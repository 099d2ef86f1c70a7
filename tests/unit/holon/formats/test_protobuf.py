"""Protobuf: schemas as text, message types by their indexes, messages as objects, and what becomes a dead letter."""

from __future__ import annotations

import enum
import importlib
import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import pytest

from holon import Job, JobError, RecordKey, Source, Tombstone
from holon.columnar.record_parts import RecordParts
from holon.dataflow import Flow, Tumbling
from holon.formats.protobuf.messages import Schema
from holon.formats.registry import RegisteredSchema, UnknownSchema, head_of
from holon.protobuf import Alias, Protobuf, ProtobufColumns, proto_of
from holon.testing import JobTestDriver

URL = "http://registry:8081"
TEXT = """
syntax = "proto3";  // a comment; with "quotes" {
package shop;
import "google/protobuf/timestamp.proto";
import public "google/protobuf/wrappers.proto";
option java_package = "com.shop";
option (custom) = { deep: { er: 1 } };
/* services are
   passed over; */
service Shop { rpc Buy (Click) returns (Address) { option idempotency_level = NO_SIDE_EFFECTS; } }
enum Kind { option allow_alias = true; UNKNOWN = 0; VIEW = 1; BUY = 2 [deprecated = true]; LOST = -1; SEEN = 1; }
message Address { string city = 1; optional string zip = 2; }
message Click {
  message Inner { sint64 n = 1; repeated Inner more = 2; }
  google.protobuf.Timestamp at = 1;
  string user_id = 2;
  double price = 3 [json_name = "thePrice"];
  Kind kind = 4;
  repeated string tags = 5;
  map<string, int32> counts = 6;
  .shop.Address to = 7;
  oneof how { string link = 8; int64 code = 9; }
  Inner inner = 10;
  reserved 11 to 15, 20;
  reserved "old";
  optional int32 maybe = 16;
  bytes raw = 17;
  map<int32, Address> homes = 18;
  google.protobuf.Int64Value boxed = 19;
}
"""
CLICK = bytes.fromhex(
    "000000000102021203616e6e19000000000000044020022a0161320e0a017810fdffffffffffffffff013a030a014b42016c52020807"
)
ADDRESS = bytes.fromhex("0000000001000a054bc3b66c6e120131")
INNER = bytes.fromhex("0000000001040200080e")
"""As confluent-kafka 2.16's ProtobufSerializer has written them by a schema with these fields, as schema 1."""


class Kind(enum.Enum):
    UNKNOWN = "UNKNOWN"
    VIEW = "VIEW"
    BUY = "BUY"


class Address(msgspec.Struct):
    city: str
    zip: str | None = None


class Inner(msgspec.Struct):
    n: int
    more: list[Inner] = []


class Click(msgspec.Struct):
    user: Annotated[str, Alias("user_id")]
    price: float
    kind: Kind
    tags: list[str]
    counts: dict[str, int]
    link: str | None
    code: int
    to: Address | None = None
    inner: Inner | None = None
    maybe: int = -1
    at: datetime | None = None
    homes: dict[int, Address] = {}
    boxed: int | None = None


class Item(msgspec.Struct):
    at: int
    name: str
    price: float = 0.0


def reading(type: Any, text: str = TEXT, **more: Any) -> Protobuf[Any]:
    """A format that knows schema 1 only."""
    return Protobuf(type, registry=URL, schemas={1: text}, **more)


def class_of(name: str) -> Any:
    """A class as protoc makes it."""
    return Schema(RegisteredSchema(TEXT, "PROTOBUF")).message(name)


def test_confluent_records_are_read_by_the_schema_s_text() -> None:
    form = reading(Click)
    found = form.decode([CLICK])
    assert (found.events, found.bad) == (
        [Click("ann", 2.5, Kind.BUY, ["a"], {"x": -3}, "l", 0, Address("K"), Inner(-4))],
        [],
    )
    assert reading(Address).decode([ADDRESS]).events == [Address("Köln", "1")]
    assert reading(Inner).decode([INNER]).events == [Inner(7)]


def test_messages_are_events_of_their_class_alone() -> None:
    address = class_of("shop.Address")
    found = reading(address).decode([ADDRESS, CLICK])
    assert [(event.city, event.zip) for event in found.events] == [("Köln", "1")]
    assert found.bad == [(1, "schema 1: the message is a shop.Click, not a shop.Address")]
    assert Protobuf(address).decode([ADDRESS[6:]]).events == found.events
    assert Protobuf(Address, message=address).decode([ADDRESS[6:]]).events == [Address("Köln", "1")]


def test_only_what_cannot_be_read_is_a_bad_record_and_says_why() -> None:
    form = reading(Address)
    assert form.schemas is not None
    form.schemas.learn(9, UnknownSchema())
    form.schemas.learn(10, RegisteredSchema('"string"'))
    form.schemas.learn(11, RegisteredSchema("message A { B b = 1; }", "PROTOBUF"))
    form.schemas.learn(12, RegisteredSchema('import "other.proto"; message A { }', "PROTOBUF"))
    form.schemas.learn(13, RegisteredSchema("message A { repeated group G = 1 { } }", "PROTOBUF"))
    form.schemas.learn(14, RegisteredSchema("message A {", "PROTOBUF"))
    heads = [head_of(id) + b"\x00" for id in range(9, 15)]
    no_such = head_of(1) + b"\x02\x0a"
    payloads = [
        ADDRESS,
        b"",
        *heads,
        head_of(1),
        head_of(1) + b"\x01",
        no_such,
        ADDRESS[:-1],
        ADDRESS[:6] + b"\x0a\x01\xff",
    ]
    found = form.decode(payloads)
    assert found.events == [Address("Köln", "1")]
    damaged = "the value is no message of its type: it is damaged, or of another schema"
    assert [f"{row} {reason}" for row, reason in found.bad] == [
        "1 the value has 0 bytes, less than the header of a schema registry",
        "2 the registry has no schema 9",
        "3 schema 10: the schema is AVRO, not PROTOBUF",
        "4 schema 11: the schema has no type 'B', and imports none",
        "5 schema 12: the schema imports 'other.proto', and has no such reference",
        "6 schema 13: the schema is no Protobuf that is read here: 'group'",
        "7 schema 14: the schema is no Protobuf: it ends too early",
        "8 the header has no indexes of a message type",
        "9 the header has no indexes of a message type",
        "10 schema 1: the schema has no message type [5]",
        f"11 {damaged}",
        f"12 {damaged}",
    ]


def test_a_field_that_is_not_there_has_the_type_s_default_else_protobuf_s() -> None:
    class Row(msgspec.Struct):
        maybe: int
        code: int | None
        zip: str = "none"
        user_id: str = "nobody"
        inner: dict[str, Any] | None = None

    click = class_of("shop.Click")
    assert Protobuf(Row, message=click).decode([b""]).events == [Row(0, None, "none", "")]
    bad = Protobuf(msgspec.defstruct("To", [("to", Address)]), message=click).decode([b""]).bad
    assert bad == [(0, "Object missing required field `to`")]


def test_times_wrappers_enums_and_maps_are_values() -> None:
    click = class_of("shop.Click")
    message = click(kind=1, homes={3: {"city": "Bonn"}}, boxed={"value": 0})
    message.at.FromJsonString("2026-01-02T03:04:05.678901Z")
    value = message.SerializeToString()

    class Row(msgspec.Struct):
        at: datetime
        kind: Literal["VIEW"]
        homes: dict[int, Address]
        boxed: int

    at = datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC)
    assert Protobuf(Row, message=click).decode([value]).events == [Row(at, "VIEW", {3: Address("Bonn")}, 0)]
    numbers = msgspec.defstruct("Numbers", [("kind", int), ("at", dict[str, int])])
    (row,) = Protobuf(numbers, message=click).decode([value]).events
    assert (row.kind, row.at) == (1, {"seconds": 1_767_323_045, "nanos": 678_901_000})
    message.at.seconds = 10**15
    late, unknown = message.SerializeToString(), click(kind=77).SerializeToString()
    bad = Protobuf(Row, message=click).decode([late, unknown]).bad
    assert bad[0] == (0, "a time is beyond what a datetime or timedelta holds")
    assert bad[1][0] == 1


def test_references_are_files_that_the_schema_imports() -> None:
    inner = RegisteredSchema('syntax = "proto3"; package a.b; message In { int64 n = 1; }', "PROTOBUF")
    fields = "optional b.In in = 1; repeated a.b.In more = 2;"
    text = f'syntax = "proto2"; package a.c; import "x/in.proto"; message Out {{ {fields} }}'
    form = Protobuf(dict[str, Any], registry=URL)
    assert form.schemas is not None
    form.schemas.learn(1, RegisteredSchema(text, "PROTOBUF", (("x/in.proto", inner),)))
    value = head_of(1) + b"\x00\x0a\x02\x08\x05\x12\x00"
    assert form.decode([value]).events == [{"in": {"n": 5}, "more": [{"n": 0}]}]


def test_the_message_of_several_structs_is_the_one_of_its_name() -> None:
    class Home(msgspec.Struct, tag="Address"):
        city: str

    class Visit(msgspec.Struct, tag="Click"):
        user_id: str

    found = reading(Home | Visit).decode([ADDRESS, CLICK, INNER])
    assert found.events == [Home("Köln"), Visit("ann")]
    assert found.bad == [(2, "schema 1: the schema is of Inner, and no Struct of Home, Visit has that name or tag")]
    columns = ProtobufColumns(Home | Visit, registry=URL, schemas={1: TEXT}).decode([ADDRESS, CLICK]).columns
    assert list(columns["Home.city"]) == ["Köln", None]


def test_marked_fields_come_from_the_record() -> None:
    class Row(msgspec.Struct):
        key: Annotated[str, RecordKey]
        gone: Annotated[bool, Tombstone]
        city: str = ""

    parts = RecordParts([b"k1", b"k2"], {}, np.array([False, True]))
    stamps, rows = np.zeros(2, np.int64), [Row("k1", False, "Köln"), Row("k2", True)]
    assert reading(Row).decode_records([ADDRESS, b""], stamps, parts).events == rows
    bare = Protobuf(Row, message=class_of("shop.Address"))
    assert bare.decode_records([ADDRESS[6:], b""], stamps, parts).events == rows


def test_neither_the_address_nor_what_is_known_is_part_of_the_job_and_the_numbers_of_fields_are() -> None:
    def job(form: Any) -> str:
        return Job("j", Source("in", form), process=lambda event, ctx: None).fingerprint()

    first, second = Protobuf(Item, registry=URL), Protobuf(Item, registry="http://localhost:8081")
    before = job(first)
    assert first.decode([first.record_of(Item(1, "x"))]).events == [Item(1, "x")]
    assert job(first) == job(second) == before
    texts = ("message Item { int64 at = 1; }", "message Item { int64 at = 2; }")
    one, other = (Schema(RegisteredSchema(text, "PROTOBUF")).message("Item") for text in texts)
    assert len({job(Protobuf(Item, message=one)), job(Protobuf(Item, message=other)), before}) == 3


def test_what_cannot_be_declared_says_what_to_do() -> None:
    with pytest.raises(JobError, match="needs registry=URL where records name their schema, or message="):
        Protobuf(Item)
    with pytest.raises(JobError, match="message= is a class that protoc has made"):
        Protobuf(Item, message=Item)  # type: ignore[arg-type]
    with pytest.raises(JobError, match=r"ProtobufColumns needs a msgspec\.Struct"):
        ProtobufColumns(class_of("shop.Click"))
    with pytest.raises(JobError, match="Protobuf has no type for the field 'x'"):
        proto_of(msgspec.defstruct("Odd", [("x", int | str)]))


def test_tests_feed_objects_and_messages() -> None:
    class Timed(msgspec.Struct):
        at: datetime
        name: str
        took: timedelta | None = None
        parts: list[Item] = []

    flow = Flow("totals")
    rows = flow.source("rows", Protobuf(Timed, registry=URL), time=lambda row: row.at)
    rows.key_by(lambda row: row.name).window(Tumbling("1s")).agg(lambda g: {"name": g.key, "count": g.count()}).sink(
        "totals"
    )
    assert isinstance(flow.job.sources[0].format, ProtobufColumns)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    found = flow.collect({"rows": [Timed(at, "a", timedelta(seconds=1.5), [Item(1, "x")]), Timed(at, "a")]})
    assert found == [{"name": "a", "count": 2}]
    seen: list[Any] = []
    address = class_of("shop.Address")
    job = Job("j", Source("in", Protobuf(address, registry=URL)), process=lambda event, ctx: seen.append(event.city))
    test = JobTestDriver(job)
    test.feed(0, address(city="Ulm"), b"\x07")
    assert seen == ["Ulm"] and len(test.dead()) == 1


def test_an_encoder_writes_the_place_of_its_message_type() -> None:
    inner, address = class_of("shop.Click.Inner"), class_of("shop.Address")
    assert Protobuf(inner).encoder(1)(inner(n=7)) == INNER
    assert Protobuf(Address, message=address).encoder(1)(Address("Köln", "1")) == ADDRESS
    form = Protobuf(inner, registry=URL)
    assert form.decode([form.record_of(inner(n=7))]).events == [inner(n=7)]


def test_lines_of_json_become_messages_and_others_stay_as_they_are() -> None:
    for form in (reading(class_of("shop.Address")), Protobuf(Address, registry=URL)):
        found = form.decode([form.from_json(line) for line in (b'{"city":"Ulm"}', b'{"city":1}', b"{")])
        assert [event.city for event in found.events] == ["Ulm"] and [row for row, _ in found.bad] == [1, 2]


def test_a_plain_install_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf.message", None)
    monkeypatch.delitem(sys.modules, "holon.protobuf")
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'holon-streams\[protobuf\]'"):
        importlib.import_module("holon.protobuf")
