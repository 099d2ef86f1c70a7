"""`holon config`: the settings as they apply here."""

from __future__ import annotations

from typing import Annotated

import typer

from nodes.cli.options import ConfigOption, DefineOption, JsonOption, LogLevelOption, begin, new_group
from nodes.cli.output import emit_json

app = new_group("Show the settings and where they come from.", "holon config show --origin")


@app.callback()
def config_group() -> None:
    """Without a callback typer would make the only command the group itself."""


@app.command("show", epilog="Example: holon config show --origin -D node.function_timeout_ms=5000")
def show(
    ctx: typer.Context,
    origin: Annotated[bool, typer.Option("--origin", help="Name the source of each value.")] = False,
    config: ConfigOption = None,
    define: DefineOption = None,
    log_level: LogLevelOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print every setting as KEY = VALUE; secrets are hidden."""
    settings = begin(ctx, config, define, log_level)
    # Secrets print as asterisks; plain values keep their type in JSON.
    plain = {key: value if value is None or isinstance(value, str | int) else str(value)
             for key, value in settings.items()}  # fmt: skip
    if as_json:
        emit_json({key: {"value": value, "origin": settings.origin(key)} for key, value in plain.items()})
        return
    for key, value in plain.items():
        suffix = f"  ({settings.origin(key)})" if origin else ""
        typer.echo(f"{key} = {'none' if value is None else value}{suffix}")
