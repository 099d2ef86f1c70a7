"""`holon txn doctor`: does the state on the log fit this program?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nodes.cli.job_options import program_named
from nodes.cli.options import GivenOptions, JsonOption, with_log_options
from nodes.cli.output import emit_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.transactions.diagnosis import Diagnosis

EXAMPLE = "Example: holon txn doctor examples.bank:program --log-dir ./holon-log"


@with_log_options
def doctor(
    given: GivenOptions,
    program: Annotated[str, typer.Argument(metavar="MODULE:PROGRAM", help="A transactional Program.")],
    as_json: JsonOption = False,
) -> None:
    """Compare a program with what its job's log holds: code, operators, types of state. Nothing is written.

    Ends with 1 if a node with this program would be refused, whether others are at work or not.
    """
    settings = given.settings()
    from nodes.runtime.log_opening import open_settings_log
    from nodes.transactions.diagnosis import diagnose

    loaded = program_named(program)
    with open_settings_log(settings) as log:
        found = diagnose(log, loaded, program)
    if as_json:
        emit_json(found)
    else:
        for line in _lines(found):
            typer.echo(line)
    if not found.ok:
        raise typer.Exit(1)


def _lines(found: Diagnosis) -> Iterator[str]:
    words = {
        "new": "has not begun on this log",
        "same": "goes on with this code",
        "held": f"has gone on from this code to {found.in_force}, which a node that is started with it loads",
        "other": f"was run with other code; other is {found.changed}",
        "unknown": "was begun by another release",
    }
    yield f"job {found.job!r} {words[found.code]}"
    if found.problem:
        yield f"refused   {found.problem}"
    for each in found.misfits:
        advice = "needs --accept-code" if each.decodes else "refused"
        yield f"{advice}   {each.place}: stored is {each.stored}, the code has {each.code}: {each.effect}"
    if found.code == "other" and found.members:
        yield f"at work, if they live: {', '.join(found.members)}; a node with other code is refused beside them"
    for name in found.untyped:
        yield f"not known   operator {name!r} declares no type of its state, so that nothing can be compared"
    for each in found.unknown:
        yield f"not known   {each}"
