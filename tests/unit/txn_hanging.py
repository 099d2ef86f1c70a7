"""Functions that are interrupted at a moment that they choose, as if they looped for ever there."""

from __future__ import annotations

import sys

from transactional import Aborted, Context, Operator, Program
from transactional.interrupting import step_of

it = Operator("it", partitions=3)
HANGS = Aborted("TimedOut", ("function hang of operator it ran longer than node.function_timeout_ms",))


def interrupt() -> None:
    """What the node's watch does, at a moment that the function chooses."""
    step = step_of(sys._getframe(1))
    assert step is not None
    step.interrupt()


@it.register
async def add(ctx: Context, amount: int) -> int:
    ctx.put(ctx.get(0) + amount)
    return ctx.get()


@it.register
async def hang(ctx: Context, stubborn: bool = False) -> str:
    """Sends, reads and writes before; ``stubborn``: it catches what should end it."""
    ctx.put(1_000)
    ctx.call_async(it, "c", add, [1_000])
    try:
        interrupt()
    except BaseException:
        if not stubborn:
            raise
    return "out"


@it.register
async def start(ctx: Context, others: list[str], stubborn: bool) -> str:
    """Writes everywhere, then calls what hangs at the last one; catches all that it can."""
    ctx.put(ctx.get(0) + 1_000)
    try:
        if len(others) == 1:
            return await ctx.call(it, others[0], hang, [stubborn])
        return await ctx.call(it, others[0], start, [others[1:], stubborn])
    except Exception:
        return "caught"


@it.register
async def hang_if(ctx: Context, over: int) -> int:
    ctx.put(ctx.get(0) + 1)
    if ctx.get() > over:
        interrupt()
    return ctx.get()


program = Program("hanging", [it])
