"""`holon version`."""

from __future__ import annotations

import platform

import typer

from nodes.cli.options import JsonOption, new_command
from nodes.cli.output import emit_json
from nodes.cli.registry import distribution_version

app = new_command()


@app.command(epilog="Example: holon version --json")
def version(as_json: JsonOption = False) -> None:
    """Print the version."""
    if as_json:
        emit_json({"version": distribution_version(), "python": platform.python_version()})
    else:
        typer.echo(f"holon {distribution_version()}")
