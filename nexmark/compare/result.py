"""The JSON of ``holon bench``: a row for each job, with the figures of each engine and Holon's over these."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import msgspec

from nexmark.bench.meter import Measure
from nexmark.bench.result import BUSY_CORES, Spread
from nexmark.compare.cases import BY_FLOW, BY_RECORD, WAYS

GOALS: dict[tuple[str, str], tuple[float | None, float | None]] = {
    ("holon", "flink"): (2.0, 3.0),
    ("holon", "bytewax"): (8.0, None),
    ("holon", "quix"): (8.0, None),
    (BY_RECORD, "bytewax"): (2.0, None),
    (BY_RECORD, "quix"): (2.0, None),
    (BY_FLOW, "holon"): (None, 1 / 1.1),
}
"""Wished for, by Holon's way and peer: times the events a second, times the events a CPU-second."""


class EngineFigures(msgspec.Struct):
    """Of one engine on one job. ``runs``: events a second of each run, in order; ``cpu_runs``: a CPU-second."""

    events_per_s: Spread
    events_per_cpu_s: float
    peak_uss_mb: float
    runs: list[float]
    cpu_runs: list[float]


class PairRatio(msgspec.Struct):
    """Medians of the ratios of pairs. ``met``: whether the wish holds, None where there is none."""

    events_per_s: float
    events_per_cpu_s: float
    met: bool | None


class JobRow(msgspec.Struct):
    """One job. ``agree`` is None where only one engine ran; ``missing`` is the reason why an engine did not."""

    job: str
    events: int
    bytes_per_event: float
    agree: bool | None
    answers: dict[str, int]
    differences: list[str]
    engines: dict[str, EngineFigures]
    ratios: dict[str, dict[str, PairRatio]]
    missing: dict[str, str]


class JobComparison(msgspec.Struct):
    """All of it."""

    rows: list[JobRow]
    agree: bool | None
    log: str
    compression: str
    seed: int
    partitions: int
    nodes: int
    pairs: int
    checkpoints_s: float
    other_load_cores: float
    quiet: bool
    missing_peers: dict[str, str]
    settings: dict[str, dict[str, str]]
    machine: dict[str, str]
    wall_s: float = 0.0


def figures(events: int, measures: Sequence[Measure]) -> EngineFigures:
    """Of the runs of an engine."""
    rates = [round(events / measure.seconds, 1) for measure in measures]
    cpu_rates = [round(events / max(measure.cpu_s, 1e-3), 1) for measure in measures]
    return EngineFigures(
        events_per_s=Spread(min(rates), statistics.median(rates), max(rates)),
        events_per_cpu_s=statistics.median(cpu_rates),
        peak_uss_mb=round(max(measure.peak_process_mb for measure in measures), 1),
        runs=rates,
        cpu_runs=cpu_rates,
    )


def ratios(engines: Mapping[str, EngineFigures]) -> dict[str, dict[str, PairRatio]]:
    """By Holon's way (by columns, record by record, as a flow) and peer; of a flow over the job too."""
    found: dict[str, dict[str, PairRatio]] = {}
    for ours in WAYS:
        for theirs, other in engines.items():
            if ours in engines and (theirs not in WAYS or (ours, theirs) == (BY_FLOW, "holon")):
                found.setdefault(ours, {})[theirs] = _ratio(engines[ours], other, GOALS.get((ours, theirs)))
    return found


def _ratio(mine: EngineFigures, other: EngineFigures, goal: tuple[float | None, float | None] | None) -> PairRatio:
    wall = statistics.median(a / b for a, b in zip(mine.runs, other.runs, strict=False))
    cpu = statistics.median(a / b for a, b in zip(mine.cpu_runs, other.cpu_runs, strict=False))
    wishes = [] if goal is None else [(wall, goal[0]), (cpu, goal[1])]
    met = all(value >= wish for value, wish in wishes if wish is not None) if wishes else None
    return PairRatio(round(wall, 3), round(cpu, 3), met)


def as_text(result: JobComparison) -> str:
    """For a terminal and for a page: a table in Markdown."""
    busy = "" if result.quiet else f" The machine was too busy for wall times (others above {BUSY_CORES} cores)."
    lines = [
        f"{result.log} log, compression {result.compression}, {result.partitions} partitions, "
        f"{result.nodes} Holon nodes, {result.pairs} runs each in turn, "
        f"checkpoints every {result.checkpoints_s:g} s, seed {result.seed}. "
        f"Others used {result.other_load_cores} cores.{busy}",
        "",
        "| job | agree | engine | events/s: min | median | max | events a CPU-second | MB | over it: events/s | "
        "a CPU-second |",
        "|" + "---|" * 10,
    ]
    for row in result.rows:
        for name, one in row.engines.items():
            ratio = row.ratios.get("holon", {}).get(name)
            spread = one.events_per_s
            over = " | " if ratio is None else f"{ratio.events_per_s:.2f} | {ratio.events_per_cpu_s:.2f}"
            agree = {None: "-", True: "yes", False: "**no**"}[row.agree]
            lines.append(
                f"| {row.job} | {agree} | {name} | {spread.min:,.0f} | {spread.median:,.0f} | {spread.max:,.0f} | "
                f"{one.events_per_cpu_s:,.0f} | {one.peak_uss_mb:,.0f} | {over} |"
            )
    lines += [f"* {row.job}, {name}: {why.splitlines()[0]}" for row in result.rows for name, why in row.missing.items()]
    lines += [f"* {name} was left out: {why.splitlines()[0]}" for name, why in result.missing_peers.items()]
    lines += [f"* {row.job}: {line}" for row in result.rows for line in row.differences]
    return "\n".join(lines)
