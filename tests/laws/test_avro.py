"""Avro: drawn schemas read as drawn types give the values that were written, and no bytes make a reader fail."""

from __future__ import annotations

import datetime
import decimal
import uuid
from io import BytesIO
from typing import Any, Literal, NamedTuple

import fastavro
import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from holon import JsonColumns
from holon.avro import Avro, AvroColumns
from holon.formats.registry import UnknownSchema, head_of

URL = "http://registry:8081"
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Drawn(NamedTuple):
    """A writer's schema, a type that reads it, and pairs of what fastavro writes and what the type's value is then."""

    schema: Any
    type: Any
    values: st.SearchStrategy[tuple[Any, Any]]


def _same(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, Any]]:
    return values.map(lambda value: (value, value))


def _logical(kind: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **more}


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
LONGS = st.integers(-(2**63), 2**63 - 1)
MILLIS = st.integers(-62_135_596_800_000, 253_402_300_799_999)
LEAVES: list[Drawn] = [
    Drawn("boolean", bool, _same(st.booleans())),
    Drawn("int", int, _same(st.integers(-(2**31), 2**31 - 1))),
    Drawn("long", int, _same(LONGS)),
    Drawn("int", float, st.integers(-(2**31), 2**31 - 1).map(lambda value: (value, float(value)))),
    Drawn("float", float, _same(st.floats(allow_nan=False, width=32))),
    Drawn("double", float, _same(st.floats(allow_nan=False))),
    Drawn("string", str, _same(TEXTS)),
    Drawn("string", bytes, TEXTS.map(lambda text: (text, text.encode()))),
    Drawn("bytes", bytes, _same(st.binary(max_size=9))),
    Drawn("bytes", str, TEXTS.map(lambda text: (text.encode(), text))),
    Drawn(_logical("long", "timestamp-millis"), int, MILLIS.map(lambda ms: (ms, ms))),
    Drawn(
        _logical("long", "timestamp-millis"),
        datetime.datetime,
        MILLIS.map(lambda ms: (ms, EPOCH + datetime.timedelta(milliseconds=ms))),
    ),
    Drawn(
        _logical("long", "timestamp-micros"),
        datetime.datetime,
        MILLIS.map(lambda us: (us, EPOCH + datetime.timedelta(microseconds=us))),
    ),
    Drawn(_logical("int", "date"), datetime.date, _same(st.dates())),
    Drawn(_logical("string", "uuid"), uuid.UUID, _same(st.uuids())),
    Drawn(_logical("string", "uuid"), str, st.uuids().map(lambda one: (one, str(one)))),
    Drawn(
        _logical("bytes", "decimal", precision=12, scale=2),
        decimal.Decimal,
        _same(st.decimals(-(10**9), 10**9, places=2)),
    ),
]


@st.composite
def drawn(draw: st.DrawFn, depth: int = 2) -> Drawn:
    """A schema, with records and containers inside of it down to a depth."""
    kinds = ["leaf"] * 3 + ["enum"] + ["null", "array", "map", "record"] * (depth > 0)
    match draw(st.sampled_from(kinds)):
        case "enum":
            schema = {"type": "enum", "name": "T", "symbols": ["A", "B", "C"]}
            return Drawn(schema, Literal["A", "B", "C"], _same(st.sampled_from("ABC")))
        case "null":
            inner = draw(st.sampled_from(LEAVES))
            of_inner = st.one_of(st.just((None, None)), inner.values)
            branches = draw(st.permutations(["null", inner.schema]))
            return Drawn(list(branches), inner.type | None, of_inner)
        case "array":
            inner = draw(drawn(depth - 1))
            values = st.lists(inner.values, max_size=3).map(lambda all: ([a for a, _ in all], [b for _, b in all]))
            return Drawn({"type": "array", "items": inner.schema}, list[inner.type], values)
        case "map":
            inner = draw(drawn(depth - 1))
            pairs = st.dictionaries(TEXTS, inner.values, max_size=3).map(
                lambda all: ({k: a for k, (a, _) in all.items()}, {k: b for k, (_, b) in all.items()})
            )
            return Drawn({"type": "map", "values": inner.schema}, dict[str, inner.type], pairs)
        case "record":
            return draw(records(depth - 1))
        case _:
            return draw(st.sampled_from(LEAVES))


def named(schema: Any, count: list[int]) -> Any:
    """The same schema, in which each type has a name of its own."""
    if isinstance(schema, list):
        return [named(branch, count) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: named(value, count) if key in ("type", "items", "values") else value for key, value in schema.items()}
    if "name" in schema and schema["type"] in ("record", "enum"):
        count[0] += 1
        found["name"] = f"T{count[0]}"
    if "fields" in schema:
        found["fields"] = [{"name": one["name"], "type": named(one["type"], count)} for one in schema["fields"]]
    return found


def tops() -> st.SearchStrategy[Drawn]:
    """A record as topics have them."""
    return records().map(lambda found: found._replace(schema=named(found.schema, [0])))


@st.composite
def records(draw: st.DrawFn, depth: int = 2) -> Drawn:
    """A record and a Struct of some of its fields, in another order, and of one that no writer has."""
    fields = draw(st.lists(drawn(depth), min_size=1, max_size=5))
    names = [f"f{number}" for number in range(len(fields))]
    kept = draw(st.lists(st.sampled_from(range(len(fields))), unique=True, min_size=1))
    struct = msgspec.defstruct("Row", [*((names[at], fields[at].type) for at in kept), ("lacking", int, 7)])
    schema = {
        "type": "record",
        "name": "T",
        "fields": [{"name": name, "type": one.schema} for name, one in zip(names, fields, strict=True)],
    }

    def value(all: tuple[tuple[Any, Any], ...]) -> tuple[Any, Any]:
        written = {name: one[0] for name, one in zip(names, all, strict=True)}
        return written, struct(**{names[at]: all[at][1] for at in kept})

    return Drawn(schema, struct, st.tuples(*(one.values for one in fields)).map(value))


def written(schema: Any, value: Any) -> bytes:
    """As fastavro writes it, behind the header of schema 3."""
    out = BytesIO()
    out.write(head_of(3))
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@given(st.data())
def test_a_type_has_the_values_that_were_written(data: st.DataObject) -> None:
    found = data.draw(tops())
    pairs = data.draw(st.lists(found.values, min_size=1, max_size=4))
    payloads = [written(found.schema, value) for value, _ in pairs]
    events = [event for _, event in pairs]
    decoded = Avro(found.type, registry=URL, schemas={3: found.schema}).decode(payloads)
    assert (decoded.events, decoded.bad) == (events, [])
    bare = Avro(found.type, schema=found.schema).decode([payload[5:] for payload in payloads])
    assert (bare.events, bare.bad) == (events, [])
    columns = AvroColumns(found.type, registry=URL, schemas={3: found.schema}).decode(payloads)
    wanted, _ = JsonColumns(found.type).columns_of(events)
    assert {name: list(column) for name, column in columns.columns.items()} == {
        name: list(column) for name, column in wanted.items()
    }


@given(st.data())
def test_anything_reads_what_fastavro_reads(data: st.DataObject) -> None:
    found = data.draw(tops())
    payloads = [written(found.schema, value) for value, _ in data.draw(st.lists(found.values, max_size=3))]
    schema = fastavro.parse_schema(found.schema)
    read = [fastavro.schemaless_reader(BytesIO(payload[5:]), schema, None) for payload in payloads]
    assert list(Avro(dict[str, Any], registry=URL, schemas={3: found.schema}).decode(payloads).events) == read


@given(st.data(), st.binary(max_size=12))
def test_damaged_bytes_are_bad_or_other_values_and_spare_their_neighbours(data: st.DataObject, noise: bytes) -> None:
    found = data.draw(tops())
    value, event = data.draw(found.values)
    whole = written(found.schema, value)
    cut = data.draw(st.integers(0, len(whole)))
    damaged = [whole[:cut], whole[:cut] + noise, whole[:cut] + noise + whole[cut + len(noise) :], noise]
    form = Avro(found.type, registry=URL, schemas={3: found.schema})
    assert form.schemas is not None
    if (missing := form.schemas.missing(damaged)) is not None:
        for id in missing[1]:
            form.schemas.learn(id, UnknownSchema())
    decoded = form.decode([whole, *damaged, whole])
    rows = list(range(6)) if decoded.rows is None else decoded.rows.tolist()
    assert sorted([*rows, *(row for row, _ in decoded.bad)]) == [0, 1, 2, 3, 4, 5]
    assert decoded.events[0] == decoded.events[-1] == event
    assert all("0x" not in reason for _, reason in decoded.bad), "no addresses: they differ from node to node"


class Plain(msgspec.Struct):
    texts: list[str]
    count: int = 0


ARRAY = {"type": "record", "name": "P", "fields": [{"name": "texts", "type": {"type": "array", "items": "string"}}]}


@given(st.binary(max_size=30))
@example(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01")
@example(b"\x01")
@example(b"\xff" * 11)
def test_no_bytes_claim_more_than_they_hold(noise: bytes) -> None:
    decoded = Avro(Plain, schema=ARRAY).decode([noise])
    assert len(decoded.events) + len(decoded.bad) == 1
