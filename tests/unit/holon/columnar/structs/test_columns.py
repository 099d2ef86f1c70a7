"""Lists of records: read by the compiled loop, columns of what their items have, and the same without loops."""

from __future__ import annotations

import enum
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import numpy as np
import pytest

from holon import Batch, JsonColumns
from holon.columnar.payloads import Texts
from holon.columnar.structs.columns import Lists
from tests.column_readings import readings, taken, without_loops

pytestmark = pytest.mark.usefixtures("loops_installed")


def decoded(of: Any, payloads: list[bytes]) -> tuple[dict[str, Any], list[Any]]:
    """The columns of records that the loop reads all, and their events; both ways give the same columns."""
    assert all(taken(of, payloads))
    assert readings(JsonColumns(of), payloads) == without_loops(JsonColumns(of), payloads)
    return JsonColumns(of).decode(payloads).columns, [msgspec.json.decode(payload, type=of) for payload in payloads]


def refused(of: Any, payloads: list[bytes], good: list[bytes]) -> None:
    """No record is read by the loop, and whatever msgspec says of them is said."""
    assert not any(taken(of, payloads))
    mixed = [one for pair in zip(payloads, good * len(payloads), strict=False) for one in pair]
    assert readings(JsonColumns(of), mixed * 3) == without_loops(JsonColumns(of), mixed * 3)


class Plain(msgspec.Struct):
    ints: list[int]
    floats: list[float] | None = None
    texts: list[str] = []
    bools: list[bool] = msgspec.field(default_factory=list)


def test_lists_of_plain_items_need_no_msgspec() -> None:
    payloads = [
        b'{"ints":[]}',
        b'{"ints":[ ],"floats":null,"texts":["a","\\u00e9\\n","\xc3\xa9"],"bools":[true,false]}',
        b'{"ints":[1, -2\n,3],"floats":[1,2.5,-1e3],"texts":[],"bools":[]}',
    ] * 12
    found, events = decoded(Plain, payloads)
    for name in Plain.__struct_fields__:
        assert found[name] == [getattr(event, name) for event in events]
    odd = ["[1,]", "[,1]", "[1 2]", "[1", "[1.5]", "[null]", '["1"]', "[[1]]", "{}", "1", "[99999999999999999999]",
           "[1}", "[1,,2]", "[1,2"]  # fmt: skip
    wrong = [f'{{"ints":{one}}}'.encode() for one in odd]
    wrong += [b'{"ints":[],"texts":["\xff"]}', b'{"ints":[],"texts":["\\ud800"]}', b'{"ints":[],"bools":[nul]}']
    wrong += [b'{"ints":[],"floats":[1e400]}', b'{"ints":[],"floats":["NaN"]}']
    refused(Plain, wrong, payloads)


class Side(enum.Enum):
    BUY = "buy"
    SELL = "sell"


class Item(msgspec.Struct):
    name: str
    price: Annotated[float, msgspec.Meta(ge=0.0)]
    count: int = 1
    side: Side | None = None
    tags: list[str] = []


class Order(msgspec.Struct):
    id: int
    items: list[Item]
    more: list[Item] | None = None


ITEMS = [
    "[]",
    '[{"name":"\\u00e9\\n","price":1.5}]',
    '[ {"price":2,"count":3,"name":"b","tags":["x","y"],"other":[{}]} , {"name":"","price":0,"side":"sell","tags":[]}]',
    '[{"name":"a","price":1,"side":null},{"name":"b","price":2},{"price":3,"name":"c","side":"buy"}]',
]


def test_lists_of_structs_are_columns_of_their_fields() -> None:
    payloads = [f'{{"id":1,"items":{items},"more":{more}}}'.encode() for items in ITEMS for more in (*ITEMS, "null")]
    payloads += [f'{{"items":{items},"id":2}}'.encode() for items in ITEMS]
    found, events = decoded(Order, payloads)
    for name in Order.__struct_fields__:
        assert list(found[name]) == [getattr(event, name) for event in events]
    for name in Item.__struct_fields__:
        assert found[f"items.{name}"] == [[getattr(item, name) for item in event.items] for event in events]
        assert found[f"more.{name}"] == [
            None if event.more is None else [getattr(item, name) for item in event.more] for event in events
        ]
    prices, offsets = found["items.price"].flat()
    assert prices.dtype == np.float64 and prices.tolist() == [item.price for event in events for item in event.items]
    assert offsets.tolist() == [0, *np.cumsum([len(event.items) for event in events]).tolist()]
    names, _ = found["items.name"].flat()
    assert isinstance(names, Texts) and names == [item.name for event in events for item in event.items]
    tags, _ = found["items.tags"].flat()
    assert isinstance(tags, Lists) and tags == [item.tags for event in events for item in event.items]


@pytest.mark.parametrize("odd", [b'{"id":"x"}', b'{"id":1,"items":[{"name":"a","price":1}],"more":3}', b""])
def test_lists_one_behind_the_other_are_whole_beside_an_odd_record(odd: bytes) -> None:
    """Where a record is for msgspec the loop's items of all others are looked up by the ends of their lists."""
    one = '{"name":"a%d","price":%d,"side":"buy","count":%d}'
    lists = ["", one % (1, 2, 3), ",".join(one % (n, n + 1, n + 2) for n in range(3))] * 2
    good = [f'{{"id":1,"items":[{each}],"more":[{each}]}}'.encode() for each in lists]
    for at in (0, 3, len(good)):
        payloads = [*good[:at], odd, *good[at:]]
        assert taken(Order, payloads) == [payload is not odd for payload in payloads]
        assert readings(JsonColumns(Order), payloads) == without_loops(JsonColumns(Order), payloads)


def test_a_record_with_an_odd_item_is_for_msgspec() -> None:
    item = '{"name":"a","price":1}'
    odd = ["{}", "null", "3", "[]", '{"name":"a"}', '{"name":"a","price":-1}', '{"name":"a","price":1,"price":2}', "",
           '{"name":"a","price":1', '{"name":"a","price":1]', '{"name":1,"price":1}',
           '{"name":"a","price":1,"tags":[1]}', '{"name":"a","price":1,"side":"hold"}',
           '{"name":"a","price":1,"count":9999999999999999999999}']  # fmt: skip
    wrong = [f'{{"id":1,"items":{items}}}'.encode() for one in odd for items in (f"[{one},{item}]", f"[{item},{one}]")]
    wrong += [
        f'{{"id":1,"items":{items}}}'.encode() for items in ("null", "{}", f"[{item} {item}]", f"[{item}", f"[{item},]")
    ]
    refused(Order, wrong, [f'{{"id":1,"items":[{item}]}}'.encode()])


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    name: str


class Deep(msgspec.Struct):
    pets: list[Cat | Dog | None]
    rows: list[list[int]]
    orders: list[Order] = []
    grid: list[list[Item]] | None = None
    exact: list[Decimal | None] = []
    times: list[datetime] = []
    short: Annotated[list[int], msgspec.Meta(min_length=1, max_length=2)] = msgspec.field(default_factory=lambda: [7])


@pytest.mark.slow
def test_lists_in_lists_and_lists_of_unions_are_columns_too() -> None:
    pets = ["[]", '[{"type":"cat","lives":9},null,{"name":"Rex","type":"dog"}]']
    payloads = [
        f'{{"pets":{one},"rows":[[],[1,2],[{n}]],"orders":[{{"id":{n},"items":{items}}}],"grid":[{items},[]],'
        f'"exact":[1.50,null,"-2"],"times":["2024-02-29T12:00:00Z"],"short":[1,{n}]}}'.encode()
        for n, one in enumerate(pets * 3)
        for items in ITEMS
    ]
    payloads += [b'{"rows":[],"pets":[]}', b'{"rows":[[]],"pets":[null],"grid":null,"orders":[],"short":[3]}']
    found, events = decoded(Deep, payloads)
    for name in Deep.__struct_fields__:
        assert found[name] == [getattr(event, name) for event in events], name
    tags = {Cat: "cat", Dog: "dog", type(None): None}
    assert found["pets.type"] == [[tags[type(pet)] for pet in event.pets] for event in events]
    assert found["pets.Cat.lives"] == [
        [pet.lives if isinstance(pet, Cat) else None for pet in event.pets] for event in events
    ]
    prices = [[[item.price for item in order.items] for order in event.orders] for event in events]
    assert found["orders.items.price"] == prices
    assert found["grid.name"] == [
        None if event.grid is None else [[item.name for item in row] for row in event.grid] for event in events
    ]
    wrong = [b'{"pets":[],"rows":[],"short":[]}', b'{"pets":[],"rows":[],"short":[1,2,3]}', b'{"pets":[],"rows":[1]}']
    refused(Deep, [*wrong, b'{"pets":[{"lives":9}],"rows":[]}', b'{"pets":[],"rows":[[1,],[]]}'], payloads)


class Node(msgspec.Struct):
    name: str
    children: list[Node] = []


def test_lists_that_lie_in_themselves_are_msgspecs() -> None:
    payloads = [b'{"name":"a","children":[{"name":"b","children":[]}]}', b'{"name":"c"}'] * 20
    found, events = decoded(Node, payloads)
    assert found["children"] == [event.children for event in events]
    assert set(found) == {"name", "children"}


def test_however_many_items_there_are_the_loop_reads_them() -> None:
    lists = [list(range(count)) for count in (0, 30_000, 1, 7)] * 8
    payloads = [msgspec.json.encode({"ints": one}) for one in lists]
    few = [b'{"ints":[1]}'] * 30
    columns = JsonColumns(Plain)
    for _ in range(2):
        assert columns.decode(few).columns["ints"] == [[1]] * 30
        assert columns.decode(payloads).columns["ints"] == lists
    assert columns.slow_records == 0


class Wide(msgspec.Struct):
    """So many columns an item that items without any would need far more memory than their records."""

    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0
    e: int = 0
    f: int = 0
    g: int = 0
    h: int = 0
    i: int = 0
    j: int = 0
    k: int = 0
    l: int = 0  # noqa: E741


class Row(msgspec.Struct):
    wide: list[Wide]


@pytest.mark.slow
def test_items_that_need_far_more_memory_than_their_bytes_are_for_msgspec() -> None:
    payloads = [b'{"wide":[%s]}' % b",".join([b"{}"] * count) for count in (1, 3_000)] * 40
    columns = JsonColumns(Row)
    found = columns.decode(payloads)
    assert not found.bad and 0 < columns.slow_records <= 40
    assert found.columns["wide.a"] == [[0], [0] * 3_000] * 40


def test_a_batch_of_lists_can_be_cut_and_holds_what_no_array_can() -> None:
    payloads = [b'{"ints":[1,2]}', b'{"ints":[]}', b'{"ints":[9223372036854775808]}', b'{"ints":[3]}'] * 10
    found = JsonColumns(Plain).decode(payloads)
    assert not found.bad
    rows = np.arange(len(payloads))
    batch = Batch(rows, rows, found.columns, ())
    odd = batch.take(rows % 2 == 1)["ints"]
    items, offsets = odd.flat()
    assert odd == [[], [3]] * 10 and items.dtype == np.int64 and items.tolist() == [3] * 10
    assert offsets.tolist() == [0, *np.cumsum([0, 1] * 10).tolist()]
    whole, _ = batch["ints"].flat()
    assert whole.dtype == object and whole.tolist() == [1, 2, 2**63, 3] * 10
    assert batch["ints"][2] == [2**63] and batch["ints"][3:5] == [[3], [1, 2]] and batch["floats"] == [None] * 40
