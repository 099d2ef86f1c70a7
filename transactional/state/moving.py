"""The part of a state partition that moves to others between two epochs, and the part that comes from others.

Source: Styx, section 8.2, Algorithm 3. Deviations: one partition's keys need no coordinator, since all that moves is a
function of the log: an owner that follows another one sends the same records again. No snapshot goes to a store first.
Nothing is hashed anew that stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from transactional.conflicts.nondeterminism import Nondeterministic
from transactional.epochs.appends import Append, AppendCalls, AppendEpochs
from transactional.epochs.copies import MoveSteps
from transactional.epochs.layout_messages import Addressed, Handover
from transactional.epochs.ledger import Ledger
from transactional.epochs.messages import MovedState, ReplyState, to_bytes
from transactional.epochs.received_calls import ArrivedState, ReceivedCalls
from transactional.layout import Placement
from transactional.layout_history import Change
from transactional.operators import StateKey
from transactional.requests.replies import ReplyBook, entity_of
from transactional.state.copying import Copying, covers
from transactional.state.moving_items import (
    is_copied_ahead,
    is_key,
    item_of_key,
    item_of_reply,
    reply_bytes,
)
from transactional.state.spilling import SpillingStore
from transactional.state.store import Store
from transactional.state.values import digest

BATCH_BYTES = 1 << 18
"""Of rows, or of remembered replies, in one record."""


@dataclass(slots=True)
class Leaving:
    """All that leaves a partition, by destination; of ``keys`` the ``rest`` is in order."""

    keys: dict[int, list[StateKey]] = field(default_factory=dict)
    rest: dict[int, list[StateKey]] = field(
        default_factory=dict
    )  # of them, and of deleted ones: their copies are older
    requests: set[tuple[int, str]] = field(default_factory=set)  # sequencer and id, of replies that leave
    size_bytes: int = 0


class Moves:
    """All moves of one partition, one after the other. ``done_before``: this epoch; its state is changed for that."""

    def __init__(self, ledger: Ledger, number: int, steps: MoveSteps) -> None:
        self.done_before = 0
        self._ledger = ledger
        self._number = number
        self._move: Move | None = None
        self._slice_rows = steps.slice_rows
        self.copying = Copying(ledger, number, steps)

    @property
    def are_sending(self) -> bool:
        """Whether there is more to send: time alone brings that."""
        return self._move is not None and self._move.sends

    def are_due(self, epoch: int) -> bool:
        """Whether keys change their homes before this epoch, and have not yet here."""
        return self._ledger.layouts.change(epoch) is not None and self.done_before != epoch

    def advance(
        self, epoch: int, store: Store | SpillingStore, replies: ReplyBook, received: ReceivedCalls, out: list[Append]
    ) -> int | None:
        """Send what leaves, then take what comes: how many keys changed here by that; None: nothing can be done now."""
        ledger, change = self._ledger, self._ledger.layouts.change(epoch)
        assert change is not None
        if self._move is None:
            if ledger.logged < epoch - 1:
                return None  # else others could count on what is lost with this node
            self._move = Move(ledger, self._number, epoch, change, store, replies, self.copying, self._slice_rows)
        if self._move.sends:
            self._move.advance(out)
            return None if self._move.sends else 0
        handovers = ledger.handovers.all_of(epoch, change)
        found = None if handovers is None else received.moved(handovers)
        if found is None:
            return None
        changed = self._move.complete(found)
        received.copies_moved(epoch, change.after.number)
        self._move, self.done_before = None, epoch
        return changed


class Move:
    """Of one partition, before one epoch. It reads ``store`` and ``replies`` and changes neither until ``complete``."""

    def __init__(
        self,
        ledger: Ledger,
        number: int,
        epoch: int,
        change: Change,
        store: Store | SpillingStore,
        replies: ReplyBook,
        copying: Copying,
        slice_rows: int,
    ) -> None:
        self._slice_rows = slice_rows
        self._ledger = ledger
        self._number = number
        self._epoch = epoch
        self._change = change
        self._store = store
        self._replies = replies
        self._copying = copying
        self._copies = ledger.copies.of(change.after.number, number)
        self._leaving = Leaving()
        self._work = iter(()) if number not in change.sources else self._send()
        self.sends = True
        """Whether it has not sent all yet."""

    def advance(self, out: list[Append]) -> None:
        """Send some more."""
        for record in self._work:
            if record is None:
                return  # in the next step
            out.append(record)
        self.sends = False

    def complete(self, received: Sequence[ArrivedState]) -> int:
        """Take what others have sent, and forget what has left; gives how many keys that concerns."""
        gone = [key for keys in self._leaving.keys.values() for key in keys]
        self._store.forget_order()
        for start in range(0, len(gone), self._slice_rows):
            self._store.apply(dict.fromkeys(gone[start : start + self._slice_rows]))
        if self._number >= self._change.after.partitions:
            self._leaving.requests.update((s, given.id) for s, _, given in self._replies.remembered())
        if self._leaving.requests:
            self._replies.forget_all(self._leaving.requests)
        rows: dict[StateKey, bytes | None] = {}
        order: list[tuple[int, int, str]] = []
        states: list[ReplyState] = []
        for each in received:
            rows.update(each.rows)
            order += each.order
            states += each.replies
        for key in [key for key, value in rows.items() if value is None]:
            del rows[key]  # it was deleted after its copy
        came = self._take(rows)
        if order:
            self._replies.take(states, order)
        return came + len(gone)

    def _take(self, rows: dict[StateKey, bytes | None]) -> int:
        if isinstance(self._store, Store):
            self._store.apply(rows)
            return len(rows)
        taken = iter(rows.items())
        while some := dict(islice(taken, self._slice_rows)):
            self._store.apply(some)
        return len(rows)

    # --- sending ----------------------------------------------------------------------------------------------------

    def _send(self) -> Iterator[Append | None]:
        """Records, with None where the step may end."""
        yield from self._find_keys()
        self._find_rest()
        sends: Addressed = list(self._copies.sends)
        self._leaving.size_bytes = sum(each.size_bytes for each in self._copies.batches)
        known = self._ledger.handovers.of(self._epoch, self._number)
        replies = self._find_replies()
        for to in sorted({*self._leaving.rest, *replies}):
            for moved in self._batches(to, replies.get(to, ())):
                data = to_bytes(moved)
                sends.append((to, digest(data)))
                if known is None or self._ledger.epoch(self._epoch).barrier(1, to) is None:  # else it was read there
                    yield AppendCalls(to, data)
                yield None
        keys = sum(map(len, self._leaving.keys.values()))
        number = self._change.after.number
        count = len(self._leaving.requests)
        made = Handover(self._number, self._epoch, number, sends, keys, self._leaving.size_bytes, count)
        known = self._ledger.handovers.of(self._epoch, self._number)
        if known is None:
            yield AppendEpochs(to_bytes(made))
        elif known != made:
            raise Nondeterministic(
                f"state partition {self._number}: what moves away from it before epoch {self._epoch} is not what the "
                f"log has: {len(known.sends)} records with {known.keys} keys there, {len(sends)} with {keys} here. Its "
                f"state is wrong here or there"
            )

    def _find_keys(self) -> Iterator[None]:
        """The rows that leave, by destination."""
        if (moving := self._copying.known(self._change.after.number)) is not None:
            self._leaving.keys = {to: list(keys) for to, keys in moving.keys.items()}
            return
        after, here, found = self._change.after, self._number, self._leaving.keys
        rows = iter(self._store.everything())
        while some := [key for key, _ in islice(rows, self._slice_rows)]:
            for key, to in zip(some, after.place_all(some), strict=True):
                if to != here:
                    found.setdefault(to, []).append(key)
            if len(some) == self._slice_rows:
                yield None

    def _find_rest(self) -> None:
        """The keys whose present values were not copied, by destination, and those deleted since they were."""
        copies, rest = self._copies, self._leaving.rest
        if not copies.batches:
            self._leaving.rest = {to: sorted(keys) for to, keys in self._leaving.keys.items()}
            return
        if not copies.sweeps:
            for to, keys in self._leaving.keys.items():
                rest[to] = [key for key in keys if copies.as_of(item_of_key(to, key)) is None]
        for item in self._copying.written_since(copies):
            to, _, operator, name = item
            if is_key(item) and copies.as_of(item) is not None:
                rest.setdefault(to, []).append((operator, name))
        for keys in rest.values():
            keys.sort()

    def _is_copied(self, to: int, given: ReplyState) -> bool:
        """Whether the reply is at its next home already."""
        item = item_of_reply(to, given)
        return is_copied_ahead(given) and covers(self._copies, item, self._copying.written.get(item, 0))

    def _find_replies(self) -> dict[int, list[tuple[int, int, ReplyState]]]:
        """The remembered replies that leave, by destination. One whose key is unknown is remembered everywhere."""
        found: dict[int, list[tuple[int, int, ReplyState]]] = {}
        after, here = self._change.after, self._number
        moving = self._copying.known(after.number)
        for entry in self._replies.remembered():
            given = entry[2]
            if moving is not None and (given.sequencer, given.id) not in moving.names and is_copied_ahead(given):
                continue
            for to in _homes(after, given):
                if to != here:
                    found.setdefault(to, []).append(entry)
                    if entity_of(given.call) is not None:
                        self._leaving.requests.add((given.sequencer, given.id))
        return found

    def _batches(self, to: int, replies: Sequence[tuple[int, int, ReplyState]]) -> Iterator[MovedState]:
        index = 0
        for rows in self._rows(self._leaving.rest.get(to, ())):
            yield MovedState(self._number, self._epoch, index, rows)
            index += 1
        for entries in _in_batches(replies):
            states = {(s, given.id): given for s, _, given in entries if not self._is_copied(to, given)}
            order = [(sequencer, offset, given.id) for sequencer, offset, given in entries]
            yield MovedState(self._number, self._epoch, index, [], list(states.values()), order)
            index += 1

    def _rows(self, keys: Iterable[StateKey]) -> Iterator[list[tuple[str, str, bytes | None]]]:
        rows: list[tuple[str, str, bytes | None]] = []
        size = 0
        for operator, key in keys:
            value = self._store.read((operator, key))
            rows.append((operator, key, value))
            size += len(operator) + len(key) + len(value or b"")
            if size >= BATCH_BYTES:
                self._leaving.size_bytes += size
                yield rows
                rows, size = [], 0
        self._leaving.size_bytes += size
        if rows:
            yield rows


def _homes(after: Placement, given: ReplyState) -> Iterable[int]:
    entity = entity_of(given.call)
    return range(after.partitions) if entity is None else (after.place(*entity),)


def _in_batches(
    entries: Iterable[tuple[int, int, ReplyState]],
) -> Iterator[list[tuple[int, int, ReplyState]]]:
    batch: list[tuple[int, int, ReplyState]] = []
    size = 0
    for entry in entries:
        given = entry[2]
        batch.append(entry)
        size += reply_bytes(given)
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
