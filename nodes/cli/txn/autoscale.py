"""`holon txn autoscale`: more or fewer nodes and partitions, as load needs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from nodes.cli.job_options import AcceptCodeOption, ReplicasOption, node_definitions, program_named
from nodes.cli.options import GivenOptions, JsonOption, with_log_options
from nodes.cli.output import emit_json, note
from nodes.cli.stopping import StopRequests
from nodes.cli.txn.layout import JobOption
from nodes.errors import RunFailed, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.log.contract import Log
    from nodes.settings.settings import Settings
    from nodes.transactions.autoscaling.autoscaler import Autoscaler, Outcome
    from nodes.transactions.autoscaling.deciding import Decision, Limits, Sample
    from nodes.transactions.autoscaling.providers import NodeProvider

EXAMPLE = (
    "Example: holon txn autoscale --program examples.bank:program --nodes 1:4 --partitions 4:16 --log-dir ./holon-log"
)
CHECK_S = 0.2
JOIN_S = 60.0
ALIVE_S = 1.0

RangeOption = Annotated[str | None, typer.Option("--partitions", metavar="MIN:MAX", help="Else as many as there are.")]


@with_log_options
def autoscale(
    given: GivenOptions,
    nodes: Annotated[str, typer.Option("--nodes", metavar="MIN:MAX", help="Nodes that the job may have.")] = "1:8",
    partitions: RangeOption = None,
    p99_ms: Annotated[float, typer.Option("--p99-ms", help="From a request to its reply, at most.")] = 500,
    lag_s: Annotated[float, typer.Option("--lag-s", help="Age of requests in no epoch, at most.")] = 5,
    program: Annotated[
        str | None, typer.Option("--program", metavar="MODULE:PROGRAM", help="Nodes are processes of this command.")
    ] = None,
    deployment: Annotated[
        str | None, typer.Option("--deployment", help="Nodes are replicas of this Kubernetes deployment (kubectl).")
    ] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", help="Of the deployment.")] = None,
    interval_s: Annotated[float, typer.Option("--interval-s", min=0.5, help="Between two samples.")] = 5,
    samples: Annotated[int, typer.Option("--samples", min=1, help="So many in a row have to agree.")] = 3,
    cooldown_s: Annotated[float, typer.Option("--cooldown-s", min=0, help="Before an opposite decision.")] = 120,
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="End after that; 0: when it is stopped.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be decided now.")] = False,
    history: Annotated[bool, typer.Option("--history", help="Only show the last decisions.")] = False,
    sequencers: Annotated[int, typer.Option("--sequencers", min=1, help="As holon txn run has it.")] = 4,
    replicas: ReplicasOption = None,
    accept_code: AcceptCodeOption = False,
    job: JobOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep a job within limits of lag and latency: more or fewer nodes, split or other numbers of partitions.

    Each decision is a record on the log with its figures. Several autoscalers may run: the first record counts. Until
    SIGTERM or Ctrl-C; its own node processes leave with it.
    """
    settings = given.settings(*node_definitions(None, replicas))
    if program is not None and deployment is not None:
        raise SettingsError("--program and --deployment: nodes come from one of them")
    if program is None and deployment is None and not dry_run and not history:
        raise SettingsError("name what provides nodes: --program or --deployment; --dry-run needs none")
    limits = _limits(nodes, partitions or "1", p99_ms, lag_s, samples, cooldown_s)
    from nodes.runtime.log_opening import open_settings_log

    starts_job = program is not None and not dry_run and not history
    if program is not None and job is None:
        job = program_named(program).name
    with open_settings_log(settings, create=starts_job) as log:
        if history:
            _show_history(log, job, as_json=as_json)
            return
        provider = None
        if not dry_run:
            provider = _provider(settings, program, deployment, namespace, sequencers, accept_code=accept_code)
        with StopRequests() as stopped:
            try:
                if provider is not None and starts_job:
                    assert job is not None
                    begin_nodes(log, job, provider, limits.min_nodes, stopped)
                limits = _with_present(limits, log, job) if partitions is None else limits
                scaler = _scaler(log, job, limits, provider, settings)
                made = list(outcomes(scaler, provider, interval_s, samples if dry_run else 0, seconds, stopped))
            finally:
                if provider is not None:
                    provider.close()
    _show(made, limits, dry_run=dry_run, as_json=as_json)
    stopped.end_if_interrupted()


def _range(option: str, text: str) -> tuple[int, int]:
    low, colon, high = text.partition(":")
    try:
        found = int(low), int(high if colon else low)
    except ValueError:
        raise SettingsError(f"{option} {text}: MIN:MAX is expected, as 1:4") from None
    if not 1 <= found[0] <= found[1]:
        raise SettingsError(f"{option} {text}: MIN:MAX with 1 <= MIN <= MAX is expected")
    return found


def _limits(nodes: str, partitions: str, p99_ms: float, lag_s: float, samples: int, cooldown_s: float) -> Limits:
    from nodes.transactions.autoscaling.deciding import Limits

    (low, high), (least, most) = _range("--nodes", nodes), _range("--partitions", partitions)
    try:
        return Limits(
            min_nodes=low, max_nodes=high, min_partitions=least, max_partitions=most,
            p99_ms=p99_ms, lag_s=lag_s, samples=samples, cooldown_s=cooldown_s,
        )  # fmt: skip
    except ValueError as error:
        raise SettingsError(f"limits of the autoscaler: {error}") from None


def _with_present(limits: Limits, log: Log, job: str | None) -> Limits:
    """As many partitions as there are."""
    from nodes.transactions.layouts.repartitioning import Repartitioning
    from nodes.transactions.topics import job_on

    present = Repartitioning(log, job_on(log, job)).layout().partitions
    return msgspec.structs.replace(limits, min_partitions=present, max_partitions=present)


def _provider(
    settings: Settings,
    program: str | None,
    deployment: str | None,
    namespace: str | None,
    sequencers: int,
    *,
    accept_code: bool,
) -> NodeProvider:
    from nodes.runtime.log_opening import check_at_next_opening
    from nodes.transactions.autoscaling.providers import DeploymentNodes, ProcessNodes
    from nodes.transactions.fleet import TransactionFleet

    if deployment is not None:
        return DeploymentNodes(deployment, namespace)
    assert program is not None
    fleet = TransactionFleet(program, 0, settings.environment(), sequencers=sequencers, accept_code=accept_code)
    return ProcessNodes(fleet, note, check_at_next_opening(settings))


def begin_nodes(log: Log, job: str, provider: NodeProvider, nodes: int, stopped: StopRequests) -> None:
    """As many processes as have to be there beside nodes of other hands; returns when the job has begun."""
    from nodes.transactions.control_history import control_history, nodes_at_work
    from nodes.transactions.job_start import started
    from nodes.transactions.topics import TransactionTopics, jobs_among

    alive, topics = 0, TransactionTopics(job)
    if job in jobs_among(log.topics()) and (begun := started(log, topics)) is not None:
        history = control_history(log, topics, begun.partitions)
        alive = len(nodes_at_work(log, topics, history.read, ALIVE_S))
    if alive < nodes:
        provider.scale(nodes, alive)
    deadline = time.monotonic() + JOIN_S
    while not (job in jobs_among(log.topics()) and started(log, topics) is not None):
        provider.check()
        if stopped.event.wait(CHECK_S):
            stopped.end_if_interrupted()
            raise typer.Exit(0)
        if time.monotonic() > deadline:
            raise RunFailed(f"job {job!r} has not begun within {JOIN_S:g} s: see what its nodes have written")


def _scaler(log: Log, job: str | None, limits: Limits, provider: NodeProvider | None, settings: Settings) -> Autoscaler:
    from nodes.checkpoints.opening import open_checkpoints
    from nodes.transactions.autoscaling.autoscaler import Autoscaler
    from nodes.transactions.process import wall_ms
    from nodes.transactions.topics import job_on

    return Autoscaler(log, job_on(log, job), limits, provider, open_checkpoints(settings), wall_ms)


def outcomes(
    scaler: Autoscaler,
    provider: NodeProvider | None,
    interval_s: float,
    count: int,
    seconds: float,
    stopped: StopRequests,
) -> Iterator[Outcome]:
    """``count`` 0: until it is stopped, those with a decision alone."""
    from nodes.log.contract import LogError, LogFull

    told = ""
    begin_s = next_s = time.monotonic()
    taken = 0
    while not (count and taken == count) and not (seconds and time.monotonic() - begin_s >= seconds):
        # A sample that has taken longer than the interval is made up for by no others: several at once are one.
        next_s = max(next_s + interval_s, time.monotonic())
        while True:
            if stopped.event.wait(min(max(0.0, next_s - time.monotonic()), CHECK_S)):
                return
            if provider is not None:
                provider.check()
            if time.monotonic() >= next_s:
                break
        try:
            outcome = scaler.turn()
        except LogFull as error:
            text = f"waits for room on the log, and nothing is decided until then: {error}"
            if text != told:
                note(text)
            told = text
            continue
        except LogError as error:  # its nodes need not end for that
            note(f"no sample: {error}")
            continue
        told = ""
        taken += 1
        if outcome.decision is not None:
            note(_line(outcome.decision) + ("" if outcome.won else "; another autoscaler was first"))
            if outcome.problem:
                note(f"decision {outcome.decision.number} could not be carried out: {outcome.problem}")
        if count or outcome.decision is not None:
            yield outcome


def _show(outcomes: list[Outcome], limits: Limits, *, dry_run: bool, as_json: bool) -> None:
    if as_json and dry_run:
        action = outcomes[-1].action if outcomes else None
        emit_json({"samples": [each.sample for each in outcomes], "action": action, "limits": limits})
    elif as_json:
        emit_json({"decisions": outcomes, "limits": limits})
    elif dry_run:
        for each in outcomes:
            typer.echo(_figures(each.sample))
        if outcomes:
            typer.echo(f"would decide: {_words(outcomes[-1])}")


def _show_history(log: Log, job: str | None, *, as_json: bool) -> None:
    from nodes.transactions.autoscaling.autoscaler import decisions_of
    from nodes.transactions.layouts.repartitioning import Repartitioning
    from nodes.transactions.topics import job_on

    topics = job_on(log, job)
    found = decisions_of(Repartitioning(log, topics).read())
    if as_json:
        emit_json({"job": topics.job, "decisions": found})
        return
    for each in found:
        typer.echo(_line(each))
    if not found:
        typer.echo(f"no autoscaler has decided anything about job {topics.job!r}")


def _line(decision: Decision) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(decision.at_ms / 1000))
    action, sample = decision.action, decision.sample
    wanted = {
        "nodes": f"{sample.nodes} to {_count(action.nodes, 'node')}",
        "split": f"split of partition {action.partition} to {action.target}",
        "repartition": f"{sample.partitions} to {_count(action.partitions, 'partition')}",
    }.get(action.kind, action.kind)
    return f"{when} UTC, decision {decision.number} by {decision.by}: {wanted}: {action.reason} ({_figures(sample)})"


def _words(outcome: Outcome) -> str:
    action = outcome.action
    return f"{'nothing' if action.kind == 'none' else action.kind}: {action.reason}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + "s" * (number != 1)


def _figures(sample: Sample) -> str:
    busy = "-" if sample.busy is None else f"{sample.busy:.0%}"
    p99 = "-" if sample.p99_ms is None else f"{sample.p99_ms:.0f} ms"
    there = f"{_count(sample.nodes, 'node')}, {_count(sample.partitions, 'partition')}"
    return f"{there}, busy {busy}, p99 {p99}, lag {sample.lag_s:.1f} s, skew {sample.skew:.1f}"
