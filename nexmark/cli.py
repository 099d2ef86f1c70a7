"""Nexmark: generate the benchmark's stream, run its queries, prove the results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nexmark.bench.commands import bench
from nexmark.flows import FLOWS
from nexmark.latency.commands import failover, latency
from nexmark.queries import QUERIES
from nexmark.runs.plan import TITLES, Api, Generator, RecordFormat, RunPlan, Validator, default_api, parse_kill
from nodes.api import (
    GivenOptions,
    JsonOption,
    Monitor,
    OutputReader,
    RunFailed,
    SettingsError,
    console,
    emit_json,
    events_on_log,
    log_address,
    new_group,
    note,
    open_job,
    open_job_log,
    open_settings_log,
    with_log_options,
)

app = new_group(
    "Generate the Nexmark stream, run its queries on a fleet, prove the results.",
    "holon nexmark run q7 --events 1000000 --nodes 2 --kill 1@0.5 --validate auto",
)

app.command(epilog="Example: holon nexmark latency q7max --rate 10000 --seconds 60 --nodes 3 --json")(latency)
app.command(epilog="Example: holon nexmark failover --scenario single --replicas 2 --plot failover.svg")(failover)
app.command(epilog="Example: holon nexmark bench --queries q0,q7max --events 1000000 --pairs 3 --out runs/bench")(bench)

QueryArgument = Annotated[
    str, typer.Argument(metavar="QUERY", help="q0, q1, q2, q4, q5, q7, q7max, q8, query1; flows: see list.")
]
EventsOption = Annotated[int, typer.Option("--events", help="How many events.")]
PartitionsOption = Annotated[int, typer.Option("--partitions", help="Partitions of the input topic.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of the stream: the same seed, the same bytes.")]
GeneratorOption = Annotated[Generator, typer.Option("--generator", help="Who generates; the bytes are the same.")]
FormatOption = Annotated[
    RecordFormat, typer.Option("--format", help="json: one event a record; arrow: atoms, batches of events.")
]
ApiOption = Annotated[
    Api | None,
    typer.Option(
        "--api", help="dataflow: a flow (nexmark.flows); procedural: a processing function (default: see list)."
    ),
]
SkewOption = Annotated[
    int | None,
    typer.Option("--max-future-skew-ms", help="Event times further ahead of the log go to the dead letters."),
]


@app.command("list", epilog="Example: holon nexmark list")
def list_queries(as_json: JsonOption = False) -> None:
    """Name the queries that there are, and their forms; the one that ``run`` takes by default comes first."""
    if as_json:
        emit_json(TITLES)
        return
    for name, title in TITLES.items():
        forms = [api for api, known in (("procedural", QUERIES), ("dataflow", FLOWS)) if name in known]
        forms.sort(key=lambda api: api != default_api(name))
        typer.echo(f"{name:<12}{title} ({', '.join(forms)})")


@app.command(epilog="Example: holon nexmark run q7 --events 1000000 --nodes 2 --kill 1@0.5 --validate spark --json")
@with_log_options
def run(
    given: GivenOptions,
    query: QueryArgument,
    events: Annotated[int | None, typer.Option("--events", help="How many events (default 1,000,000).")] = None,
    rate: Annotated[int | None, typer.Option("--rate", help="Events a second; needs --seconds.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", help="How long, with --rate.")] = None,
    partitions: PartitionsOption = 8,
    nodes: Annotated[int, typer.Option("--nodes", help="Node processes.")] = 2,
    replicas: Annotated[int | None, typer.Option("--replicas", min=1, help="Replicas in all (node.replicas).")] = None,
    kill: Annotated[list[str] | None, typer.Option("--kill", metavar="NODE@FRACTION", help="kill -9 there.")] = None,
    restart_after: Annotated[float | None, typer.Option("--restart-after", help="Seconds until a restart.")] = None,
    validate: Annotated[Validator | None, typer.Option("--validate", help="Prove the result with this oracle.")] = None,
    seed: SeedOption = 0,
    generator: GeneratorOption = "auto",
    dirty: Annotated[int, typer.Option("--dirty", help="Add so many corrupt, late, future records a partition.")] = 0,
    max_future_skew_ms: SkewOption = None,
    format: FormatOption = "json",
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fill a topic, run the query on a fleet of node processes, kill some, read the results, prove them.

    Without --log-dir the log is a temporary folder. With --log kafka the run has topics of its own, which are deleted
    after it unless the setting log.prefix names them. Without --bootstrap the broker of this machine is used. Exit code
    0: done and, where requested, proven exact.
    """
    from nexmark.runs.execute import execute
    from nexmark.runs.progress import shown
    from nexmark.runs.result import as_text
    from nexmark.runs.run_log import run_settings

    count, pace = _amount(events, rate, seconds)
    plan = RunPlan(
        query, count, pace, partitions, nodes, tuple(parse_kill(text) for text in kill or ()), restart_after, seed,
        generator, validate, dirty,
        max_future_skew_ms if max_future_skew_ms is not None or not dirty else 60_000, format,
        api,
    )  # fmt: skip
    replication = [] if replicas is None else [f"node.replicas={replicas}"]
    with run_settings(given, note, *replication) as settings, shown(console(), plan) as show:
        result = execute(plan, settings, show, note)
    if as_json:
        emit_json(result)
    else:
        typer.echo(as_text(result))
    if not result.conserved:
        raise RunFailed("in = accepted + filtered + late + dead does not hold")
    if result.validated is False:
        raise RunFailed(f"the result is wrong: {result.differences} differences")


@app.command(epilog="Example: holon nexmark generate --events 1000000 --partitions 8 --log-dir ./holon-log")
@with_log_options
def generate(
    given: GivenOptions,
    events: EventsOption = 1_000_000,
    partitions: PartitionsOption = 8,
    seed: SeedOption = 0,
    generator: GeneratorOption = "auto",
    dirty: Annotated[int, typer.Option("--dirty", help="Add so many corrupt, late, future records a partition.")] = 0,
    parquet: Annotated[Path | None, typer.Option("--parquet", help="Write Parquet files here instead.")] = None,
    format: FormatOption = "json",
    as_json: JsonOption = False,
) -> None:
    """Generate the stream into the topic ``nexmark`` of a log, or into Parquet files."""
    import time

    from nexmark.runs.fill import fill, uses_spark
    from nexmark.runs.validate import spark_problem_once

    settings = given.settings()
    plan = RunPlan("q0", events, None, partitions, 1, seed=seed, generator=generator, dirty=dirty, format=format)
    begun = time.monotonic()
    if parquet is not None:
        from nexmark.generator import GeneratorConfig
        from nexmark.spark.loader import write_parquet

        write_parquet(str(parquet), events, GeneratorConfig(seed=seed))
        spark = True
    else:
        spark = uses_spark(plan, spark_problem_once(), note)
        address = log_address(settings)
        with open_job_log(settings) as log:
            fill(log, address, plan, spark=spark, progress=lambda done: note(f"{done:,} of {events:,} events"))
    wall = time.monotonic() - begun
    summary = {
        "events": events, "partitions": partitions, "seed": seed, "generator": "spark" if spark else "plain",
        "wall_s": round(wall, 3), "events_per_s": round(events / wall, 1),
    }  # fmt: skip
    if as_json:
        emit_json(summary)
    else:
        typer.echo(f"{events:,} events in {wall:.1f} s ({events / wall:,.0f} a second, {summary['generator']})")


@app.command(epilog="Example: holon nexmark validate q7 --log-dir ./holon-log --validate plain")
@with_log_options
def validate(
    given: GivenOptions,
    query: QueryArgument,
    validator: Annotated[Validator, typer.Option("--validate", help="Which oracle.")] = "auto",
    max_future_skew_ms: SkewOption = None,
    format: FormatOption = "json",
    api: ApiOption = None,
    as_json: JsonOption = False,
) -> None:
    """Prove the results that are on a log: of a run with --log-dir, or of ``holon run nexmark.flows:QUERY``.

    With ``--api procedural`` those of ``holon run nexmark.queries:QUERY``. The default is that of ``run``.
    """
    from nexmark.oracle import RecordCounts
    from nexmark.runs import validate as proof

    plan = RunPlan(query, max_future_skew_ms=max_future_skew_ms, format=format, api=api)
    settings = given.settings()
    chosen = proof.chosen_validator(validator, proof.spark_problem_once(), note)
    assert chosen is not None
    with open_settings_log(settings) as log:
        job = plan.job()
        monitor = Monitor(log, open_job(log, job))
        monitor.poll()
        counts = monitor.counts()
        total = sum(events_on_log(log, job))
        if counts.taken != total:
            raise RunFailed(f"the job has taken {counts.taken:,} of {total:,} events: let it finish first")
        lines = [output.value for output in OutputReader(log, query).read_available()]
        got = RecordCounts(counts.accepted, counts.filtered, counts.late, counts.dead)
        ways = {"max_future_skew_ms": max_future_skew_ms, "atoms": format == "arrow"}
        verdict = proof.validate(chosen, query, log, log_address(settings), lines, got, **ways)
    if as_json:
        emit_json({"query": query, "validator": chosen, "outputs": len(lines), "validated": verdict.validated,
                   "differences": verdict.differences, "first": verdict.first})  # fmt: skip
    else:
        state = "exact" if verdict.validated else "WRONG"
        typer.echo(f"{query}: {len(lines):,} results, {state}, checked by {chosen}: {verdict.differences} differences")
        for line in verdict.first:
            typer.echo(f"  {line}")
    if not verdict.validated:
        raise RunFailed(f"the result is wrong: {verdict.differences} differences")


def _amount(events: int | None, rate: int | None, seconds: float | None) -> tuple[int, int | None]:
    if rate is None and seconds is None:
        return (1_000_000 if events is None else events), None
    if rate is None or seconds is None or events is not None:
        raise SettingsError("give either --events N, or --rate R with --seconds S")
    if rate < 1 or seconds <= 0:
        raise SettingsError(f"--rate {rate} --seconds {seconds}: both must be above 0")
    return max(1, int(rate * seconds)), rate
