"""Candidate (a) of online moves, a thin slice of it: all keys change home at once, and missing ones are requested.

Source: Styx, section 8.3, Algorithm 4, on the rounds of an epoch. A partition that has no row of a called entity holds
the call, and requests the row from the former home in the same round. The row comes in the next but one, and the call
goes on. A call names its entity, so no function is begun in vain. A function that scans is held until its whole group
has come: a real slice would learn that by a run in vain. In each round one partition of each node sends a batch of
what was not requested yet. It is named before the barrier of the round, and counts from the next one on. So batches
add no round.

In its favour: remembered replies do not move at all, and no owner is followed by another one. Partitions may become
more, and not fewer: those that the new layout leaves out take no part in rounds, and could answer nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any
from unittest.mock import patch

from deploy.bench.candidates.arriving_store import NO_TRANSACTION, REQUEST, ArrivingStore, Counts, Released, group_of
from transactional.conflicts.detection import Reexecution
from transactional.conflicts.versions import Versions
from transactional.context import CallChain, Path
from transactional.epochs.appends import Append, AppendCalls, AppendEpochs
from transactional.epochs.copies import SLICE_ROWS, Copies
from transactional.epochs.epoch import Epoch
from transactional.epochs.layout_messages import Copied, Handover, copies_epoch
from transactional.epochs.messages import CallMessage, Calls, MovedState, Request, WireCall, WireResult, to_bytes
from transactional.errors import Aborted
from transactional.execution.execution import Execution
from transactional.layout_history import Change
from transactional.operators import StateKey, Target
from transactional.state.partition import StatePartition
from transactional.state.values import digest

_ROUND_BITS = 20


class CountedReexecution(Reexecution):
    """Counts what runs once more."""

    counts = Counts()

    def __call__(self, old: Execution, versions: Versions) -> Execution | None:
        self.counts.ran_again += 1
        return super().__call__(old, versions)


class OnDemandExecution(Execution):
    """Holds what needs a row that is not here."""

    __slots__ = ()

    def start(self, root: Request | Target) -> None:
        if isinstance(root, Request):
            store: ArrivingStore = self._site.base  # type: ignore[assignment]
            if store.hold(root.operator, root.key, root.function, Released(self.tid, root)):
                return
        super().start(root)

    def take(self, item: Any) -> None:
        if isinstance(item, Released):
            super().start(item.root)
        else:
            super().take(item)

    def _elsewhere(self, target: Target) -> int | None:
        to = super()._elsewhere(target)
        store: ArrivingStore = self._site.base  # type: ignore[assignment]
        return self._site.here if to is None and store.detours(self.tid, target) else to

    def _finish(self, call_chain: CallChain, path: Path, caller: int | None, outcome: bytes | Aborted) -> None:
        waits = caller is not None and caller == self._site.here and self._waiting
        if not waits or (segment := waits.pop((call_chain, path), None)) is None:
            super()._finish(call_chain, path, caller, outcome)
        elif isinstance(outcome, Aborted):
            self._resume(segment, WireResult(self.tid, call_chain, path, None, outcome))
        else:
            self._resume(segment, WireResult(self.tid, call_chain, path, outcome, None))


class Marks(Copies):
    """The batches of all partitions: each is named on the epochs topic before its sender's first barrier."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.by_source: dict[int, list[Copied]] = {}
        self.searcher: int | None = None
        """The partition of this node that looks for what leaves: one at a time, as with copies."""

    def take(self, batch: Copied) -> bool:
        mine = self.by_source.setdefault(batch.partition, [])
        if batch.index == len(mine):  # else this node has made it
            mine.append(batch)
        return True


class OnDemandPartition(StatePartition):
    """``batch_bytes``: of rows that one partition of a node sends in a round."""

    batch_bytes = 1 << 18
    store: ArrivingStore

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.store.number = self.number
        self._search: Iterator[None] | None = None
        self._leaving: list[tuple[int, StateKey]] = []
        self._sent: list[StateKey] = []  # in the batch of the round before
        self._taken: dict[int, int] = {}  # batches of each former home
        self._sends = False

    @property
    def marks(self) -> Marks:
        copies = self.ledger.copies
        assert isinstance(copies, Marks)
        return copies

    @property
    def has_all(self) -> bool:
        """Whether each key is where it lives."""
        change = self.store.change
        return change is not None and self.store.finished.issuperset(change.sources)

    @property
    def is_sending(self) -> bool:
        return self._search is not None

    def advance(self, out: list[Append]) -> bool:
        if self._search is not None and self.marks.searcher in (None, self.number):
            self.marks.searcher = self.number
            if next(self._search, self) is self:
                self._search = self.marks.searcher = None
                self._leaving.sort(reverse=True)
        return super().advance(out)

    def _change_homes(self, out: list[Append]) -> bool:
        change = self.ledger.layouts.change(self.epoch)
        assert change is not None
        self._moves.done_before, self.store.change = self.epoch, change
        if self.number in change.sources:
            self._search, self._sends = self._find(change), True
        return True

    def _find(self, change: Change) -> Iterator[None]:
        keys, groups = iter(self.store.keys()), dict[str, list[StateKey]]()
        while some := list(islice(keys, SLICE_ROWS)):
            for key, to in zip(some, change.after.place_all(some), strict=True):
                if to != self.number:
                    self._leaving.append((to, key))
                    if self.store.by_group:
                        groups.setdefault(group_of(key), []).append(key)
            yield
        self.store.keys_of_groups = groups if self.store.by_group else None

    # --- batches ----------------------------------------------------------------------------------------------------

    def _first_round(self, epoch: Epoch, out: list[Append]) -> bool:
        if self.store.change is not None and self.ledger.done >= self.epoch - 1 and not self._take_batches():
            return False
        return super()._first_round(epoch, out)

    def _next_round(self, epoch: Epoch, out: list[Append]) -> bool:
        barriers = epoch.barriers.get(self._running.round, {})
        if self.store.change is not None and len(barriers) == self._shares.partitions and not self._take_batches():
            return False
        return super()._next_round(epoch, out)

    @property
    def _now(self) -> int:
        """The round that comes next, as a number that ascends over epochs too."""
        return (self.epoch << _ROUND_BITS) + self._running.round + 1

    def _take_batches(self) -> bool:
        """Take those of rounds before the one that begins; False: some were not read yet."""
        for source, marks in sorted(self.marks.by_source.items()):
            for mark in marks[self._taken.get(source, 0) :]:
                if mark.as_of >= self._now:
                    break
                found = self.received.moved([Handover(source, self.epoch, mark.layout, mark.sends, 0, 0, 0)])
                if found is None:
                    return False
                for each in found:
                    self.store.arrive_batch(each.rows.items())
                self._taken[source] = mark.index + 1
                if mark.end is None:
                    self.store.finished.add(source)
        return True

    def _send_batch(self, out: list[Append]) -> None:
        self.store.leave(self._sent)
        self._sent, marks = [], self.marks
        if not self._sends or self._search is not None or marks.sender not in (None, self.number):
            return
        marks.sender = self.number
        rows: dict[int, list[tuple[str, str, bytes | None]]] = {}
        size, to, key = 0, -1, ("", "")
        while self._leaving and size < self.batch_bytes:
            to, key = self._leaving.pop()
            if (value := self.store.items.get(key)) is not None:  # else it was requested
                rows.setdefault(to, []).append((*key, value))
                self._sent.append(key)
                size += len(key[0]) + len(key[1]) + len(value)
        change, sends = self.store.change, []
        assert change is not None
        index, layout = len(marks.by_source.get(self.number, ())), change.after.number
        for to, some in sorted(rows.items()):
            data = to_bytes(MovedState(self.number, copies_epoch(layout), index, some))
            sends.append((to, digest(data)))
            out.append(AppendCalls(to, data))
            self.store.counts.batch_bytes += len(data)
        self._sends = bool(self._leaving)
        end = (to, -1, *key) if self._sends else None
        mark = Copied(self.number, layout, index, 0, self._now, end, sends, len(self._leaving), size)
        marks.take(mark)
        out.append(AppendEpochs(to_bytes(mark)))
        if not self._sends:
            marks.release(self.number)

    # --- rounds -----------------------------------------------------------------------------------------------------

    def _run_first(self, epoch: Epoch, forwards: Sequence[CallMessage], out: list[Append]) -> None:
        store, change = self.store, self.store.change
        store.begin_epoch()
        if change is not None:
            self._send_batch(out)
            for postponed in epoch.carried.values():
                for operator, key in sorted(postponed.keys):
                    if change.after.place(operator, key) == self.number and (found := store.wanted(operator, key, "")):
                        store.request(found, change.before.place(operator, key))
        super()._run_first(epoch, forwards, out)

    def _run_next(self, epoch: Epoch, received: Sequence[CallMessage], out: list[Append]) -> None:
        store, messages = self.store, list(received)
        if store.change is not None:
            self._send_batch(out)
            rows: list[WireCall] = []
            ready: list[Any] = []
            for calls in received:
                assert isinstance(calls, Calls)
                for item in calls.items:
                    if item.tid != NO_TRANSACTION:
                        ready.append(item)
                    elif isinstance(item, WireCall) and item.function == REQUEST:
                        store.answer(item)
                    elif isinstance(item, WireCall):
                        rows.append(item)
            released = store.arrive(rows)
            kept = [
                item for item in ready
                if not (isinstance(item, WireCall) and store.hold(item.operator, item.key, item.function, item))
            ]  # fmt: skip
            messages = [Calls(self.number, self.epoch, 0, [*released, *kept])]  # type: ignore[list-item]
        super()._run_next(epoch, messages, out)

    def _end_round(self, epoch: Epoch, received: Iterable[tuple[int, Any]], out: list[Append]) -> None:
        if self.store.change is not None:
            sent = self._running.site.sent
            for to, items in self.store.outgoing.items():
                sent[to] = [*items, *sent.get(to, ())]
            self.store.outgoing = {}
            held = self.store.held_roots if self._running.round == 0 else ()
            received = [
                (tid, item.root if isinstance(item, Released) else item) for tid, item in received if tid not in held
            ]
        super()._end_round(epoch, received, out)


@contextmanager
def in_force(counts: Counts, *, on_demand: bool, by_group: bool, batch_bytes: int) -> Iterator[None]:
    """Nodes that are made meanwhile count what runs again, and move keys on demand if that is wished."""
    CountedReexecution.counts = ArrivingStore.counts = counts
    ArrivingStore.by_group, OnDemandPartition.batch_bytes = by_group, batch_bytes
    execution = OnDemandExecution if on_demand else Execution
    partition, copies = (OnDemandPartition, Marks) if on_demand else (StatePartition, Copies)
    with (
        patch("transactional.state.partition.Execution", execution),
        patch("transactional.conflicts.detection.Execution", execution),
        patch("transactional.state.partition.Reexecution", CountedReexecution),
        patch("transactional.node.StatePartition", partition),
        patch("transactional.epochs.ledger.Copies", copies),
    ):
        yield
