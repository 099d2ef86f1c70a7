"""`holon doctor`: does this machine have what Holon needs?"""

from __future__ import annotations

from typing import Annotated

import typer

from nodes.cli.options import GivenOptions, JsonOption, new_command, with_log_options
from nodes.cli.output import emit_json, fail, note
from nodes.errors import UnknownName

app = new_command()


@app.command(epilog="Example: holon doctor --topic bids --bootstrap HOST:PORT")
@with_log_options
def doctor(
    given: GivenOptions,
    require: Annotated[
        list[str] | None,
        typer.Option("--require", metavar="NAME", help="Fail if this is missing: an extra, java, redis-server."),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="T", help="Report how this topic will be read, and what makes it quicker."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check this machine, and with a log on Kafka the cluster: what was found, what to install or to set.

    With --topic: that topic alone. Ends with 4 if the cluster does not answer, with 2 if there is no such topic. Ends
    with 3 if something is missing that nothing works without, or that --require names.
    """
    settings = given.settings()
    if topic is not None:
        if require:
            fail(2, "--topic and --require exclude each other")
        from nodes.cli.checks.topic_report import lines, topic_report

        report = topic_report(settings, topic)
        if as_json:
            emit_json(report)
        else:
            typer.echo("\n".join(lines(report)))
        return
    from nodes.cli.checks.check import KAFKA
    from nodes.cli.checks.machine import EXTRAS, all_checks

    wanted = set(require or ())
    for name in sorted(wanted - {*EXTRAS, "java", "redis-server"}):
        raise UnknownName("requirement", name, (*EXTRAS, "java", "redis-server"))
    found = []
    for check in all_checks(settings):
        words = check.name.replace(":", "").split()
        needed = check.required or words[0] in wanted or (words[0] == "extra" and words[1] in wanted)
        found.append((check, needed))
        if not as_json:
            optional = "" if needed else " (optional)"
            advice = f" -> {check.advice}" if check.status != "ok" and check.advice else ""
            mark = check.status.upper() if needed and check.status != "ok" else check.status
            typer.echo(f"{mark:8}{check.name}{optional}: {check.found}{advice}")
    missing = [check for check, needed in found if needed and check.status == "missing"]
    if as_json:
        rows = [
            {
                "name": check.name,
                "status": check.status,
                "found": check.found,
                "required": needed,
                "advice": check.advice,
            }
            for check, needed in found
        ]
        emit_json({"ok": not missing, "checks": rows})
    if missing:
        unreachable = all(check.name == KAFKA for check in missing)
        note(f"holon: {'not reachable' if unreachable else 'missing'}: {', '.join(check.name for check in missing)}")
        raise typer.Exit(4 if unreachable else 3)
