"""The comparison of ordinary jobs: fill a topic for each, compare the answers, then run the engines in turn."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import chain, count, islice
from pathlib import Path

from nexmark.bench.machine import machine, pin
from nexmark.bench.meter import Measure
from nexmark.bench.plan import CHECKPOINTS_S
from nexmark.bench.python_home import python_home
from nexmark.bench.result import BUSY_CORES
from nexmark.compare.cases import ENGINES, WAYS, ComparedJob, records
from nexmark.compare.engines import Engine, Flink, Holon, PythonPeer, program_of
from nexmark.compare.jobs import topic_of
from nexmark.compare.result import JobComparison, JobRow, figures, ratios
from nexmark.compare.rows import differences
from nexmark.flink.cluster import FlinkCluster
from nexmark.flink.home import FLINK_VERSION, flink_home
from nodes.api import (
    MissingDependency,
    RunFailed,
    Settings,
    SettingsError,
    UnknownName,
    Unreachable,
    open_job_log,
    refined,
)

CHUNK = 20_000
"""Records that are appended at once to a partition, at most."""
CODECS = ("none", "lz4", "gzip", "snappy", "zstd")
Step = Callable[[str], None]
"""Gets what is being done now."""


@dataclasses.dataclass(frozen=True, slots=True)
class ComparePlan:
    """``events``: at most so many of each job's; None: all of the file, or the default of generators."""

    engines: tuple[str, ...] = ("holon",)
    events: int | None = None
    data: Path | None = None
    partitions: int = 4
    nodes: int = 2
    pairs: int = 3
    memory_mb: int = 4096
    seed: int = 0
    compression: str = "none"
    cores: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for engine in self.engines:
            if engine not in ENGINES:
                raise UnknownName("engine", engine, ENGINES)
        if not self.engines:
            raise SettingsError("nothing to measure: name engines")
        if self.compression not in CODECS:
            raise UnknownName("compression", self.compression, CODECS)
        for name in ("partitions", "nodes", "pairs", "memory_mb"):
            if getattr(self, name) < 1:
                raise SettingsError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(self, name)}")

    @property
    def needs_kafka(self) -> bool:
        """Whether an engine takes part that reads Kafka alone."""
        return any(engine not in WAYS for engine in self.engines)


def compare(plan: ComparePlan, cases: list[ComparedJob], settings: Settings, folder: Path, step: Step) -> JobComparison:
    """Run all cases on the settings' log, which no one else uses; ``folder`` is for what the engines write."""
    begun_s = time.monotonic()
    cores = pin(plan.cores)
    with ExitStack() as stack:
        engines, missing = _engines(plan, settings, folder, stack, len(cores), step)
        numbers = count(int(time.time()) * 1000)
        ran = [_row(plan, case, engines, settings, numbers, step) for case in cases]
        shown = {name: engine.shown_settings() for name, engine in engines.items()}
    rows = [row for row, _ in ran]
    measures = [measure for _, measures in ran for measure in measures]
    seconds = sum(measure.seconds for measure in measures)
    load = round(sum(measure.others_s for measure in measures) / seconds, 2) if seconds else 0.0
    agreed = [row.agree for row in rows if row.agree is not None]
    return JobComparison(
        rows=rows, agree=all(agreed) if agreed else None, log=settings.log.kind,
        compression=plan.compression if settings.log.kind == "kafka" else "none", seed=plan.seed,
        partitions=plan.partitions, nodes=plan.nodes, pairs=plan.pairs, checkpoints_s=CHECKPOINTS_S,
        other_load_cores=load, quiet=load <= BUSY_CORES, missing_peers=missing, settings=shown,
        machine=machine() | ({"flink": FLINK_VERSION} if "flink" in engines else {}),
        wall_s=round(time.monotonic() - begun_s, 1),
    )  # fmt: skip


def fill(settings: Settings, topic: str, partitions: int, values: Iterator[bytes]) -> tuple[int, int]:
    """Record n goes to partition n mod P; returns how many there are, and their bytes. Raises ``RunFailed`` if none."""
    events = size = 0
    with open_job_log(settings) as log:
        log.create_topic(topic, partitions)
        while some := list(islice(values, CHUNK * partitions)):
            for partition in range(partitions):
                log.append(topic, partition, some[partition::partitions])
            events, size = events + len(some), size + sum(map(len, some))
    if not events:
        raise RunFailed("there are no records")
    return events, size


def _engines(
    plan: ComparePlan, settings: Settings, folder: Path, stack: ExitStack, cores: int, step: Step
) -> tuple[dict[str, Engine], dict[str, str]]:
    """The engines that can run here, and why others cannot."""
    engines: dict[str, Engine] = {}
    missing: dict[str, str] = {}
    for name in plan.engines:
        try:
            if name in WAYS:
                engines[name] = Holon(name, settings, plan.nodes, plan.partitions)
            elif name == "flink":
                step("starting Flink (its jars are fetched the first time)")
                cluster = FlinkCluster(flink_home(), folder / "flink", cores=cores, memory_mb=plan.memory_mb)
                engines[name] = Flink(settings, stack.enter_context(cluster), plan.partitions)
            else:
                if not program_of(name).is_file():
                    raise RunFailed(f"there is no program yet that runs ordinary jobs by {name}: {program_of(name)}")
                step(f"searching for {name} (its environment is made the first time)")
                home = python_home(name)
                engines[name] = PythonPeer(name, settings, home, folder / name, plan.partitions, cores)
        except (MissingDependency, Unreachable, RunFailed) as error:
            missing[name] = str(error)
            step(f"{name} is left out: {error}")
    return engines, missing


def _row(
    plan: ComparePlan,
    case: ComparedJob,
    engines: dict[str, Engine],
    settings: Settings,
    numbers: Iterator[int],
    step: Step,
) -> tuple[JobRow, list[Measure]]:
    step(f"{case.name}: filling its topic")
    codec = [f"log.kafka.compression.type={plan.compression}"] if settings.log.kind == "kafka" else []
    values = records(case, plan.data, plan.events, plan.seed)
    events, size = fill(refined(settings, codec), topic_of(case.reference), plan.partitions, values)
    answers: dict[str, list[bytes]] = {}
    missing: dict[str, str] = {}
    for name, engine in engines.items():  # the first runs, which warm the engines, are not measured
        try:
            step(f"{case.name}: {name} answers")
            _, answers[name] = engine.run(case, next(numbers))
        except RunFailed as error:
            missing[name] = str(error)
            step(f"{case.name}: {name} is left out: {error}")
    measures, failed = measured(plan.pairs, case, {name: engines[name] for name in answers}, events, numbers, step)
    missing |= failed
    first, *others = answers
    found = {other: differences(answers[first], answers[other]) for other in others}
    shown = [f"{first} and {other}: {line}" for other, lines in found.items() for line in lines]
    for line in shown:
        step(f"{case.name}: THE ANSWERS DIFFER: {line}")
    by_engine = {name: figures(events, of) for name, of in measures.items()}
    row = JobRow(
        job=case.name, events=events, bytes_per_event=round(size / events, 1), agree=not shown if others else None,
        answers={name: len(rows) for name, rows in answers.items()}, differences=shown, engines=by_engine,
        ratios=ratios(by_engine), missing=missing,
    )  # fmt: skip
    return row, list(chain.from_iterable(measures.values()))


def measured(
    pairs: int, case: ComparedJob, engines: Mapping[str, Engine], events: int, numbers: Iterator[int], step: Step
) -> tuple[dict[str, list[Measure]], dict[str, str]]:
    """Runs of all engines in turn: what they cost, and why one that has failed has no figures."""
    measures: dict[str, list[Measure]] = {name: [] for name in engines}
    failed: dict[str, str] = {}
    for number in range(pairs):
        for name in list(measures):
            step(f"{case.name}: {name}, {number + 1} of {pairs}")
            try:
                measure, _ = engines[name].run(case, next(numbers))
            except RunFailed as error:
                failed[name] = str(error)
                del measures[name]
                step(f"{case.name}: {name} is left out: {error}")
                continue
            step(f"{case.name}: {name}, {events / measure.seconds:,.0f} events/s, {measure.cpu_s:.2f} CPU-s")
            measures[name].append(measure)
    return measures, failed
