"""The next version of ``fed_program``: a number is kept as text, so that it shows which version has taken it."""

from __future__ import annotations

from transactional import Context, Operator, Program

diary = Operator("diary", partitions=2)


@diary.register
async def note(ctx: Context, number: int) -> None:
    """Keep a number as text."""
    ctx.put([*ctx.get([]), str(number)])


@diary.register
async def read(ctx: Context) -> list[int | str]:
    """All that was kept."""
    return ctx.get([])


diary.bind("inputs", note, key=lambda r: r["who"], arguments=lambda r: [r["number"]], batch=10)
program = Program("fed", [diary], version=2)
