"""A workload: a program, its requests as functions of seed and number, and what must hold after them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from transactional.errors import Aborted
from transactional.operators import Program, StateKey
from transactional.requests.requests import WireRequest

Send: TypeAlias = Callable[[Sequence[WireRequest]], dict[str, Any]]
"""Runs requests, and gives their outcomes by id."""


@dataclass(frozen=True, slots=True)
class WorkloadShape:
    """``size`` counts what the workload defines; ``zipf`` is the skew of its hot choice, 0 is uniform.

    ``scale``: of TPC-C, the share of the specification's customers and items. ``depth`` and ``remote``: of ``chain``,
    calls within calls, and the share of transactions over several partitions.
    """

    size: int
    zipf: float = 0.0
    seed: int = 1
    scale: float = 0.01
    depth: int = 1
    remote: float = 1.0


@dataclass(slots=True)
class RequestHistory:
    """The requests and their replies. ``sent`` and ``answered`` by request id, in seconds of one clock.

    ``due``: where requests come at a rate, when each had its turn; latency counts from then, so that a client that is
    late hides nothing.
    """

    requests: list[WireRequest] = field(default_factory=list)
    outcomes: dict[str, Any] = field(default_factory=dict)
    sent: dict[str, float] = field(default_factory=dict)
    answered: dict[str, float] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)

    def committed(self, *functions: str) -> list[tuple[WireRequest, Any]]:
        """Requests of these functions (none named: of all) that were not aborted, with their results."""
        return [
            (request, outcome)
            for request in self.requests
            if (not functions or request.function in functions)
            and not isinstance(outcome := self.outcomes[request.id], Aborted)
        ]

    def before(self, first: str, then: str) -> bool:
        """Whether one request was answered before the other was sent."""
        return self.answered[first] < self.sent[then]


@dataclass(frozen=True, slots=True)
class FirstState:
    """The state that ``load`` makes, for checkpoints with which nodes begin: of what is too much to be sent.

    ``value``: of one of the ``keys``, as it is stored.
    """

    keys: Callable[[WorkloadShape], Iterable[StateKey]]
    value: Callable[[StateKey], bytes]


@dataclass(frozen=True, slots=True)
class BenchWorkload:
    """``reference`` is where a node process finds the program; ``size`` the default of ``counts``.
    ``smallest``: the least size that makes sense.

    ``load`` are the requests that make the first state; ``requests(shape, first, count)`` those that are measured.
    ``check`` returns violations after all of them were answered, each in a sentence; none: the invariants hold.
    ``expected_aborts``: what transactions may end with, by the workload's own rules. ``first_state``: nodes begin with
    it, and ``load`` is not sent.
    """

    name: str
    program: Program
    reference: str
    size: int
    counts: str
    load: Callable[[WorkloadShape], list[WireRequest]]
    requests: Callable[[WorkloadShape, int, int], list[WireRequest]]
    check: Callable[[WorkloadShape, RequestHistory, Send], list[str]]
    expected_aborts: tuple[str, ...] = ()
    smallest: int = 1
    first_state: FirstState | None = None


def unexpected(workload: BenchWorkload, history: RequestHistory) -> list[str]:
    """Aborts that the workload's rules do not explain."""
    kinds: dict[str, tuple[int, Aborted]] = {}
    for outcome in history.outcomes.values():
        if isinstance(outcome, Aborted) and outcome.kind not in workload.expected_aborts:
            kinds[outcome.kind] = kinds.get(outcome.kind, (0, outcome))[0] + 1, outcome
    return [f"{count} transactions ended with {kind}, such as {one}" for kind, (count, one) in sorted(kinds.items())]


def different(what: str, found: object, expected: object) -> list[str]:
    """A sentence if the two differ."""
    return [] if found == expected else [f"{what} is {found!r}, and {expected!r} follows from the replies"]
