"""A program whose functions make external calls: a file in the folder HOLON_TEST_EXTERNAL, which keeps each call."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from transactional import CallFailed, Context, Operator, Program

account = Operator("account", partitions=2)


class Declined(Exception):
    """Declared."""


def charge(key: str, amount: int) -> Any:
    """Keep the call; what it does then depends on the amount."""
    folder = Path(os.environ["HOLON_TEST_EXTERNAL"])
    with (folder / "calls").open("a") as file:
        file.write(f"{key}\n")
    if amount == 100:
        raise Declined(amount)
    if amount == 200:
        return object()
    if amount == 300:
        threading.Event().wait()
    while amount == 400 and not (folder / "go").exists():
        threading.Event().wait(0.01)
    return amount + 1


@account.register
async def pay(ctx: Context, amount: int, timeout_s: float = 60.0) -> Any:
    ctx.put(amount)
    try:
        paid = await ctx.external(charge, {"amount": amount}, timeout_s=timeout_s)
    except Declined as error:
        return f"declined {error.args[0]}"
    except CallFailed as error:
        return error.aborted.kind
    ctx.put(paid)
    return await ctx.external("charge", [paid])


@account.register
async def balance(ctx: Context) -> Any:
    return ctx.get()


@account.register
async def undeclared(ctx: Context) -> Any:
    return await ctx.external("charg", [1])


program = Program("shop", [account], errors=[Declined], externals=[charge])
