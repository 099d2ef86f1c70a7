"""A node that was started before the command knew which (`nodes/fleet/prepared_child.py`): its argument is read."""

from __future__ import annotations

import json
import os
import sys
from typing import NoReturn

from nodes.light_start import start_lightly
from nodes.runtime.stop_signals import StopSignals


def main() -> NoReturn:
    """Import the modules of a node, wait for a line with argument and environment, and be that node. Ends without."""
    stops = StopSignals()
    stops.listen()
    start_lightly()
    import nodes.cli.node_runs
    import nodes.streams.process  # noqa: F401
    from nodes.cli.child_node import run_child

    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        sys.exit(0)
    argument, environment = json.loads(line)
    os.environ.clear()
    os.environ.update(environment)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    run_child(argument, stops)


if __name__ == "__main__":
    main()
