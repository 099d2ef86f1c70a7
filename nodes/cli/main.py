"""The root command: global options, exit codes, and one line for every error.

Exit codes: 0 done; 1 wrong answer or failed run; 2 usage; 3 something missing on the machine; 4 not reachable; 130
interrupted. With ``--json`` standard output holds one line of JSON whatever happens, an error too.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import typer

from nodes.cli.options import ConfigOption, DefineOption, GlobalOptions, LogLevelOption
from nodes.cli.output import emit_error, json_only_stdout, note
from nodes.cli.registry import LazyGroup, distribution_version
from nodes.cli.stopping import interruptible

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
    with json_only_stdout() if as_json else nullcontext(), interruptible(as_json=as_json):
        try:
            command = typer.main.get_command(app)
            result = command.main(args=list(arguments), prog_name="holon", standalone_mode=False, obj=stops)
            exit_code, message = (result if isinstance(result, int) else 0), "interrupted"
            if exit_code != 130:  # typer turns an interrupt into this code
                return exit_code
        except KeyboardInterrupt:  # outside of what typer runs
            exit_code, message = 130, "interrupted"
        except Exception as error:
            from nodes.cli.errors import UNEXPECTED, classify

            exit_code, message = classify(error)
            is_explained = not message.startswith(UNEXPECTED) and error.__cause__ is None
            if not is_explained and logging.getLogger("holon").isEnabledFor(logging.DEBUG):
                note("".join(traceback.format_exception(error)).rstrip())
        emit_error(exit_code, message, as_json=as_json)
        return exit_code
