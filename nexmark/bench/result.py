"""The JSON of ``holon nexmark bench`` (keys: the command line's contract), from the runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from nexmark.bench.compare_answers import Agreement
from nexmark.bench.meter import Measure
from nexmark.bench.plan import CHECKPOINTS_S, ComparisonPlan, Variant
from nexmark.bench.warmup import Warmth

BUSY_CORES = 0.5
"""Load by others above which a machine is too busy to measure."""


@dataclass(frozen=True, slots=True)
class EngineRun:
    """One measured run."""

    variant: Variant
    engine: str
    measure: Measure


class Spread(msgspec.Struct):
    """Of the runs of a row."""

    min: float
    median: float
    max: float


class EngineRow(msgspec.Struct):
    """One engine in one variant. ``runs``: events a second of each run, in order.

    ``peak_uss_mb`` is of the largest process, ``peak_all_uss_mb`` of all processes of the engine together.
    """

    query: str
    engine: str
    sink: str
    checkpoints_s: float | None
    events_per_s: Spread
    events_per_cpu_s: float
    peak_uss_mb: float
    peak_all_uss_mb: float
    variant: str
    runs: list[float]


class EngineRatio(msgspec.Struct):
    """Holon's median over the peer's, and the median of the pairs' ratios. ``memory``: of the largest processes."""

    events_per_s: float
    events_per_cpu_s: float
    pairs_median: float
    memory: float


class BenchResult(msgspec.Struct):
    """All of it. ``agree`` is None where nothing could be compared; ``quiet`` False: the machine was too busy."""

    rows: list[EngineRow]
    ratios: dict[str, EngineRatio]
    agree: bool | None
    other_load_cores: float
    quiet: bool
    events: int
    partitions: int
    nodes: int
    pairs: int
    cores: list[int]
    memory_mb: int
    answers: list[Agreement]
    missing_peers: dict[str, str]
    over_memory: list[str]
    settings: dict[str, dict[str, str]]
    machine: dict[str, str]
    format: str = "json"
    broker_warmup: Warmth | None = None
    """None: there was none."""
    wall_s: float = 0.0
    ratios_over: dict[str, dict[str, EngineRatio]] = {}
    """By peer; ``ratios`` are those over Flink."""


def rows_of(plan: ComparisonPlan, runs: Sequence[EngineRun]) -> list[EngineRow]:
    """One row for each variant and engine that has runs; Holon's of a variant with checkpoints are those without."""
    rows = []
    for variant in plan.variants:
        for engine in plan.engines:
            found = [run.measure for run in runs if run.variant == variant and run.engine == engine]
            if found:
                rows.append(_row(plan, variant, engine, found))
    return rows


def _row(plan: ComparisonPlan, variant: Variant, engine: str, found: Sequence[Measure]) -> EngineRow:
    rates = [plan.events / measure.seconds for measure in found]
    return EngineRow(
        query=variant.query,
        engine=engine,
        sink=variant.sink,
        checkpoints_s=CHECKPOINTS_S if engine == "holon" or variant.checkpoints else None,
        events_per_s=Spread(*(round(value, 1) for value in (min(rates), statistics.median(rates), max(rates)))),
        events_per_cpu_s=round(statistics.median(plan.events / max(measure.cpu_s, 1e-3) for measure in found), 1),
        peak_uss_mb=round(max(measure.peak_process_mb for measure in found), 1),
        peak_all_uss_mb=round(max(measure.peak_all_mb for measure in found), 1),
        variant=variant.key,
        runs=[round(rate, 1) for rate in rates],
    )


def ratios_of(rows: Sequence[EngineRow], ours: str = "holon", theirs: str = "flink") -> dict[str, EngineRatio]:
    """By variant; empty where one of the two is missing."""
    by_key = {(row.variant, row.engine): row for row in rows}
    found = {}
    for key in dict.fromkeys(row.variant for row in rows):
        mine, other = by_key.get((key, ours)), by_key.get((key, theirs))
        if mine is None or other is None:
            continue
        pairs = [a / b for a, b in zip(mine.runs, other.runs, strict=False)]
        found[key] = EngineRatio(
            events_per_s=round(mine.events_per_s.median / other.events_per_s.median, 3),
            events_per_cpu_s=round(mine.events_per_cpu_s / other.events_per_cpu_s, 3),
            pairs_median=round(statistics.median(pairs), 3),
            memory=round(mine.peak_uss_mb / other.peak_uss_mb, 3),
        )
    return found


def ratios_over(engines: Sequence[str], rows: Sequence[EngineRow]) -> dict[str, dict[str, EngineRatio]]:
    """By peer; without those that have no rows."""
    found = {peer: ratios_of(rows, theirs=peer) for peer in engines if peer != "holon"}
    return {peer: ratios for peer, ratios in found.items() if ratios}


def other_load(runs: Sequence[EngineRun]) -> float:
    """Cores that others used on average while the engines ran."""
    seconds = sum(run.measure.seconds for run in runs)
    return round(sum(run.measure.others_s for run in runs) / seconds, 2) if seconds else 0.0


def over_memory(plan: ComparisonPlan, rows: Sequence[EngineRow]) -> list[str]:
    """Rows whose engine took more memory than both were given."""
    return [
        f"{row.engine} took {row.peak_all_uss_mb:.0f} MB for {row.variant}, of {plan.memory_mb} MB"
        for row in rows
        if row.peak_all_uss_mb > plan.memory_mb * 1.048576
    ]
