"""`holon txn replay`: are the functions of a transactional job deterministic?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nodes.cli.job_options import program_named
from nodes.cli.options import GivenOptions, JsonOption, with_log_options
from nodes.cli.output import console, emit_json

if TYPE_CHECKING:
    from nodes.transactions.replay.comparison import Parting, TransactionReplay

EXAMPLE = "Example: holon txn replay examples.bank:program --log-dir ./holon-log"


@with_log_options
def replay(
    given: GivenOptions,
    program: Annotated[str, typer.Argument(metavar="MODULE:PROGRAM", help="A transactional Program.")],
    from_epoch: Annotated[
        int, typer.Option("--from-epoch", min=1, help="Take what was before from the commits on the log.")
    ] = 1,
    to_epoch: Annotated[int | None, typer.Option("--to-epoch", min=1, help="The last one to run again.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a job's log again, twice, and name the first function and request that differ from the log.

    The runs have other hash seeds and time zones than each other. Nothing is written to the log; nodes may be at work.
    Exit code 1 if a function is not deterministic, or if records that are needed are gone.
    """
    settings = given.settings()
    from nodes.errors import RunFailed
    from nodes.runtime.log_opening import open_settings_log
    from nodes.transactions.replay.comparison import replay_log_twice
    from nodes.transactions.topics import job_on

    name = program_named(program).name
    with open_settings_log(settings) as log:
        job_on(log, name)
    with console().status("run 1 of 2") as status:
        found = replay_log_twice(
            program,
            name,
            settings,
            from_epoch,
            to_epoch,
            lambda run, epochs: status.update(f"run {run + 1} of 2: {epochs:,} epochs"),
        )
    if as_json:
        emit_json(found)
    elif found.deterministic:
        counts = f"{found.epochs:,} epochs with {found.replies:,} replies"
        print(f"job {name}: {counts}, run again twice, gave what is on the log")
    if found.divergence is not None:
        raise RunFailed(_described(found, found.divergence))


def _described(found: TransactionReplay, at: Parting) -> str:
    who = "no function is known" if at.function is None else f"{at.operator} {at.key!r} {at.function}"
    request = at.request
    requests = (
        ""
        if request is None
        else (
            f"\nrequest:  {request.id!r} ({request.operator} {request.key!r} {request.function}), request partition "
            f"{request.partition} offset {request.offset}"
        )
    )
    tid = "" if at.tid is None else f", TID {at.tid}"
    return (
        f"job {found.job!r} is not deterministic: {who}, epoch {at.epoch}{tid}; {found.epochs:,} epochs before were "
        f"the same{requests}\nwhat:     {at.what}\nexpected: {at.expected}\nfound:    {at.found}\n"
        f"Functions may depend on arguments, state and ctx alone: no clock (ctx.now), no random numbers (ctx.random), "
        f"no order of a set, no variable of the program. Or the program is not the one that the log was written with"
    )
