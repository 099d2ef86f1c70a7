"""`holon txn bench`: measures a workload, checks its invariants, and has Spark judge what came of it."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from nodes.cli.job_options import ReplicasOption
from nodes.cli.options import GivenOptions, JsonOption, level_definition, with_log_options
from nodes.cli.output import emit_json, fail, note
from nodes.cli.txn.bench_changes import (
    AddNodeOption,
    KillOption,
    RemoveNodeOption,
    RepartitionOption,
    UpgradeOption,
    changes_of,
    lines,
)
from nodes.cli.txn.layout import ModeOption, SpreadOption
from nodes.errors import MissingDependency, UnknownName

if TYPE_CHECKING:
    from nodes.settings.settings import Settings
    from nodes.transactions.bench.run import BenchPlan, BenchRun
    from transactional.workloads.contract import BenchWorkload

EXAMPLE = "Example: holon txn bench ycsb-t --zipf 0.99 --transactions 40000 --nodes 2 --json"
KAFKA_WARMUP_S = 10.0
"""A broker that has just been started compiles itself first, on the cores of all."""
MAX_TRANSACTIONS = 100_000_000
Who = Literal["auto", "spark", "plain"]
ValidateOption = Annotated[
    Who | None, typer.Option("--validate", help="spark: ycsb-t, tpcc and tpcc-full also from log and checkpoints.")
]
SizeOption = Annotated[
    int | None, typer.Option("--size", "--accounts", min=1, help="Accounts, records, hotels, warehouses, ...")
]
ScaleOption = Annotated[
    float, typer.Option("--scale", min=0.001, max=1, help="TPC-C: share of the specification's customers and items.")
]
RemoteOption = Annotated[
    float, typer.Option("--remote", min=0, max=1, help="chain: share of transactions over several partitions.")
]
PartitionsOption = Annotated[
    int | None,
    typer.Option("--partitions", min=1, max=1024, help="Of the state at the beginning; else as the workload has them."),
]
WarmupOption = Annotated[
    float | None, typer.Option("--warmup", min=0, help="Seconds that are not measured; 10 on Kafka, else 0.")
]


@with_log_options
def bench(
    given: GivenOptions,
    workload: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD",
            help="ycsb-t, ycsb-a to f, -m, tpcc, tpcc-full, movies, travel, travel-busy, cart, cycle, append, chain.",
        ),
    ],
    zipf: Annotated[float, typer.Option("--zipf", min=0, max=2, help="Skew of the workload's hot choice.")] = 0.0,
    transactions: Annotated[int | None, typer.Option("--transactions", min=1, help="As one burst.")] = None,
    rate: Annotated[float | None, typer.Option("--rate", min=1, help="Requests a second; needs --seconds.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", min=0.1, help="How long, with --rate.")] = None,
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="Node processes.")] = 2,
    sequencers: Annotated[int, typer.Option("--sequencers", min=1, help="Partitions of the requests.")] = 4,
    size: SizeOption = None,
    partitions: PartitionsOption = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the requests.")] = 1,
    scale: ScaleOption = 0.01,
    depth: Annotated[int, typer.Option("--depth", min=1, max=90, help="chain: calls within calls.")] = 1,
    remote: RemoteOption = 1.0,
    warmup: WarmupOption = None,
    replicas: ReplicasOption = None,
    kill: KillOption = None,
    add_node: AddNodeOption = None,
    remove_node: RemoveNodeOption = None,
    repartition: RepartitionOption = None,
    mode: ModeOption = "online",
    spread: SpreadOption = "least",
    upgrade: UpgradeOption = None,
    generator: Annotated[Who, typer.Option("--generator", help="Who makes the requests; they are the same.")] = "plain",
    validate: ValidateOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a workload on a log of its own, and check its invariants; 1 if they do not hold.

    Without --log-dir, or on Kafka without log.prefix, the log is a temporary one; a log that is named must not have
    run this workload before. On Kafka without an address the broker of this machine is used.
    """
    from transactional.workloads.catalogue import WORKLOADS
    from transactional.workloads.contract import WorkloadShape
    from transactional.workloads.partitioned import with_partitions

    chosen = WORKLOADS.get(workload)
    if chosen is None:
        raise UnknownName("workload", workload, list(WORKLOADS))
    if (rate is None) != (seconds is None) or (rate is None) == (transactions is None):
        fail(2, "give --transactions N for one burst, or --rate R and --seconds S")
    count = _count(transactions, rate or 0, seconds or 0)
    if size is not None and size < chosen.smallest:
        fail(2, f"--size {size}: {workload} needs at least {chosen.smallest} {chosen.counts}")
    if partitions is not None:
        chosen = with_partitions(chosen, partitions)
    changes = changes_of(
        chosen, nodes, kill or [], add_node or [], remove_node or [], repartition or [], (spread, mode), upgrade or []
    )
    by_spark = spark_judges(workload, validate)
    generated = spark_does(generator, "generator")
    shape = WorkloadShape(chosen.size if size is None else size, zipf, seed, scale, depth, remote)
    with _place(given) as (settings, options):
        from nodes.transactions.bench.run import BenchPlan

        warmup_s = warmup if warmup is not None else KAFKA_WARMUP_S if settings.log.kind == "kafka" else 0.0
        options += () if replicas is None else ("-D", f"node.replicas={replicas}")
        plan = BenchPlan(chosen, shape, count, rate, nodes, sequencers, changes, options, by_spark, warmup_s)
        with _session(settings) if generated and by_spark else nullcontext():
            result = _measured(settings, plan, generated, validate, by_spark)
    result |= {"log": settings.log.kind, "partitions": chosen.program.partitions}
    result |= {"replicas": settings.node.replicas if replicas is None else replicas}
    if as_json:
        emit_json(result)
    else:
        for line in lines(result):
            typer.echo(line)
    if not result["invariants"]:
        fail(1, f"{workload} broke its invariants, see violations")
    if result["validated"] is False:
        fail(1, f"{workload}: Spark finds {result['differences']} differences, see violations")


def _measured(
    settings: Settings, plan: BenchPlan, generated: bool, validate: Who | None, by_spark: bool
) -> dict[str, Any]:
    from nodes.checkpoints.opening import open_checkpoints
    from nodes.runtime.log_opening import log_address, open_settings_log
    from nodes.transactions.bench.prepared import Prepared, prepare_with_spark, prepared_requests
    from nodes.transactions.bench.run import run_bench

    workload = plan.workload
    store = None if workload.first_state is None else open_checkpoints(settings)
    with open_settings_log(settings, create=True) as log:
        requests = None
        if generated:
            prepared = Prepared(
                workload.name, plan.shape, plan.transactions, f"{workload.program.name}-txn-prepared", plan.sequencers
            )
            prepare_with_spark(log_address(settings), prepared)
            requests = prepared_requests(log, prepared)
        run = run_bench(log, plan, requests, lambda: open_settings_log(settings), store)
    result = {**run.figures, "generator": "spark" if generated else "plain"}
    if by_spark:
        return result | _judged(settings, workload, run)
    if validate is None:
        return result | {"validated": None, "validator": None, "differences": None}
    broken = run.figures["violations"]
    assert isinstance(broken, list)
    return result | {"validated": not broken, "validator": "plain", "differences": len(broken)}


def _judged(settings: Settings, workload: BenchWorkload, run: BenchRun) -> dict[str, Any]:
    from nodes.checkpoints.opening import open_checkpoints
    from nodes.runtime.log_opening import log_address
    from nodes.transactions.bench.saved_state import write_state
    from nodes.transactions.bench.spark_oracle import judge

    with tempfile.TemporaryDirectory(prefix="holon-state-") as folder:
        path = Path(folder, "state.jsonl")
        entities = write_state(open_checkpoints(settings), run.checkpoints, path)
        note(f"{entities} entities in {len(run.checkpoints)} checkpoints; Spark judges them")
        found = judge(workload.name, workload.program.name, log_address(settings), path)
    violations = run.figures["violations"]
    assert isinstance(violations, list)
    named = {"validated": not found.differences, "validator": "spark", "differences": found.differences}
    return {**named, "entities": entities, "violations": [*violations, *found.first]}


def _session(settings: Settings) -> AbstractContextManager[object]:
    """One for both, since it takes seconds to start."""
    from nodes.runtime.log_opening import log_address
    from nodes.spark.session import spark_session
    from nodes.spark.source import needed_jars

    return spark_session(jars=needed_jars(log_address(settings)))


@cache
def problem_of_spark() -> str | None:
    """Why Spark cannot run here, if it cannot."""
    from nodes.spark.session import spark_problem

    return spark_problem()


def spark_does(validator: Who, what: str) -> bool:
    """Raises ``MissingDependency`` where Spark was requested by name and cannot run."""
    if validator == "plain":
        return False
    problem = problem_of_spark()
    if problem is None:
        return True
    if validator == "spark":
        raise MissingDependency(problem)
    note(f"no Spark here, going on with the plain {what}: {problem}")
    return False


def spark_judges(workload: str, validate: Who | None) -> bool:
    """Whether Spark judges this run; raises where it was requested by name and cannot."""
    from nodes.transactions.bench.spark_sql import KNOWN

    if validate is None or validate == "plain":
        return False
    if workload not in KNOWN:
        if validate == "spark":
            fail(2, f"Spark judges {', '.join(KNOWN)}, not {workload}; its own check runs always (--validate plain)")
        note(f"Spark judges {', '.join(KNOWN)}, not {workload}: going on with its own check")
        return False
    return spark_does(validate, "check")


@contextmanager
def _place(given: GivenOptions) -> Iterator[tuple[Settings, tuple[str, ...]]]:
    """Settings with a log of this run's own where the user names none; and options that child processes need."""
    from nodes.runtime.log_opening import drop_topics, local_kafka
    from nodes.settings.settings import refined

    found: list[str] = []

    def broker() -> str:
        found.append(local_kafka().bootstrap)
        note(f"on the Kafka broker of this machine, {found[0]} (holon kafka down stops it)")
        return found[0]

    settings = given.settings(find_broker=broker)
    own = [f"log.bootstrap={each}" for each in found]
    kafka = settings.log.kind == "kafka"
    named = bool(settings.log.prefix) if kafka else given.log_dir is not None
    # A node's process that merges checkpoints may end after the node, and write meanwhile.
    with tempfile.TemporaryDirectory(prefix="holon-txn-", ignore_cleanup_errors=True) as folder:
        if not named:
            own.append(f"log.prefix=txn-{secrets.token_hex(4)}." if kafka else f"log.path={folder}/log")
            if settings.checkpoints.url is None:
                own.append(f"checkpoints.url={folder}/checkpoints")
        settings = refined(settings, own)
        try:
            yield settings, (*options_of_children(given), *(part for each in own for part in ("-D", each)))
        finally:
            if kafka and not named:
                drop_topics(settings)


def options_of_children(given: GivenOptions) -> list[str]:
    """The options by which a child process gets the same log and settings, those before the command's name included."""
    root = given.root
    level = level_definition(given.log_level or root.log_level)
    define = (*root.define, *given.define, *given.log_definitions(), *level)
    options = [part for each in define for part in ("-D", each)]
    config = given.config or root.config
    return options if config is None else [*options, "--config", str(config)]


def _count(transactions: int | None, rate: float, seconds: float) -> int:
    count = rate * seconds if transactions is None else float(transactions)
    if not 1 <= count <= MAX_TRANSACTIONS:
        fail(2, f"{count:g} transactions: a run has from 1 to {MAX_TRANSACTIONS:,}")
    return int(count)
