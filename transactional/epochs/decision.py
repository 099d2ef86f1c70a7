"""The outcome of an epoch's transactions at once: the join of the contributions of all state partitions."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from transactional.epochs.messages import Contribution
from transactional.errors import Aborted
from transactional.execution.execution import too_many_calls
from transactional.operators import Program


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of an epoch's transactions at once; a transaction in neither commits."""

    rerun: tuple[int, ...]
    failed: dict[int, Aborted]


def decide(program: Program, contributions: list[Contribution | None]) -> Decision:
    """The join of all contributions: abort sets by union; of several failures the first in the order of call chains.

    A transaction that has read from one that does not commit at once is in the abort set too.
    """
    conflicts: set[int] = set()
    races: set[int] = set()
    over: set[int] = set()
    timed_out: dict[int, Aborted] = {}
    first: dict[int, tuple[tuple[int, tuple[tuple[int, ...], ...]], Aborted]] = {}
    for part in contributions:
        assert part is not None, "an epoch is decided by barriers that all have a contribution"
        conflicts.update(part.conflicts)
        races.update(part.races)
        over.update(part.over)
        timed_out = {**dict(part.timed_out), **timed_out}
        for tid, call_chain, aborted in part.failures:
            order = len(call_chain), call_chain
            if tid not in first or order < first[tid][0]:
                first[tid] = order, aborted
    gone = conflicts | races | over | timed_out.keys() | first.keys()
    if gone:
        for tid, source in sorted(chain.from_iterable(part.reads_from for part in contributions if part is not None)):
            if source in gone:  # its own fate is known, since it is lower
                conflicts.add(tid)
                gone.add(tid)
    again = (conflicts | (races - over)) - timed_out.keys()  # what has timed out is never run again
    failed = {tid: aborted for tid, (_, aborted) in sorted(first.items()) if tid not in again}
    for tid in sorted(over - again):
        failed[tid] = too_many_calls(program)
    failed.update(timed_out)
    return Decision(tuple(sorted(again)), failed)
