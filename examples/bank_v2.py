"""The bank of `examples/bank.py` a year later: balances are in cents and accounts have a history, while it runs on.

holon txn run examples.bank:program --nodes 2
holon txn call account alice deposit '[100]'
holon txn upgrade examples.bank_v2:program
holon txn call account alice statement '[]'
"""

from __future__ import annotations

from typing import Any

import msgspec

from transactional import Context, Operator, Program

KEPT = 10


class InsufficientFunds(Exception):
    """The balance is below the requested amount."""


class Account(msgspec.Struct):
    cents: int = 0
    last: list[int] = []


def upgraded(value: Any, version: int) -> Any:
    """Of version 1: ``{"balance": 100}``."""
    return {"cents": 100 * value["balance"], "last": []} if version == 1 else value


account = Operator("account", partitions=4, state=Account, upgrade=upgraded)


def moved(ctx: Context, cents: int) -> int:
    state = ctx.get(Account())
    if state.cents + cents < 0:
        raise InsufficientFunds(ctx.key, state.cents // 100)
    ctx.put(Account(state.cents + cents, [*state.last, cents][-KEPT:]))
    return state.cents + cents


@account.register
async def balance(ctx: Context) -> int:
    """In whole units, as before."""
    return ctx.get(Account()).cents // 100


@account.register
async def statement(ctx: Context) -> dict[str, Any]:
    state = ctx.get(Account())
    return {"cents": state.cents, "last": state.last}


@account.register
async def deposit(ctx: Context, amount: int) -> int:
    return moved(ctx, 100 * amount) // 100


@account.register
async def transfer(ctx: Context, to: str, amount: int) -> int:
    left = moved(ctx, -100 * amount)
    ctx.call_async(account, to, deposit, [amount])
    return left // 100


program = Program("bank", [account], errors=[InsufficientFunds], version=2)
