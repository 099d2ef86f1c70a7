"""Workloads on the plain loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transactional import Aborted, Serial
from transactional.requests.requests import WireRequest
from transactional.workloads.contract import BenchWorkload, RequestHistory, WorkloadShape, unexpected


class SerialRun:
    """One workload, loaded; time goes on by one with each request."""

    def __init__(self, workload: BenchWorkload, shape: WorkloadShape) -> None:
        self.workload = workload
        self.shape = shape
        self.serial = Serial(workload.program)
        self.history = RequestHistory()
        self.clock = 0
        for request in workload.load(shape):
            assert not isinstance(self.run(request), Aborted), request

    def run(self, request: WireRequest) -> Any:
        self.clock += 1
        return self.serial.call(request.operator, request.key, request.function, request.args, now_ms=self.clock)

    def measure(self, count: int) -> None:
        """The first requests, kept in the history."""
        for request in self.workload.requests(self.shape, 0, count):
            self.history.requests.append(request)
            self.history.sent[request.id] = self.clock
            self.history.outcomes[request.id] = self.run(request)
            self.history.answered[request.id] = self.clock - 0.5

    def wrong(self) -> list[str]:
        """The result of the workload's check."""

        def ask(requests: Sequence[WireRequest]) -> dict[str, Any]:
            return {request.id: self.run(request) for request in requests}

        return unexpected(self.workload, self.history) + self.workload.check(self.shape, self.history, ask)
