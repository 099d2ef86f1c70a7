"""`holon node`: one node of a job, in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nodes.cli.job_options import (
    AcceptCodeOption,
    JobArgument,
    OnErrorOption,
    ReplicasOption,
    node_definitions,
)
from nodes.cli.node_runs import run_job_node
from nodes.cli.options import GivenOptions, JsonOption, new_command, with_log_options
from nodes.cli.output import emit_json, note
from nodes.cli.stopping import end_early, end_if_interrupted
from nodes.runtime.child_node import JobNode
from nodes.runtime.stop_signals import StoppedEarly

if TYPE_CHECKING:
    from nodes.machine.node import Node
    from nodes.settings.settings import Settings

app = new_command()


@app.command(epilog="Example: holon node examples.query1:job --log-dir ./holon-log")
@with_log_options
def node(
    given: GivenOptions,
    job: JobArgument,
    number: Annotated[int, typer.Option("--number", help="Number of the node, for people.")] = -1,
    expect: Annotated[int, typer.Option("--expect", help="Wait shortly for so many nodes before the first claim.")] = 1,
    accept_code: AcceptCodeOption = False,
    on_error: OnErrorOption = None,
    replicas: ReplicasOption = None,
    as_json: JsonOption = False,
) -> None:
    """Join a job that is running on this log (or resume it) as one more node; it leaves when the job is done.

    SIGTERM or Ctrl-C: finish what is in hand, checkpoint, hand over, leave.
    """
    stops = given.root.stops
    settings = given.settings(*node_definitions(on_error, replicas), node=number)
    job_node = JobNode(job=job, number=number, expected=expect, accept_code=accept_code)
    try:
        ending, ran = run_job_node(job_node, settings, stops)
    except StoppedEarly:
        if as_json:
            emit_json({"node": None, "number": number, "ending": "stopped"})
        end_early(stops)
    from nodes.fleet.end_of_input import unread_text
    from nodes.machine.effects import Ending

    unread = _unread(settings, ran) if ending is Ending.DONE else {}
    if as_json:
        more = {"standby_results": ran.work.replicas.published} | ({"unread": unread} if unread else {})
        emit_json({"node": ran.config.node, "number": number, "ending": ending.value, **ran.stats(), **more})
    else:
        note(f"node {ran.config.node}: {ending.value}")
    if unread:
        note(f"{unread_text(ran.run, unread)} (options of holon run)")
    end_if_interrupted(stops)


def _unread(settings: Settings, ran: Node) -> dict[int, int]:
    """By partition: records behind the end of an input that the job has read to its end."""
    from nodes.fleet.end_of_input import Bounds
    from nodes.fleet.monitor import Monitor
    from nodes.runtime.log_opening import open_settings_log

    with open_settings_log(settings) as log:
        return Bounds(log, ran.run, Monitor(log, ran.run)).unread


__all__ = ["app"]
