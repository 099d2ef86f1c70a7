"""Abilities of functions: state, calls, exceptions, aborts, limits. On both executors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from transactional import Aborted, BadValue, CallFailed, Context, Limits, Operator, Program, Serial, UnknownFunction
from transactional.execution.execution import Execution
from transactional.execution.site import Site
from transactional.operators import StateKey
from transactional.state.store import Store
from transactional.state.values import decode


class InsufficientFunds(Exception):
    """Declared by the bank."""


class Account(msgspec.Struct):
    balance: int = 0


def bank() -> Program:
    """Accounts that pay each other, and a shop with composite keys."""
    account = Operator("account", partitions=3, state=Account)

    @account.register
    async def deposit(ctx: Context, amount: int) -> int:
        state = ctx.get(Account())
        state.balance += amount
        ctx.put(state)
        return state.balance

    @account.register
    async def withdraw(ctx: Context, amount: int) -> int:
        state = ctx.get(Account())
        if state.balance < amount:
            raise InsufficientFunds(ctx.key, state.balance)
        state.balance -= amount
        ctx.put(state)
        return state.balance

    @account.register
    async def transfer(ctx: Context, to: str, amount: int) -> str:
        await ctx.call("account", ctx.key, withdraw, [amount])
        await ctx.call(account, to, "deposit", {"amount": amount})
        return "paid"

    @account.register
    async def try_transfer(ctx: Context, to: str, amount: int) -> str:
        try:
            return await ctx.call(account, ctx.key, "transfer", [to, amount])
        except InsufficientFunds as error:
            return f"only {error.args[1]}"

    return Program("bank", [account], errors=[InsufficientFunds])


def one(limits: Limits | None = None, **functions: Callable[..., Any]) -> Program:
    """A program of one operator with these functions."""
    operator = Operator("it", partitions=1, colocate="/")
    for name, function in functions.items():
        operator.functions[name] = function
    return Program("one", [operator], limits=limits)


def both(program: Program, *calls: tuple[Any, ...]) -> list[Any]:
    """Outcomes of these calls, one transaction each: the same from both executors."""
    serial, store, outcomes = Serial(program), Store(), []
    for tid, call in enumerate(calls, 1):
        target = program.target(*call)
        execution = Execution(Site(program, store, None), tid, 0)
        execution.start(target)
        outcome = execution.outcome
        if not isinstance(outcome, Aborted):
            store.apply(execution.writes)
        assert outcome == serial.run(target, tid, 0)
        outcomes.append(outcome if isinstance(outcome, Aborted) else decode(outcome))
    assert store.items == serial.state
    return outcomes


def test_money_moves_between_accounts() -> None:
    outcomes = both(
        bank(),
        ("account", "alice", "deposit", [10]),
        ("account", "alice", "transfer", {"to": "bob", "amount": 4}),
        ("account", "alice", "deposit", [0]),
        ("account", "bob", "deposit", [0]),
    )
    assert outcomes == [10, "paid", 6, 4]


def test_an_uncaught_exception_is_the_reply_and_undoes_everything() -> None:
    outcomes = both(
        bank(),
        ("account", "alice", "deposit", [3]),
        ("account", "alice", "transfer", ["bob", 5]),
        ("account", "alice", "deposit", [0]),
    )
    assert outcomes == [3, Aborted("InsufficientFunds", ("alice", 3)), 3]


def test_a_declared_exception_is_caught_under_its_own_type_across_two_calls() -> None:
    outcomes = both(bank(), ("account", "alice", "try_transfer", ["bob", 5]))
    assert outcomes == ["only 0"]


def test_other_exceptions_arrive_as_call_failed() -> None:
    async def fail(ctx: Context) -> None:
        raise KeyError("lost")

    async def catch(ctx: Context) -> str:
        try:
            await ctx.call("it", "x", "fail")
        except CallFailed as error:
            return str(error.aborted)
        return "nothing"

    assert both(one(fail=fail, catch=catch), ("it", "a", "catch")) == ["KeyError('lost')"]


def test_abort_cannot_be_caught() -> None:
    async def stubborn(ctx: Context) -> str:
        ctx.put(1)
        with suppress(BaseException):  # what a user should not do
            ctx.abort("no", 5)
        return "went on"

    async def caller(ctx: Context) -> str:
        try:
            return await ctx.call("it", "b", "stubborn")
        except BaseException:
            return "caught"

    outcomes = both(one(stubborn=stubborn, caller=caller), ("it", "a", "stubborn"), ("it", "a", "caller"))
    assert outcomes == [Aborted("Abort", ("no", 5))] * 2


def test_queued_calls_run_afterwards_breadth_first() -> None:
    async def note(ctx: Context, text: str) -> None:
        ctx.put([*(ctx.get() or []), text])

    async def fork(ctx: Context, text: str) -> None:
        await ctx.call("it", "notes", note, [text])
        ctx.call_async("it", "notes", note, [text + "1"])

    async def root(ctx: Context) -> None:
        ctx.call_async("it", "a", fork, ["left"])
        ctx.call_async("it", "a", fork, ["right"])
        await ctx.call("it", "notes", note, ["root"])

    async def read(ctx: Context) -> list[str]:
        return ctx.get()

    program = one(note=note, fork=fork, root=root, read=read)
    outcomes = both(program, ("it", "a", "root"), ("it", "notes", "read"))
    assert outcomes[1] == ["root", "left", "right", "left1", "right1"]


def test_what_a_function_holds_is_its_own() -> None:
    async def keep(ctx: Context, given: list[int]) -> list[int]:
        ctx.put(given)
        given.append(2)
        ctx.get().append(3)
        return given

    async def root(ctx: Context) -> Any:
        given = [1]
        result = await ctx.call("it", "b", keep, [given])
        result.append(4)
        return [given, await ctx.call("it", "b", read)]

    async def read(ctx: Context) -> Any:
        return ctx.get()

    assert both(one(keep=keep, root=root, read=read), ("it", "a", "root")) == [[[1], [1]]]


def test_scans_see_own_writes_and_deletes_and_stay_at_home() -> None:
    async def put(ctx: Context) -> None:
        ctx.put(ctx.key)

    async def drop(ctx: Context) -> None:
        ctx.delete()

    async def scan(ctx: Context, prefix: str) -> Any:
        await ctx.call("it", "g/3", put)
        await ctx.call("it", "g/1", drop)
        return ctx.scan(prefix)

    program = one(put=put, drop=drop, scan=scan)
    outcomes = both(
        program,
        *[("it", key, "put") for key in ("g/1", "g/2", "h/1")],
        ("it", "g/x", "scan", ["g/"]),
        ("it", "g/x", "scan", ["h/"]),
    )
    assert outcomes[3] == [["g/2", "g/2"], ["g/3", "g/3"]]
    assert isinstance(outcomes[4], Aborted) and outcomes[4].kind == "ValueError"


def test_chance_and_time_are_the_same_again_and_differ_between_calls() -> None:
    async def draw(ctx: Context) -> Any:
        return [ctx.uuid(), ctx.random.randint(1, 6), ctx.now.year]

    async def root(ctx: Context) -> Any:
        return [await ctx.call("it", "a", draw), await ctx.call("it", "a", draw), ctx.uuid()]

    (first, second, own), (again, *_) = both(one(draw=draw, root=root), ("it", "a", "root"), ("it", "a", "root"))
    assert first[0] != second[0] != own != first[0] and first[2] == 1970
    assert again[0] != first[0]  # another transaction


@pytest.mark.parametrize(
    ("call", "kind"),
    [(("it", "a", "takes", [1, 2]), "BadArguments"), (("it", "a", "takes", {"other": 1}), "BadArguments")],
)
def test_arguments_that_do_not_fit_are_a_reply(call: tuple[Any, ...], kind: str) -> None:
    async def takes(ctx: Context, only: int) -> int:
        return only

    (outcome,) = both(one(takes=takes), call)
    assert isinstance(outcome, Aborted) and outcome.kind == kind


def test_unknown_names_say_the_nearest() -> None:
    with pytest.raises(UnknownFunction, match="account"):
        bank().target("acount", "a", "deposit", [1])
    with pytest.raises(UnknownFunction, match="nearest: deposit"):
        bank().target("account", "a", "deposite", [1])


def test_awaiting_anything_but_calls_is_an_exception() -> None:
    class Elsewhere:
        def __await__(self) -> Any:
            yield self

    async def wait(ctx: Context) -> None:
        await Elsewhere()

    (outcome,) = both(one(wait=wait), ("it", "a", "wait"))
    assert isinstance(outcome, Aborted) and outcome.kind == "BadAwait"


def test_endless_calls_end_at_a_limit() -> None:
    async def deeper(ctx: Context) -> None:
        await ctx.call("it", ctx.key + "x", deeper)

    async def further(ctx: Context) -> None:
        ctx.call_async("it", "b", further)

    async def more(ctx: Context) -> None:
        while True:
            await ctx.call("it", "b", nothing)

    async def nothing(ctx: Context) -> None:
        pass

    program = one(Limits(max_calls=200, max_depth=20), deeper=deeper, further=further, more=more, nothing=nothing)
    outcomes = both(program, ("it", "a", "deeper"), ("it", "a", "further"), ("it", "a", "more"))
    assert [outcome.kind for outcome in outcomes] == ["LimitExceeded"] * 3


def test_values_that_cannot_be_stored_are_refused() -> None:
    async def big(ctx: Context) -> None:
        ctx.put("x" * 100)

    async def odd(ctx: Context) -> Any:
        return object()

    program = one(Limits(max_value_bytes=50), big=big, odd=odd)
    outcomes = both(program, ("it", "a", "big"), ("it", "a", "odd"))
    assert [outcome.kind for outcome in outcomes] == ["BadValue", "BadValue"]
    with pytest.raises(BadValue, match=r"an argument of it\.big has"):
        program.target("it", "a", "big", ["x" * 100])


def test_errors_never_show_addresses() -> None:
    @dataclass
    class Thing:
        number: int

    async def leak(ctx: Context) -> None:
        raise ValueError(f"bad {object()!r}", Thing(1), 2**70)

    (outcome,) = both(one(leak=leak), ("it", "a", "leak"))
    assert outcome == Aborted("ValueError", ("bad <object object at 0x?>", "Thing", "int"))


def test_two_call_chains_at_one_key_are_a_race_and_one_after_the_other_are_not() -> None:
    async def add(ctx: Context) -> None:
        ctx.put((ctx.get() or 0) + 1)

    async def two(ctx: Context) -> None:
        ctx.call_async("it", "b", add)
        ctx.call_async("it", "b", add)

    async def nested(ctx: Context) -> None:
        await ctx.call("it", "b", add)
        await ctx.call("it", "b", add)

    async def scanner(ctx: Context) -> None:
        ctx.call_async("it", "g/x", scan)
        ctx.call_async("it", "g/1", add)

    async def scan(ctx: Context) -> None:
        ctx.scan("g/")

    program = one(add=add, two=two, nested=nested, scanner=scanner, scan=scan)
    for name, race in (("two", True), ("nested", False), ("scanner", True)):
        execution = Execution(Site(program, Store(), 0), 1, 0)
        execution.start(program.target("it", "a", name, None))
        assert execution.race is race, name


def test_a_store_keeps_its_order_while_it_changes() -> None:
    store = Store({("a", f"k{n}"): b"" for n in range(5)})
    assert len(store.scan("a", "k")) == 5
    changes: dict[StateKey, bytes | None] = {("a", "k1"): None, ("a", "k12"): b"x", ("a", "k3"): b"y", ("b", "k"): b""}
    store.apply(changes)
    assert store.scan("a", "k1") == [("k12", b"x")]
    assert [key for key, _ in store.scan("a", "")] == ["k0", "k12", "k2", "k3", "k4"]
