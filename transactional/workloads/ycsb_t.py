"""YCSB-T: transfers between accounts, two reads and two writes each; the sum of all balances never changes.

Source: Styx, section 9; the payer is uniform, the payee Zipf-distributed.
"""

from __future__ import annotations

import numpy as np

from transactional.context import Context
from transactional.operators import Operator, Program
from transactional.requests.requests import WireRequest
from transactional.workloads.contract import (
    BenchWorkload,
    RequestHistory,
    Send,
    WorkloadShape,
    different,
)
from transactional.workloads.draws import uniform

ACCOUNTS = 10_000
INITIAL_BALANCE = 1_000_000
AMOUNT = 1

account = Operator("account", partitions=4)


class NotEnough(Exception):
    """The payer has less than the amount."""


@account.register
async def insert(ctx: Context) -> None:
    """Open the account."""
    ctx.put(INITIAL_BALANCE)


@account.register
async def read(ctx: Context) -> int:
    """The balance."""
    return ctx.get(0)


@account.register
async def add(ctx: Context, amount: int) -> None:
    """The amount for the payee."""
    ctx.put(ctx.get(0) + amount)


@account.register
async def transfer(ctx: Context, to: str, amount: int) -> int:
    """Pay; gives the new balance."""
    balance = ctx.get(0) - amount
    if balance < 0:
        raise NotEnough(ctx.key)
    ctx.put(balance)
    ctx.call_async(account, to, add, [amount])
    return balance


program = Program("ycsb-t", [account], errors=[NotEnough])


def account_key(number: int) -> str:
    """Accounts count from 0."""
    return f"a{number}"


def inserts(accounts: int = ACCOUNTS) -> list[WireRequest]:
    """Open all accounts."""
    return [WireRequest(f"insert-{n}", "account", account_key(n), "insert") for n in range(accounts)]


def reads(label: str, accounts: int = ACCOUNTS) -> list[WireRequest]:
    """Read all accounts; ``label`` keeps the ids apart from those of other reads."""
    return [WireRequest(f"{label}-{n}", "account", account_key(n), "read") for n in range(accounts)]


def transfers(first: int, count: int, *, zipf: float, seed: int, accounts: int = ACCOUNTS) -> list[WireRequest]:
    """Requests ``first`` to ``first + count``: the same for the same seed. ``zipf`` 0 is uniform."""
    numbers = np.arange(first, first + count, dtype=np.uint64)
    payers = (uniform(numbers, 2 * seed) * accounts).astype(np.int64)
    weights = np.cumsum(1.0 / np.arange(1, accounts + 1) ** zipf)
    payees = np.searchsorted(weights, uniform(numbers, 2 * seed + 1) * weights[-1], side="right")
    payees = np.where(payees == payers, (payees + 1) % accounts, payees)
    pairs = zip(payers.tolist(), payees.tolist(), strict=True)
    return [
        WireRequest(f"{seed}-{first + n}", "account", account_key(a), "transfer", [account_key(b), AMOUNT])
        for n, (a, b) in enumerate(pairs)
    ]


def check(shape: WorkloadShape, history: RequestHistory, send: Send) -> list[str]:
    """Every balance is what the acknowledged transfers make of it."""
    expected = {account_key(number): INITIAL_BALANCE for number in range(shape.size)}
    for request, _ in history.committed("transfer"):
        to, amount = request.args
        expected[request.key] -= amount
        expected[to] += amount
    balances = reads("read", shape.size)
    found = send(balances)
    wrong = [each for r in balances for each in different(f"the balance of {r.key}", found[r.id], expected[r.key])]
    return wrong + different("the sum of all balances", sum(found.values()), shape.size * INITIAL_BALANCE)


workload = BenchWorkload(
    name="ycsb-t",
    program=program,
    reference="transactional.workloads.ycsb_t:program",
    size=ACCOUNTS,
    counts="accounts",
    load=lambda shape: inserts(shape.size),
    requests=lambda shape, first, count: transfers(first, count, zipf=shape.zipf, seed=shape.seed, accounts=shape.size),
    check=check,
    expected_aborts=("NotEnough",),
)
