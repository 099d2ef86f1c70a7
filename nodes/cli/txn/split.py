"""`holon txn split`: the hotter half of a partition's buckets goes to another partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from nodes.cli.options import GivenOptions, JsonOption, with_log_options
from nodes.cli.output import emit_json, note
from nodes.cli.txn.layout import JobOption, ModeOption

if TYPE_CHECKING:
    from nodes.transactions.layouts.splitting import Split

EXAMPLE = "Example: holon txn split 3 --log-dir ./holon-log"


@with_log_options
def split(
    given: GivenOptions,
    partition: Annotated[int, typer.Argument(metavar="P", help="State partition, as holon txn layout has it.")],
    to: Annotated[
        int | None,
        typer.Option(
            "--to",
            metavar="Q",
            help="Partition that gets them; the next free number is a new one. Else the coldest, or a new one.",
        ),
    ] = None,
    mode: ModeOption = "online",
    job: JobOption = None,
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds to wait; nodes go on after that.")] = 600,
    as_json: JsonOption = False,
) -> None:
    """Give half of the heat of a partition to another one, and wait until those keys live there.

    Heat is measured by calls and written bytes of the newest epochs on the log. Where these have nothing of the
    partition, it is bytes in the newest checkpoints. The job's nodes do the work: it is done even if this command is
    stopped. With --mode stop transactions wait while keys move.
    """
    settings = given.settings()
    from nodes.checkpoints.opening import open_checkpoints
    from nodes.runtime.log_opening import open_settings_log
    from nodes.transactions.layouts.repartitioning import Repartitioning
    from nodes.transactions.layouts.splitting import request_split, wait_for_split
    from nodes.transactions.topics import job_on

    with open_settings_log(settings) as log:
        topics = job_on(log, job)
        requests = Repartitioning(log, topics, patience_s=timeout_s, tell=note)
        made, told = request_split(requests, topics.job, open_checkpoints(settings), partition, to, mode)
        note(f"layout {made.number} is requested: {told.buckets} buckets of {partition} to {told.target}")
        told = wait_for_split(requests, told, timeout_s, note)
    if as_json:
        emit_json(msgspec.to_builtins(told))
    else:
        typer.echo(_line(told))


def _line(told: Split) -> str:
    keys = "" if told.keys is None else f", {told.keys} keys ({told.bytes} bytes) and {told.replies} replies"
    took = "" if told.took_s is None else f" in {told.took_s:.1f} s, during which nothing ran for {told.downtime_ms} ms"
    measures = {"cpu": "CPU", "recent": "newest commits", "checkpoint": "stored bytes", "buckets": "numbers of buckets"}
    target = f"{'new ' if told.new else ''}partition {told.target}"
    return (
        f"partition {told.partition} gave {told.heat_share:.0%} of its heat ({measures[told.heat_by]}) to {target}: "
        f"{told.buckets} buckets{keys}{took}; layout {told.layout}"
    )
