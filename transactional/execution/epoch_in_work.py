"""The state of a state partition in the epoch in work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from transactional.conflicts.contributing import contribution_of, dropped_by
from transactional.conflicts.detection import Arriving, Reexecution, Revalidation, Share, revalidate
from transactional.epochs.decision import Decision
from transactional.epochs.epoch import Epoch
from transactional.epochs.messages import Contribution, Crashes, Request, WireCall, WireResult
from transactional.errors import Aborted
from transactional.execution.execution import Execution
from transactional.execution.site import Site
from transactional.operators import StateKey


@dataclass(slots=True)
class RunningEpoch:
    """``round``: the last one that ran here."""

    site: Site
    reexecution: Reexecution
    round: int = 0
    executions: dict[int, Execution] = field(default_factory=dict)
    roots: dict[int, Request] = field(default_factory=dict)
    aside: list[Request] = field(default_factory=list)  # duplicates and refusals
    outcomes: list[tuple[int, Request, bytes | Aborted]] = field(default_factory=list)
    writes: dict[StateKey, bytes | None] = field(default_factory=dict)
    committed: bool = False
    read_set_logged: bool = False
    acknowledged: int = 0  # to how many timeout proposals
    revalidation: Revalidation | None = None
    dropped: set[int] = field(default_factory=set)  # when they were settled
    lost: set[int] = field(default_factory=set)
    without: int = 0  # verdicts that it goes by

    def leave_out(self, accused: Mapping[int, Crashes]) -> None:
        """In the round that begins, nothing of those counts any more whose functions end their process in it."""
        for tid, crashes in accused.items():
            if crashes.round == self.round + 1:
                self.executions.setdefault(tid, Execution(self.site, tid, 0)).end_with(crashes.failure)

    def revalidate(self, epoch: Epoch, share: Share, arriving: Mapping[int, Sequence[WireCall | WireResult]]) -> None:
        """After the last round, and with what the others have sent in it; without that, only if it may matter."""
        rounds = range(1, self.round + 1)
        dropped = dropped_by(barrier for round_ in rounds for barrier in epoch.barriers[round_].values())
        if arriving or self.revalidation is None or dropped != self.dropped:
            self.dropped = dropped
            self.revalidation = revalidate(
                self.executions, dropped, share, self.reexecution, Arriving(self.site, arriving, self.lost)
            )

    def contribution(self, share: Share) -> Contribution:
        """The partition's contribution to the epoch where it sends nothing in a round."""
        if self.revalidation is None:
            self.revalidation = revalidate(self.executions, self.dropped, share, self.reexecution)
        return contribution_of(self.executions, self.revalidation, share)

    def commit(self, decision: Decision) -> None:
        """The writes of what is decided, and its outcomes, both in TID order."""
        again, failed, executions = frozenset(decision.rerun), decision.failed, self.executions
        if again or failed or self.revalidation is None:
            for tid in sorted(executions):
                if tid not in again and tid not in failed:
                    self.writes.update(executions[tid].writes)
        else:  # all commit
            self.writes.update((key, writer.writes[key]) for key, writer in self.revalidation.writers.items())
        for tid, request in self.roots.items():
            if tid not in again:
                result = failed.get(tid) if tid in failed else executions[tid].result
                assert result is not None, f"transaction {tid} has committed without a result"
                self.outcomes.append((tid, request, result))
        self.committed = True
