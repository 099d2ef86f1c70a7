"""Which transactions of an epoch stand as they ran in one state partition, and which have to run again.

All first run against the state before the epoch. Then, in TID order, whoever has read what a lower TID writes runs once
more here, on that write. If it then sends what it has sent before, nobody else need know: it stands, as long as those
stand that it has read from. Else it is a conflict, and is run again everywhere.

Source: the check is Aria's; running again in place, and "as long as", are not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from transactional.execution import Execution
from transactional.messages import Request, WireCall, WireResult
from transactional.operators import StateKey
from transactional.site import Site
from transactional.versions import Versions

Received = Request | WireCall | WireResult
Sent = dict[int, list[WireCall | WireResult]]
_NONE: Mapping[StateKey, tuple[int, bytes | None]] = {}
Redo = Callable[[Execution, Versions], Execution | None]
"""Runs one once more on these versions; None: it would send something else, or does not stand for other reasons."""


@dataclass(slots=True)
class Settled:
    """``conflicts`` ascend; ``reads_from``: (TID, lower TID whose write it has read), in order."""

    conflicts: list[int] = field(default_factory=list)
    reads_from: list[tuple[int, int]] = field(default_factory=list)


def settle(executions: dict[int, Execution], dropped: Collection[int], share: int, redo: Redo | None) -> Settled:
    """Replaces what was run once more in ``executions``.

    ``dropped``: failed elsewhere. What those, conflicts, races and who has made more than ``share`` calls write, no
    transaction that is decided at once will see. Two that write a key and have not read it are no conflict: writes are
    kept in TID order (deviation from Aria and Styx, which let the lower one win).
    """
    found, versions = Settled(), Versions()
    written = versions.writers
    for tid in sorted(executions):
        execution = executions[tid]
        unread = not execution.sources and not execution.scans and written.keys().isdisjoint(execution.reads)
        if not unread and not _stands(execution, versions):
            again = redo(execution, versions) if redo is not None and may_write(execution, share) else None
            if again is None:
                found.conflicts.append(tid)
                continue
            executions[tid] = execution = again
        if execution.sources:
            found.reads_from += [(tid, source) for source in _lower_tids(execution.sources)]
        if execution.writes and tid not in dropped and may_write(execution, share):
            versions.add(execution)
    return found


def may_write(execution: Execution, share: int) -> bool:
    """Whether nothing is known here for which it will not be decided at once, to commit."""
    return not (execution.failures or execution.race or execution.over or execution.calls > share)


def _stands(execution: Execution, versions: Versions) -> bool:
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


class Redoing:
    """What the transactions of an epoch have been given and have sent in one partition, round by round."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._received: list[Iterable[tuple[int, Received]]] = []
        self._sent: list[Sent] = []
        self._still: Site | None = None  # where they run once more
        self._in_vain: set[int] = set()
        self._by_tid: dict[int, dict[int, list[Received]]] = {}  # and by round, as far as is asked for
        self._sent_by_tid: dict[int, dict[int, Sent]] = {}
        self._known = 0

    def add(self, received: Iterable[tuple[int, Received]], sent: Sent) -> None:
        """One round."""
        self._received.append(received)
        self._sent.append(sent)

    def __call__(self, old: Execution, versions: Versions) -> Execution | None:
        """As ``Redo``; once it was in vain it is so for the rest of the epoch."""
        if old.tid in self._in_vain:
            return None
        self._index()
        again = self._run(old, versions)
        if again is None:
            self._in_vain.add(old.tid)
        else:
            old.close()
            written = self.site.written
            for key in again.writes:
                if written.get(key) is old:
                    written[key] = again
        return again

    def _run(self, old: Execution, versions: Versions) -> Execution | None:
        site = self._still
        if site is None or site.versions is not versions:
            site = self._still = Site(self.site.program, self.site.base, self.site.here, versions)
        site.sent = {}
        again = Execution(site, old.tid, old.time_ms)
        sent = self._sent_by_tid.get(old.tid, {})
        for round_, items in self._by_tid[old.tid].items():
            for item in items:
                if isinstance(item, Request):
                    again.start(item)
                elif isinstance(item, WireCall) or again.waits_for(item):
                    again.take(item)
                else:
                    return _closed(again)
            if again.timed_out is not None:
                return again  # and so would everybody else's
            if again.failures or again.race or again.over or site.sent != sent.get(round_, {}):
                return _closed(again)
            site.sent = {}
        again.move_to(self.site)
        return again

    def _index(self) -> None:
        for round_ in range(self._known, len(self._received)):
            for tid, item in self._received[round_]:
                self._by_tid.setdefault(tid, {}).setdefault(round_, []).append(item)
            for to, items in self._sent[round_].items():
                for item in items:
                    by_round = self._sent_by_tid.setdefault(item.tid, {})
                    by_round.setdefault(round_, {}).setdefault(to, []).append(item)
        self._known = len(self._received)


def _closed(execution: Execution) -> None:
    execution.close()
