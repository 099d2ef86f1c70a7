"""`holon txn upgrade`: another version of a transactional job's program, while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nodes.cli.job_options import note_unknown, program_named
from nodes.cli.options import GivenOptions, JsonOption, with_log_options
from nodes.cli.output import console, emit_json, fail, note

if TYPE_CHECKING:
    from nodes.transactions.upgrades.proposing import Upgrade, VersionShown

EXAMPLE = "Example: holon txn upgrade examples.bank_v2:program --log-dir ./holon-log"


@with_log_options
def upgrade(
    given: GivenOptions,
    program: Annotated[str, typer.Argument(metavar="MODULE:PROGRAM", help="The program's next version.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what is against it.")] = False,
    timeout_s: Annotated[float, typer.Option("--timeout-s", min=0, help="Wait so long until it holds.")] = 60.0,
    as_json: JsonOption = False,
) -> None:
    """Let the nodes of a job go on with another version of its program, from one epoch on.

    They load it by its name, beside the one that they have; going back is an upgrade too. Ends with 1 if something is
    against it, which is named, or if it does not hold in time. On a full disk it waits for room as long, too.
    """
    settings = given.settings()
    loaded = program_named(program)
    from nodes.checkpoints.opening import open_checkpoints
    from nodes.runtime.log_opening import open_settings_log
    from nodes.transactions.clients.patience import Patience
    from nodes.transactions.topics import job_on
    from nodes.transactions.upgrades.proposing import Upgrader
    from transactional.describing import code_of

    note_unknown(code_of(loaded).unknown)
    with open_settings_log(settings) as log:
        job_on(log, loaded.name)
        upgrader = Upgrader(log, open_checkpoints(settings), loaded, program, Patience(timeout_s, note))
        with console().status("trying all stored values"):
            found = upgrader.check(dry_run=dry_run)
        if not found.problems and not dry_run:
            with console().status(f"waiting for {len(found.nodes)} nodes"):
                found = upgrader.propose(found, timeout_s)
    if as_json:
        emit_json(found)
    elif not found.problems:
        typer.echo(_described(found))
    if found.problems:
        fail(1, "\n".join([f"job {found.job!r} cannot be upgraded to {program}:", *found.problems]))


def _described(found: Upgrade) -> str:
    tried = f"{found.values:,} values of {found.checkpoints} checkpoints can be read by it"
    if found.since_epoch is None:
        return f"job {found.job!r} can be upgraded from {_version(found.before)} to {_version(found.after)}; {tried}"
    return (
        f"job {found.job!r} goes on with {_version(found.after)} from epoch {found.since_epoch} on, after "
        f"{found.took_s:g} s; {tried}"
    )


def _version(shown: VersionShown) -> str:
    return f"{shown.reference or 'the program that it began with'} (version {shown.version}, code {shown.code})"
