"""Keys of a type of which no value can be one: found when the flow is built, with what to take in their place."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import pytest

from holon import Json
from holon.dataflow import Flow, FlowError, Tumbling


class Kind(Enum):
    BUY = "buy"


class Text(StrEnum):
    BUY = "buy"


class Level(IntEnum):
    LOW = 1


class Point(msgspec.Struct, frozen=True):
    x: int


class Record(msgspec.Struct):
    at: datetime
    kind: Kind
    point: Point
    day: date
    price: Decimal
    lasts: timedelta
    id: UUID
    ratio: float
    is_open: bool
    items: list[int]
    found: frozenset[int]
    by_name: dict[str, int]
    clock: time
    maybe: Kind | None
    either: list[int] | dict[str, int]
    marked: Annotated[float, msgspec.Meta(gt=0)]


class Right(msgspec.Struct):
    level: Level = Level.LOW
    text: Text = Text.BUY
    pair: tuple[int, int] = (1, 2)
    word: Literal["x", "y"] = "x"
    raw: bytes = b"x"
    anything: Any = 3
    some: int | list[int] = 4
    number: int | None = None


INSTEAD = {
    "at": r"datetime: its \.isoformat\(\)", "kind": r"Kind: its \.value", "point": "Point: take a tuple of its fields",
    "day": r"date: its \.isoformat", "price": r"Decimal: str\(", "lasts": r"timedelta: str\(", "id": r"UUID: str\(",
    "ratio": r"float: str\(", "is_open": r"bool: int\(", "items": r"list: tuple\(", "found": r"frozenset: tuple\(",
    "by_name": "dict: take values", "clock": r"time: its \.isoformat", "maybe": r"Kind: its \.value",
    "either": r"list: tuple\(", "marked": r"float: str\(",
}  # fmt: skip


def counted(of: type, key: Callable[[Any], Any]) -> Flow:
    flow = Flow("keys")
    records = flow.source("in", Json(of), time=lambda r: 0)
    records.key_by(key).window(Tumbling(10)).agg(lambda g: (g.key, g.count())).sink("out")
    return flow


def field(name: str) -> Callable[[Any], Any]:
    return lambda r: getattr(r, name)


def part(name: str) -> Callable[[Any], Any]:
    return lambda r: (1, (getattr(r, name), "x"))


def written(key: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(key))


@pytest.mark.parametrize("key", [field, part])
@pytest.mark.parametrize("name", Record.__struct_fields__)
def test_a_field_that_can_be_no_key_is_refused_with_what_can(name: str, key: Callable[[str], Any]) -> None:
    text = rf"step 2 \(agg, test_key_types.*\): a key is an int, a text, bytes or a tuple of these, and {name} is "
    with pytest.raises(FlowError, match=text + INSTEAD[name]):
        assert counted(Record, key(name)).job


class Counts(msgspec.Struct):
    a: int
    b: int


@pytest.mark.parametrize(
    "key",
    [lambda r: r.a / r.b, lambda r: 1 / r.a, lambda r: (r.b, r.a * 0.5), lambda r: 2 + r.a / 2, lambda r: r.a % 0.5],
)
def test_a_number_that_is_no_whole_one_is_refused(key: Callable[[Any], Any]) -> None:
    with pytest.raises(FlowError, match=r"is float: str\("):
        assert counted(Counts, key).job


@pytest.mark.parametrize("key", [lambda r: r.a // r.b, lambda r: (r.a + r.b, r.a % 7), lambda r: -r.a * 3])
def test_a_whole_number_is_a_key(key: Callable[[Any], Any]) -> None:
    flow = counted(Counts, key)
    assert flow.collect({"in": [{"a": 9, "b": 2}]}) == [[written(key(Counts(9, 2))), 1]]


def test_a_row_is_no_key() -> None:
    with pytest.raises(FlowError, match="and row is Record: take a tuple of its fields"):
        assert counted(Record, lambda r: r).job


@pytest.mark.parametrize(
    ("map_to", "key", "text"),
    [
        (lambda r: (r.ratio, r.kind), lambda t: t[1], "part 1 of the row is Kind: its .value"),
        (lambda r: (r.ratio, r.kind), lambda t: (t[1].value, t[0]), "part 0 of the row is float: str"),
        (lambda r: (r.id, 1), lambda t: t, "part 0 of the row is UUID: str"),
        (lambda r: {"k": r.kind}, lambda row: row["k"], "k is Kind: its .value"),
        (None, lambda r: r.ratio > 0.5, "this value is bool: int"),
        (None, lambda r: ("x", bool(r.items)), "this value is bool: int"),
        (None, lambda r: sorted(r.items), "this value is list: tuple"),
        (None, lambda r: any(item > 3 for item in r.items), "this value is bool: int"),
    ],
)
def test_so_is_a_value_whose_type_is_known(map_to: Any, key: Any, text: str) -> None:
    records = Flow("keys").source("in", Json(Record), time=lambda r: 0)
    rows = records if map_to is None else records.map(map_to)
    with pytest.raises(FlowError, match=f"a key is an int, a text, bytes or a tuple of these, and {text}"):
        rows.key_by(key).window(Tumbling(10)).agg(lambda g: (g.key, g.count()))


@pytest.mark.parametrize("key", [lambda r: int(r.ratio > 0.5), lambda r: tuple(sorted(r.items)), lambda r: r.kind.name])
def test_values_of_known_types_that_may_be_keys_are(key: Any) -> None:
    records = Flow("keys").source("in", Json(Record), time=lambda r: 0)
    assert records.key_by(key).window(Tumbling(10)).agg(lambda g: (g.key, g.count()))


@pytest.mark.parametrize("key", [field, part])
@pytest.mark.parametrize("name", Right.__struct_fields__)
def test_a_field_that_may_be_a_key_is_one(name: str, key: Callable[[str], Any]) -> None:
    record = Right(number=5)
    ((found, count),) = counted(Right, key(name)).collect({"in": [record]})
    assert count == 1 and found == written(key(name)(record))


def test_what_each_error_says_is_a_key() -> None:
    record = Record(
        datetime(2026, 1, 2, tzinfo=UTC), Kind.BUY, Point(1), date(2026, 1, 2), Decimal("1.5"), timedelta(1),
        UUID(int=7), 0.5, True, [1], frozenset([2]), {"a": 3}, time(1), None, [4], 0.5,
    )  # fmt: skip

    def keys(r: Record) -> tuple[Any, ...]:
        return (
            r.at.isoformat(), r.kind.value, (r.point.x,), r.day.isoformat(), str(r.price), str(r.lasts), str(r.id),
            str(r.ratio), int(r.is_open), tuple(r.items), tuple(sorted(r.found)), r.by_name["a"], r.clock.isoformat(),
        )  # fmt: skip

    ((found, count),) = counted(Record, keys).collect({"in": [record]})
    assert count == 1 and found == written(keys(record))
