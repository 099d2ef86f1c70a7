"""The compiled decoder and msgspec say the same of every record of every Struct: values, dead letters, reasons."""

from __future__ import annotations

import enum
import json
import math
import random
import struct
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import pytest

from holon import Batch, JsonColumns
from holon.columnar.loops import installed
from tests.column_readings import readings, taken, without_loops
from tests.json_records import Schema

pytestmark = pytest.mark.usefixtures("loops_installed")

RUNS, RECORDS = 3, 60
SEEDS = 20
"""More of them are in tests/laws/test_drawn_columns.py."""


def compare(seed: int) -> int:
    """Draw a Struct and records of it, and read them both ways; returns how many."""
    draw = random.Random(seed)
    schema = Schema(draw)
    columns = JsonColumns(schema.type)
    for _ in range(RUNS):
        payloads = [schema.record(draw) for _ in range(RECORDS)]
        assert readings(columns, payloads) == without_loops(columns, payloads), f"seed {seed}"
    return RUNS * RECORDS


@pytest.mark.parametrize("seed", range(SEEDS))
def test_drawn_records_of_drawn_structs_are_read_as_msgspec_reads_them(seed: int) -> None:
    compare(seed)


@pytest.mark.nightly
def test_ten_million_drawn_records_are_read_as_msgspec_reads_them() -> None:
    seed, compared = random.randrange(1 << 40), 0
    while compared < 10_000_000:
        compared += compare(seed)
        seed += 1


class Place(msgspec.Struct):
    lat: float
    at_m: Annotated[int, msgspec.Meta(ge=0)] = 0


class Reading(msgspec.Struct, rename="camel"):
    sensor_id: str
    time_ns: int
    value: float
    place: Place
    größe: float = 1.5
    broken: bool = False
    note: str | None = None
    count: int | None = None
    tags: list[str] = msgspec.field(default_factory=list)


FULL = {"sensorId": "Zürich \"1\"", "timeNs": 1_753_000_000_123_456_789, "value": 0.8444218515250481,
        "place": {"lat": -78.64077206021233, "atM": 3, "at_m": 7}, "größe": 2, "broken": True, "note": "😀",
        "count": None, "tags": ["a", "b"], "other": [{"deep": [1, 2.5e-3, None, True, "\\"]}]}  # fmt: skip


def variants() -> list[bytes]:
    """One record in many orders, with blanks, with and without what may be missing."""
    draw, found = random.Random(1), []
    for number in range(200):
        names = draw.sample(list(FULL), len(FULL))
        kept = {name: FULL[name] for name in names if name in list(FULL)[:4] or draw.random() < 0.7}
        separators = (" , ", "\t:\n") if number % 3 == 0 else (",", ":")
        found.append(json.dumps(kept, ensure_ascii=number % 2 == 0, separators=separators).encode())
    return found


def test_right_records_need_no_msgspec() -> None:
    """Whatever their order, blanks, escapes, unknown fields, and what is missing or null."""
    payloads = variants()
    assert all(taken(Reading, payloads))
    found = JsonColumns(Reading).decode(payloads).columns
    events = [msgspec.json.decode(payload, type=Reading) for payload in payloads]
    assert found["place"] == [event.place for event in events] and found["note"] == [event.note for event in events]
    assert found["place.at_m"].tolist() == [event.place.at_m for event in events]
    assert found["count"] == [event.count for event in events] and found["tags"] == [event.tags for event in events]
    assert found["sensor_id"] == [event.sensor_id for event in events]


class Side(enum.Enum):
    BUY = "buy"
    SELL = "sell"


class Choice(msgspec.Struct):
    side: Side
    unit: Literal["°C", "K"] = "K"
    level: Literal[1, 2] | None = None


def test_members_of_enums_and_literals_need_no_msgspec() -> None:
    payloads = [
        b'{"side":"buy"}',
        '{"side":"s\\u0065ll","unit":"°C","level":2}'.encode(),
        b'{"side":"buy","level":null}',
    ]
    assert all(taken(Choice, payloads * 12))
    found = JsonColumns(Choice).decode(payloads * 12).columns
    events = [msgspec.json.decode(payload, type=Choice) for payload in payloads * 12]
    for name in Choice.__struct_fields__:
        assert found[name] == [getattr(event, name) for event in events]
    odd = ['"bu"', '"buyy"', '""', "null", "1", '"BUY"', '["buy"]']
    refused = [f'{{"side":{one}}}'.encode() for one in odd]
    refused += [b'{"side":"buy","level":3}', b'{"side":"buy","unit":"C"}', b'{"side":"buy","level":true}']
    assert not any(taken(Choice, refused * 3))
    mixed = (payloads + refused) * 3
    assert readings(JsonColumns(Choice), mixed) == without_loops(JsonColumns(Choice), mixed)


class Inner(msgspec.Struct):
    n: int
    text: str = "x"
    tags: list[int] = []
    deeper: Place | None = None


class Outer(msgspec.Struct):
    id: int
    must: Inner | None
    may: Inner | None = None


def test_fields_of_a_struct_that_may_be_null_are_columns_and_none_with_it() -> None:
    values = ["null", '{"n":1}', '{"n":2,"text":"é","tags":[3],"deeper":{"lat":1.5}}', '{"n":4,"deeper":null}']
    whole = [f'{{"id":1,"must":{one},"may":{other}}}'.encode() for one in values for other in values]
    short = [f'{{"must":{one},"id":2}}'.encode() for one in values]
    payloads = (whole + short) * 2
    assert all(taken(Outer, payloads))
    found = JsonColumns(Outer).decode(payloads).columns
    events = [msgspec.json.decode(payload, type=Outer) for payload in payloads]
    for name in ("must", "may"):
        inner = [getattr(event, name) for event in events]
        assert found[name] == inner
        for field in ("n", "text", "tags", "deeper"):
            assert found[f"{name}.{field}"] == [None if one is None else getattr(one, field) for one in inner]
        deeper = [None if one is None else one.deeper for one in inner]
        assert found[f"{name}.deeper.at_m"] == [None if one is None else one.at_m for one in deeper]
    assert readings(JsonColumns(Outer), payloads) == without_loops(JsonColumns(Outer), payloads)
    assert (
        taken(Outer, [b'{"id":1}', b'{"id":1,"must":3}', b'{"id":1,"must":nul}', b'{"id":1,"must":{}}'] * 9)
        == [False] * 36
    )


class Cat(msgspec.Struct, tag="cat"):
    lives: Annotated[int, msgspec.Meta(ge=0)]
    names: list[str] = []


class Dog(msgspec.Struct, tag="dog"):
    name: str
    home: Place | None = None


class Key(msgspec.Struct, tag=1, tag_field="kind"):
    code: int


class Click(msgspec.Struct, tag=12, tag_field="kind"):
    at: float
    on: Cat | Dog


class Seen(msgspec.Struct):
    pet: Cat | Dog
    input: Key | Click | None
    last: Cat | Dog | None = None


PETS = [
    '{"type":"cat","lives":9}',
    '{"lives":7,"names":["\\"type\\":"],"x":{"type":"dog"}, "type" : "cat" }',
    '{"name":"é","type":"dog","home":{"lat":1.5}}',
    '{"type":"dog","home":null,"name":"Rex"}',
]
ODD_PETS = ["{}", "null", "3", "[]", '{"lives":1}', '{"type":"cow"}', '{"type":"ca","lives":1}', '{"type":1,"lives":1}',
            '{"type":"dog","lives":1}', '{"type":"cat","lives":1,"type":"dog"}', '{"type":"cat","lives":-1}',
            '{"type":"dog","name":"a","type":"dog"}', '{"lives":1,"type":"cat"', '{"lives":1 "type":"cat"}',
            '{"lives":nul,"type":"cat"}', '{"type":cat,"lives":1}', '{"t\\u0079pe":"dog","lives":1,"type":"cat"}',
            '{"type":"cat","lives":1,"names":[2]}', '{"type":"catt","lives":1}']  # fmt: skip
INPUTS = ["null", '{"kind":1,"code":3}', *(f'{{"at":1,"on":{pet},"kind":12}}' for pet in PETS)]


def test_unions_of_structs_are_columns_and_need_no_msgspec_until_somebody_asks_for_the_objects() -> None:
    payloads = [f'{{"pet":{pet},"input":{one}}}'.encode() for pet in PETS for one in INPUTS]
    payloads += [f'{{"last":{last},"pet":{PETS[0]},"input":null}}'.encode() for last in (*PETS, "null")]
    assert all(taken(Seen, payloads))
    found = JsonColumns(Seen).decode(payloads).columns
    events = [msgspec.json.decode(payload, type=Seen) for payload in payloads]
    for name in Seen.__struct_fields__:
        assert found[name] == [getattr(event, name) for event in events]
    pets = [event.pet for event in events]
    assert found["pet.type"] == ["cat" if isinstance(pet, Cat) else "dog" for pet in pets]
    assert found["pet.Cat"] == [pet if isinstance(pet, Cat) else None for pet in pets]
    assert found["pet.Dog.name"] == [pet.name if isinstance(pet, Dog) else None for pet in pets]
    clicks = [event.input if isinstance(event.input, Click) else None for event in events]
    assert found["input.kind"] == [
        None if event.input is None else 1 + 11 * (event.input in clicks) for event in events
    ]
    cats = [None if click is None or not isinstance(click.on, Cat) else click.on for click in clicks]
    assert found["input.Click.on.Cat.lives"] == [None if cat is None else cat.lives for cat in cats]
    assert readings(JsonColumns(Seen), payloads) == without_loops(JsonColumns(Seen), payloads)


def test_objects_of_a_union_without_their_tag_or_with_two_are_for_msgspec() -> None:
    refused = [f'{{"pet":{one},"input":null}}'.encode() for one in ODD_PETS]
    tags = ["1.0", "01", '"1"', "2", "112", "1 2"]
    refused += [f'{{"pet":{PETS[0]},"input":{{"kind":{tag},"code":3}}}}'.encode() for tag in tags]
    assert not any(taken(Seen, refused * 2))
    mixed = [*refused, *(f'{{"pet":{pet},"input":null}}'.encode() for pet in PETS)] * 2
    assert readings(JsonColumns(Seen), mixed) == without_loops(JsonColumns(Seen), mixed)


class Sum(msgspec.Struct, tag="sum"):
    left: Sum | Number
    right: Sum | Number


class Number(msgspec.Struct, tag="number"):
    value: int


class Formula(msgspec.Struct):
    id: int
    root: Sum | Number


def test_unions_that_lie_in_themselves_are_read_and_their_inner_ones_are_msgspecs() -> None:
    one, two = '{"type":"number","value":1}', '{"value":2,"type":"number"}'
    both = f'{{"type":"sum","left":{one},"right":{{"left":{two},"right":{one},"type":"sum"}}}}'
    payloads = [f'{{"id":1,"root":{root}}}'.encode() for root in (one, both, two, '{"type":"sum","left":1}')] * 9
    assert taken(Formula, payloads) == [True, True, True, False] * 9
    columns = JsonColumns(Formula).decode(payloads).columns
    assert columns["root.Number.value"][:3] == [1, None, 2] and "root.Sum.left.type" not in columns
    assert readings(JsonColumns(Formula), payloads) == without_loops(JsonColumns(Formula), payloads)


@pytest.mark.parametrize("options", [{"tag": 'x"y'}, {"tag": "x", "tag_field": 'x"y'}])
def test_structs_whose_tag_json_escapes_are_for_msgspec(options: dict[str, Any]) -> None:
    quoted = msgspec.defstruct("Quoted", [("a", int)], **options)
    payloads = [b'{"type":"x\\"y","a":1}', b'{"type":"x"y","a":1}', b'{"x\\"y":"x","a":1}', b'{"x"y":"x","a":1}'] * 20
    loops = installed()
    assert loops is not None and JsonColumns(quoted).reader(loops) is None
    assert readings(JsonColumns(quoted), payloads) == without_loops(JsonColumns(quoted), payloads)


@pytest.mark.slow
def test_floats_are_those_that_python_reads() -> None:
    class Number(msgspec.Struct):
        n: float

    draw = random.Random(2)
    bits = struct.Struct("<d")
    numbers = [bits.unpack(draw.randbytes(8))[0] for _ in range(20_000)]
    texts = [repr(number) for number in numbers if math.isfinite(number)]
    texts += [f"{draw.randrange(10**19)}e{draw.randrange(-340, 289)}" for _ in range(20_000)]
    texts += [f"{draw.randrange(10**6)}.{draw.randrange(10**6)}" for _ in range(20_000)]
    texts += [f"{2**53 + draw.randrange(2**10)}.5" for _ in range(2_000)]  # ties
    payloads = [b'{"n":%s}' % text.encode() for text in texts]
    whole = taken(Number, payloads)
    assert sum(whole) > 0.95 * len(whole), "all but ties and the smallest"
    found = JsonColumns(Number).decode(payloads)
    assert found.rows is None and found.columns["n"].tolist() == [float(text) for text in texts]


def test_columns_that_are_made_when_they_are_asked_for_can_be_cut() -> None:
    payloads = [
        *variants(),
        b'{"sensorId":"x","timeNs":1,"value":1.0,"place":{"lat":1},"note":"\\u0061","sensorId":"y"}',
    ]
    columns = JsonColumns(Reading).decode(payloads).columns
    events = [msgspec.json.decode(payload, type=Reading) for payload in payloads]
    batch = Batch(np.arange(len(payloads)), np.arange(len(payloads)), columns, ())
    odd = batch.take(np.arange(len(payloads)) % 2 == 0)
    for name in ("note", "place", "count"):
        wanted = [getattr(event, name) for event in events]
        assert odd[name] == wanted[::2] and columns[name][-1] == wanted[-1] and columns[name][3:7] == wanted[3:7]
    assert events[-1].sensor_id == "y" == columns["sensor_id"][-1]


def test_a_number_of_a_struct_inside_that_no_column_can_hold_is_a_dead_letter() -> None:
    class Outer(msgspec.Struct):
        inner: Place

    payloads = [b'{"inner":{"lat":1,"at_m":%d}}' % number for number in (1, 2**63, -1)] * 10
    found = JsonColumns(Outer).decode(payloads)
    reasons = {reason for _, reason in found.bad}
    assert reasons == {"inner.at_m does not fit in 64 bits", "Expected `int` >= 0 - at `$.inner.at_m`"}
    assert readings(JsonColumns(Outer), payloads) == without_loops(JsonColumns(Outer), payloads)
