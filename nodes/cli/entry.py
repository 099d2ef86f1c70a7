"""The console script: a process that is to be a node handles signals before anything else is imported."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from nodes.runtime.stop_signals import StopSignals, starts_node


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command line and end the process with its exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    stops = None
    if starts_node(arguments):
        stops = StopSignals()
        stops.listen()
    try:
        from nodes.cli.main import run
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(run(arguments, stops))
