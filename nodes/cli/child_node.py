"""A node that the command of a fleet has started (`nodes/runtime/child_node.py`): one process, one argument.

Signal handlers are installed before anything else is imported, as in the console script.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from nodes.light_start import start_lightly
from nodes.runtime.stop_signals import INTERRUPTED_EXIT, StoppedEarly, StopSignals


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the node and end the process with the exit code that `holon node` has."""
    (argument,) = sys.argv[1:] if argv is None else argv
    stops = StopSignals()
    stops.listen()
    start_lightly()
    run_child(argument, stops)


def run_child(argument: str, stops: StopSignals) -> NoReturn:
    """Be the node of this argument until it ends, and the process with it."""
    from nodes.cli.errors import reported

    sys.exit(reported(lambda: _run(argument, stops)))


def _run(argument: str, stops: StopSignals) -> int:
    from nodes.cli.node_runs import run_job_node, run_program_node
    from nodes.cli.options import settings_with_logging
    from nodes.cli.output import note
    from nodes.cli.stopping import STOPPED_EARLY
    from nodes.runtime.child_node import JobNode, parse_child_node

    child = parse_child_node(argument)
    settings = settings_with_logging(context={"node": child.number})
    try:
        if isinstance(child, JobNode):
            ending, ran = run_job_node(child, settings, stops)
            note(f"node {ran.config.node}: {ending.value}")
        else:
            run_program_node(child, settings, stops)
            note(f"node {child.number}: stopped")
    except StoppedEarly:
        note(STOPPED_EARLY)
    return INTERRUPTED_EXIT if stops.interrupted else 0


if __name__ == "__main__":
    main()
