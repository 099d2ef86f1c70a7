"""Dataclasses, TypedDicts and NamedTuples are read as the columns of the equal Struct, and as what msgspec makes."""

from __future__ import annotations

import dataclasses
import random
from abc import ABC
from dataclasses import InitVar, dataclass, field
from typing import Annotated, Any, Generic, NamedTuple, NotRequired, TypedDict, TypeVar

import msgspec
import numpy as np
import pytest

from holon import Json, JsonColumns
from holon.columnar.event_types import ITSELF, has_fields, is_made_of_fields, why_not_plain
from holon.columnar.structs.columns import Lists
from holon.errors import JobError
from tests.column_readings import readings, taken, without_loops
from tests.json_records import Schema
from tests.plain_types import Form, plain_type

pytestmark = pytest.mark.usefixtures("loops_installed")

RUNS, RECORDS = 2, 60
SEEDS = 24
"""More of them are in tests/laws/test_drawn_columns.py."""
FORMS: tuple[Form, ...] = ("dataclass", "dict", "tuple")


def compare_plain(seed: int, form: Form) -> int:
    """Draw a type and records of it, and read them as columns both ways, and as objects; returns how many."""
    draw = random.Random(seed)
    schema = Schema(draw)
    of = plain_type(schema.type, form, draw)
    if not has_fields(of) or issubclass(of, msgspec.Struct):
        return 0
    columns, objects = JsonColumns(of), Json(of)
    for _ in range(RUNS):
        payloads = [schema.record(draw) for _ in range(RECORDS)]
        if form == "tuple":
            payloads = [_as_array(payload, of) for payload in payloads]
        found = readings(columns, payloads)
        assert found == without_loops(columns, payloads), f"seed {seed}"
        decoded, events = columns.decode(payloads), objects.decode(payloads)
        too_large = [row for row, why in decoded.bad if why.endswith("does not fit in 64 bits")]
        assert [one for one in decoded.bad if one[0] not in too_large] == events.bad, f"seed {seed}"
        rows = range(len(payloads)) if events.rows is None else events.rows.tolist()
        kept = [event for row, event in zip(rows, events.events, strict=True) if row not in too_large]
        assert list(map(repr, decoded.columns[ITSELF])) == list(map(repr, kept)), f"seed {seed}"
    return RUNS * RECORDS


def _as_array(payload: bytes, of: Any) -> bytes:
    """The record as an array of its values, in the order of the fields; as it is if it is no such object."""
    try:
        members = msgspec.json.decode(payload, type=dict[str, msgspec.Raw])
        return b"[" + b",".join(bytes(members[name]) for name in of._fields) + b"]"
    except (KeyError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return payload


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_drawn_records_of_drawn_types_are_what_msgspec_makes_of_them(seed: int, form: Form) -> None:
    compare_plain(seed, form)


def test_most_drawn_types_are_plain() -> None:
    assert sum(compare_plain(seed, "dataclass") > 0 for seed in range(10)) >= 7


@dataclass
class Place:
    lat: float
    lon: float = 0.5


@dataclass(frozen=True, slots=True)
class Order:
    user: str
    pieces: Annotated[int, msgspec.Meta(ge=0)] = 1
    place: Place | None = None
    places: list[Place] = field(default_factory=list)
    note: str | None = "none"

    def total(self) -> int:
        return self.pieces * 2

    @property
    def shown(self) -> str:
        return self.user.upper()


class DictPlace(TypedDict):
    lat: float
    lon: float


class DictOrder(TypedDict):
    user: str
    pieces: int
    place: DictPlace | None
    home: DictPlace
    places: list[DictPlace]


class TupleOrder(NamedTuple):
    user: str
    pieces: int = 1
    place: Place | None = None


def test_dataclasses_inside_of_one_are_columns_and_need_no_msgspec() -> None:
    places = ["null", '{"lat":1}', '{"lon":2,"lat":1.5,"x":[]}']
    payloads = [f'{{"place":{one},"user":"é","places":[{one}]}}'.encode() for one in places[1:]]
    payloads += [b'{"user":"a","note":null,"pieces":3}', b'{"user":"b","place":null}']
    payloads *= 8
    assert all(taken(Order, payloads))
    found = JsonColumns(Order).decode(payloads).columns
    events = [msgspec.json.decode(payload, type=Order) for payload in payloads]
    assert found[ITSELF] == events and type(found[ITSELF][0]) is Order
    assert found["user"] == [one.user for one in events]
    assert np.array_equal(found["pieces"], [one.pieces for one in events])
    assert found["note"] == [one.note for one in events]
    assert found["place"] == [one.place for one in events]
    assert found["place.lon"] == [None if one.place is None else one.place.lon for one in events]
    assert isinstance(found["places.lon"], Lists)
    assert found["places.lon"] == [[each.lon for each in one.places] for one in events]


def test_typed_dicts_inside_of_one_are_columns_and_keys_come_as_in_the_record() -> None:
    payloads = [
        b'{"user":"a","pieces":1,"place":null,"home":{"lat":1,"lon":2},"places":[]}',
        b'{"pieces":2,"user":"b","places":[{"lat":1,"lon":2}],"home":{"lon":3,"lat":4},"place":{"lon":0,"lat":1},"x":1}',
        b'{"user":"a","pieces":1,"place":null,"home":{"lat":1},"places":[]}',
    ] * 9  # fmt: skip
    assert taken(DictOrder, payloads) == [True, True, False] * 9
    found = JsonColumns(DictOrder).decode(payloads)
    events = [msgspec.json.decode(one, type=DictOrder) for one in payloads if b'"lat":1},"places"' not in one]
    assert [why for _, why in found.bad] == ["Object missing required field `lon` - at `$.home`"] * 9
    assert list(map(list, found.columns[ITSELF])) == list(map(list, events))
    assert found.columns[ITSELF] == events
    assert found.columns["home.lat"].tolist() == [one["home"]["lat"] for one in events]
    assert found.columns["place.lat"] == [None if one["place"] is None else one["place"]["lat"] for one in events]
    assert found.columns["places.lon"] == [[each["lon"] for each in one["places"]] for one in events]
    for few in (payloads[:3], payloads):
        assert readings(JsonColumns(DictOrder), few) == without_loops(JsonColumns(DictOrder), few)


def test_named_tuples_have_columns_by_msgspec() -> None:
    payloads = [b'["a",2,{"lat":1}]', b'["b"]', b'{"user":"a"}', b"[1]"]
    found = JsonColumns(TupleOrder).decode(payloads)
    assert found.columns[ITSELF] == [TupleOrder("a", 2, Place(1.0)), TupleOrder("b")]
    assert found.columns["pieces"].tolist() == [2, 1] and found.columns["place"] == [Place(1.0), None]
    assert found.bad == Json(TupleOrder).decode(payloads).bad
    assert not JsonColumns(TupleOrder).is_compiled


def test_integers_beyond_64_bits_are_bad_records_as_of_structs() -> None:
    payloads = [b'{"user":"a","pieces":9223372036854775808}', b'{"user":"a"}'] * 20
    for few in (payloads[:4], payloads):
        assert {why for _, why in JsonColumns(Order).decode(few).bad} == {"pieces does not fit in 64 bits"}


@dataclass
class Checked:
    amount: int

    def __post_init__(self) -> None:
        self.amount += 1


@dataclass
class WithChecked:
    id: int
    checked: Checked


@dataclass
class Child(Checked):
    more: int = 0


@dataclass
class Own(ABC):
    amount: int

    def __new__(cls, *_: Any) -> Own:
        return super().__new__(cls)


@dataclass
class Guarded:
    amount: int

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)


@dataclass
class Making:
    amount: int

    def __getattr__(self, name: str) -> int:
        return 1


class Doubling:
    def __get__(self, one: Any, of: Any = None) -> int:
        return 2

    def __set__(self, one: Any, value: Any) -> None:
        pass


@dataclass
class Described:
    amount: int = Doubling()  # type: ignore[assignment]


class MayLack(TypedDict, total=False):
    amount: int


class LacksOne(TypedDict):
    amount: int
    note: NotRequired[str]


@dataclass
class Given:
    amount: int
    start: InitVar[int] = 0


@dataclass
class Written:
    amount: int

    def __init__(self, amount: int) -> None:
        self.amount = amount * 2


@dataclass
class Counted:
    amount: int
    number: int = field(init=False, default=7)


T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    amount: T


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (Checked, "Checked checks itself (__post_init__)"),
        (Child, "Child checks itself (__post_init__)"),
        (Own, "Own has a __new__ of its own"),
        (Guarded, "Guarded has a __setattr__ of its own"),
        (Making, "Making has attributes of its own making"),
        (Described, "Described.amount runs code"),
        (MayLack, "MayLack has keys that may be missing"),
        (LacksOne, "LacksOne has keys that may be missing"),
        (Given, "msgspec knows no fields of it"),
        (TypedDict("Dashes", {"a-b": int}), "Dashes has keys that are no names"),
    ],
)
def test_types_that_run_code_or_lack_keys_are_no_columns(of: Any, why: str) -> None:
    assert why_not_plain(of) == why and not has_fields(of)
    with pytest.raises(JobError, match="needs a msgspec"):
        JsonColumns(of)


@pytest.mark.parametrize("of", [int, dict, dict[str, int], Order | Place, object, tuple, Box[int]])
def test_other_types_are_no_columns(of: Any) -> None:
    assert why_not_plain(of) == "" and not has_fields(of)


@pytest.mark.parametrize(("of", "is_made"), [(Order, True), (TupleOrder, True), (Box, True), (Written, False),
                                             (Counted, False), (DictOrder, False), (Checked, False)])  # fmt: skip
def test_only_types_whose_call_keeps_its_arguments_are_made_of_fields(of: Any, is_made: bool) -> None:
    assert is_made_of_fields(of) == is_made


def test_a_type_with_an_init_of_its_own_is_read_as_msgspec_reads_it() -> None:
    """It calls no ``__init__``."""
    payloads = [b'{"amount":4}', b'{"number":1,"amount":5}'] * 20
    for of in (Written, Counted):
        found = JsonColumns(of).decode(payloads)
        events = [msgspec.json.decode(payload, type=of) for payload in payloads]
        assert list(map(vars, found.columns[ITSELF])) == list(map(vars, events))
        assert np.array_equal(found.columns["amount"], [4, 5] * 20)


def test_a_field_that_checks_itself_is_made_by_msgspec() -> None:
    payloads = [b'{"id":1,"checked":{"amount":4}}'] * 30
    found = JsonColumns(WithChecked).decode(payloads)
    assert found.columns["checked"] == [Checked(4)] * 30
    assert dataclasses.asdict(found.columns[ITSELF][0]) == {"id": 1, "checked": {"amount": 5}}
    assert set(found.columns) == {ITSELF, "id", "checked"}
