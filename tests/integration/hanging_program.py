"""A function that loops for ever without calls and without touching state, beside one that counts."""

from __future__ import annotations

from transactional import Context, Operator, Program

it = Operator("it", partitions=4)


@it.register
async def add(ctx: Context, amount: int) -> int:
    """Count."""
    ctx.put(ctx.get(0) + amount)
    return ctx.get()


@it.register
async def spin(ctx: Context) -> None:
    """Never leave."""
    ctx.put(1_000)
    while True:
        pass


@it.register
async def spin_behind(ctx: Context, other: str) -> None:
    """Let another one spin."""
    ctx.put(1_000)
    await ctx.call(it, other, spin)


program = Program("hanging", [it])
