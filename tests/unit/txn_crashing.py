"""Functions that end their process: whoever runs them notes it, and is to throw away what came of the step."""

from __future__ import annotations

import sys

from transactional import Aborted, Context, Operator, Program
from transactional.execution.interrupting import step_of

it = Operator("it", partitions=3)
CRASHED = Aborted("Crashed", ("function end of operator it ends its process",))
CRASHED_AT_FOURS = Aborted("Crashed", ("function end_at_fours of operator it ends its process",))
ended: list[tuple[int, str]] = []
"""TID and function of those that have ended the process since it was last looked."""


def end_process() -> None:
    """The first one that does so in a step is the one that has."""
    step = step_of(sys._getframe(1))
    assert step is not None
    ended.append((step.execution.tid, step.target.function))


@it.register
async def add(ctx: Context, amount: int) -> int:
    ctx.put(ctx.get(0) + amount)
    return ctx.get()


@it.register
async def end(ctx: Context) -> str:
    """Sends and writes before."""
    ctx.put(1_000)
    ctx.call_async(it, "c", add, [1_000])
    end_process()
    return "out"


@it.register
async def start(ctx: Context, others: list[str]) -> str:
    """Writes everywhere, then calls what ends the process at the last one; catches all that it can."""
    ctx.put(ctx.get(0) + 1_000)
    try:
        if len(others) == 1:
            return await ctx.call(it, others[0], end)
        return await ctx.call(it, others[0], start, [others[1:]])
    except Exception:
        return "caught"


@it.register
async def pass_on(ctx: Context, other: str) -> int:
    """Counts, and sends how far: who has read another count first is run again everywhere."""
    ctx.put(ctx.get(0) + 1)
    return await ctx.call(it, other, end_at_fours, [ctx.get()])


@it.register
async def end_at_fours(ctx: Context, count: int) -> int:
    if count % 4 == 0:
        end_process()
    return count


program = Program("crashing", [it])
