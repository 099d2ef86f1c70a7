"""Entities that keep what a stream hands them, in the order in which it comes."""

from __future__ import annotations

from transactional import Context, Operator, Program

diary = Operator("diary", partitions=2)


@diary.register
async def note(ctx: Context, number: int) -> None:
    """Keep a number."""
    ctx.put([*ctx.get([]), number])


@diary.register
async def read(ctx: Context) -> list[int]:
    """All numbers."""
    return ctx.get([])


diary.bind("inputs", note, key=lambda r: r["who"], arguments=lambda r: [r["number"]], batch=10)
program = Program("fed", [diary])
