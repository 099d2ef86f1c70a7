"""Calls that a function forgets to await are errors by name, and declared exceptions keep what they hold."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from nodes.cli.txn.call import show_outcome
from tests.unit.txn_stage import Stage
from transactional import Aborted, CallFailed, CallNotAwaited, Context, Entity, Operator, Program, Serial
from transactional.errors import describe, restore
from transactional.execution.tracing import Traced, traced
from transactional.external import perform
from transactional.state.values import encode


class OutOfStock(Exception):
    """Its arguments are not those that it is made of."""

    def __init__(self, item: str, left: int) -> None:
        super().__init__(f"{item}: only {left} left")
        self.item = item
        self.left = left


class Refused(Exception):
    """A keyword makes it what it is."""

    def __init__(self, text: str, *, code: int = 0, lines: list[Any] | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.lines = lines


@dataclass
class Overdrawn(Exception):
    account: str
    by: int = 0


class Simple(Exception):
    """Only arguments."""


class Whole(Exception):
    def __init__(self, key: str, balance: int) -> None:
        super().__init__(key, balance)
        self.key = key
        self.balance = balance


class Undeclared(OutOfStock):
    pass


DECLARED = [OutOfStock, Refused, Overdrawn, Simple, Whole]
MADE: dict[str, Exception] = {
    "a text of its own": OutOfStock("pen", 3),
    "keywords": Refused("no", code=7, lines=[{"item": "pen", "left": [1, 2]}]),
    "a dataclass by position": Overdrawn("a", 5),
    "a dataclass by keyword": Overdrawn(account="a", by=5),
    "arguments": Simple("a", 5, b"x"),
    "arguments and fields": Whole("a", 5),
}

# --- programs ---------------------------------------------------------------------------------------------------------

it = Operator("it", partitions=3)


@it.register
async def add(ctx: Context, amount: int) -> int:
    ctx.put(ctx.get(0) + amount)
    return ctx.get()


@it.register
async def forget(ctx: Context, to: str, after: str) -> int:
    if after:
        await ctx.call(it, after, add, [1])
    ctx.call(it, to, add, [1])
    return 5


@it.register
async def return_call(ctx: Context, to: str) -> Any:
    return ctx.call(it, to, add, [1])


@it.register
async def forget_outside(ctx: Context) -> None:
    ctx.external(outside, ["Simple"])


@it.register
async def await_later(ctx: Context, one: str, two: str) -> list[int]:
    calls = [ctx.call(it, key, add, [amount]) for key, amount in ((one, 1), (two, 2))]
    return [await each for each in reversed(calls)]


@it.register
async def await_twice(ctx: Context, to: str) -> None:
    call = ctx.call(it, to, add, [1])
    await call
    await call


@it.register
async def forget_and_fail(ctx: Context, to: str) -> None:
    ctx.call(it, to, add, [1])
    raise ValueError("first")


@it.register
async def catch_forgetful(ctx: Context, to: str) -> str:
    try:
        await ctx.call(it, to, forget, [to, ""])
    except CallFailed as error:
        return error.aborted.kind
    return "nothing"


@it.register
async def fail(ctx: Context, name: str) -> None:
    raise MADE[name]


@it.register
async def catch(ctx: Context, to: str, name: str) -> list[Any]:
    try:
        await ctx.call(it, to, fail, [name])
    except tuple(DECLARED) as error:
        return [type(error).__name__, list(error.args), vars(error)]
    return []


@it.register
async def pass_on(ctx: Context, to: str, name: str) -> None:
    await ctx.call(it, to, fail, [name])


@it.register
async def fail_outside(ctx: Context, name: str) -> None:
    await ctx.external(outside, [name])


def outside(key: str, name: str) -> None:
    raise MADE[name]


class Stock(Entity, partitions=3):
    left: int = 3

    async def take(self, count: int) -> int:
        self.left -= count
        return self.left


class Cart(Entity, partitions=3):
    total: int = 0

    async def forget(self, stock: Stock) -> int:
        self.total += 1
        stock.take(1)
        return self.total

    async def add_to(self, stock: Stock) -> int:
        call = stock.take(1)
        self.total += 1
        return await call


PROGRAM = Program(
    "calls", [it, Stock.operator, Cart.operator], errors=DECLARED, externals=[outside]
)  # fmt: skip
KEYS = [f"k{n}" for n in range(30)]
HERE = KEYS[0]
NEAR = next(key for key in KEYS[1:] if it.partition_of(key) == it.partition_of(HERE))
AWAY = next(key for key in KEYS if it.partition_of(key) != it.partition_of(HERE))


@pytest.fixture(scope="module")
def stage() -> Stage:
    made = Stage(PROGRAM)
    made.start("a")
    made.start("b")
    return made


def both(stage: Stage, operator: str, function: str, args: list[Any], key: str = HERE) -> Any:
    """The reply of nodes, which is that of the plain loop."""
    found = stage.call(operator, key, function, args)
    assert Serial(PROGRAM).call(operator, key, function, args) == found or not isinstance(found, Aborted)
    return found


# --- awaits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", [NEAR, AWAY])
@pytest.mark.parametrize("after", ["", NEAR, AWAY])
def test_a_call_that_is_not_awaited_is_an_error_by_name(stage: Stage, to: str, after: str) -> None:
    outcome = both(stage, "it", "forget", [to, after])
    assert isinstance(outcome, Aborted) and outcome.kind == "CallNotAwaited", outcome
    assert outcome.arguments[0].startswith(f"a function of it {HERE!r} has ended and not awaited its call of it.add of")
    assert repr(to) in outcome.arguments[0]


def test_a_call_that_is_returned_and_one_to_the_outside_are_errors_too(stage: Stage) -> None:
    assert both(stage, "it", "return_call", [AWAY]).kind == "CallNotAwaited"
    outcome = both(stage, "it", "forget_outside", [])
    assert outcome.kind == "CallNotAwaited" and "the external outside" in outcome.arguments[0]


def test_a_forgotten_call_has_no_effect_and_neither_has_its_transaction(stage: Stage) -> None:
    before = stage.call("it", AWAY, "add", [0])
    stage.call("it", HERE, "forget", [AWAY, AWAY])
    assert stage.call("it", AWAY, "add", [0]) == before


def test_a_caller_may_catch_that_a_function_forgot(stage: Stage) -> None:
    assert both(stage, "it", "catch_forgetful", [AWAY]) == "CallNotAwaited"
    assert both(stage, "it", "catch_forgetful", [NEAR]) == "CallNotAwaited"


def test_an_exception_outranks_a_forgotten_call(stage: Stage) -> None:
    assert both(stage, "it", "forget_and_fail", [AWAY]) == Aborted("ValueError", ("first",))


def test_calls_may_be_awaited_later_and_in_another_order(stage: Stage) -> None:
    one, two = KEYS[10], KEYS[11]
    assert stage.call("it", HERE, "await_later", [one, two]) == [2, 1]


@pytest.mark.parametrize("to", [NEAR, AWAY])
def test_a_call_is_awaited_once(stage: Stage, to: str) -> None:
    outcome = both(stage, "it", "await_twice", [to])
    assert outcome.kind == "RuntimeError" and "is awaited twice" in outcome.arguments[0]


def test_methods_of_entities_await_what_they_call(stage: Stage) -> None:
    outcome = both(stage, "cart", "forget", ["pens"], "c")
    assert isinstance(outcome, Aborted) and outcome.kind == "CallNotAwaited"
    assert outcome.arguments == (
        "a method of cart 'c' has ended and not awaited its call of stock.take of 'pens', so it was never made: "
        "await it",
    )
    assert stage.call("stock", "pens", "take", [0]) == 3
    assert stage.call("cart", "c", "add_to", ["pens"]) == 2
    assert stage.call("cart", "c", "add_to", ["pens"]) == 1


def test_a_function_that_is_traced_is_caught_too() -> None:
    calls: list[Traced] = []
    outcome = Serial(traced(PROGRAM, calls)).call("it", HERE, "forget", [AWAY, ""])
    assert isinstance(outcome, Aborted) and outcome.kind == "CallNotAwaited"


def test_the_name_is_there_for_users() -> None:
    assert issubclass(CallNotAwaited, RuntimeError)


# --- declared exceptions ----------------------------------------------------------------------------------------------


def same(one: BaseException, other: BaseException) -> bool:
    return type(one) is type(other) and one.args == other.args and vars(one) == vars(other) and str(one) == str(other)


@pytest.mark.parametrize("name", MADE)
def test_a_declared_exception_comes_back_with_its_type_and_fields(stage: Stage, name: str) -> None:
    error = MADE[name]
    outcome = both(stage, "it", "fail", [name])
    assert isinstance(outcome, Aborted)
    assert same(outcome.as_error(DECLARED), error), outcome
    passed_on = both(stage, "it", "pass_on", [AWAY, name])
    assert passed_on == outcome
    for to in (NEAR, AWAY):
        kind, args, fields = both(stage, "it", "catch", [to, name])
        assert (kind, args, fields) == (type(error).__name__, list(error.args), vars(error))
    found = perform(outside, "outside", "key", encode([name]), PROGRAM.errors)
    assert isinstance(found, Aborted) and same(restore(found, PROGRAM.errors), error)
    assert same(Serial(PROGRAM).call("it", HERE, "fail_outside", [name]).as_error(DECLARED), error)


def test_arguments_stay_as_they_are_where_they_make_the_exception() -> None:
    errors = PROGRAM.errors
    assert describe(MADE["arguments"], errors) == Aborted("Simple", ("a", 5, b"x"))
    assert describe(MADE["arguments and fields"], errors) == Aborted("Whole", ("a", 5))
    outcome = describe(MADE["a text of its own"], errors)
    assert outcome == Aborted("OutOfStock", ("pen: only 3 left", {"item": "pen", "left": 3}))
    assert (outcome.plain_arguments, outcome.fields) == (("pen: only 3 left",), {"item": "pen", "left": 3})
    assert str(outcome) == "OutOfStock('pen: only 3 left', item='pen', left=3)"


def test_what_is_not_declared_travels_by_its_arguments_alone() -> None:
    outcome = describe(Undeclared("pen", 3), PROGRAM.errors)
    assert outcome == Aborted("Undeclared", ("pen: only 3 left",))
    assert isinstance(outcome.as_error(DECLARED), CallFailed)


def test_fields_that_cannot_travel_are_called_by_their_types() -> None:
    error = Refused("no", lines=[object()])
    error.amount = Decimal(1)  # type: ignore[attr-defined]
    error.large = "x" * 5_000  # type: ignore[attr-defined]
    error.nan = [float("nan")]  # type: ignore[attr-defined]
    error.at = "<thing at 0x7f5e4d3c2b1a>"  # type: ignore[attr-defined]
    error.add_note("a note is no field")
    assert describe(error, PROGRAM.errors).fields == {
        "amount": "Decimal", "at": "<thing at 0x?>", "code": 0, "large": "x" * 2_000 + "...", "lines": "list",
        "nan": ["nan"],
    }  # fmt: skip


def test_an_exception_that_cannot_be_made_again_is_still_told() -> None:
    outcome = Aborted("Simple", ("x", {"__class__": 5, "a": 1}))
    assert isinstance(outcome.as_error(DECLARED), Simple)


def test_the_command_shows_fields(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BaseException):  # noqa: B017  (how a command ends)
        show_outcome(describe(MADE["a text of its own"], PROGRAM.errors), as_json=True)
    assert msgspec.json.decode(capsys.readouterr().out) == {
        "aborted": "OutOfStock", "arguments": ["pen: only 3 left"], "fields": {"item": "pen", "left": 3},
    }  # fmt: skip
