"""Random transactional programs: functions that interpret a script, so that call graphs of any shape can be drawn.

A script is a list of steps; calls carry the script of the callee. The observations of a script are its result, so any
difference between two executions shows in the reply.
"""

from __future__ import annotations

from random import Random
from typing import Any

from transactional import CallFailed, Context, Operator, Program
from transactional.operators import Limits

Script = list[Any]
MAX_KEYS = 40


class Refused(Exception):
    """Declared: callers catch it under its own type."""


async def run_script(ctx: Context, script: Script) -> list[Any]:
    """Do the steps one after the other; gives what they showed."""
    seen: list[Any] = []
    for verb, *rest in script:
        if verb == "external":
            seen.append(await _call_external(ctx, *rest))
        elif verb == "call":
            seen.append(await ctx.call(*rest[:2], "run", [rest[2]]))
        elif verb == "try":
            seen.append(await _try(ctx, *rest))
        elif verb == "if":
            seen += await run_script(ctx, rest[0] if (ctx.get() or 0) % 2 else rest[1])
        elif verb in ("refuse", "fail", "abort"):
            _end(ctx, verb)
        elif verb in ("get", "scan", "drawn"):
            seen.append(_look(ctx, verb))
        else:
            _change(ctx, verb, *rest)
    return seen


def _look(ctx: Context, verb: str) -> Any:
    if verb == "get":
        return ctx.get()
    if verb == "scan":
        return ctx.scan(ctx.key.split("/")[0] + "/")
    return [ctx.random.randrange(1000), ctx.uuid(), ctx.now_ms]


def _change(ctx: Context, verb: str, *rest: Any) -> None:
    match verb:
        case "add":
            ctx.put((ctx.get() or 0) + rest[0])
        case "put":
            ctx.put(rest[0])
        case "delete":
            ctx.delete()
        case "queue":
            ctx.call_async(*rest[:2], "run", [rest[2]])


def _end(ctx: Context, verb: str) -> None:
    if verb == "refuse":
        raise Refused(ctx.key, ctx.get())
    if verb == "fail":
        raise KeyError(ctx.key)
    ctx.abort("of", ctx.key)


async def _try(ctx: Context, operator: str, key: str, script: Script) -> Any:
    try:
        return await ctx.call(operator, key, "run", [script])
    except (Refused, CallFailed) as error:
        return repr(error)


async def _call_external(ctx: Context, number: int) -> Any:
    try:
        return await ctx.external(external, [number, ctx.uuid(), ctx.now_ms])
    except (Refused, CallFailed) as error:
        return repr(error)


def external(key: str, *arguments: Any) -> Any:
    """Never called: the simulation answers in its place."""
    raise AssertionError(f"{key}: {arguments}")


def make_program(partitions: int = 3, limits: Limits | None = None) -> Program:
    """Two operators of different width, one of them with composite keys."""
    plain = Operator("plain", partitions=partitions)
    grouped = Operator("grouped", partitions=max(1, partitions - 1), colocate="/")
    for operator in (plain, grouped):
        operator.functions["run"] = run_script
    return Program("scripts", [plain, grouped], errors=[Refused], limits=limits, externals=[external])


def make_versions(partitions: int, limits: Limits | None = None) -> list[Program]:
    """Programs of one job that differ in their answers, functions, operators, and in what they make of old values."""
    return [make_program(partitions, limits), *(_version(number, partitions, limits) for number in (2, 3))]


def _version(version: int, partitions: int, limits: Limits | None) -> Program:
    async def run(ctx: Context, script: Script) -> list[Any]:
        return [f"v{version}", *await run_script(ctx, script)]

    def upgrade(value: int, before: int) -> int:
        return value + 100 * (version - before)

    plain = Operator("plain", partitions=partitions, upgrade=upgrade)
    grouped = Operator("grouped", partitions=max(1, partitions - 1), colocate="/", upgrade=upgrade)
    for operator in (plain, grouped):
        operator.functions["run"] = run
    if version == 2:
        plain.functions["rum"] = run
    operators = [plain, grouped] if version == 2 else [plain, grouped, Operator("late", partitions=partitions)]
    operators[-1].functions["run"] = run
    return Program("scripts", operators, errors=[Refused], limits=limits, externals=[external], version=version)


ENTITIES = [("plain", f"k{number}") for number in range(MAX_KEYS)]
ENTITIES += [("grouped", f"g{number % 2}/{number}") for number in range(MAX_KEYS)]
"""All that scripts are drawn for."""


class Scripts:
    """Draws scripts; ``keys`` in all, fewer are hotter. ``external``: some make external calls.

    ``late``: some call an operator that only some versions of the program have.
    """

    def __init__(self, draw: Random, keys: int, *, external: bool = False, late: bool = False) -> None:
        assert keys <= MAX_KEYS
        self._external = external
        self._late = late
        self._draw = draw
        self._keys = keys

    def entity(self) -> tuple[str, str]:
        """An operator and a key."""
        number = min(self._draw.randrange(self._keys), self._draw.randrange(self._keys))
        if self._draw.random() < 0.5:
            return "late" if self._late and self._draw.random() < 0.2 else "plain", f"k{number}"
        return "grouped", f"g{number % 2}/{number}"

    def script(self, operator: str, depth: int = 3) -> Script:
        """For an entity of this operator."""
        return [self._step(operator, depth) for _ in range(self._draw.randrange(1, 4))]

    def _step(self, operator: str, depth: int) -> list[Any]:
        draw = self._draw
        simple = ["get", "add", "add", "put", "delete", "drawn", "refuse", "fail", "abort"]
        weights = [6, 8, 4, 2, 2, 1, 1, 0.5, 0.5]
        if operator == "grouped":
            simple, weights = [*simple, "scan"], [*weights, 4]
        if self._external:
            simple, weights = [*simple, "external"], [*weights, 4]
        if depth:
            simple, weights = [*simple, "call", "try", "queue", "if"], [*weights, 8, 3, 5, 3]
        (verb,) = draw.choices(simple, weights)
        match verb:
            case "add" | "put" | "external":
                return [verb, draw.randrange(10)]
            case "call" | "try" | "queue":
                other, key = self.entity()
                return [verb, other, key, self.script(other, depth - 1)]
            case "if":
                return [verb, self.script(operator, depth - 1), self.script(operator, depth - 1)]
        return [verb]
