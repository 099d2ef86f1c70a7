"""`holon nexmark bench`."""

from __future__ import annotations

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
    UnknownName,
    begin,
    emit_json,
    note,
)

if TYPE_CHECKING:
    from nexmark.bench.result import BenchResult
    from nexmark.runs.plan import Generator

GENERATORS = ("auto", "spark", "plain")

BootstrapOption = Annotated[
    str | None, typer.Option("--bootstrap", help="HOST:PORT of a Kafka broker (default: one is started for the run).")
]


def bench(
    ctx: typer.Context,
    engines: Annotated[
        str, typer.Option("--engines", help="holon, flink, bytewax, bytewax-windows, pathway.")
    ] = "holon,flink",
    queries: Annotated[str, typer.Option("--queries", help="Separated by commas.")] = "q0,q1,q2,q4,q5,q7,q7max,q8",
    events: Annotated[int, typer.Option("--events", help="How many events are in the topic.")] = 4_000_000,
    partitions: Annotated[int, typer.Option("--partitions", help="Partitions of the topic.")] = 4,
    nodes: Annotated[int, typer.Option("--nodes", help="Holon's node processes.")] = 2,
    pairs: Annotated[int, typer.Option("--pairs", help="How often each engine runs, in turn.")] = 3,
    memory_mb: Annotated[int, typer.Option("--memory-mb", help="Memory of each engine.")] = 8192,
    cores: Annotated[str | None, typer.Option("--cores", help="Pin everything to these (0,1); default: all.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the stream.")] = 0,
    generator: Annotated[str, typer.Option("--generator", help="auto, spark or plain.")] = "auto",
    record_format: Annotated[
        str, typer.Option("--format", help="json, or arrow: atoms of many events, which Holon alone reads.")
    ] = "json",
    flink_collector: Annotated[
        str, typer.Option("--flink-collector", help="Garbage collector of Flink's task manager: G1 or Parallel.")
    ] = "G1",
    broker_warmup: Annotated[
        float, typer.Option("--broker-warmup", help="Seconds of traffic of no engine before the first run; 0: none.")
    ] = 20.0,
    bootstrap: BootstrapOption = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write table, JSON and pictures into this folder.")] = None,
    allow_missing_peers: Annotated[bool, typer.Option("--allow-missing-peers", help="Go on without.")] = False,
    config: ConfigOption = None,
    define: DefineOption = None,
    log_level: LogLevelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run engines side by side: the same broker, the same topic, the same cores, one after the other in turn.

    Each query first runs once on each engine with its results on Kafka, which are compared. Exit code 1 if the answers
    differ, 3 if an engine cannot run here (but see --allow-missing-peers).
    """
    from nexmark.bench.machine import pin
    from nexmark.bench.plan import ComparisonPlan, cores_of, listed
    from nexmark.bench.report import as_text, write_report
    from nexmark.bench.run import compare_engines
    from nexmark.signals import end_at_sigterm
    from nexmark.temporary_log import temporary_log

    plan = ComparisonPlan(
        listed(engines), listed(queries), events, partitions, nodes, pairs, memory_mb, seed, cores_of(cores),
        _generator(generator), collector=flink_collector, broker_warmup_s=broker_warmup,
        format=record_format,  # type: ignore[arg-type]  # the plan checks it
    )  # fmt: skip
    end_at_sigterm()
    pin(plan.cores)  # before the broker starts
    with temporary_log(bootstrap, note) as (definitions, folder, broker_pid):
        settings = begin(ctx, config, [*definitions, *(define or ())], log_level)
        result = compare_engines(plan, settings, folder, note, broker_pid)
    if out is not None:
        note("wrote " + ", ".join(map(str, write_report(result, out))))
    if as_json:
        emit_json(result)
    else:
        typer.echo(as_text(result))
    _refuse(result, allow_missing_peers)


def _generator(name: str) -> Generator:
    if name not in GENERATORS:
        raise UnknownName("generator", name, GENERATORS)
    return name  # type: ignore[return-value]


def _refuse(result: BenchResult, allow_missing_peers: bool) -> None:
    if result.agree is False:
        wrong = ", ".join(answer.query for answer in result.answers if answer.differences)
        raise RunFailed(f"the engines' answers differ: {wrong}")
    if result.over_memory:
        raise RunFailed("; ".join(result.over_memory))
    if result.missing_peers and not allow_missing_peers:
        peer, why = next(iter(result.missing_peers.items()))
        raise MissingDependency(f"{peer} was left out (--allow-missing-peers goes on without): {why}")


__all__ = ["bench"]
