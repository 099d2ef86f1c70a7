"""Outcomes of the transactions of a node's partitions: plain counters, added up once an epoch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from transactional.epochs.epoch import Epoch
from transactional.errors import Aborted
from transactional.external import is_external_request

MOST_REASONS = 64
"""Reasons are names of exceptions; what comes after so many of them is counted together."""
OTHER_REASONS = "(other)"


@dataclass(slots=True)
class TransactionTally:
    """Of transactions that are rooted in the partitions that count here; work made again included.

    ``aborted``: by the name of the exception. ``external_requests``: ended for an external call, and
    run anew with the answer.
    """

    epochs: int = 0
    committed: int = 0
    aborted: dict[str, int] = field(default_factory=dict)
    external_requests: int = 0
    rerun: int = 0
    postponed: int = 0
    replies: int = 0

    def epoch(self, epoch: Epoch, outcomes: Sequence[bytes | Aborted], roots: Collection[int]) -> int:
        """One partition has completed an epoch, with these outcomes of ``roots``; gives how many have committed."""
        assert epoch.decision is not None and epoch.outcome is not None, f"epoch {epoch.number} is not over"
        failures = [outcome for outcome in outcomes if isinstance(outcome, Aborted)]
        committed = len(outcomes) - len(failures)
        self.epochs += 1
        self.committed += committed
        if epoch.decision.rerun:
            mine = frozenset(roots)
            self.rerun += len(mine.intersection(epoch.decision.rerun))
            self.postponed += len(mine.intersection([each.tid for each in epoch.outcome.postponed]))
        self._failures(failures)
        return committed

    def _failures(self, failures: Sequence[Aborted]) -> None:
        for failure in failures:
            if is_external_request(failure):
                self.external_requests += 1
                continue
            known = failure.kind in self.aborted or len(self.aborted) < MOST_REASONS
            reason = failure.kind if known else OTHER_REASONS
            self.aborted[reason] = self.aborted.get(reason, 0) + 1
