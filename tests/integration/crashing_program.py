"""Functions that end their process, beside one that counts."""

from __future__ import annotations

import os
import re
import signal
import sys

from transactional import Context, Operator, Program

it = Operator("it", partitions=4)


@it.register
async def add(ctx: Context, amount: int) -> int:
    """Count."""
    ctx.put(ctx.get(0) + amount)
    return ctx.get()


@it.register
async def leave(ctx: Context, code: int) -> None:
    """End the process."""
    ctx.put(1_000)
    os._exit(code)


@it.register
async def fault(ctx: Context) -> None:
    """As native code may."""
    os.kill(os.getpid(), signal.SIGSEGV)


@it.register
async def leave_behind(ctx: Context, other: str) -> None:
    """Let another one end the process."""
    ctx.put(1_000)
    await ctx.call(it, other, leave, 3)


@it.register
async def hold(ctx: Context) -> None:
    """Never give the interpreter's lock back."""
    re.match("(a+)+$", "a" * 60 + "b")


@it.register
async def grow(ctx: Context, megabytes: int) -> None:
    """Take memory; a system that has no more ends the process."""
    kept = [b"x" * (1 << 20) for _ in range(megabytes)]
    if sys.getprofile() is None:  # in a node
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()
    assert kept


program = Program("crashing", [it])
