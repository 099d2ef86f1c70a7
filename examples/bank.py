"""Accounts that pay each other: each call is one serializable transaction, whatever node an account lives on.

holon txn run examples.bank:program --nodes 2
holon txn call account alice deposit '[100]'
holon txn call account alice transfer '{"to": "bob", "amount": 5}'
"""

from __future__ import annotations

import msgspec

from transactional import Context, Operator, Program


class InsufficientFunds(Exception):
    """The balance is below the requested amount."""


class Account(msgspec.Struct):
    balance: int = 0


account = Operator("account", partitions=4, state=Account)


@account.register
async def balance(ctx: Context) -> int:
    return ctx.get(Account()).balance


@account.register
async def deposit(ctx: Context, amount: int) -> int:
    state = ctx.get(Account())
    state.balance += amount
    ctx.put(state)
    return state.balance


@account.register
async def transfer(ctx: Context, to: str, amount: int) -> int:
    state = ctx.get(Account())
    if state.balance < amount:
        raise InsufficientFunds(ctx.key, state.balance)
    state.balance -= amount
    ctx.put(state)
    ctx.call_async(account, to, deposit, [amount])
    return state.balance


program = Program("bank", [account], errors=[InsufficientFunds])
