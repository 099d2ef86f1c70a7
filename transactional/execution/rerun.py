"""Running again what conflicted: the same on every node, from the read-set snapshots of all partitions alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from transactional.context import Call, CallChain
from transactional.epochs.messages import ReadSetSnapshot, Request
from transactional.errors import Aborted, NotShipped
from transactional.execution.execution import Execution
from transactional.execution.hanging import Hung
from transactional.execution.site import RaisedNotes, Site
from transactional.operators import Program, StateKey
from transactional.state.snapshots import PostponedState
from transactional.state.store import Store


@dataclass(frozen=True, slots=True)
class Postponed:
    """A transaction that goes into the next epoch with its TID and time.

    ``keys`` and ``prefixes`` are what it touched when it was run again: the next read-set snapshot
    has them.
    """

    tid: int
    time_ms: int
    request: Request
    keys: frozenset[StateKey]
    prefixes: frozenset[tuple[str, str]]

    def state(self) -> PostponedState:
        """For a snapshot."""
        return PostponedState(self.tid, self.time_ms, self.request, sorted(self.keys), sorted(self.prefixes))

    @classmethod
    def restored(cls, state: PostponedState) -> Postponed:
        return cls(state.tid, state.time_ms, state.request, frozenset(state.keys), frozenset(state.prefixes))


@dataclass(slots=True)
class Rerun:
    """Its outcome. ``outcomes`` in commit order, with the request of each; beside them, both by state partition."""

    outcomes: list[tuple[int, Request, bytes | Aborted]] = field(default_factory=list)
    postponed: list[Postponed] = field(default_factory=list)
    outcomes_at: dict[int, list[tuple[int, Request, bytes | Aborted]]] = field(default_factory=dict)
    writes_at: dict[int, dict[StateKey, bytes | None]] = field(default_factory=dict)


class Shipped:
    """The state that the reruns see: the read-set snapshots, and what earlier reruns wrote."""

    def __init__(self, read_sets: Sequence[ReadSetSnapshot]) -> None:
        self._known = {(operator, key): value for read_set in read_sets for operator, key, value in read_set.values}
        self._store: Store | None = None  # ordered, from the first scan on
        self._prefixes: dict[str, list[str]] = {}
        for read_set in read_sets:
            for operator, prefix in sorted(read_set.prefixes):
                self._prefixes.setdefault(operator, []).append(prefix)

    def read(self, key: StateKey) -> bytes | None:
        value = self._known.get(key)
        if value is None and key not in self._known and not self._covered(*key):
            raise NotShipped
        return value

    def scan(self, operator: str, prefix: str) -> list[tuple[str, bytes]]:
        if not self._covered(operator, prefix):
            raise NotShipped
        if self._store is None:
            self._store = Store({key: value for key, value in self._known.items() if value is not None})
        return self._store.scan(operator, prefix)

    def apply(self, writes: Mapping[StateKey, bytes | None]) -> None:
        """The values that later reruns read; a key of no read-set snapshot is known once it is written."""
        self._known.update(writes)
        if self._store is not None:
            self._store.apply(writes)

    def _covered(self, operator: str, text: str) -> bool:
        return any(text.startswith(prefix) for prefix in self._prefixes.get(operator, ()))


class _Rerunning(Execution):
    """Call chains run one after the other, on complete state: touched keys are not recorded."""

    __slots__ = ()

    def read(self, call_chain: CallChain, key: StateKey) -> bytes | None:
        if self._stopping:
            self._check(call_chain)
        if key in self.writes:
            return self.writes[key]
        try:
            return self._site.base.read(key)
        except NotShipped:
            self.missed = self._stopping = True
            raise

    def write(self, call_chain: CallChain, key: StateKey, value: bytes | None) -> None:
        if self._stopping:
            self._check(call_chain)
        self.writes[key] = value
        if value is not None:
            self._add_bytes(len(value))

    def scan(self, call_chain: CallChain, operator: str, prefix: str) -> list[tuple[str, bytes]]:
        self._call_chain = call_chain  # touched keys are not recorded
        return super().scan(call_chain, operator, prefix)

    def queue(self, call: Call) -> None:
        self._count(call)
        if self._queue is None:
            self._queue = deque((call,))
        else:
            self._queue.append(call)


def rerun(
    program: Program,
    read_sets: Sequence[ReadSetSnapshot],
    carried: Mapping[int, Postponed],
    hung: Mapping[int, Aborted],
    raised: RaisedNotes | None = None,
    *,
    place: Callable[[str, str], int] | None = None,
) -> Rerun | Hung:
    """Run all logged roots, one after the other in TID order; ``carried``: those that were postponed before.

    ``hung``: not run, with their replies. ``raised`` is notified of what functions raise. Returns the first other
    one that times out, if one does. ``place``: of keys in this epoch; None: as in the first layout.
    """
    done, place = Rerun(), program.place if place is None else place
    base = Shipped(read_sets)
    site = Site(program, base, None, raised=raised)
    writes: dict[StateKey, bytes | None] = {}
    roots = [
        (tid, time_ms, request, read_set.partition)
        for read_set in read_sets
        for tid, time_ms, request in read_set.roots
    ]
    for tid, time_ms, request, home in sorted(roots, key=_tid):
        if tid in hung:
            _end(done, tid, request, home, hung[tid])
            continue
        execution = _Rerunning(site, tid, time_ms)
        execution.start(request)
        if execution.timed_out is not None:
            return Hung(tid, request, execution.timed_out)
        if execution.missed:
            # The same once more, and what it touches is kept.
            again = Execution(Site(program, base, None), tid, time_ms)
            again.start(request)
            if again.timed_out is not None:
                return Hung(tid, request, again.timed_out)
            done.postponed.append(_postpone(again, request, carried.get(tid)))
            continue
        outcome = execution.outcome
        if not isinstance(outcome, Aborted):
            base.apply(execution.writes)
            writes.update(execution.writes)
        _end(done, tid, request, home, outcome)
    homes = {(operator, key): read_set.partition for read_set in read_sets for operator, key, _ in read_set.values}
    for key, value in writes.items():
        home = homes.get(key)
        done.writes_at.setdefault(place(*key) if home is None else home, {})[key] = value
    return done


def _end(done: Rerun, tid: int, request: Request, home: int, outcome: bytes | Aborted) -> None:
    done.outcomes.append((tid, request, outcome))
    done.outcomes_at.setdefault(home, []).append((tid, request, outcome))


def _tid(root: tuple[int, int, Request, int]) -> int:
    return root[0]


def _postpone(execution: Execution, request: Request, before: Postponed | None) -> Postponed:
    keys, prefixes = frozenset(execution.reads), frozenset(execution.scans)
    if before is not None:
        keys, prefixes = keys | before.keys, prefixes | before.prefixes
    return Postponed(execution.tid, execution.time_ms, request, keys, prefixes)
