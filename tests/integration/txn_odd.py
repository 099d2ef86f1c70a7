"""A program whose results JSON cannot say, and whose exceptions are not made of their arguments."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from transactional import Context, Operator, Program

odd_ones = Operator("odd", partitions=2)
VALUES: dict[str, Any] = {"bytes": b"x", "nan": float("nan"), "decimal": Decimal(1)}


class OutOfStock(Exception):
    """Says itself what is missing."""

    def __init__(self, item: str, left: int) -> None:
        super().__init__(f"{item}: only {left} left")
        self.item = item
        self.left = left


@odd_ones.register
async def echo(ctx: Context, value: Any) -> Any:
    return value


@odd_ones.register
async def odd(ctx: Context, kind: str) -> Any:
    return {"odd": [VALUES[kind]]}


@odd_ones.register
async def fail(ctx: Context, item: str) -> None:
    raise OutOfStock(item, 3)


@odd_ones.register
async def broken(ctx: Context, item: str) -> int:
    return VALUES[item]["count"]


program = Program("odd", [odd_ones], errors=[OutOfStock])
