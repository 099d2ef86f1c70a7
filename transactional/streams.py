"""Streams that feed a job: each record of a topic is handed to a function once, in the order of its partition.

How far a partition has been fed is itself state: an entity, moved by the transaction that runs the functions. So a
record takes effect once, whoever feeds it and however often. Two rules for this file: the functions here are ordinary
transactional functions, and who reads the topic is not their business.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transactional.context import Context

CURSORS = "_cursors"
"""The operator that says how far each bound partition has been fed."""


@dataclass(frozen=True, slots=True)
class Binding:
    """Records of ``topic`` go to ``function`` of the entity that ``key`` names, with ``arguments(record)``.

    Up to ``batch`` records are one transaction.
    """

    topic: str
    operator: str
    function: str
    key: Callable[[Any], str]
    arguments: Callable[[Any], Any]
    batch: int

    def cursor(self, partition: int) -> str:
        """Key of the cursor of one partition."""
        return f"{self.topic}/{self.operator}.{self.function}/{partition}"


async def where(ctx: Context) -> dict[str, Any] | None:
    """``next``: the offset that is fed next; ``skipped``: records that were left out; ``last``: why the last was."""
    return ctx.get()


async def feed(ctx: Context, start: int, end: int, operator: str, function: str, calls: list[Any]) -> bool:
    """Run these calls, ``[key, arguments]``, one after the other; False: records from ``start`` are not next."""
    state = ctx.get({"next": start, "skipped": 0, "last": None})
    if state["next"] != start:
        return False
    ctx.put({**state, "next": end})
    for key, arguments in calls:
        ctx.call_async(operator, key, function, arguments)
    return True


async def skip(ctx: Context, start: int, end: int, reason: list[Any]) -> bool:
    """Leave out the record at ``start``; False: it is not next."""
    state = ctx.get({"next": start, "skipped": 0, "last": None})
    if state["next"] != start:
        return False
    ctx.put({"next": end, "skipped": state["skipped"] + 1, "last": [start, *reason]})
    return True
