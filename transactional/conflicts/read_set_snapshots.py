"""The values that a state partition logs for the transactions that are re-executed everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from transactional.epochs.epoch import Epoch
from transactional.epochs.messages import ReadSetSnapshot, Request
from transactional.execution.execution import Execution
from transactional.execution.site import Base
from transactional.operators import StateKey


def read_set_snapshot_of(
    number: int,
    epoch: Epoch,
    store: Base,
    executions: Mapping[int, Execution],
    rooted: Mapping[int, Request],
    place: Callable[[str, str], int],
) -> ReadSetSnapshot:
    """Of partition ``number``, whose store holds the decided writes of the epoch; ``rooted``: its requests by TID.

    ``place``: of keys in the epoch.
    """
    assert epoch.decision is not None
    keys: set[StateKey] = set()
    prefixes: set[tuple[str, str]] = set()
    roots = []
    for tid in epoch.decision.rerun:
        execution = executions.get(tid)
        if execution is not None:
            keys.update(execution.reads)
            prefixes.update(execution.scans)
            if tid in rooted:
                roots.append((tid, execution.time_ms, rooted[tid]))
        if tid in epoch.carried:
            keys.update(key for key in epoch.carried[tid].keys if place(*key) == number)
            prefixes.update(each for each in epoch.carried[tid].prefixes if place(*each) == number)
    values = {key: store.read(key) for key in sorted(keys)}
    for operator, prefix in sorted(prefixes):
        values.update({(operator, key): value for key, value in store.scan(operator, prefix)})
    rows = [(operator, key, values[operator, key]) for operator, key in sorted(values)]
    return ReadSetSnapshot(number, epoch.number, roots, rows, sorted(prefixes))
