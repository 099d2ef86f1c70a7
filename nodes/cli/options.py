"""Options that every command shares, and what they lead to: the settings and the logging of this process.

A command on a log is ``@with_log_options def command(given: GivenOptions, ...)`` and starts with ``given.settings()``.
Any other takes ``ctx: typer.Context`` and ``config``, ``define``, ``log_level`` of the types below, and starts with
``begin(...)``.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from nodes.errors import SettingsError

if TYPE_CHECKING:
    from nodes.runtime.stop_signals import StopSignals
    from nodes.settings.settings import Settings

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
LogKind = Literal["embedded", "kafka"]
LogOption = Annotated[LogKind | None, typer.Option("--log", help="Which log (default: log.kind).")]
BootstrapOption = Annotated[
    str | None, typer.Option("--bootstrap", metavar="HOST:PORT", help="Brokers of the log on Kafka (log.bootstrap).")
]
LogDirOption = Annotated[
    Path | None, typer.Option("--log-dir", metavar="DIR", help="Folder of the embedded log (default: log.path).")
]


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """Global options given before the command's name; those after it outrank them.

    ``stops``: what listens to signals, in the process of a node.
    """

    config: Path | None = None
    define: tuple[str, ...] = ()
    log_level: Level | None = None
    stops: StopSignals | None = None


@dataclass(frozen=True, slots=True)
class GivenOptions:
    """The values of the shared options of a command on a log."""

    ctx: typer.Context
    log: LogKind | None = None
    bootstrap: str | None = None
    log_dir: Path | None = None
    config: Path | None = None
    define: tuple[str, ...] = ()
    log_level: Level | None = None

    @property
    def root(self) -> GlobalOptions:
        """The global options."""
        return self.ctx.obj if isinstance(self.ctx.obj, GlobalOptions) else GlobalOptions()

    def settings(
        self, *definitions: str, find_broker: Callable[[], str] | None = None, node: int | None = None
    ) -> Settings:
        """As ``begin``; the options about the log, and ``definitions``, become settings, which child processes get too.

        ``find_broker`` gives the address of a broker where the log is on Kafka and no source names one; without
        it that is a ``SettingsError``. ``node``: the number that log records show, of a process that is one.
        """
        from nodes.settings.settings import refined

        given = [*self.define, *self.log_definitions(), *definitions]
        context = {} if node is None else {"node": node}
        settings = begin(
            self.ctx, self.config, given, self.log_level, needs_bootstrap=find_broker is None, context=context
        )
        if find_broker is None or settings.log.kind != "kafka" or settings.log.bootstrap:
            return settings
        return refined(settings, [f"log.bootstrap={find_broker()}"])

    def log_definitions(self) -> list[str]:
        """--log, --bootstrap and --log-dir as settings. Raises ``SettingsError`` if they contradict each other."""
        if self.log_dir is not None and (self.log == "kafka" or self.bootstrap is not None):
            raise SettingsError("--log-dir is of the embedded log: leave it out, or --log kafka and --bootstrap")
        if self.bootstrap is not None and self.log == "embedded":
            raise SettingsError("--bootstrap is of the log on Kafka: leave it out, or write --log kafka")
        if self.log_dir is not None:
            return ["log.kind=embedded", f"log.path={self.log_dir.absolute()}"]
        if self.bootstrap is not None:
            return ["log.kind=kafka", f"log.bootstrap={self.bootstrap}"]
        return [] if self.log is None else [f"log.kind={self.log}"]


def with_log_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the shared options to a command's own; it gets them together as its first argument, a ``GivenOptions``."""
    _, *own = inspect.signature(command, eval_str=True).parameters.values()

    @functools.wraps(command)
    def called(ctx: typer.Context, **values: Any) -> None:
        define = tuple(values.pop("define") or ())
        shared = {name: values.pop(name) for name in _SHARED if name != "define"}
        command(GivenOptions(ctx, define=define, **shared), **values)

    kind = inspect.Parameter.KEYWORD_ONLY
    shared = [inspect.Parameter(name, kind, default=None, annotation=option) for name, option in _SHARED.items()]
    last = [parameter for parameter in own if parameter.name == "as_json"]
    own = [parameter.replace(kind=kind) for parameter in own if parameter.name != "as_json"]
    last = [parameter.replace(kind=kind) for parameter in last]
    first = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [first, *own, *shared, *last]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


_SHARED = {
    "log": LogOption,
    "bootstrap": BootstrapOption,
    "log_dir": LogDirOption,
    "config": ConfigOption,
    "define": DefineOption,
    "log_level": LogLevelOption,
}


def begin(
    ctx: typer.Context,
    config: Path | None,
    define: list[str] | None,
    log_level: Level | None,
    *,
    needs_bootstrap: bool = True,
    context: Mapping[str, Any] | None = None,
) -> Settings:
    """Load the settings, set logging up, and warn of unsafe settings. Raises ``SettingsError``.

    ``context`` is part of every record that this process logs.
    """
    root = ctx.obj if isinstance(ctx.obj, GlobalOptions) else GlobalOptions()
    return settings_with_logging(
        config if config is not None else root.config,
        (*root.define, *(define or ()), *level_definition(log_level or root.log_level)),
        needs_bootstrap=needs_bootstrap,
        context=context,
    )


def settings_with_logging(
    config: Path | None = None,
    definitions: Sequence[str] = (),
    *,
    needs_bootstrap: bool = True,
    context: Mapping[str, Any] | None = None,
) -> Settings:
    """As ``begin``, of a process that has no options, or has read them."""
    from nodes.runtime.logging_setup import set_up_logging
    from nodes.settings.settings import load_settings

    settings = load_settings(config=config, definitions=definitions, needs_bootstrap=needs_bootstrap)
    set_up_logging(settings.logging.level, settings.logging.format, **(context or {}))
    for warning in settings.warnings():
        logging.getLogger(__name__).warning(warning)
    return settings


def level_definition(log_level: Level | None) -> list[str]:
    """``--log-level`` as a setting, so that child processes get it too."""
    return [] if log_level is None else [f"logging.level={log_level}"]


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
