"""The contribution of a state partition to an epoch once it has nothing more to send."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from transactional.conflicts.detection import Revalidation, Share
from transactional.epochs.messages import Contribution, RoundBarrier
from transactional.execution.execution import Execution

_CALL_CHAIN = itemgetter(0)  # of one call chain, the first counts


def dropped_by(earlier: Iterable[RoundBarrier]) -> set[int]:
    """The transactions that have failed, by these barriers."""
    dropped: set[int] = set()
    for barrier in earlier:
        if barrier.contribution is not None:
            dropped.update(tid for tid, _, _ in barrier.contribution.failures)
    return dropped


def contribution_of(by_tid: dict[int, Execution], revalidation: Revalidation, share: Share) -> Contribution:
    """Of executions that are settled."""
    executions = [by_tid[tid] for tid in sorted(by_tid)]
    return Contribution(
        conflicts=revalidation.conflicts,
        reads_from=revalidation.reads_from,
        races=[each.tid for each in executions if each.race or share.is_exceeded_by(each)],
        over=[each.tid for each in executions if each.over and each.calls > each.program.limits.max_calls],
        failures=[
            (each.tid, call_chain, aborted)
            for each in executions
            if each.failures
            for call_chain, aborted in sorted(each.failures, key=_CALL_CHAIN)
        ],
        timed_out=[(each.tid, each.timed_out) for each in executions if each.timed_out is not None],
    )
