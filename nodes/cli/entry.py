"""The console script: a process that is to be a node handles signals before anything else is imported.

A command that starts nodes has one prepared first, which imports what it needs while the command does the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NoReturn

from nodes.light_start import start_lightly
from nodes.runtime.stop_signals import StopSignals, starts_fleet, starts_node


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command line and end the process with its exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    stops = None
    if starts_node(arguments):
        stops = StopSignals()
        stops.listen()
    start_lightly()
    try:
        with _prepared_node(arguments):
            from nodes.cli.main import run

            code = run(arguments, stops)
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def _prepared_node(arguments: Sequence[str]) -> AbstractContextManager[object]:
    if not starts_fleet(arguments) or (os.cpu_count() or 1) < 2:
        return nullcontext()
    from nodes.fleet.prepared_child import PREPARED

    return PREPARED
