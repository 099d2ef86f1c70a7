"""`holon nexmark latency` and `holon nexmark failover`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nodes.api import (
    ConfigOption,
    DefineOption,
    JsonOption,
    LogLevelOption,
    MissingDependency,
    RunFailed,
    SettingsError,
    UnknownName,
    begin,
    emit_json,
    note,
)

if TYPE_CHECKING:
    from nexmark.latency.measure import LatencyOutcome
    from nexmark.latency.plan import LatencyPlan
    from nexmark.latency.report import LatencyReport
    from nodes.api import Settings

ENGINES = ("holon", "flink")

QueryArgument = Annotated[str, typer.Argument(metavar="QUERY", help="q7max or query1: a query with windows.")]
LogOption = Annotated[str, typer.Option("--log", help="kafka or embedded.")]
BootstrapOption = Annotated[
    str | None, typer.Option("--bootstrap", help="HOST:PORT of a Kafka broker (default: one is started for the run).")
]
RateOption = Annotated[int, typer.Option("--rate", help="Events a second.")]
SecondsOption = Annotated[float, typer.Option("--seconds", help="How long is measured.")]
NodesOption = Annotated[int, typer.Option("--nodes", help="Node processes.")]
ReplicasOption = Annotated[int, typer.Option("--replicas", help="Replicas in all; more than 1: hot standbys.")]
WindowOption = Annotated[int, typer.Option("--window", metavar="MS", help="Size of the windows in ms.")]
PartitionsOption = Annotated[int, typer.Option("--partitions", help="Partitions of the input topic.")]
WarmupOption = Annotated[float, typer.Option("--warmup", help="Seconds before what is measured.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of the stream.")]
PlotOption = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw a picture: .png, .svg or .pdf.")]


def latency(
    ctx: typer.Context,
    query: QueryArgument = "q7max",
    log: LogOption = "kafka",
    bootstrap: BootstrapOption = None,
    rate: RateOption = 2000,
    seconds: SecondsOption = 60.0,
    nodes: NodesOption = 3,
    replicas: ReplicasOption = 1,
    window: WindowOption = 100,
    partitions: PartitionsOption = 6,
    warmup: WarmupOption = 10.0,
    seed: SeedOption = 0,
    plot: PlotOption = None,
    config: ConfigOption = None,
    define: DefineOption = None,
    log_level: LogLevelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the latency of windowed results at a steady rate.

    A delay lasts from the append of the record that closes a window to the append of the result. The closing record is
    the latest, over partitions, of the first record past its end. Both times are the log's own. Exit code 1 if a result
    is wrong.
    """
    from nexmark.latency.plan import LatencyPlan
    from nexmark.latency.plot import check_plot, plot_latency
    from nexmark.latency.report import as_text, latency_report
    from nexmark.signals import end_at_sigterm

    end_at_sigterm()
    plan = LatencyPlan(query, rate, seconds, nodes, replicas, window, partitions, warmup, seed)
    check_plot(plot)
    (measured,) = _measured(
        [plan], log, bootstrap, lambda given: begin(ctx, config, [*given, *(define or ())], log_level)
    )
    if plot is not None:
        plot_latency(plot, measured)
    report = latency_report(measured, log)
    if as_json:
        emit_json(report)
    else:
        typer.echo(as_text(report))
    _refuse_wrong([report])


def failover(
    ctx: typer.Context,
    query: QueryArgument = "q7max",
    scenario: Annotated[str, typer.Option("--scenario", help="single, concurrent, subsequent or crash.")] = "single",
    log: LogOption = "kafka",
    bootstrap: BootstrapOption = None,
    rate: RateOption = 2000,
    seconds: SecondsOption = 40.0,
    nodes: Annotated[int | None, typer.Option("--nodes", help="Default: 3 for single, else 5.")] = None,
    replicas: ReplicasOption = 1,
    engines: Annotated[str, typer.Option("--engines", help="holon, flink.")] = "holon",
    flink: Annotated[
        str, typer.Option("--flink", help="How Flink is set up: tuned, default, paper, each also with :spare.")
    ] = "tuned,tuned:spare",
    allow_missing_peers: Annotated[bool, typer.Option("--allow-missing-peers", help="Go on without.")] = False,
    window: WindowOption = 100,
    partitions: Annotated[
        int | None, typer.Option("--partitions", help="Default: 6 for single, else one for each node.")
    ] = None,
    warmup: WarmupOption = 10.0,
    seed: SeedOption = 0,
    plot: PlotOption = None,
    config: ConfigOption = None,
    define: DefineOption = None,
    log_level: LogLevelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure what a failure does to latency: a run without, then the same with nodes that are killed (kill -9).

    single: one node. concurrent: two at once, started again after 10 s. subsequent: two within 5 s, started again after
    10 s each. crash: two at once, for good. The first kill comes after 30 % of the time. Flink has a task manager with
    one slot for each node, and with :spare as many more as are killed.
    """
    from nexmark.flink.profiles import profile_of
    from nexmark.latency.plan import LatencyPlan, with_scenario
    from nexmark.latency.plot import check_plot, plot_failover
    from nexmark.latency.report import as_text, ratio_lines, sensitivity_ratios
    from nexmark.latency.scenarios import Scenario
    from nexmark.signals import end_at_sigterm

    end_at_sigterm()
    names = _engines(engines, log)
    profiles = [profile_of(text) for text in flink.split(",")] if "flink" in names else []
    count = nodes if nodes is not None else 3 if scenario == "single" else 5
    parts = partitions if partitions is not None else 6 if scenario == "single" else count
    healthy = LatencyPlan(query, rate, seconds, count, replicas, window, parts, warmup, seed)
    requested = Scenario(scenario, healthy, with_scenario(healthy, scenario), log)
    check_plot(plot)

    def load(given: list[str]) -> Settings:
        return begin(ctx, config, [*given, f"node.replicas={replicas}", *(define or ())], log_level)

    done = requested.run(names, profiles, bootstrap, load, note)
    if plot is not None and done.runs:
        plot_failover(plot, done.runs, done.baseline)
    ratios = sensitivity_ratios(done.rows)
    if as_json:
        found: dict[str, object] = {"query": query, "log": log, "scenario": scenario, "nodes": count}
        found |= {"replicas": replicas, "rows": done.rows, "sensitivity_ratios": ratios}
        emit_json(found | {"missing_peers": done.missing, "failed": done.failed})
    else:
        typer.echo("\n".join([*map(as_text, done.rows), *ratio_lines(ratios)]))
    _refuse_wrong(done.rows)
    if done.baseline_differences:
        raise RunFailed(f"results of the runs without failures are wrong: {done.baseline_differences} differences")
    if done.failed:
        raise RunFailed("runs without a row: " + "; ".join(f"{who}: {why}" for who, why in done.failed.items()))
    if done.missing and not allow_missing_peers:
        raise MissingDependency(f"left out (--allow-missing-peers goes on without): {done.missing}")


def _measured(
    plans: Sequence[LatencyPlan], log: str, bootstrap: str | None, load: Callable[[list[str]], Settings]
) -> list[LatencyOutcome]:
    from nexmark.latency.measure import measure
    from nexmark.latency.run_log import measuring_place

    with measuring_place(log, bootstrap, note) as place:
        settings = load([*place.definitions, f"node.replicas={plans[0].replicas}"])
        return [measure(plan, settings, note, place.broker) for plan in plans]


def _engines(engines: str, log: str) -> list[str]:
    names = engines.split(",")
    for engine in names:
        if engine not in ENGINES:
            raise UnknownName("engine", engine, ENGINES)
    if "flink" in names and log != "kafka":
        raise SettingsError(f"--engines {engines}: Flink reads Kafka, not --log {log}")
    return names


def _refuse_wrong(reports: Sequence[LatencyReport]) -> None:
    wrong = sum(report.differences for report in reports)
    if wrong:
        raise RunFailed(f"results are wrong: {wrong} differences")


__all__ = ["failover", "latency"]
