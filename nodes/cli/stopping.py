"""How commands end that a signal has stopped: of a node with 0, or 130 after Ctrl-C; of others with 130."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import typer

from nodes.cli.output import emit_error, note
from nodes.runtime.stop_signals import INTERRUPTED_EXIT, KeptSignals, StopSignals

STOPPED_EARLY = "stopped before it had joined the job: there is nothing to hand over"


def end_early(stops: StopSignals | None) -> NoReturn:
    """Of a process that had not become a node yet."""
    note(STOPPED_EARLY)
    end_if_interrupted(stops)
    raise typer.Exit(0)


def end_if_interrupted(stops: StopSignals | None) -> None:
    """After Ctrl-C, however orderly the node has left."""
    if stops is not None and stops.interrupted:
        raise typer.Exit(INTERRUPTED_EXIT)


class StopRequests(KeptSignals):
    """SIGTERM and SIGINT of a command that works until one comes: what it has in hand is finished."""

    def end_if_interrupted(self) -> None:
        """After Ctrl-C, however orderly the command has ended."""
        if self.first == signal.SIGINT:
            raise typer.Exit(INTERRUPTED_EXIT)


@contextmanager
def interruptible(*, as_json: bool) -> Iterator[None]:
    """Ctrl-C ends the command, also where it runs a job's function: all that this raises is the record's failure."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return

    def interrupted(number: int, frame: FrameType | None) -> None:
        job_code = sys.modules.get("holon.tracks.job_code")
        if job_code is None or job_code.JOB_CODE.track is None:
            raise KeyboardInterrupt
        emit_error(INTERRUPTED_EXIT, "interrupted", as_json=as_json)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED_EXIT)

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
