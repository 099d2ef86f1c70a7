"""A program with a function that depends on the order of a set, and so on the hash seed of its process."""

from __future__ import annotations

from transactional import Context, Operator, Program

counter = Operator("counter", partitions=2)


@counter.register
async def add(ctx: Context, amount: int) -> int:
    ctx.put((ctx.get() or 0) + amount)
    return ctx.get()


@counter.register
async def around(ctx: Context, names: list[str]) -> None:
    for name in set(names):
        ctx.call_async(counter, name, add, [1])


program = Program("sets", [counter])
