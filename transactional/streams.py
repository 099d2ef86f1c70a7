"""Streams that feed a job: each record of a topic is handed to a function once, in the order of its partition.

How far a partition has been fed is itself state: an entity, moved by the transaction that runs the functions. So a
record takes effect once, whichever node feeds it and however often. Two rules for this file: the functions here are
ordinary transactional functions; which node reads the topic does not concern them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

CURSORS = "_cursors"
"""The operator that holds how far each bound partition has been fed."""


class CursorContext(Protocol):
    """The part of ``ctx`` that the functions of the cursors use."""

    def get(self, default: Any = None) -> Any: ...
    def put(self, value: Any) -> None: ...
    def call_async(self, operator: str, key: str, function: str, arguments: Any) -> None: ...


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


class Upstream(NamedTuple):
    """The positions of the jobs that have written a run of records: ``seen`` after it, and the number of duplicates."""

    seen: Any
    duplicates: int


async def where(ctx: CursorContext) -> dict[str, Any] | None:
    """``next``: the offset that is fed next; ``skipped``: records that were left out; ``last``: why the last was.

    Where other Holon jobs have written records: ``duplicates`` that were left out, and ``seen``, which identifies them.
    """
    return ctx.get()


async def feed(
    ctx: CursorContext,
    start: int,
    end: int,
    operator: str,
    function: str,
    calls: list[Any],
    upstream: list[Any] | None = None,
) -> bool:
    """Run these calls, ``[key, arguments]``, one after the other; False: records from ``start`` are not next."""
    state = ctx.get({"next": start, "skipped": 0, "last": None})
    if state["next"] != start:
        return False
    ctx.put({**state, "next": end, **_learned(state, upstream)})
    for key, arguments in calls:
        ctx.call_async(operator, key, function, arguments)
    return True


async def skip(ctx: CursorContext, start: int, end: int, reason: list[Any], upstream: list[Any] | None = None) -> bool:
    """Leave out the record at ``start``; False: it is not next."""
    state = ctx.get({"next": start, "skipped": 0, "last": None})
    if state["next"] != start:
        return False
    skipped = {"next": end, "skipped": state["skipped"] + 1, "last": [start, *reason]}
    ctx.put({**state, **skipped, **_learned(state, upstream)})
    return True


async def follow(ctx: CursorContext) -> bool:
    """Go on with the newest incarnation of the jobs that write the topic; what older ones wrote has taken effect.

    False: nothing of such jobs has been fed.
    """
    state = ctx.get()
    if not state or "seen" not in state:
        return False
    ctx.put({name: value for name, value in state.items() if name != "seen"})
    return True


def _learned(state: dict[str, Any], upstream: list[Any] | None) -> dict[str, Any]:
    if upstream is None:
        return {}
    seen, duplicates = Upstream(*upstream)
    return {"seen": seen, "duplicates": state.get("duplicates", 0) + duplicates}
