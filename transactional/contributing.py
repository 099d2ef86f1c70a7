"""What a state partition says of an epoch's transactions once it has nothing more to send."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from transactional.execution import Execution
from transactional.messages import Contribution, Mark
from transactional.reservations import conflicting


def contribution_of(executions: Sequence[Execution], earlier: Iterable[Mark], share: int) -> Contribution:
    """Of executions that ascend by TID, after these marks of earlier rounds; ``share``: calls that cause no doubt."""
    dropped = {each.tid for each in executions if each.failures}
    for mark in earlier:
        if mark.contribution is not None:
            dropped.update(tid for tid, _, _ in mark.contribution.failures)
    return Contribution(
        conflicts=conflicting(executions, frozenset(dropped)),
        races=[each.tid for each in executions if each.race or each.calls > share],  # together it may be too many
        over=[each.tid for each in executions if each.over and each.timed_out is None],
        failures=[
            (each.tid, strand, aborted)
            for each in executions
            if each.failures
            for strand, aborted in sorted(each.failures)
        ],
        timed_out=[(each.tid, each.timed_out) for each in executions if each.timed_out is not None],
    )
