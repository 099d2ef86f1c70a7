"""Options that every command shares, and what they lead to: the settings and the logging of this process.

A command takes ``ctx: typer.Context`` and ``config``, ``define``, ``log_level`` (and ``as_json``) of the types below,
and starts with ``settings = begin(ctx, config, define, log_level)``.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from nodes.settings import Settings

Level = Literal["debug", "info", "warning", "error"]

ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings file (default: holon.toml if there is one).")
]
DefineOption = Annotated[
    list[str] | None, typer.Option("-D", metavar="SECTION.KEY=VALUE", help="Set one setting; may be repeated.")
]
LogLevelOption = Annotated[
    Level | None, typer.Option("--log-level", help="Lowest level that is logged to standard error.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one line of JSON on standard output, nothing else.")]
LogDirOption = Annotated[
    Path | None, typer.Option("--log-dir", metavar="DIR", help="Folder of the embedded log (default: log.path).")
]


@dataclass(frozen=True, slots=True)
class Options:
    """Global options given before the command's name; those after it outrank them."""

    config: Path | None = None
    define: tuple[str, ...] = ()
    log_level: Level | None = None


def begin(ctx: typer.Context, config: Path | None, define: list[str] | None, log_level: Level | None) -> Settings:
    """Load the settings, set logging up, and warn of unsafe settings. Raises ``SettingsError``."""
    from nodes.logs import set_up_logging
    from nodes.settings import load_settings

    root = ctx.obj if isinstance(ctx.obj, Options) else Options()
    settings = load_settings(
        config=config if config is not None else root.config, definitions=(*root.define, *(define or ()))
    )
    set_up_logging(log_level or root.log_level or settings.logging.level, settings.logging.format)
    for warning in settings.warnings():
        logging.getLogger(__name__).warning(warning)
    return settings


def new_group(help_text: str, example: str) -> typer.Typer:
    """A group of commands in the root's style."""
    return typer.Typer(
        help=help_text,
        epilog=f"Example: {example}",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def new_command() -> typer.Typer:
    """The application of a single command in the root's style: decorate one function with its ``.command()``."""
    return typer.Typer(
        add_completion=False, rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]}
    )
