"""Values that travel come back as they are, and others are refused by name, at every door of a transactional job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from functools import cached_property
from typing import Any
from uuid import UUID

import msgspec
import pytest

from nodes.transactions.external_calls import ExternalCalls
from tests.unit.txn_stage import Stage
from transactional import Aborted, BadArguments, BadValue, Context, Entity, Operator, Program, Serial
from transactional.requests.requests import WireRequest, partition_of, request_record, sendable
from transactional.state.values import decode, encode, fits_json, is_plain, is_plain_json, misfit, travelling


class Colour(Enum):
    RED = "red"


class Size(IntEnum):
    SMALL = 1


class Line(msgspec.Struct):
    price: Any
    count: int = 1


@dataclass
class Basket:
    lines: list[Any]


NAN = float("nan")
KEPT: dict[str, Any] = {
    "nothing": None,
    "plain": [1, "a", True, None, -0.0, 2**63, -(2**63), {"a": [{"b": 1.5}]}],
    "bytes": [b"\x00\xff"],
    "infinite": [float("inf"), -float("inf")],
    "a time": [datetime(2024, 1, 2, 3, 4, 5, 678901, UTC)],
}
COMES_AS: dict[str, tuple[Any, Any]] = {
    "a tuple": ([(1, 2)], [[1, 2]]),
    "a struct": ([Line(2)], [{"price": 2, "count": 1}]),
    "a dataclass": ([Basket([1])], [{"lines": [1]}]),
    "an int of an enum": ([Size.SMALL], [1]),
}
REFUSED: dict[str, tuple[Any, str]] = {
    "a set": ([{1, 2}], r"\[0\]: set cannot travel, it would come back as list"),
    "a decimal in a list in a dict": (
        {"items": [1, 2, {"price": Decimal("1.5")}]},
        r"items\[2\]\.price: Decimal cannot travel, it would come back as str",
    ),
    "a key that is an int": ({"rates": {1: 2}}, r"rates: the key 1 is int, and keys are str"),
    "a key that is no Unicode text": ([{"\ud800": 1}], r"\[0\]: the key '\\ud800' is str, and keys are str of Unicode"),
    "a decimal in a struct": ([Line(Decimal(1))], r"\[0\]\.price: Decimal cannot travel"),
    "a decimal in a dataclass": ([Basket([Decimal(1)])], r"\[0\]\.lines\[0\]: Decimal cannot travel"),
    "a time without a zone": ([datetime(2024, 1, 2)], r"\[0\]: datetime cannot travel"),
    "a date": ([date(2024, 1, 2)], r"\[0\]: date cannot travel"),
    "a span": ([timedelta(1)], r"\[0\]: timedelta cannot travel"),
    "a UUID": ([UUID(int=5)], r"\[0\]: UUID cannot travel"),
    "an enum": ([Colour.RED], r"\[0\]: Colour cannot travel"),
    "a large int": ([0, 2**64], r"\[1\]: int cannot travel"),
    "text that is none": (["\ud800"], r"\[0\]: str cannot travel"),
    "an object": ([object()], r"\[0\]: object cannot travel"),
    "the whole": (Decimal(1), "Decimal cannot travel"),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_value_that_travels_comes_back_as_it_is(name: str) -> None:
    value = KEPT[name]
    assert misfit(value) is None
    assert decode(travelling(value)) == value
    assert not is_plain_json(value) or msgspec.json.decode(msgspec.json.encode(value)) == value


@pytest.mark.parametrize("name", REFUSED)
def test_a_value_that_would_come_back_as_another_is_refused_with_its_place(name: str) -> None:
    value, why = REFUSED[name]
    with pytest.raises(BadValue, match=why):
        travelling(value)


def test_what_json_would_change_is_named() -> None:
    assert fits_json({"a": [1, NAN]}) == "a[1]: nan cannot travel in JSON"
    assert fits_json([{"b": b"x"}]) == "[0].b: bytes cannot travel in JSON"
    assert fits_json({"a": [1, 2.5, None, True, "x"]}) is None
    assert not is_plain_json([NAN]) and not is_plain_json([[b"x"]]) and is_plain([[b"x"], NAN])


def test_a_cycle_and_a_deep_value_are_refused_and_no_stack_runs_over() -> None:
    cycle: list[Any] = []
    cycle += [cycle, cycle]
    with pytest.raises(BadValue, match="nested more than 500 deep"):
        travelling(cycle)
    with pytest.raises(BadArguments, match=r"it\.echo: .*nested more than 500 deep"):
        request_record(WireRequest("x", "it", "a", "echo", cycle))
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    assert is_plain(deep) and decode(travelling(deep)) == deep


# --- clients ----------------------------------------------------------------------------------------------------------

it = Operator("it", partitions=2)
other = Operator("other", partitions=2)
typed = Operator("typed", partitions=2, state=Line)


@it.register
async def echo(ctx: Context, value: Any) -> Any:
    return value


@it.register
async def keep(ctx: Context, value: Any) -> Any:
    ctx.put(value)
    return ctx.get()


@it.register
async def ask_other(ctx: Context, value: Any) -> Any:
    return await ctx.call(other, "b", "echo", [value])


@other.register
async def echo_there(ctx: Context, value: Any) -> Any:
    return value


other.functions["echo"] = echo_there


@typed.register
async def price(ctx: Context, text: str) -> Any:
    ctx.put(Line(text, 2))
    return ctx.get().price


@typed.register
async def price_with_decimal(ctx: Context, text: str) -> Any:
    ctx.put(Line(Decimal(text)))


def outside(key: str, kind: str) -> Any:
    return {"result": {1}, "bytes": b"x", "nan": [NAN]}[kind]


class Order(Entity, partitions=2):
    price: Decimal = Decimal(0)
    tags: frozenset[str] = frozenset()
    notes: Any = None

    async def set_price(self, text: str) -> str:
        self.price += Decimal(text)
        self.tags |= {text}
        return str(self.price)

    async def note(self) -> None:
        self.notes = Decimal(1)


@it.register
async def ask_with(ctx: Context, kind: str) -> Any:
    return await ctx.call(other, "b", "echo", [{1} if kind == "set" else Decimal(1)])


@it.register
async def queue_with_set(ctx: Context) -> None:
    ctx.call_async(other, "b", "echo", [{1}])


@it.register
async def give_decimal(ctx: Context) -> Any:
    return {"price": Decimal("1.5")}


@it.register
async def store_set(ctx: Context) -> None:
    ctx.put({"seen": {1}})


@it.register
async def ask_outside(ctx: Context, kind: str) -> Any:
    return await ctx.external(outside, [{1}] if kind == "argument" else [kind])


PROGRAM = Program("values", [it, other, typed, Order.operator], externals=[outside])


class WithOutside(Stage):
    """Its nodes make the external calls too."""

    def turn(self, times: int = 1) -> None:
        super().turn(times)
        for name, (driver, _) in self.nodes.items():
            found = self.outsides.get(name)
            if found is None:
                topic, key = self.topics.requests, self.config.answer_key
                found = self.outsides[name] = ExternalCalls(self.log, self.program, topic, lambda: 0, key)
            found.turn(driver.node.partitions)

    @cached_property
    def outsides(self) -> dict[str, ExternalCalls]:
        return {}


@pytest.fixture(scope="module")
def stage() -> Stage:
    made = WithOutside(PROGRAM)
    made.start("a")
    return made


@pytest.mark.parametrize("function", ["echo", "keep", "ask_other"])
@pytest.mark.parametrize("name", KEPT)
def test_arguments_state_and_results_are_kept(stage: Stage, name: str, function: str) -> None:
    value = KEPT[name]
    assert stage.call("it", "a", function, [value]) == value
    assert Serial(PROGRAM).call("it", "a", function, [value]) == value
    assert stage.call("it", "a", function, {"value": value}) == value


def test_not_a_number_is_kept(stage: Stage) -> None:
    (found,) = stage.call("it", "a", "keep", [[NAN]])
    assert found != found


@pytest.mark.parametrize("name", COMES_AS)
def test_tuples_and_dataclasses_come_as_lists_and_dicts(stage: Stage, name: str) -> None:
    value, expected = COMES_AS[name]
    assert stage.call("it", "a", "echo", [value]) == expected


@pytest.mark.parametrize("name", REFUSED)
def test_the_client_refuses_arguments_that_cannot_travel_at_once(stage: Stage, name: str) -> None:
    value, why = REFUSED[name]
    before = [stage.log.end_offset(stage.topics.requests, p) for p in range(2)]
    with pytest.raises(BadArguments, match=why):
        stage.client.call("it", "a", "echo", value)
    with pytest.raises(BadArguments, match=why):
        stage.client.send_all([WireRequest("x", "it", "a", "echo", value)])
    with pytest.raises(BadArguments, match=why):
        Serial(PROGRAM).call("it", "a", "echo", value)
    assert [stage.log.end_offset(stage.topics.requests, p) for p in range(2)] == before, "nothing was asked"


BAD_CALLS: dict[str, tuple[dict[str, Any], str]] = {
    "a key that is a number": ({"key": 5}, "the key is a str, not int"),
    "a key that is no text": ({"key": "\ud800"}, "the key is no Unicode text"),
    "an operator that is none": ({"operator": it}, "the operator is a str, not Operator"),
    "a function that is none": ({"function": echo}, "the function is a str, not function"),
    "an id that is a number": ({"request_id": 5}, "the request id is a str, not int"),
    "an id that is no text": ({"request_id": "\udfff"}, "the request id is no Unicode text"),
    "an id that is empty": ({"request_id": ""}, "a request id has 1 to 200 bytes, not 0"),
    "an id that is too long": ({"request_id": "é" * 101}, "a request id has 1 to 200 bytes, not 202"),
    "since that is text": ({"request_id": "x", "since": "5"}, "since is an offset"),
    "since below zero": ({"request_id": "x", "since": -1}, "since is an offset"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_keys_and_ids_that_cannot_travel_are_refused_at_once(stage: Stage, name: str) -> None:
    given, why = BAD_CALLS[name]
    asked: dict[str, Any] = {"operator": "it", "key": "a", "function": "echo", "args": [1], **given}
    with pytest.raises(BadArguments, match=why):
        stage.client.call(**asked)
    with pytest.raises(BadArguments, match=why):
        stage.client.send(**asked)


# --- between functions ------------------------------------------------------------------------------------------------


def test_typed_state_keeps_its_types_and_refuses_what_it_would_change(stage: Stage) -> None:
    assert stage.call("typed", "a", "price", ["1.5"]) == "1.5"
    refused = stage.call("typed", "a", "price_with_decimal", ["1.5"])
    assert refused == Aborted(
        "BadValue",
        ("the state of typed 'a' price: Decimal cannot travel, it would come back as str, and it would not be the "
         "same as Line",),
    )  # fmt: skip


def test_annotated_fields_of_entities_keep_their_types(stage: Stage) -> None:
    assert [stage.call("order", "a", "set_price", [text]) for text in ("1.50", "0.25")] == ["1.50", "1.75"]
    refused = stage.call("order", "a", "note")
    assert isinstance(refused, Aborted) and refused.kind == "BadValue"
    assert "the field notes of order 'a' Decimal cannot travel" in refused.arguments[0]
    assert stage.call("order", "a", "set_price", ["0.25"]) == "2.00"


# --- the record -------------------------------------------------------------------------------------------------------


def test_what_json_keeps_is_json_on_the_log_and_the_rest_is_packed() -> None:
    plain = WireRequest("x", "it", "a", "echo", [1, {"b": 2.5}])
    assert msgspec.json.decode(request_record(plain))["args"] == [1, {"b": 2.5}]
    packed = sendable(WireRequest("x", "it", "a", "echo", [b"x", NAN]))
    assert packed.args is None and packed.packed == encode([b"x", NAN])
    assert sendable(packed) == packed
    record = msgspec.json.decode(request_record(WireRequest("x", "it", "a", "echo", [b"x", NAN])))
    assert "args" not in record and "packed" in record


def test_a_packed_request_that_is_none_is_told_so(stage: Stage) -> None:
    for number, more in enumerate([{"packed": "wcH/"}, {"packed": "kQE=", "args": [1]}]):
        name = f"packed {number}"
        stage.client.expect([name])
        record = {"id": name, "operator": "it", "key": "a", "function": "echo", **more}
        stage.log.append(stage.topics.requests, partition_of(name, 2), [msgspec.json.encode(record)])
        while name not in stage.client.answered:
            stage.client.receive(0.01)
        outcome = stage.client.take(name)
        assert isinstance(outcome, Aborted) and outcome.kind == "BadValue", outcome
