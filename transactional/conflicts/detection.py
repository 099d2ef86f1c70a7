"""Which transactions of an epoch are valid as they ran in one state partition, and which have to run again.

All first run against the state before the epoch. Then, round by round and in TID order, a transaction that has read a
key of a lower TID's writes runs once more here, on that write. If it then sends the same as before, no other partition
need know. It is valid as long as those are that it has read from. Else it is a conflict, and is run again everywhere.

Source: the check is Aria's; running again in place, and "as long as", are not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from transactional.conflicts.accesses import Accesses
from transactional.conflicts.versions import Versions
from transactional.epochs.messages import Request, WireCall, WireResult
from transactional.execution.execution import Execution
from transactional.execution.site import Site
from transactional.operators import StateKey

Received = Request | WireCall | WireResult
Sent = dict[int, list[WireCall | WireResult]]
_NONE: Mapping[StateKey, tuple[int, bytes | None]] = {}
_NOTHING: Mapping[int, Sequence[WireCall | WireResult]] = {}
_NOBODY: Collection[int] = ()
Reexecute = Callable[[Execution, Versions], Execution | None]
"""Runs one once more on these versions; None: it would send something else, or is not valid for other reasons."""


@dataclass(frozen=True, slots=True)
class Share:
    """The share of its limits that a transaction may use in one partition without a doubt about the whole."""

    calls: int
    bytes: int

    def is_exceeded_by(self, execution: Execution) -> bool:
        """Whether it has done more than that here."""
        return execution.calls > self.calls or execution.bytes > self.bytes


@dataclass(slots=True)
class Revalidation:
    """``conflicts`` ascend; ``reads_from``: (TID, lower TID whose write it has read), in order.

    ``writers``: by key, the highest TID that has written it, of those that may.
    """

    conflicts: list[int] = field(default_factory=list)
    reads_from: list[tuple[int, int]] = field(default_factory=list)
    writers: Mapping[StateKey, Accesses] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Arriving:
    """The messages of other partitions in a round to transactions at ``site``, by TID.

    ``lost``: the transaction that was not valid when a message arrived for it. Its later reads may hide that.
    """

    site: Site
    items: Mapping[int, Sequence[WireCall | WireResult]]
    lost: set[int] = field(default_factory=set)

    def take(self, tid: int, execution: Execution | None) -> Execution:
        """Give the transaction its own."""
        items = self.items[tid]
        if execution is None:
            first = items[0]
            assert isinstance(first, WireCall), f"partition {self.site.here}: a result for nobody: {first}"
            execution = Execution(self.site, tid, first.time_ms)
        for item in items:
            execution.take(item)
        return execution


def revalidate(
    executions: dict[int, Execution],
    dropped: Collection[int],
    share: Share,
    reexecute: Reexecute | None,
    arriving: Arriving | None = None,
) -> Revalidation:
    """Replaces what was run once more in ``executions``, and adds what arrives, in TID order.

    So what arrives runs on what lower TIDs have written by now, and need not be run once more for that. ``dropped``:
    failed elsewhere. No transaction that is decided at once reads the writes of those, of conflicts, of races, and of
    transactions that have used more than their ``share``. Two that write a key and have not read it are no conflict:
    writes are kept in TID order (deviation from Aria and Styx, which let the lower one win).
    """
    versions = Versions()
    found = Revalidation(writers=versions.writers)
    written, tids = versions.writers, executions.keys()
    items, lost = _NOTHING, _NOBODY
    if arriving is not None:
        items, lost = arriving.items, arriving.lost
        arriving.site.versions, arriving.site.written = versions, written
        tids = tids | items.keys()
    for tid in sorted(tids):
        execution, is_valid = executions.get(tid), tid not in lost
        if execution is not None and is_valid:
            unread = not execution.sources and not execution.scans and written.keys().isdisjoint(execution.reads)
            if not unread and not _is_valid(execution, versions):
                again = (
                    reexecute(execution, versions) if reexecute is not None and may_write(execution, share) else None
                )
                is_valid = again is not None
                if again is not None:
                    executions[tid] = execution = again
        if arriving is not None and tid in items:
            if not is_valid:
                arriving.lost.add(tid)
            executions[tid] = execution = arriving.take(tid, execution)
        assert execution is not None
        if not is_valid:
            found.conflicts.append(tid)
            continue
        if execution.sources:
            found.reads_from += [(tid, source) for source in _lower_tids(execution.sources)]
        if execution.writes and tid not in dropped and may_write(execution, share):
            versions.add(execution)
    return found


def may_write(execution: Execution, share: Share) -> bool:
    """Whether nothing is known here for which it will not be decided at once, to commit."""
    return not (execution.failures or execution.race or execution.over or share.is_exceeded_by(execution))


def _is_valid(execution: Execution, versions: Versions) -> bool:
    """Whether it has read what the highest lower TID that may write has written."""
    sources, written = execution.sources or _NONE, versions.writers
    for key, (tid, value) in sources.items():
        writer = written.get(key)
        if writer is None or writer.tid != tid or writer.writes[key] != value:
            return False
    for key in execution.reads:
        if key in written and key not in sources:
            return False
    return all(key in sources for scan in execution.scans for key in versions.under(*scan))


def _lower_tids(sources: Mapping[StateKey, tuple[int, bytes | None]]) -> list[int]:
    return sorted({tid for tid, _ in sources.values()}) if len(sources) > 1 else [tid for tid, _ in sources.values()]


class Reexecution:
    """The inputs and messages of an epoch's transactions in one partition, round by round, by TID."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._received: list[Iterable[tuple[int, Received]]] = []
        self._sent: list[Sent] = []
        self._still: Site | None = None  # where they run once more
        self._in_vain: set[int] = set()
        self._rounds: list[_Round] = []  # as far as requested

    def add(self, received: Iterable[tuple[int, Received]], sent: Sent) -> None:
        """One round; both ascend by TID."""
        self._received.append(received)
        self._sent.append(sent)

    def __call__(self, old: Execution, versions: Versions) -> Execution | None:
        """As ``Reexecute``; once it was in vain it is so for the rest of the epoch."""
        if old.tid in self._in_vain:
            return None
        for number in range(len(self._rounds), len(self._received)):
            self._rounds.append(_Round(self._received[number], self._sent[number]))
        again = self._run(old, versions)
        if again is None:
            self._in_vain.add(old.tid)
        else:
            old.close()
        return again

    def _run(self, old: Execution, versions: Versions) -> Execution | None:
        site = self._still
        if site is None or site.versions is not versions:
            site = self._still = Site(self.site.program, self.site.base, self.site.here, versions)
            site.places = self.site.places
        site.sent = {}
        again, tid = Execution(site, old.tid, old.time_ms), old.tid
        for round_ in self._rounds:
            items = round_.received_by(tid)
            if not items:
                continue
            for item in items:
                if isinstance(item, Request):
                    again.start(item)
                elif isinstance(item, WireCall) or again.waits_for(item):
                    again.take(item)
                else:
                    return _closed(again)
            if again.timed_out is not None:
                return again  # and so would everybody else's
            if again.failures or again.race or again.over or site.sent != round_.sent_by(tid):
                return _closed(again)
            site.sent = {}
        again.move_to(self.site)
        return again


class _Round:
    """Finds what one transaction was given and has sent."""

    def __init__(self, received: Iterable[tuple[int, Received]], sent: Sent) -> None:
        self._received = list(received)
        self._tids = [tid for tid, _ in self._received]
        self._sent = [(to, items, [item.tid for item in items]) for to, items in sent.items()]

    def received_by(self, tid: int) -> list[Received]:
        first = bisect_left(self._tids, tid)
        return [item for _, item in self._received[first : bisect_right(self._tids, tid, first)]]

    def sent_by(self, tid: int) -> Sent:
        found: Sent = {}
        for to, items, tids in self._sent:
            first = bisect_left(tids, tid)
            if first < len(tids) and tids[first] == tid:
                found[to] = items[first : bisect_right(tids, tid, first)]
        return found


def _closed(execution: Execution) -> None:
    execution.close()
