"""The console script: a process that is to be a node handles signals before anything else is imported.

A command that starts nodes has one prepared first, which imports what it needs while the command does the same.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from nodes.runtime.stop_signals import StopSignals, starts_fleet, starts_node


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command line and end the process with its exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if starts_fleet(arguments) and (os.cpu_count() or 1) > 1:
        from nodes.fleet.prepared_child import PREPARED

        with PREPARED:
            sys.exit(_run(arguments, None))
    stops = None
    if starts_node(arguments):
        stops = StopSignals()
        stops.listen()
    sys.exit(_run(arguments, stops))


def _run(arguments: Sequence[str], stops: StopSignals | None) -> int:
    try:
        from nodes.cli.main import run
    except KeyboardInterrupt:
        return 130
    return run(arguments, stops)
