"""`holon explain`: the steps of a flow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nodes.cli.flow_drawing import drawn
from nodes.cli.job_options import flow_named
from nodes.cli.options import JsonOption, new_command
from nodes.cli.output import emit_json

app = new_command()


@app.command(epilog="Example: holon explain examples.top_items:flow --svg flow.svg")
def explain(
    flow: Annotated[str, typer.Argument(metavar="MODULE:FLOW", help="A Flow, or a function that gives one.")],
    svg: Annotated[
        Path | None, typer.Option("--svg", dir_okay=False, help="Write the steps as a picture (SVG).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the steps of a flow: where each was written, what it follows, and whether it works on columns, or why not.

    Of windows also whether keys are sharded among partitions or held by all nodes, and why.

    Nothing is run, and no log is opened.
    """
    found = flow_named(flow)
    steps = found.explain()
    if svg is not None:
        svg.write_text(drawn(found.name, steps), "utf-8")
    if as_json:
        emit_json({"flow": found.name, "steps": [step._asdict() for step in steps]})
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("step", "verb", "after", "where", "how", "keys", title=f"flow {found.name}")
    for step in steps:
        verb = " ".join([step.verb, ", ".join(step.topics)]).rstrip()
        table.add_row(
            str(step.step), verb, "" if step.after is None else str(step.after), step.line, step.how, step.keys
        )
    Console().print(table)
