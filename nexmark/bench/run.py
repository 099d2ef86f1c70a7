"""The comparison: fill one topic, check that the answers agree, then run the engines in turn."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from nexmark.bench.compare_answers import Agreement, agreement
from nexmark.bench.flink_engine import FlinkEngine
from nexmark.bench.holon_engine import HolonEngine
from nexmark.bench.machine import machine, pin
from nexmark.bench.plan import PYTHON_PEERS, ComparisonPlan, Variant
from nexmark.bench.python_engine import PythonEngine
from nexmark.bench.python_home import python_home
from nexmark.bench.result import (
    BUSY_CORES,
    BenchResult,
    EngineRun,
    other_load,
    over_memory,
    ratios_of,
    ratios_over,
    rows_of,
)
from nexmark.bench.warmup import Warmth, warm_broker
from nexmark.flink.cluster import FlinkCluster
from nexmark.flink.home import FLINK_VERSION, flink_home
from nexmark.queries import TOPIC
from nexmark.runs import plan as runs_plan
from nexmark.runs.fill import fill, uses_spark
from nexmark.runs.validate import spark_problem_once
from nodes.api import MissingDependency, RunFailed, Settings, Unreachable, drop_topics, log_address, open_job_log

Report = Callable[[str], None]


def compare_engines(
    plan: ComparisonPlan, settings: Settings, folder: Path, report: Report, broker_pid: int | None = None
) -> BenchResult:
    """Run the plan on the settings' Kafka, whose prefix no one else uses; ``folder`` is for what the engines write.

    ``broker_pid``: of a broker on this machine, if it is known, so that its compiler's CPU time can be measured.
    """
    begun_s = time.monotonic()
    cores = pin(plan.cores)
    _fill(plan, settings, report)
    warmth = _warmed(plan, settings, report, broker_pid)
    with ExitStack() as stack:
        engines, missing = _engines(plan, settings, folder, stack, len(cores), report)
        runner = _Runner(plan, settings, engines, report)
        answers = runner.check() if plan.checks else []
        runs = runner.measure()
        shown = {name: engine.shown_settings() for name, engine in engines.items()}
    rows = rows_of(plan, runs)
    load = other_load(runs)
    compared = [answer for answer in answers if len(answer.rows) > 1]
    return BenchResult(
        rows=rows, ratios=ratios_of(rows), ratios_over=ratios_over(plan.engines, rows),
        agree=all(not a.differences for a in compared) if compared else None,
        other_load_cores=load, quiet=load <= BUSY_CORES, events=plan.events, partitions=plan.partitions,
        nodes=plan.nodes, pairs=plan.pairs, cores=cores, memory_mb=plan.memory_mb, answers=answers,
        missing_peers=missing, over_memory=over_memory(plan, rows), settings=shown,
        machine=machine() | ({"flink": FLINK_VERSION} if "flink" in engines else {}),
        broker_warmup=warmth, format=plan.format, wall_s=round(time.monotonic() - begun_s, 1),
    )  # fmt: skip


def _fill(plan: ComparisonPlan, settings: Settings, report: Report) -> None:
    plan_of_run = runs_plan.RunPlan(
        "q0", plan.events, partitions=plan.partitions, seed=plan.seed, generator=plan.generator, format=plan.format
    )
    with ExitStack() as stack:
        spark = uses_spark(plan_of_run, spark_problem_once(), report)
        if spark:
            from nodes.spark.session import spark_session

            stack.enter_context(spark_session())
        report(f"generating {plan.events:,} events with {'Spark' if spark else 'Python'}")
        with open_job_log(settings) as log:
            fill(log, log_address(settings), plan_of_run, spark=spark, progress=lambda done: None)


def _warmed(plan: ComparisonPlan, settings: Settings, report: Report, broker_pid: int | None) -> Warmth | None:
    if not plan.broker_warmup_s:
        return None
    report(f"warming the broker for {plan.broker_warmup_s:g} s")
    try:
        warmth = warm_broker(log_address(settings), plan.partitions, plan.broker_warmup_s, broker_pid)
    finally:
        drop_topics(settings, keep=(TOPIC,))
    if warmth.compiler_cores is not None:
        report("its compiler took {} cores at the beginning, {} at the end".format(*warmth.compiler_cores))
    return warmth


def _engines(
    plan: ComparisonPlan, settings: Settings, folder: Path, stack: ExitStack, cores: int, report: Report
) -> tuple[dict[str, Any], dict[str, str]]:
    """The engines that can run here, and why others cannot."""
    engines: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name in plan.engines:
        if name == "holon":
            engines[name] = HolonEngine(plan, settings)
            continue
        try:
            if name in PYTHON_PEERS:
                engines[name] = _python_engine(name, plan, settings, folder, cores, report)
            else:
                engines[name] = _flink_engine(plan, settings, folder, stack, cores, report)
        except (MissingDependency, Unreachable, RunFailed) as error:
            report(f"{name} is left out: {error}")
            missing[name] = str(error)
    return engines, missing


def _flink_engine(
    plan: ComparisonPlan, settings: Settings, folder: Path, stack: ExitStack, cores: int, report: Report
) -> FlinkEngine:
    report("starting Flink (its jars are fetched the first time)")
    folder /= "flink"
    cluster = FlinkCluster(flink_home(), folder, cores=cores, memory_mb=plan.memory_mb, collector=plan.collector)
    stack.enter_context(cluster)
    return FlinkEngine(plan, settings, cluster, settings.log.prefix + TOPIC)


def _python_engine(
    name: str, plan: ComparisonPlan, settings: Settings, folder: Path, cores: int, report: Report
) -> PythonEngine:
    report(f"searching for {name} (its environment is made the first time)")
    home = python_home(PYTHON_PEERS[name][0])
    return PythonEngine(plan, settings, home, settings.log.prefix + TOPIC, folder / name, cores, name)


class _Runner:
    def __init__(self, plan: ComparisonPlan, settings: Settings, engines: dict[str, Any], report: Report) -> None:
        self.plan, self.settings, self.engines, self.report = plan, settings, engines, report
        self._numbers = count(int(time.time()) * 1000)

    def check(self) -> list[Agreement]:
        """Every query once on every engine, with its results on Kafka; that warms the engines too."""
        found = []
        for query in self.plan.queries:
            with self._cleaned():
                variant, answers = Variant(query, "kafka"), {}
                for name, engine in self.engines.items():
                    if not engine.supports(variant):
                        continue
                    measure, topic = engine.run(variant, next(self._numbers))
                    self.report(f"{query}: {name} answers in {measure.seconds:.2f} s")
                    answers[name] = engine.rows(query, topic)
                found.append(agreement(query, answers))
                if found[-1].differences:
                    self.report(f"{query}: THE ANSWERS DIFFER: {found[-1].first[:3]}")
        return found

    def measure(self) -> list[EngineRun]:
        """Every variant, the engines in turn, as often as there are pairs."""
        runs: list[EngineRun] = []
        for variant in self.plan.variants:
            if variant.checkpoints and "flink" not in self.engines:
                continue
            for number in range(self.plan.pairs):
                for name, engine in self.engines.items():
                    if not engine.supports(variant):
                        continue
                    if name == "holon" and variant.checkpoints:
                        base = dataclasses.replace(variant, checkpoints=False)  # Holon always has checkpoints
                        same = [run for run in runs if run.variant == base and run.engine == name]
                        runs.append(EngineRun(variant, name, same[number].measure))
                        continue
                    with self._cleaned():
                        measure, _ = engine.run(variant, next(self._numbers))
                    rate, cores = self.plan.events / measure.seconds, measure.others_s / measure.seconds
                    self.report(
                        f"{variant.key} {number + 1}/{self.plan.pairs} {name}: {rate:,.0f} events/s, "
                        f"{measure.cpu_s:.1f} CPU-s, {measure.peak_process_mb:.0f} MB; others {cores:.2f} cores"
                    )
                    runs.append(EngineRun(variant, name, measure))
        return runs

    @contextmanager
    def _cleaned(self) -> Iterator[None]:
        """Of the topics that are made within, none is left."""
        try:
            yield
        finally:
            drop_topics(self.settings, keep=(TOPIC,))
