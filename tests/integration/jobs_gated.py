"""The job of ``jobs_mixed`` and the program of the bank, in a module that waits at the gate while it is imported."""

from __future__ import annotations

from examples.bank import program
from tests.integration.jobs_mixed import job
from tests.integration.jobs_waiting import wait_at_gate

wait_at_gate()
__all__ = ["job", "program"]
