"""The common part of `holon run` and `holon node`: the job's name on the command line, and its errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from nodes.cli.errors import missing_extra
from nodes.cli.output import Failure, note
from nodes.errors import UnknownName
from nodes.runtime.user_modules import ModuleHidden

if TYPE_CHECKING:
    from holon.dataflow.flow import Flow
    from holon.job import Job
    from nodes.settings.settings import Settings
    from transactional.operators import Program

T = TypeVar("T")
JobArgument = Annotated[str, typer.Argument(metavar="MODULE:JOB", help="A Job, a Flow, or a function that gives one.")]
AcceptCodeOption = Annotated[
    bool, typer.Option("--accept-code", help="Go on with changed code on the state that the old code made.")
]
OnErrorOption = Annotated[
    Literal["fail", "dead-letter"] | None,
    typer.Option("--on-error", help="When the job's function fails on a record (default: as the job declares)."),
]
SHOWN = 5
ReplicasOption = Annotated[
    int | None,
    typer.Option(
        "--replicas", min=1, help="Replicas of each partition in all; the same for all nodes (node.replicas)."
    ),
]


def node_definitions(on_error: Literal["fail", "dead-letter"] | None, replicas: int | None) -> list[str]:
    """``--on-error`` and ``--replicas`` as settings, so that child processes get them too."""
    given = {"node.on_error": on_error, "node.replicas": replicas}
    return [f"{name}={value}" for name, value in given.items() if value is not None]


def job_named(reference: str, settings: Settings) -> Job:
    """Import the job, under the settings' policy. An error in it ends the command with 2 and its traceback."""
    from nodes.streams.jobs import load_job, with_policy

    return imported(reference, lambda: with_policy(load_job(reference), settings.node.on_error))


def flow_named(reference: str) -> Flow:
    """Import a flow, as ``job_named`` does a job."""
    from nodes.streams.jobs import load_flow

    return imported(reference, lambda: load_flow(reference))


def program_named(reference: str) -> Program:
    """Import a transactional program, as ``job_named`` does a job."""
    from nodes.transactions.process import load_program

    return imported(reference, lambda: load_program(reference))


def imported(reference: str, load: Callable[[], T]) -> T:
    """The result of ``load``. An error of the user's module ends the command with 2 and shows the user's frames."""
    from holon.errors import HolonError

    try:
        return load()
    except (UnknownName, ModuleHidden):
        raise
    except HolonError as error:
        raise Failure(2, f"{reference}: {error}") from error
    except ImportError as error:
        missing = missing_extra(error)
        raise Failure(2 if missing is None else 3, missing or _not_imported(reference, error)) from error
    except (Exception, SystemExit) as error:  # the user's module runs while it is imported
        raise Failure(2, _not_imported(reference, error)) from error


def _not_imported(reference: str, error: BaseException) -> str:
    from holon.errors import described
    from holon.tracebacks import own_frames

    return f"{reference} could not be imported: {described(error)}\n{own_frames(error)}"


def note_unknown(unknown: Sequence[str]) -> None:
    """Print what the code uses that no fingerprint can hold: a change of it is not noticed."""
    if unknown:
        shown = "; ".join(unknown[:SHOWN]) + (f"; and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else "")
        note(f"not part of the code's fingerprint, so that a change is not noticed: {shown}")
