"""Transactions that time out only when they are run again: the log's records about them, and which nodes have to stop.

No node waits for others before it uses the results of a rerun. So a node that is interrupted there proposes the timeout
on the log. Then every partition acknowledges that it has not ended the epoch and does without that transaction; then
all run the others again. Once a barrier of a later epoch is on the log some node has ended this one, and later
proposals about it are void.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from transactional.conflicts.nondeterminism import Nondeterministic
from transactional.epochs.messages import Commit, Request, TimeoutAcknowledgement, TimeoutProposal
from transactional.errors import Aborted, RerunHangs

if TYPE_CHECKING:
    from transactional.state.snapshots import LedgerState

_NOTHING: Mapping[int, Aborted] = {}


class Hung(NamedTuple):
    """The finding of a rerun instead of an outcome."""

    tid: int
    request: Request
    failure: Aborted


class TimeoutProposals:
    """Of one ledger, after epoch ``begin``. ``closed``: by the log, a partition has ended the epochs up to this one."""

    def __init__(
        self, closed: int, records: Iterable[TimeoutProposal | TimeoutAcknowledgement] = (), begin: int = 0
    ) -> None:
        self.closed = closed
        self._begin = begin
        self._hung: dict[int, dict[int, Aborted]] = {}  # by epoch and TID, as the log has it
        self._acknowledged: dict[int, dict[int, int]] = {}  # by epoch and partition: to how many of these
        self._found: dict[int, Hung] = {}  # here, by epoch; its record has not come back
        self._unpublished: list[TimeoutProposal] = []
        for each in records:
            if isinstance(each, TimeoutProposal):
                self._hung.setdefault(each.epoch, {})[each.tid] = each.failure
            else:
                self.acknowledge(each)

    def of(self, epoch: int) -> Mapping[int, Aborted]:
        """The transactions that are not run again in this epoch, and their replies."""
        return self._hung.get(epoch, _NOTHING) if self._hung else _NOTHING

    def acknowledged(self, epoch: int, partition: int) -> int:
        """With how many of them the partition does without, by the log."""
        return self._acknowledged.get(epoch, {}).get(partition, 0)

    def holds_back(self, epoch: int, partitions: int) -> bool:
        """Whether the epoch may not be run again yet: for want of agreement, or since it timed out here."""
        if epoch in self._found:
            return True
        count = len(self.of(epoch))
        return count > 0 and any(self.acknowledged(epoch, p) < count for p in range(partitions))

    def close(self, epoch: int) -> bool:
        """A barrier of the epoch after it is on the log; True if that is new."""
        if epoch <= self.closed:
            return False
        self.closed = epoch
        return True

    def found(self, epoch: int, hung: Hung) -> None:
        """A function was interrupted here."""
        self._found[epoch] = hung
        self._unpublished.append(TimeoutProposal(hung.tid, epoch, hung.failure))

    def take_unpublished(self) -> list[TimeoutProposal]:
        """The messages for the epochs topic."""
        if not self._unpublished:
            return []
        proposal, self._unpublished = self._unpublished, []
        return proposal

    def take(self, proposal: TimeoutProposal, done: int) -> None:
        """Raises ``Nondeterministic`` where it has returned here, ``RerunHangs`` where it has elsewhere."""
        hung = self._hung.get(proposal.epoch, {})
        if proposal.tid not in hung:
            if proposal.epoch <= self.closed:
                self._void(proposal)
                return
            if proposal.epoch <= done:
                raise Nondeterministic(
                    f"epoch {proposal.epoch}: {proposal.failure} in transaction {proposal.tid} when it was run again "
                    "on another node, and here it has ended in time. It takes about as long as it may: raise "
                    "node.function_timeout_ms on all nodes",
                    (proposal.tid,),
                )
            self._hung[proposal.epoch] = {**hung, proposal.tid: proposal.failure}
        found = self._found.get(proposal.epoch)
        if found is not None and found.tid == proposal.tid:
            del self._found[proposal.epoch]

    def _void(self, proposal: TimeoutProposal) -> None:
        found = self._found.get(proposal.epoch)
        if found is not None and found.tid == proposal.tid:
            request = found.request
            raise RerunHangs(
                f"{found.failure.arguments[0]} when transaction {found.tid} was run again, and on other nodes it has "
                f"ended in time: request {request.id!r}, {request.operator}.{request.function} of key {request.key!r}. "
                "Mend the function, or raise node.function_timeout_ms on all nodes if it only takes long"
            )

    def acknowledge(self, acknowledgement: TimeoutAcknowledgement) -> None:
        """Of the log."""
        acknowledged = self._acknowledged.setdefault(acknowledgement.epoch, {})
        partition, known = acknowledgement.partition, acknowledged.get(acknowledgement.partition, 0)
        acknowledged[partition] = max(acknowledgement.count, known)

    def check(self, commit: Commit, done: int) -> None:
        """Whether a commit on the log fits the timeout proposals. Raises ``Nondeterministic`` if not."""
        hung, epoch, without = self.of(commit.epoch), commit.epoch, commit.without
        if not hung.keys() <= set(without) or (epoch <= done and len(hung) != len(without)):
            raise Nondeterministic(
                f"state partition {commit.partition}, epoch {epoch}: by its commit the transactions {[*without]} timed "
                f"out when they were run again, and by the epochs topic {[*hung]} did. They take about as long as they "
                "may: raise node.function_timeout_ms on all nodes",
                tuple(sorted(hung.keys() ^ set(without))),
            )

    def check_begun(self, partition: int, state: LedgerState) -> bool:
        """Whether no new proposal can concern the epochs that a partition's checkpoint has ended.

        Raises ``Nondeterministic`` if it has ended one with a transaction that timed out.
        """
        known = {(each.epoch, each.tid) for each in state.hanging if isinstance(each, TimeoutProposal)}
        for epoch in range(self._begin + 1, state.done + 1) if self._hung else ():
            ended_with = [tid for tid in self.of(epoch) if (epoch, tid) not in known]
            if ended_with:
                raise Nondeterministic(
                    f"state partition {partition}, epoch {epoch}: its checkpoint has ended the epoch, and by the log "
                    f"the transactions {ended_with} timed out when they were run again. They take about as long as "
                    "they may: raise node.function_timeout_ms on all nodes",
                    tuple(ended_with),
                )
        return self.closed >= state.done

    def forget(self, before: int) -> None:
        """Drop what is known of epochs before this one, but for those that later records may still concern."""
        if self._hung or self._acknowledged:
            last = min(before - 1, self.closed)
            self._hung = {epoch: each for epoch, each in self._hung.items() if epoch > last}
            self._acknowledged = {epoch: each for epoch, each in self._acknowledged.items() if epoch > last}

    def records(self) -> list[TimeoutProposal | TimeoutAcknowledgement]:
        """All of this that is on the log, for a snapshot."""
        proposals = [
            TimeoutProposal(tid, epoch, failure)
            for epoch in sorted(self._hung)
            for tid, failure in self._hung[epoch].items()
        ]
        acknowledgements = [
            TimeoutAcknowledgement(p, epoch, n)
            for epoch in sorted(self._acknowledged)
            for p, n in sorted(self._acknowledged[epoch].items())
        ]
        return [*proposals, *acknowledgements]
