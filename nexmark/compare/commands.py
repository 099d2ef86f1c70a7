"""Run a job beside other engines on the same records, and compare answers and speed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nodes.api import (
    ConfigOption,
    DefineOption,
    JsonOption,
    LogLevelOption,
    RunFailed,
    SettingsError,
    begin,
    console,
    emit_json,
    new_command,
    note,
)

if TYPE_CHECKING:
    from nexmark.compare.result import JobComparison
    from nexmark.compare.run import ComparePlan, Step

app = new_command()


@app.command(epilog="Example: holon bench examples.top_items:job --data examples/items.jsonl --engines holon")
def bench(
    ctx: typer.Context,
    target: Annotated[
        str, typer.Argument(metavar="MODULE[:JOB]", help="A job, or a package whose modules have one each.")
    ],
    data: Annotated[
        Path | None, typer.Option("--data", help="One record a line (default: the module's own records(draw)).")
    ] = None,
    engines: Annotated[
        str, typer.Option("--engines", help="holon, holon-records, holon-flow, flink, bytewax, quix, pathway.")
    ] = "holon",
    jobs: Annotated[str | None, typer.Option("--jobs", help="These of a package alone, separated by commas.")] = None,
    events: Annotated[int | None, typer.Option("--events", min=1, help="At most so many records of each job.")] = None,
    partitions: Annotated[int, typer.Option("--partitions", help="Partitions of each topic.")] = 4,
    nodes: Annotated[int, typer.Option("--nodes", help="Holon's node processes.")] = 2,
    pairs: Annotated[int, typer.Option("--pairs", help="How often each engine runs, in turn.")] = 3,
    memory_mb: Annotated[int, typer.Option("--memory-mb", help="Memory of Flink's task manager.")] = 4096,
    cores: Annotated[str | None, typer.Option("--cores", help="Pin everything to these (0,1); default: all.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of generated records.")] = 0,
    compression: Annotated[
        str, typer.Option("--compression", help="Of the topics: none, lz4, gzip, snappy, zstd.")
    ] = "none",
    log: Annotated[
        Literal["embedded", "kafka"] | None,
        typer.Option("--log", help="Default: embedded for Holon alone, else Kafka, which all engines read."),
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", help="HOST:PORT of a Kafka broker (default: one is started).")
    ] = None,
    config: ConfigOption = None,
    define: DefineOption = None,
    log_level: LogLevelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a job on each engine in turn, over the same records, and compare their answers.

    The code of a peer lies beside the job's module: flink/NAME.sql, python/NAME.py, pathway/NAME.py. An engine that
    cannot run is named with the reason. Exit code 1 if answers differ.
    """
    from nexmark.bench.machine import pin
    from nexmark.bench.plan import cores_of, listed
    from nexmark.compare.cases import cases_of, chosen
    from nexmark.compare.result import as_text
    from nexmark.compare.run import ComparePlan, compare
    from nexmark.signals import end_at_sigterm

    plan = ComparePlan(
        listed(engines), events, data, partitions, nodes, pairs, memory_mb, seed, compression, cores_of(cores)
    )
    cases = chosen(cases_of(target), None if jobs is None else listed(jobs))
    note(f"seed {seed}: {', '.join(case.name for case in cases)}")
    end_at_sigterm()
    pin(plan.cores)
    with _place(plan, log, bootstrap) as (definitions, folder), _steps() as step:
        settings = begin(ctx, config, [*definitions, *(define or ())], log_level)
        result = compare(plan, cases, settings, folder, step)
    if as_json:
        emit_json(result)
    else:
        typer.echo(as_text(result))
    _refuse(result)


@contextmanager
def _place(plan: ComparePlan, log: str | None, bootstrap: str | None) -> Iterator[tuple[list[str], Path]]:
    """Settings of the log, and a folder."""
    import tempfile

    from nexmark.compare.cases import WAYS
    from nexmark.temporary_log import temporary_log

    if log == "embedded" and (plan.needs_kafka or bootstrap is not None):
        raise SettingsError(f"--log embedded is for --engines {','.join(WAYS)} alone: the peers read Kafka")
    if log == "kafka" or bootstrap is not None or plan.needs_kafka:
        with temporary_log(bootstrap, note) as (definitions, folder, _):
            yield definitions, folder
        return
    with tempfile.TemporaryDirectory(prefix="holon-bench-") as name:
        yield ["log.kind=embedded", f"log.path={name}/log"], Path(name)


@contextmanager
def _steps() -> Iterator[Step]:
    """On a terminal one line that moves; elsewhere a line for each step."""
    shown = console()
    if not shown.is_terminal:
        yield note
        return
    with shown.status("") as status:
        yield lambda text: status.update(text)


def _refuse(result: JobComparison) -> None:
    wrong = [row.job for row in result.rows if row.agree is False]
    if wrong:
        raise RunFailed(f"the engines' answers differ: {', '.join(wrong)}")
    failed = [f"{row.job}, {name}: {why}" for row in result.rows for name, why in row.missing.items()]
    if failed:
        raise RunFailed("; ".join(failed))
