"""The outermost frame of a process: which exit code an exception means, and the one line that is printed for it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from contextlib import nullcontext

import typer

from nodes.cli.output import Failure, emit_error, json_only_stdout, note
from nodes.cli.stopping import interruptible
from nodes.errors import MissingDependency, RunFailed, SettingsError, UnknownName, Unreachable

UNEXPECTED = "unexpected "
"""How the message of an unexpected error begins."""

# Distribution extras by the module that they bring.
EXTRAS = {
    "confluent_kafka": "kafka",
    "datasketches": "sketches",
    "fastavro": "avro",
    "google": "protobuf",
    "jgo": "broker",
    "matplotlib": "plots",
    "pandas": "spark",
    "prometheus_client": "metrics",
    "pyarrow": "arrow",
    "pycrdt": "yjs",
    "pyspark": "spark",
    "redis": "redis",
    "starlette": "serve",
    "uvicorn": "serve",
}


def reported(body: Callable[[], int], *, as_json: bool = False) -> int:
    """The exit code of ``body``, or of the error that it ended with, which is reported here and nowhere else."""
    with json_only_stdout() if as_json else nullcontext(), interruptible(as_json=as_json):
        try:
            exit_code, message = body(), "interrupted"
            if exit_code != 130:  # typer turns an interrupt into this code
                return exit_code
        except KeyboardInterrupt:  # outside of what typer runs
            exit_code, message = 130, "interrupted"
        except Exception as error:
            exit_code, message = classify(error)
            is_explained = not message.startswith(UNEXPECTED) and error.__cause__ is None
            if not is_explained and logging.getLogger("holon").isEnabledFor(logging.DEBUG):
                note("".join(traceback.format_exception(error)).rstrip())
        emit_error(exit_code, message, as_json=as_json)
        return exit_code


def classify(error: Exception) -> tuple[int, str]:
    """Exit code and message. An unexpected error is 1, and names how to see the traceback."""
    for kinds, exit_code in _own_errors():
        if isinstance(error, kinds):
            return exit_code, str(error)
    if isinstance(error, typer.TyperException):
        return error.exit_code, _usage(error)
    if isinstance(error, typer.Abort):
        return 130, "aborted"
    if isinstance(error, Failure):
        return error.exit_code, str(error)
    if isinstance(error, ImportError) and (missing := missing_extra(error)):
        return 3, missing
    if isinstance(error, OSError):
        return 1, str(error)
    return 1, f"{UNEXPECTED}{type(error).__name__}: {error} (add --log-level debug for the traceback)"


def missing_extra(error: ImportError) -> str | None:
    """The extra to install, where the module is of an extra of Holon's."""
    extra = EXTRAS.get((error.name or "").partition(".")[0])
    if extra is not None:
        return f"the package {error.name} is not installed: pip install 'holon-streams[{extra}]'"
    # A type that needs an extra names it in its own message.
    return str(error) if isinstance(error.__cause__, ImportError) and missing_extra(error.__cause__) else None


def _own_errors() -> list[tuple[tuple[type[Exception], ...], int]]:
    from holon.errors import UserFunctionError
    from holon.outputs.identity import IdentityError
    from nodes.checkpoints.errors import CheckpointError
    from nodes.log.contract import LogError, LogUnavailable, TopicExists, UnknownTopic
    from nodes.results.reader import PositionError
    from nodes.runtime.user_modules import ModuleHidden

    return [
        ((SettingsError, UnknownName, ModuleHidden, UnknownTopic, TopicExists), 2),
        ((MissingDependency,), 3),
        ((Unreachable, LogUnavailable), 4),
        ((RunFailed, LogError, CheckpointError, IdentityError, PositionError, UserFunctionError), 1),
    ]


def _usage(error: typer.TyperException) -> str:
    message = error.format_message().strip()
    context = getattr(error, "ctx", None)
    return (
        message
        if context is None or message.startswith("Usage: ")
        else f"{message} (see {context.command_path} --help)"
    )
