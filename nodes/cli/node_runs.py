"""A node in this process, from its start to its end, for `holon node`, `holon txn node` and the children of a fleet."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from nodes.cli.errors import UNEXPECTED, classify
from nodes.cli.job_options import job_named, program_named
from nodes.cli.output import Failure
from nodes.runtime.stop_signals import StoppedEarly

if TYPE_CHECKING:
    from nodes.machine.effects import Ending
    from nodes.machine.node import Node
    from nodes.runtime.child_node import JobNode, ProgramNode
    from nodes.runtime.stop_signals import StopSignals
    from nodes.settings.settings import Settings

BROKEN_EXIT = 70
"""An unexpected error: a restart may help, and the traceback is worth a report."""


def run_job_node(job_node: JobNode, settings: Settings, stops: StopSignals | None) -> tuple[Ending, Node]:
    """Work on a streaming job until the node leaves or the job is done.

    Raises ``StoppedEarly`` if a signal came before the node had joined, named errors as they are, and others as a
    ``Failure`` with the traceback.
    """
    declared = job_named(job_node.job, settings)
    from nodes.streams.process import run_node

    try:
        return run_node(
            declared,
            settings,
            number=job_node.number,
            expected=job_node.expected,
            until=job_node.until,
            accept_code=job_node.accept_code,
            parent=job_node.parent,
            stops=stops,
        )
    except StoppedEarly:
        raise
    except Exception as error:
        if not classify(error)[1].startswith(UNEXPECTED):
            raise
        trace = "".join(traceback.format_exception(error)).rstrip()
        raise Failure(BROKEN_EXIT, f"node {job_node.number}: {trace}") from error


def run_program_node(program_node: ProgramNode, settings: Settings, stops: StopSignals | None) -> None:
    """Work on a transactional job until a signal ends it. Raises ``StoppedEarly`` and named errors."""
    loaded = program_named(program_node.program)
    from nodes.transactions.process import run_transaction_node

    run_transaction_node(
        loaded,
        settings,
        number=program_node.number,
        sequencers=program_node.sequencers,
        reference=program_node.program,
        accept_code=program_node.accept_code,
        parent=program_node.parent,
        stops=stops,
    )
