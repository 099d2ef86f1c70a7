"""Styx's two phases of commit as a slow reference: first what does not conflict, then the rest under locks.

Source: Styx, sections 6.1 and 6.2. Locks are taken in TID order, and whoever holds all of theirs may run, in any order.
A transaction that touches what it has not locked does nothing and goes into the next epoch, TID kept.
"""

from __future__ import annotations

from random import Random

from transactional import Aborted, Program
from transactional.execution.execution import Execution
from transactional.execution.site import Site
from transactional.operators import StateKey, Target
from transactional.state.store import Store

Prefix = tuple[str, str]


class LockFallback:
    """One state, epoch by epoch. ``outcomes`` are in commit order."""

    def __init__(self, program: Program, draw: Random) -> None:
        self.program = program
        self.draw = draw
        self.store = Store()
        self.carried: list[tuple[int, Target]] = []
        self.outcomes: list[tuple[int, Target, bytes | Aborted]] = []
        self.under_locks = 0
        self.rescheduled = 0

    def epoch(self, requests: list[tuple[int, Target]]) -> None:
        """``requests`` with their TIDs, which are above all before."""
        todo = dict(sorted([*self.carried, *requests]))
        runs = {tid: self._run(tid, target) for tid, target in todo.items()}
        waiting: dict[int, Execution] = {}
        written: set[StateKey] = set()
        for tid, run in runs.items():
            if _touches(run, written):
                waiting[tid] = run
            else:
                self.outcomes.append((tid, todo[tid], run.outcome))
            written.update(run.writes)
        for tid in sorted(runs.keys() - waiting.keys()):
            self._keep(runs[tid])
        done = {tid: run for tid, run in self._locked(waiting, todo).items() if run is not None}
        self.outcomes += [(tid, todo[tid], done[tid].outcome) for tid in sorted(done)]
        self.carried = [(tid, todo[tid]) for tid in waiting if tid not in done]
        self.under_locks += len(done)
        self.rescheduled += len(self.carried)

    def _run(self, tid: int, target: Target) -> Execution:
        execution = Execution(Site(self.program, self.store, None), tid, 0)
        execution.start(target)
        return execution

    def _keep(self, run: Execution) -> None:
        if not isinstance(run.outcome, Aborted):
            self.store.apply(run.writes)

    def _locked(self, waiting: dict[int, Execution], todo: dict[int, Target]) -> dict[int, Execution | None]:
        """By TID what became of it under the locks; None: it touched more than it had locked."""
        ended: dict[int, Execution | None] = {}
        while len(ended) < len(waiting):
            open_ = [tid for tid in waiting if tid not in ended]
            free = [tid for tid in open_ if not any(_collide(waiting[o], waiting[tid]) for o in open_ if o < tid)]
            assert free, f"deadlock among {open_}"
            tid = self.draw.choice(free)
            run = self._run(tid, todo[tid])
            ended[tid] = run if _within(run, waiting[tid]) else None
            if ended[tid] is not None:
                self._keep(run)
        return ended


def _touches(run: Execution, written: set[StateKey]) -> bool:
    return bool(written & {*run.reads, *run.writes}) or any(_covers(run, key) for key in written)


def _covers(run: Execution, key: StateKey) -> bool:
    return any(key[0] == operator and key[1].startswith(prefix) for operator, prefix in run.scans)


def _collide(one: Execution, other: Execution) -> bool:
    """Whether their locks exclude each other: one of the two writes what both touch."""
    return _touches(other, set(one.writes)) or _touches(one, set(other.writes))


def _within(run: Execution, locks: Execution) -> bool:
    """Whether it has touched nothing but what was locked for it."""
    read = {*locks.reads, *locks.writes}
    return (
        set(run.writes) <= set(locks.writes)
        and all(key in read or _covers(locks, key) for key in run.reads)
        and set(run.scans) <= set(locks.scans)
    )
