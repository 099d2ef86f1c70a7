"""The next version of a workload's program: its replies are marked, and nothing else differs.

So each reply shows by which version its transaction has run, and each stored value fits both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import wraps
from typing import Any

from transactional.context import Context, call_of
from transactional.operators import Function, Program

MARK = "next version"
"""The one field of a marked reply."""


def next_version(program: Program) -> Program:
    """The same operators and functions, whose results are marked where they are a transaction's reply."""
    return program.wrapped(_marking)


def is_marked(result: Any) -> bool:
    """Whether the next version gave this result."""
    return isinstance(result, dict) and result.keys() == {MARK}


def unmarked(outcome: Any) -> Any:
    """As the first version would have given it."""
    return outcome[MARK] if is_marked(outcome) else outcome


def all_unmarked(outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """As the first version would have given them, by request id."""
    return {name: unmarked(each) for name, each in outcomes.items()}


def _marking(operator: str, name: str, function: Function) -> Function:
    @wraps(function)
    def marking(ctx: Context, *arguments: Any, **named: Any) -> Awaitable[Any]:
        running = function(ctx, *arguments, **named)  # what does not fit is raised here, as for the function itself
        _, call_chain, path = call_of(ctx)
        return running if call_chain or path else _marked(running)

    return marking


async def _marked(running: Awaitable[Any]) -> dict[str, Any]:
    return {MARK: await running}
