"""Exceptions of the user's functions that the program does not declare, kept until their transactions have ended so.

A reply names an exception and its arguments alone, since all nodes must agree on it. The node that ran the function
knows where in the user's code it was raised. It can report that once the transaction has ended with that exception,
since an exception of a discarded run has no effect.

Two rules for this file. No result depends on it. The kept exceptions are bounded, in number and in time.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from holon.tracebacks import encodable, frames_alone
from transactional.epochs.decision import Decision
from transactional.epochs.messages import Cut, Request
from transactional.errors import Aborted, CallFailed
from transactional.execution.site import Called, Site
from transactional.external import EXTERNAL_REQUEST

MOST_A_SECOND = 2
"""Of one function and one type of exception, by the time of the transactions."""
MOST_NOTES = 100
MAX_REPORTS = 100
PATIENCE = 2
"""So often is ``take`` called before an exception is reported whose request only another node knows."""
_SHOWN = 200
_NOT_RAISED = frozenset(
    [
        "Abort", "BadArguments", "BadValue", "CallNotAwaited", "ExternalChanged", "ExternalTimeout", "LimitExceeded",
        "TimedOut", "UnknownFunction", EXTERNAL_REQUEST,
    ]
)  # fmt: skip
"""Kinds of failures whose own text names the error and its place."""


class RaisedReport(NamedTuple):
    """For people, with the user's ``own`` frames, or with the ``whole`` traceback."""

    own: str
    whole: str


@dataclass(slots=True)
class _Note:
    where: str
    kind: str
    own: str
    whole: str
    aborted: Aborted | None = None  # the transaction has ended so, and its request is not known here
    polls: int = 0


class EndedEpoch(Protocol):
    """The ledger's view of an epoch that is over."""

    @property
    def cuts(self) -> Mapping[int, Cut]: ...
    @property
    def decision(self) -> Decision | None: ...


class EndedRun(Protocol):
    """A state partition's view of it: ``executions`` and ``roots`` by TID."""

    @property
    def site(self) -> Site: ...
    @property
    def outcomes(self) -> Sequence[tuple[int, Request, bytes | Aborted]]: ...
    @property
    def executions(self) -> Container[int]: ...
    @property
    def roots(self) -> Container[int]: ...


class Raised:
    """``note`` while functions run, ``epoch_ended`` when their transactions have ended, ``take`` now and then."""

    def __init__(self) -> None:
        self._notes: dict[int, _Note] = {}
        self._reports: list[RaisedReport] = []
        self._seconds: dict[tuple[str, str, str], tuple[int, int]] = {}
        self._here: dict[str, int] = {}

    def note(self, tid: int, time_ms: int, target: Called, error: BaseException) -> None:
        """A function has raised; maybe its caller catches it, or it is run again."""
        kind = type(error).__name__
        if isinstance(error, CallFailed):
            return
        if not self._may(target, kind, time_ms):
            self._here[kind] = time_ms // 1000
            return
        self._notes.pop(tid, None)  # the last one counts, and comes last
        while len(self._notes) >= MOST_NOTES:
            del self._notes[next(iter(self._notes))]
        self._notes[tid] = _Note(_called(target), kind, *frames_alone(error))

    def epoch_ended(self, epoch: EndedEpoch, running: EndedRun) -> None:
        """The outcomes of an epoch are known, as a state partition has them."""
        declared = running.site.program.errors
        for tid, request, outcome in running.outcomes:
            if isinstance(outcome, Aborted) or tid in self._notes:
                self._root_ended(tid, outcome, request, declared, epoch.cuts[request.sequencer].time_ms)
        if self._notes and epoch.decision is not None:
            for tid in [tid for tid in self._notes if tid in running.executions and tid not in running.roots]:
                if tid not in epoch.decision.rerun:  # else the owner of the root reports what the rerun has raised
                    self._call_ended(tid, epoch.decision.failed.get(tid))

    def _root_ended(
        self, tid: int, outcome: bytes | Aborted, request: Request, declared: Mapping[str, object], time_ms: int
    ) -> None:
        note = self._notes.pop(tid, None)
        if not isinstance(outcome, Aborted):
            return  # it was caught, or raised in a run that does not count
        aborted = f"transaction {tid}, request {_request(request)}"
        if note is not None and note.kind == outcome.kind:
            self._report(note, outcome, aborted)
        elif outcome.kind in declared or outcome.kind in _NOT_RAISED or self._here.get(outcome.kind) == time_ms // 1000:
            return  # the same was raised here so often that no more of it is kept
        elif self._may(request, outcome.kind, time_ms):
            line = f"{aborted}, was aborted by {_short(str(outcome))}; the node that ran what raised it shows where"
            self._append(RaisedReport(line, line))

    def _call_ended(self, tid: int, outcome: Aborted | None) -> None:
        note = self._notes[tid]
        if outcome is None or outcome.kind != note.kind:
            del self._notes[tid]
        else:
            note.aborted = outcome

    def take(self) -> list[RaisedReport]:
        """The exceptions to report since the last call."""
        for tid, note in list(self._notes.items()):
            note.polls += note.aborted is not None
            if note.aborted is not None and note.polls >= PATIENCE:
                del self._notes[tid]
                self._report(note, note.aborted, f"transaction {tid}")
        taken, self._reports = self._reports, []
        return taken

    def _report(self, note: _Note, outcome: Aborted, aborted: str) -> None:
        head = encodable(f"{note.where} raised {_short(str(outcome))}, which aborts {aborted}")
        self._append(RaisedReport(f"{head}\n{note.own}".rstrip(), f"{head}\n{note.whole}".rstrip()))

    def _append(self, report: RaisedReport) -> None:
        self._reports = [*self._reports[-MAX_REPORTS + 1 :], report]

    def _may(self, target: Called, kind: str, time_ms: int) -> bool:
        """Whether it is no more of the same than a person would read."""
        name, second = (target.operator, target.function, kind), time_ms // 1000
        before, count = self._seconds.get(name, (second, 0))
        count = count + 1 if before == second else 1
        if len(self._seconds) >= MOST_NOTES:
            self._seconds.clear()
            self._here.clear()
        self._seconds[name] = second, count
        return count <= MOST_A_SECOND


def _called(target: Called) -> str:
    return f"function {target.function} of operator {target.operator}, key {_short(repr(target.key))},"


def _request(request: Request) -> str:
    called = f"{request.operator} {_short(repr(request.key))} {request.function}"
    return f"{_short(repr(request.id))} ({called})"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
