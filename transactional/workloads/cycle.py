"""Cycle: a ring of nodes of which transactions exchange two neighbours; a serializable history leaves one ring.

Source: FoundationDB's ``Cycle`` workload. Any lost or torn write cuts the ring in two or ends it early.
"""

from __future__ import annotations

from transactional.context import Context
from transactional.operators import Operator, Program
from transactional.requests.requests import WireRequest
from transactional.workloads.contract import BenchWorkload, RequestHistory, Send, WorkloadShape
from transactional.workloads.draws import Draws

ring = Operator("ring", partitions=4)


def node_key(number: int) -> str:
    """Nodes count from 0."""
    return f"n{number}"


@ring.register
async def point(ctx: Context, to: int) -> None:
    """Set the next node."""
    ctx.put(to)


@ring.register
async def following(ctx: Context) -> int:
    """The next node."""
    return ctx.get()


@ring.register
async def exchange(ctx: Context) -> list[int]:
    """Of this node -> b -> c -> d make this node -> c -> b -> d."""
    b = ctx.get()
    c = await ctx.call(ring, node_key(b), following)
    d = await ctx.call(ring, node_key(c), following)
    ctx.put(c)
    await ctx.call(ring, node_key(c), point, [b])
    await ctx.call(ring, node_key(b), point, [d])
    return [b, c, d]


program = Program("cycle", [ring])


def load(shape: WorkloadShape) -> list[WireRequest]:
    """At least three nodes, each before the next."""
    assert shape.size >= 3, f"a ring of {shape.size} nodes has no three to exchange"
    return [WireRequest(f"load-{n}", "ring", node_key(n), "point", [(n + 1) % shape.size]) for n in range(shape.size)]


def requests(shape: WorkloadShape, first: int, count: int) -> list[WireRequest]:
    """Exchanges behind Zipf-distributed nodes."""
    starts = Draws(shape.seed, first, count).zipf(0, shape.size, shape.zipf)
    return [
        WireRequest(f"{shape.seed}-{first + n}", "ring", node_key(start), "exchange") for n, start in enumerate(starts)
    ]


def check(shape: WorkloadShape, history: RequestHistory, send: Send) -> list[str]:
    """One ring through all nodes."""
    found = send([WireRequest(f"read-{n}", "ring", node_key(n), "following") for n in range(shape.size)])
    at, seen = 0, [0]
    while (at := found[f"read-{at}"]) not in seen[:1] and len(seen) <= shape.size:
        seen.append(at)
    return [] if sorted(seen) == list(range(shape.size)) else [f"no ring of {shape.size} nodes: {seen[:20]}"]


workload = BenchWorkload(
    name="cycle",
    program=program,
    reference="transactional.workloads.cycle:program",
    size=1_000,
    counts="nodes of the ring",
    load=load,
    requests=requests,
    check=check,
    smallest=3,
)
