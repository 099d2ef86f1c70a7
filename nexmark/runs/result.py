"""The result of a run: one line of JSON, or a few lines for people."""

from __future__ import annotations

import json

import msgspec

from nexmark.runs.measure import Latency


class NexmarkResult(msgspec.Struct):
    """The JSON of ``holon nexmark run`` (keys: the command line's contract)."""

    query: str
    log: str
    events: int
    partitions: int
    nodes: int
    replicas: int
    seed: int
    killed: list[int]
    outputs: int
    accepted: int
    filtered: int
    late: int
    dead: int
    conserved: bool
    events_per_s: float
    latency_ms: Latency | None
    longest_delay_ms: float | None
    steals: int
    peak_uss_mb: float
    repeats_dropped: int = 0
    validated: bool | None = None
    validator: str | None = None
    differences: int | None = None
    first_differences: list[str] = []
    generator: str = "plain"
    generate_s: float = 0.0
    wall_s: float = 0.0
    api: str = "procedural"


def as_text(result: NexmarkResult) -> str:
    """The result for people."""
    proof = "not validated (see --validate)"
    if result.validated is not None:
        proof = f"{'exact' if result.validated else 'WRONG'}, checked by {result.validator}: {result.differences} differences"
    identity = (
        f"{result.accepted:,} accepted + {result.filtered:,} filtered + {result.late:,} late + {result.dead:,} dead"
    )
    lines = [
        f"{result.query} ({result.api}): {result.outputs:,} results from {result.events:,} events on {result.partitions} partitions, "
        f"{result.nodes} nodes, killed {result.killed or 'none'}",
        f"  in = {identity} {'(holds)' if result.conserved else '(DOES NOT HOLD)'}",
        f"  {result.events_per_s:,.0f} events/s, {result.repeats_dropped} duplicates dropped, "
        f"{result.peak_uss_mb:.0f} MB at most a node, {result.wall_s:.1f} s in all",
        f"  {proof}",
    ]
    if result.longest_delay_ms is not None:
        lines.insert(3, f"  longest gap between results around a kill: {result.longest_delay_ms:.0f} ms")
    if result.latency_ms is not None:
        latency = json.dumps({k: round(v, 1) for k, v in msgspec.to_builtins(result.latency_ms).items()})
        lines.insert(3, f"  latency in ms: {latency}")
    lines += [f"  {line}" for line in result.first_differences]
    return "\n".join(lines)
