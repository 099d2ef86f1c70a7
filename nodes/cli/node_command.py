"""`holon node`: one node of a job, in this process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from nodes.cli.options import ConfigOption, DefineOption, JsonOption, LogDirOption, LogLevelOption, begin, new_command
from nodes.cli.output import emit_json, note

app = new_command()

JobArgument = Annotated[str, typer.Argument(metavar="MODULE:JOB", help="A Job, or a function that gives one.")]
AcceptCodeOption = Annotated[
    bool, typer.Option("--accept-code", help="Go on with changed code on the state that the old code made.")
]


@app.command(epilog="Example: holon node examples.query1:job --log-dir ./holon-log")
def node(
    ctx: typer.Context,
    job: JobArgument,
    number: Annotated[int, typer.Option("--number", help="Number of the node, for people.")] = -1,
    expect: Annotated[int, typer.Option("--expect", help="Wait shortly for so many nodes before the first claim.")] = 1,
    accept_code: AcceptCodeOption = False,
    log_dir: LogDirOption = None,
    config: ConfigOption = None,
    define: DefineOption = None,
    log_level: LogLevelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Join a job that is running on this log (or resume it) as one more node; it leaves when the job is done.

    SIGTERM or Ctrl-C: finish what is in hand, checkpoint, hand over, leave.
    """
    from nodes.jobs import load_job
    from nodes.process import run_node

    definitions = [*(define or ()), *log_dir_definition(log_dir)]
    settings = begin(ctx, config, definitions, log_level)
    add_working_directory()
    ending, ran = run_node(load_job(job), settings, number=number, expected=expect, accept_code=accept_code)
    if as_json:
        emit_json({"node": ran.config.node, "number": number, "ending": ending.value, **ran.stats()})
    else:
        note(f"node {ran.config.node}: {ending.value}")


def log_dir_definition(log_dir: Path | None) -> list[str]:
    """``--log-dir`` as a setting, so that child processes get it too."""
    return [] if log_dir is None else [f"log.path={log_dir.absolute()}"]


def add_working_directory() -> None:
    """Let MODULE be found beside the person who calls, as ``python -m`` does."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
