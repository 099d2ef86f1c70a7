"""All workloads in one program, so that a few node processes can run them side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import Any

from msgspec.structs import replace

from transactional import Aborted, Operator, Program
from transactional.requests.requests import WireRequest
from transactional.workloads.catalogue import WORKLOADS
from transactional.workloads.contract import RequestHistory, WorkloadShape, unexpected


def _all_of(programs: Sequence[Program]) -> Program:
    operators: dict[str, Operator] = {}
    errors: dict[str, type[Exception]] = {}
    for each in programs:
        for name, operator in each.operators.items():
            assert operators.setdefault(name, operator) is operator, f"two workloads have an operator {name!r}"
        errors.update(each.errors)
    return Program("workload-mix", operators.values(), errors=errors.values())


LEFT_OUT = ("chain-scattered",)
"""The operator of ``chain``, placed in another way: one program cannot hold both."""
program = _all_of([each.program for name, each in WORKLOADS.items() if name not in LEFT_OUT])

Execute = Callable[[Sequence[WireRequest]], RequestHistory]


class Mix:
    """Some workloads, of each program one; request ids carry their workload's name.

    ``execute`` runs requests and gives what came of them.
    """

    def __init__(self, shapes: dict[str, WorkloadShape]) -> None:
        self.shapes = shapes

    def load(self, execute: Execute) -> None:
        """All of them."""
        requests = [_named(name, r) for name, shape in self.shapes.items() for r in WORKLOADS[name].load(shape)]
        failed = [each for each in execute(requests).outcomes.values() if isinstance(each, Aborted)]
        assert not failed, failed[:3]

    def requests(self, count: int) -> list[WireRequest]:
        """``count`` of each, one after the other in turns."""
        columns = [
            [_named(name, r) for r in WORKLOADS[name].requests(shape, 0, count)] for name, shape in self.shapes.items()
        ]
        return [each for each in chain.from_iterable(zip_longest(*columns)) if each is not None]

    def wrong(self, done: RequestHistory, execute: Execute) -> dict[str, list[str]]:
        """By workload what its check says."""
        found = {name: self._check(name, shape, done, execute) for name, shape in self.shapes.items()}
        return {name: wrong for name, wrong in found.items() if wrong}

    def _check(self, name: str, shape: WorkloadShape, done: RequestHistory, execute: Execute) -> list[str]:
        start = len(name) + 1
        mine = RequestHistory()
        for request in done.requests:
            if request.id.startswith(f"{name}:"):
                bare = request.id[start:]
                mine.requests.append(replace(request, id=bare))
                mine.outcomes[bare] = done.outcomes[request.id]
                mine.sent[bare] = done.sent[request.id]
                mine.answered[bare] = done.answered[request.id]

        def ask(requests: Sequence[WireRequest]) -> dict[str, Any]:
            outcomes = execute([_named(name, each) for each in requests]).outcomes
            return {each[start:]: outcome for each, outcome in outcomes.items()}

        return unexpected(WORKLOADS[name], mine) + WORKLOADS[name].check(shape, mine, ask)


def _named(workload: str, request: WireRequest) -> WireRequest:
    return replace(request, id=f"{workload}:{request.id}")
