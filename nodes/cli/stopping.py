"""How the command of a node ends that a signal has asked to leave: 0, or 130 after Ctrl-C."""

from __future__ import annotations

from typing import NoReturn

import typer

from nodes.cli.output import note
from nodes.runtime.stop_signals import INTERRUPTED_EXIT, StopSignals


def end_early(stops: StopSignals | None) -> NoReturn:
    """Of a process that had not become a node yet."""
    note("stopped before it had joined the job: there is nothing to hand over")
    end_if_interrupted(stops)
    raise typer.Exit(0)


def end_if_interrupted(stops: StopSignals | None) -> None:
    """After Ctrl-C, however orderly the node has left."""
    if stops is not None and stops.interrupted:
        raise typer.Exit(INTERRUPTED_EXIT)
