"""The JSON of ``holon nexmark latency`` and ``failover`` (keys: the command line's contract), and lines for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from nexmark.latency.figures import longest_delay_ms, recovered_ms, sensitivity
from nexmark.latency.load import Load
from nexmark.latency.measure import LatencyOutcome
from nexmark.runs.measure import Latency, summarize


class LatencyReport(msgspec.Struct, kw_only=True):
    """``results`` are those whose latency counts; ``feed_behind_ms``: how late the producer was at worst."""

    query: str
    log: str
    rate: int
    seconds: float
    nodes: int
    replicas: int
    window_ms: int
    results: int
    latency_ms: Latency | None
    partitions: int
    warmup_s: float
    events: int
    outputs: int
    differences: int
    repeats_dropped: int
    feed_behind_ms: float
    load_cores: Load


class FailoverRow(LatencyReport, kw_only=True):
    """``baseline_ms``: latency of a run of the same plan without failures.

    ``profile``: how a peer was set up. ``unfinished``: windows without a result when the run was over; each counts with
    the time until then.
    """

    scenario: str
    engine: str
    profile: str = ""
    unfinished: int = 0
    killed: list[int]
    longest_delay_ms: float | None
    recovered_ms: float | None
    sensitivity: float
    baseline_ms: Latency | None


def latency_report(measured: LatencyOutcome, log: str) -> LatencyReport:
    """Of a run without failures."""
    return LatencyReport(**_common(measured, log))


def failover_row(
    measured: LatencyOutcome,
    baseline: LatencyOutcome,
    log: str,
    scenario: str,
    *,
    engine: str = "holon",
    profile: str = "",
    unfinished: int = 0,
) -> FailoverRow:
    """Of a run with failures and one without."""
    kill_ms = measured.kills_ms[0]
    return FailoverRow(
        **_common(measured, log),
        scenario=scenario,
        engine=engine,
        profile=profile,
        unfinished=unfinished,
        killed=measured.killed,
        longest_delay_ms=longest_delay_ms(measured.found, kill_ms),
        recovered_ms=recovered_ms(measured.found, kill_ms),
        sensitivity=round(sensitivity(measured.found, baseline.found, measured.began_ms, measured.ended_ms), 1),
        baseline_ms=summarize(baseline.found.delays_ms),
    )


def sensitivity_ratios(rows: Sequence[FailoverRow]) -> dict[str, float | None]:
    """By peer and how it was set up: its sensitivity over Holon's; None where Holon's run shows none."""
    ours = next((row.sensitivity for row in rows if row.engine == "holon"), None)
    if ours is None:
        return {}
    peers = [row for row in rows if row.engine != "holon"]
    return {_whose(row): round(row.sensitivity / ours, 1) if ours > 0 else None for row in peers}


def ratio_lines(ratios: Mapping[str, float | None]) -> list[str]:
    """For people."""
    return [
        f"sensitivity of {whose}: " + (f"{ratio:,.1f} times Holon's" if ratio is not None else "Holon's shows none")
        for whose, ratio in ratios.items()
    ]


def _whose(row: FailoverRow) -> str:
    return f"{row.engine} {row.profile}".strip()


def _common(measured: LatencyOutcome, log: str) -> dict[str, Any]:
    plan = measured.plan
    return {
        "query": plan.query,
        "log": log,
        "rate": plan.rate,
        "seconds": plan.seconds,
        "nodes": plan.nodes,
        "replicas": plan.replicas,
        "window_ms": plan.window_ms,
        "results": len(measured.found.delays_ms),
        "latency_ms": summarize(measured.found.delays_ms),
        "partitions": plan.partitions,
        "warmup_s": plan.warmup_s,
        "events": measured.feed.events,
        "outputs": measured.results,
        "differences": measured.differences,
        "repeats_dropped": measured.repeats_dropped,
        "feed_behind_ms": measured.feed.behind_ms,
        "load_cores": measured.load,
    }


def as_text(report: LatencyReport) -> str:
    """For people."""
    load = report.load_cores
    broker = "" if load.broker is None else f", broker {load.broker}"
    verdict = "exact" if report.differences == 0 else f"WRONG: {report.differences} differences"
    whose = _whose(report) + ": " if isinstance(report, FailoverRow) else ""
    lines = [
        f"{whose}{report.query} on {report.log}: {report.rate:,} events/s for {report.seconds:g} s, windows of "
        f"{report.window_ms} ms, {report.nodes} nodes, {report.replicas} replicas",
        f"  {report.results:,} results, {verdict}, {report.repeats_dropped} duplicates dropped",
        f"  latency: {spelled(report.latency_ms)}",
        f"  cores: nodes {load.nodes}, producer {load.feed}{broker}, others {load.others}",
    ]
    if isinstance(report, FailoverRow):
        lines.insert(3, f"  without failures: {spelled(report.baseline_ms)}")
        lines.insert(
            4,
            f"  {report.scenario}, killed {report.killed}: longest delay {report.longest_delay_ms} ms, recovered after "
            f"{report.recovered_ms} ms, sensitivity {report.sensitivity} ms*s"
            + (f", {report.unfinished} windows never answered" if report.unfinished else ""),
        )
    return "\n".join(lines)


def spelled(latency: Latency | None) -> str:
    """In one line."""
    if latency is None:
        return "no results to measure"
    return f"average {latency.avg:.2f} ms, " + ", ".join(
        f"{name} {getattr(latency, name):.1f} ms" for name in ("p50", "p90", "p99", "max")
    )
