"""Chains of calls: each transaction takes from one entity and gives to those that it calls, one within the other.

``depth`` is how many calls are nested; ``remote`` in which share of the transactions the callees are drawn from
everywhere. In the others they are neighbours of the root: keys with the same first part. ``chain`` keeps neighbours in
one partition (composite keys), ``chain-scattered`` is the same without. Nothing is lost or made: the sum stays 0, and
each entity is what the replies make of it. For curves by call depth and by share of multi-partition transactions (Styx,
Figure 16).
"""

from __future__ import annotations

from functools import partial

from transactional.context import Context
from transactional.operators import Operator, Program
from transactional.requests.requests import WireRequest
from transactional.workloads.contract import BenchWorkload, RequestHistory, Send, WorkloadShape, different
from transactional.workloads.draws import Draws

GROUPS = 1_000
"""First parts of keys; ``size`` entities in each."""


def _program(name: str, colocate: str | None) -> Program:
    link = Operator("link", partitions=4, colocate=colocate)

    async def hop(ctx: Context, rest: list[str]) -> int:
        """Give one to each of ``rest``, one within the other; how many there were."""
        ctx.put(ctx.get(0) - len(rest))
        return await ctx.call("link", rest[0], "take", [rest[1:]])

    async def take(ctx: Context, rest: list[str]) -> int:
        """One more here, and on with the rest."""
        ctx.put(ctx.get(0) + 1)
        return 1 + (await ctx.call("link", rest[0], "take", [rest[1:]]) if rest else 0)

    async def read(ctx: Context) -> int:
        """The values here."""
        return ctx.get(0)

    for function in (hop, take, read):
        link.register(function)
    return Program(name, [link])


program = _program("chain", "/")
scattered_program = _program("chain-scattered", None)


def requests(shape: WorkloadShape, first: int, count: int) -> list[WireRequest]:
    """The hot choice is the root's group, by Zipf."""
    draws = Draws(shape.seed, first, count)
    groups, members = draws.zipf(0, GROUPS, shape.zipf), draws.below(1, shape.size)
    far = draws.share(2)
    drawn = [(draws.below(3 + 2 * n, GROUPS), draws.below(4 + 2 * n, shape.size)) for n in range(min(shape.depth, 60))]
    made = []
    for n in range(count):
        way = [drawn[step % len(drawn)] for step in range(shape.depth)]
        is_far = far[n] < shape.remote
        keys = [f"{g[n] if is_far else groups[n]}/{m[n]}" for g, m in way]
        root = f"{groups[n]}/{members[n]}"
        made.append(WireRequest(f"{shape.seed}-{first + n}", "link", root, "hop", [keys]))
    return made


def check(shape: WorkloadShape, history: RequestHistory, send: Send) -> list[str]:
    """Every entity that was touched is what the replies make of it."""
    expected: dict[str, int] = {}
    wrong: list[str] = []
    for request, reached in history.committed("hop"):
        (keys,) = request.args
        wrong += different(f"the length of chain {request.id}", reached, len(keys))
        expected[request.key] = expected.get(request.key, 0) - len(keys)
        for key in keys:
            expected[key] = expected.get(key, 0) + 1
    reads = [WireRequest(f"read-{key}", "link", key, "read") for key in expected]
    found = send(reads)
    return wrong + [each for r in reads for each in different(f"entity {r.key}", found[r.id], expected[r.key])]


def _workload(name: str, program_: Program, attribute: str) -> BenchWorkload:
    return BenchWorkload(
        name=name,
        program=program_,
        reference=f"transactional.workloads.chain:{attribute}",
        size=10,
        counts=f"entities in each of {GROUPS} groups",
        load=partial(_load, name),
        requests=requests,
        check=check,
    )


def _load(name: str, shape: WorkloadShape) -> list[WireRequest]:
    """An entity begins as nothing: one is read, so that nodes are at work."""
    return [WireRequest(f"load-{name}", "link", "0/0", "read")]


workloads = [
    _workload("chain", program, "program"),
    _workload("chain-scattered", scattered_program, "scattered_program"),
]
