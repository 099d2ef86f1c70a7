"""Which commands there are: the table below, and the entry points of the group ``holon.commands``.

An entry point names a `typer.Typer` (of one command or many) or a plain function. Nothing is imported before its
command is called, and the root imports no room above it; the help of an entry point is its module's first line.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

from nodes.errors import MissingDependency, UnknownName
from nodes.release import DISTRIBUTION, release

ENTRY_POINTS = "holon.commands"


class CommandRow(NamedTuple):
    """A command of the root: where it is (``module:attribute``) and what it does (empty: see its module)."""

    name: str
    place: str
    help: str


# In the order of the help. Commands of the runtime are added here, those of other rooms as entry points.
BUILT_IN = (
    CommandRow("run", "nodes.cli.commands.run:app", "Run a job on a fleet of nodes, or resume it."),
    CommandRow("node", "nodes.cli.commands.node:app", "Join a job as one more node, in this process."),
    CommandRow("log", "nodes.cli.commands.log:app", "List topics, show their records, append lines of a file."),
    CommandRow("read", "nodes.cli.commands.read:app", "Print the outputs of a job, each once."),
    CommandRow("view", "nodes.cli.commands.view:app", "Show the newest completed windows, or keep them in Redis."),
    CommandRow("sink", "nodes.cli.commands.sink:app", "Write the outputs of a job to files, each row once."),
    CommandRow("dlq", "nodes.cli.commands.dlq:app", "List dead letters, show one, put them back into the input."),
    CommandRow("replay", "nodes.cli.commands.replay:app", "Check that a job gives the same twice."),
    CommandRow("profile", "nodes.cli.commands.profile:app", "Show where the processor time of a job goes."),
    CommandRow("explain", "nodes.cli.commands.explain:app", "Show the steps of a flow, and which work on columns."),
    CommandRow("txn", "nodes.cli.txn.run_and_node:app", "Run transactional functions, and call them."),
    CommandRow("kafka", "nodes.cli.commands.kafka:app", "Start and stop Kafka on this machine."),
    CommandRow("sim", "nodes.cli.commands.sim:app", "Simulate fleets with faults, each from one seed."),
    CommandRow("config", "nodes.cli.commands.config:app", "Show the settings and where they come from."),
    CommandRow("doctor", "nodes.cli.commands.doctor:app", "Check what Holon needs of this machine."),
    CommandRow("version", "nodes.cli.commands.version:app", "Print the version."),
)


@cache
def rows() -> dict[str, CommandRow]:
    """All commands by name: the table, then entry points by name; a name of the table cannot be taken."""
    table = {row.name: row for row in BUILT_IN}
    for point in sorted(metadata.entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        if point.name not in table:
            table[point.name] = CommandRow(point.name, point.value, "")
    return table


def distribution_version() -> str:
    """The installed version, for people."""
    return release() or "unknown (not installed: run from a source tree)"


class LazyGroup(TyperGroup):
    """The root's group: names and help come from the rows, a command is imported when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(rows())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        row = rows().get(cmd_name)
        return None if row is None else load(row)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Names by the rows: the one that is being typed need not be imported, nor all the others for their help."""
        if incomplete and not incomplete[0].isalnum():
            return super().shell_complete(ctx, incomplete)
        from typer._click.shell_completion import CompletionItem

        found = [row for row in rows().values() if row.name.startswith(incomplete)]
        return [CompletionItem(row.name, help=row.help or _first_line(row.place)) for row in found]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in rows() and not ctx.resilient_parsing:  # else it is being completed
            raise UnknownName("command", args[0], rows())
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(row.name, row.help or _first_line(row.place)) for row in rows().values()])


def load(row: CommandRow) -> Any:
    """The command of this row, imported."""
    module_name, _, attribute = row.place.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise MissingDependency(
                f"the command {row.name!r} is registered as {row.place}, which does not exist; "
                f"reinstall the package that registers it (pip install --force-reinstall {DISTRIBUTION})"
            ) from error
        raise
    if not isinstance(found, typer.Typer):
        group = typer.Typer(add_completion=False, rich_markup_mode=None)
        group.command()(found)
        found = group
    command = typer.main.get_command(found)
    command.name = row.name
    return command


def _first_line(place: str) -> str:
    """First line of the module's docstring, read from its source: importing it could be slow. Empty if unreadable."""
    package, *inner = place.partition(":")[0].split(".")
    try:
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            base = Path(folder, *inner)
            for file in (base.with_suffix(".py"), base / "__init__.py"):
                if inner and file.is_file():
                    return (ast.get_docstring(ast.parse(file.read_bytes())) or "").partition("\n")[0]
    except (OSError, SyntaxError, ValueError):
        pass  # the command itself will report the problem
    return ""
