"""Functions that are interrupted at a moment that they choose, as if they looped for ever there."""

from __future__ import annotations

import sys
from types import FrameType

from transactional import Aborted, Context, Operator, Program
from transactional.execution import rerun
from transactional.execution.interrupting import step_of

it = Operator("it", partitions=3)
HANGS = Aborted("TimedOut", ("function hang of operator it ran longer than node.function_timeout_ms",))
HANGS_AT_FOURS = Aborted(
    "TimedOut", ("function hang_at_fours of operator it ran longer than node.function_timeout_ms",)
)


def interrupt() -> None:
    """The node's watch, at a moment that the function chooses."""
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


@it.register
async def pass_on(ctx: Context, other: str) -> int:
    """Counts, and sends how far: who has read another count first is run again everywhere."""
    ctx.put(ctx.get(0) + 1)
    return await ctx.call(it, other, hang_at_fours, [ctx.get()])


@it.register
async def hang_at_fours(ctx: Context, count: int) -> int:
    if count % 4 == 0:
        interrupt()
    return count


@it.register
async def both(ctx: Context, other: str) -> int:
    """Counts in two places, the own one last: of two at once, one is run again everywhere."""
    count = ctx.get(0) + 1
    await ctx.call(it, other, mirror, [count])
    ctx.put(count)
    return count


@it.register
async def mirror(ctx: Context, count: int) -> int:
    ctx.put(ctx.get(0) + 1)
    if chances and is_again() and chances.pop():
        interrupt()
    return count


chances: list[bool] = []
"""Whether the next of them hang that are run again, which follows from nothing on the log."""


def is_again() -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals is not vars(rerun):
        frame = frame.f_back
    return frame is not None


program = Program("hanging", [it])
