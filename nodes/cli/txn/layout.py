"""`holon txn repartition` and `holon txn layout`: how many partitions the state has, and what lives in each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from nodes.cli.options import GivenOptions, JsonOption, with_log_options
from nodes.cli.output import emit_json, note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.transactions.layouts.repartitioning import Repartitioned
    from nodes.transactions.layouts.shown import HeatShown, LayoutShown

REPARTITION_EXAMPLE = "Example: holon txn repartition account --to 6 --alone --log-dir ./holon-log"
LAYOUT_EXAMPLE = "Example: holon txn layout --log-dir ./holon-log --json"
SHOWN_KEY = 60
"""Characters of a key."""

ModeOption = Annotated[
    Literal["online", "stop"],
    typer.Option(
        "--mode",
        help="online: keys are copied first, while transactions run; stop: transactions wait for all of them.",
    ),
]
SpreadOption = Annotated[
    Literal["least", "all"],
    typer.Option("--spread", help="least: what balance needs moves; all: every bucket, as by a new hash."),
]
AloneOption = Annotated[
    bool, typer.Option("--alone", help="Operators of the same homes that are not named stay where they are.")
]
JobOption = Annotated[str | None, typer.Option("--job", help="Name of the program, if the log has several.")]


@with_log_options
def repartition(
    given: GivenOptions,
    operators: Annotated[list[str], typer.Argument(metavar="OPERATOR...", help="Of the running job.")],
    to: Annotated[int, typer.Option("--to", metavar="M", help="How many partitions they are to have.")],
    mode: ModeOption = "online",
    spread: SpreadOption = "least",
    alone: AloneOption = False,
    job: JobOption = None,
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds to wait; nodes go on after that.")] = 600,
    as_json: JsonOption = False,
) -> None:
    """Give operators of a running job another number of partitions, and wait until their keys live there.

    Operators that were declared with as many partitions and the same separator move together. With --alone those that
    are named leave the others, and have homes of their own from there on. The job's nodes do the work: it is done
    even if this command is stopped.
    """
    settings = given.settings()
    from nodes.runtime.log_opening import open_settings_log
    from nodes.transactions.layouts.repartitioning import Repartitioning
    from nodes.transactions.topics import job_on

    with open_settings_log(settings) as log:
        requests = Repartitioning(log, job_on(log, job), patience_s=timeout_s, tell=note)
        made, told = requests.request(operators, to, spread, mode, alone=alone)
        note(f"layout {told.layout} is requested: {', '.join(told.operators)} to {to} partitions")
        told = requests.wait(made, told, timeout_s, note)
    if as_json:
        emit_json(msgspec.to_builtins(told))
    else:
        typer.echo(_line(told))


@with_log_options
def layout(given: GivenOptions, job: JobOption = None, as_json: JsonOption = False) -> None:
    """Show the partitions of a job's state: owners, buckets, contents, and where the newest work has been.

    Contents are those of the newest checkpoints, so their size decides how long it takes. Heat is calls and written
    bytes of the newest epochs, as the log has them. CPU is what nodes report in heartbeats. Nothing is written.
    """
    settings = given.settings()
    from nodes.checkpoints.opening import open_checkpoints
    from nodes.runtime.log_opening import open_settings_log
    from nodes.transactions.layouts.cpu import recent_cpu
    from nodes.transactions.layouts.repartitioning import Repartitioning
    from nodes.transactions.layouts.shown import layout_shown
    from nodes.transactions.topics import job_on

    with open_settings_log(settings) as log:
        topics = job_on(log, job)
        requests, cpu = Repartitioning(log, topics), recent_cpu(log, topics)
        found = layout_shown(topics.job, requests, open_checkpoints(settings), cpu)
    if as_json:
        emit_json(msgspec.to_builtins(found))
    else:
        for line in lines(found):
            typer.echo(line)


def _line(told: Repartitioned) -> str:
    keys = "" if told.keys is None else f", {told.keys} keys ({told.bytes} bytes) and {told.replies} replies moved"
    took = "" if told.took_s is None else f" in {told.took_s:.1f} s, during which nothing ran for {told.downtime_ms} ms"
    names = ", ".join(told.operators) + (f" without {', '.join(told.apart_from)}" if told.apart_from else "")
    return f"{names}: {told.from_partitions} to {told.to} partitions, layout {told.layout}{keys}{took}"


def lines(found: LayoutShown) -> Iterator[str]:
    """For people."""
    from nodes.transactions.layouts.repartitioning import copying, described

    yield f"job {found.job!r}, layout {found.layout}"
    for group in found.groups:
        yield f"{', '.join(group.operators)}: {group.partitions} partitions, {group.buckets} buckets"
    if found.under_way is not None:
        so_far = "" if found.copies is None else f"; {copying(found.copies)}"
        yield f"under way: {described(found.under_way)}{so_far}"
    head = f"{'partition':>9} {'buckets':>8} {'keys':>10} {'bytes':>12} {'replies':>8} {'calls':>10}"
    yield f"{head} {'heat':>5} {'cpu':>5}  owner"
    for row in found.partitions:
        shown = ["-" if each is None else str(each) for each in (row.keys, row.bytes, row.replies, row.calls)]
        emptied = "" if row.member else ", emptied"
        cpu = "-" if row.cpu_share is None else f"{row.cpu_share:.0%}"
        widths = f"{shown[0]:>10} {shown[1]:>12} {shown[2]:>8} {shown[3]:>10} {row.heat_share:>5.0%} {cpu:>5}"
        yield f"{row.partition:>9} {row.buckets:>8} {widths}  {row.owner or 'nobody'}{emptied}"
    if found.cpu_seconds is not None:
        most = max(found.partitions, key=lambda row: row.cpu_share or 0.0)
        cores = sum(row.cpu_cores or 0.0 for row in found.partitions)
        yield f"cpu: {cores:.2f} cores over {found.cpu_seconds:.0f} s, most of it for partition {most.partition}"
    yield from _heat_lines(found.heat)


def _heat_lines(heat: HeatShown) -> Iterator[str]:
    if not heat.hottest:
        yield "heat: no epoch has committed anything that the log still has"
        return
    epochs = f"epochs {heat.first_epoch} to {heat.last_epoch} ({heat.seconds:.1f} s)"
    yield f"heat: {heat.calls} calls and {heat.bytes} written bytes in {epochs}; the hottest keys, by their first part:"
    for each in heat.hottest:
        key = each.key if len(each.key) <= SHOWN_KEY else f"{each.key[:SHOWN_KEY]}..."
        cpu = "" if each.cpu_share is None else f", about {each.cpu_share:.1%} of CPU"
        work = f"{each.heat_share:>5.1%} of all{cpu}, {each.calls} calls, {each.bytes} bytes"
        warning = "; too hot for one partition: no layout divides it" if each.too_hot else ""
        yield f"{work}: {key!r} of {', '.join(each.operators)} in partition {each.partition}{warning}"
