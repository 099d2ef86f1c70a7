"""The root command: global options, exit codes, and one line for every error.

Exit codes: 0 done; 1 wrong answer or failed run; 2 usage; 3 something missing on the machine; 4 not reachable; 130
interrupted. With ``--json`` standard output holds one line of JSON whatever happens, an error too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from nodes.cli.errors import reported
from nodes.cli.options import ConfigOption, DefineOption, GlobalOptions, LogLevelOption
from nodes.cli.registry import LazyGroup, distribution_version

if TYPE_CHECKING:
    from nodes.runtime.stop_signals import StopSignals

HELP = """Holon: a leaderless stream processor.

Settings come from -D section.key=value, the environment (HOLON__SECTION__KEY) and holon.toml, in this order."""

app = typer.Typer(
    name="holon",
    cls=LazyGroup,
    help=HELP,
    epilog="Example: holon doctor",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"holon {distribution_version()}")
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    config: ConfigOption = None,
    define: DefineOption = None,
    log_level: LogLevelOption = None,
    version: bool = typer.Option(False, "--version", is_eager=True, callback=_show_version, help="Print the version."),
) -> None:
    """Keep the global options for the command that follows."""
    ctx.obj = GlobalOptions(config, tuple(define or ()), log_level, ctx.obj)


def run(arguments: Sequence[str], stops: StopSignals | None = None) -> int:
    """Run one command line and return its exit code; errors are reported here, and nowhere else.

    ``stops``: what listens to signals already, in the process of a node.
    """
    as_json = "--json" in arguments[: arguments.index("--")] if "--" in arguments else "--json" in arguments

    def body() -> int:
        command = typer.main.get_command(app)
        result = command.main(args=list(arguments), prog_name="holon", standalone_mode=False, obj=stops)
        return result if isinstance(result, int) else 0

    return reported(body, as_json=as_json)
