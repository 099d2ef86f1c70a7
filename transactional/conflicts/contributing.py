"""What a state partition says of an epoch's transactions once it has nothing more to send."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from transactional.execution import Execution
from transactional.messages import Contribution, Mark
from transactional.settling import Settled, Share

_STRAND = itemgetter(0)  # of one strand, the first counts


def dropped_by(earlier: Iterable[Mark]) -> set[int]:
    """Who has failed, by these marks."""
    dropped: set[int] = set()
    for mark in earlier:
        if mark.contribution is not None:
            dropped.update(tid for tid, _, _ in mark.contribution.failures)
    return dropped


def contribution_of(by_tid: dict[int, Execution], settled: Settled, share: Share) -> Contribution:
    """Of executions that are settled."""
    executions = [by_tid[tid] for tid in sorted(by_tid)]
    return Contribution(
        conflicts=settled.conflicts,
        reads_from=settled.reads_from,
        races=[each.tid for each in executions if each.race or share.is_exceeded_by(each)],
        over=[each.tid for each in executions if each.over and each.calls > each.program.limits.max_calls],
        failures=[
            (each.tid, strand, aborted)
            for each in executions
            if each.failures
            for strand, aborted in sorted(each.failures, key=_STRAND)
        ],
        timed_out=[(each.tid, each.timed_out) for each in executions if each.timed_out is not None],
    )
