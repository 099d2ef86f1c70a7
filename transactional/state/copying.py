"""Copies that a state partition sends ahead of a move, while it goes on to run transactions.

A copy is as good as the knowledge of later writes: so all writes since the plan are noted, in snapshots too. Items that
were written after their copies were taken are copied again, and the last of them are part of the move. The rows
of a batch leave a record in each step, so a long one makes no step long, and while transactions run a record an epoch.
Behind them goes its record on the epochs topic, when the log has all that it follows from. The next batch is made once
this one has arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from transactional.epochs.appends import Append, AppendCalls, AppendEpochs
from transactional.epochs.copies import MoveSteps, Pending, SourceCopies
from transactional.epochs.layout_messages import Addressed, Copied, CopyArrived, Item, copies_epoch
from transactional.epochs.ledger import Ledger
from transactional.epochs.messages import MovedState, ReplyState, to_bytes
from transactional.epochs.received_calls import ReceivedCalls
from transactional.layout_history import Plan
from transactional.operators import StateKey
from transactional.requests.replies import ReplyBook
from transactional.state.moving_items import (
    ENTITY,
    MovingItems,
    home_of_reply,
    item_of_key,
    item_of_reply,
    reply_bytes,
)
from transactional.state.snapshots import LedgerState
from transactional.state.spilling import SpillingStore
from transactional.state.store import Store
from transactional.state.values import digest

AGAIN_ITEM_BYTES = 256
"""So long writes are taken to be: a batch of them is worth another sweep while other partitions still copy."""
PATIENCE = 50
"""So often it was looked for a batch of another owner before one is made in its place. So often also for the arrival of
its own batch, before other partitions of the node may send: a target may have no owner."""


@dataclass(slots=True)
class _OpenBatch:
    """One whose rows are on their way. ``end``: the last item in it."""

    index: int
    sends: Addressed = field(default_factory=list)
    size: int = 0
    end: Item | None = None


@dataclass(slots=True)
class _Batch:
    """``after``: it is sent once the log has all of this epoch."""

    after: int
    copied: Copied
    is_sent: bool = False


@dataclass(slots=True)
class _Sweep:
    """A sweep as this node makes it: ``left`` more ``items`` in order, of which ``next`` is the first.

    None: there are none. ``left`` may be a few too many or too few.
    """

    number: int
    as_of: int
    items: Iterator[Item]
    left: int
    next: Item | None = None

    def __post_init__(self) -> None:
        self.pass_on()

    def pass_on(self) -> None:
        """The next one is done with."""
        self.left = max(0, self.left - (self.next is not None))
        self.next = next(self.items, None)


class Copying:
    """Of one partition. ``written``: of items that move, the last epoch in which they were written since the plan.

    ``moving``: all that move, where they were looked for.
    """

    def __init__(self, ledger: Ledger, number: int, steps: MoveSteps) -> None:
        self._copy_bytes = steps.copy_bytes
        self._slice_rows = steps.slice_rows
        self.written: dict[Item, int] = {}
        self._ledger = ledger
        self._number = number
        self._layout = 0  # the planned one that the following is about
        self.moving: MovingItems | None = None
        self._sweep: _Sweep | None = None
        self._open: _OpenBatch | None = None
        self._made_before = 0  # this epoch: the last part of a batch
        self._batch: _Batch | None = None
        self._waited = self._unanswered = 0
        self._said: dict[int, tuple[Pending, set[bytes]]] = {}  # of each source's last batch: what was acknowledged

    def restore(self, state: LedgerState, written: Iterable[tuple[Item, int]]) -> int:
        """Go on from a snapshot, of which this is the layout. The ledger may not have read of its plan yet."""
        present = state.layouts[0][1].number if state.layouts else 0
        self._layout, self.written = present + 1, dict(written)
        return present

    def kept(self, done: int) -> list[tuple[Item, int]]:
        """``written``, for a snapshot of the end of this epoch."""
        plan = self._plan(done)
        return [] if plan is None or plan.layout.number != self._layout else sorted(self.written.items())

    @property
    def is_at_work(self) -> bool:
        """Whether it looks for what moves, or makes a batch: time alone brings that."""
        if (moving := self.moving) is None or self._ledger.layouts.open_plan is None:
            return False
        return not moving.is_found or (self._open is not None and not self._gives_way(self._ledger.done + 1))

    def _gives_way(self, epoch: int) -> bool:
        """Whether this epoch has transactions, and a part of the batch was made before it already."""
        return self._made_before == epoch and self._ledger.is_open(epoch)

    def begin_notes(self, epoch: int, replies: ReplyBook) -> None:
        """Ahead of the epoch's replies: whether its writes are to be noted."""
        plan = self._plan(epoch)
        if plan is not None and plan.layout.number != self._layout:
            self._begin(plan)
        noted = plan is not None and epoch >= plan.since and self._number in plan.change.sources
        replies.touched = [] if noted else None

    def note(self, epoch: int, writes: Mapping[StateKey, bytes | None], replies: ReplyBook) -> None:
        """Entities that the epoch has written, and the requests that it has remembered, if they are to be noted."""
        if replies.touched is None:
            return
        after, here, moving = self._ledger.layouts.plans[self._layout].change.after, self._number, self.moving
        for key, value in writes.items():
            if (to := after.place(*key)) != here:
                self.written[item_of_key(to, key)] = epoch
                if moving is not None:
                    moving.wrote(to, key, value)
        for name in replies.touched:
            given = replies.given(name)
            if given is not None and (to := home_of_reply(after, given)) is not None and to != here:
                self.written[item_of_reply(to, given)] = epoch
                if moving is not None:
                    moving.names[name] = to
        replies.touched = None

    def _plan(self, epoch: int) -> Plan | None:
        """For the layout behind the one that holds in this epoch."""
        layouts = self._ledger.layouts
        return layouts.plans.get(layouts.at(epoch).number + 1) if layouts.plans else None

    def known(self, layout: int) -> MovingItems | None:
        """All that move to homes in this layout; None: they were not looked for here."""
        moving = self.moving
        return moving if moving is not None and moving.is_found and layout == self._layout else None

    def written_since(self, copies: SourceCopies) -> list[Item]:
        """The items whose copies are older than they are, or that have none, of all that is noted; in order."""
        return sorted(item for item, epoch in self.written.items() if not covers(copies, item, epoch))

    def _acknowledge(self, layout: int, received: ReceivedCalls, out: list[Append]) -> None:
        """Say which batches of others are here."""
        for source, each in self._ledger.copies.pending(layout).items():
            batch, said = self._said.get(source, (None, set[bytes]()))
            if batch is not each:  # its names alone do not tell: the next owner may send the same again
                self._said[source] = each, (said := set())
            for to, name in sorted(each.missing):
                if to == self._number and name not in said and received.has_copy(layout, name):
                    said.add(name)
                    out.append(AppendEpochs(to_bytes(CopyArrived(to, layout, source, name))))

    # --- sending ----------------------------------------------------------------------------------------------------

    def advance(
        self,
        epoch: int,
        store: Store | SpillingStore,
        replies: ReplyBook,
        received: ReceivedCalls,
        out: list[Append],
    ) -> None:
        """At the end of the epoch before this one: look for items that move, or send the next batch of them."""
        plan, all_copies = self._ledger.layouts.open_plan, self._ledger.copies
        is_behind = self._ledger.done < epoch - 1  # a checkpoint, which may have operators of a later version
        if plan is None or epoch <= plan.since or is_behind or plan is not self._plan(epoch - 1):
            self._drop()
            all_copies.release(self._number)
            return
        self._acknowledge(plan.layout.number, received, out)
        if plan.layout.number != self._layout:
            self._begin(plan)
        if self._number in plan.change.sources and all_copies.sender in (None, self._number):
            all_copies.sender = self._number
            if not self._send(plan, epoch, store, replies, out):
                all_copies.release(self._number)

    def _send(
        self, plan: Plan, epoch: int, store: Store | SpillingStore, replies: ReplyBook, out: list[Append]
    ) -> bool:
        """Whether it has more to send; False too while it waits for the batch of another owner, or long for arrival."""
        copies = self._ledger.copies.of(self._layout, self._number)
        if self.moving is None:
            self.moving = MovingItems(self._number, plan.change.after, store, replies, self._slice_rows)
        if not self.moving.find():
            return True
        if not self._is_free(copies, out):
            return not self._waited and self._unanswered <= PATIENCE
        if self._sweep is None or not copies.continues(self._sweep.number, self._sweep.as_of):
            self._open, self._sweep = None, self._next_sweep(epoch - 1, self.moving, copies)
        if self._sweep is None:
            return False
        if self._open is not None and self._gives_way(epoch):
            return True
        if self._make(self._sweep, epoch, store, replies, copies, out):
            self._is_free(copies, out)
        return True

    def _begin(self, plan: Plan) -> None:
        self._layout, self.written, self.moving = plan.layout.number, {}, None
        self._drop()

    def _drop(self) -> None:
        """The next batch begins behind those that count."""
        self._sweep = self._open = self._batch = None

    def _is_free(self, copies: SourceCopies, out: list[Append]) -> bool:
        """Whether the next batch may be made; else the last one goes on its way."""
        batch, pending = self._batch, self._ledger.copies.pending(self._layout).get(self._number)
        index = None if self._open is None else self._open.index
        if batch is not None and (index := batch.copied.index) < len(copies.batches):
            is_own = copies.batches[index] == batch.copied
            batch = self._batch = None
            if not is_own:
                self._drop()  # that may end at another item
        elif batch is None and index is not None and index < len(copies.batches):
            self._drop()
        if batch is not None and not batch.is_sent:
            if self._ledger.logged >= batch.after:
                out.append(AppendEpochs(to_bytes(batch.copied)))
                batch.is_sent = True
            return False
        if pending is None or (batch is not None and pending.batch.sends == batch.copied.sends):
            self._waited, self._unanswered = 0, 0 if pending is None else self._unanswered + 1
            return batch is None
        self._waited += 1  # for a batch of another owner, which may have died before it was sent
        self._drop()
        if self._waited <= PATIENCE:
            return False
        self._waited = 0
        return True

    def _next_sweep(self, as_of: int, moving: MovingItems, copies: SourceCopies) -> _Sweep | None:
        """None: none is needed now."""
        if not copies.continues(copies.sweeps, as_of):
            return None  # another owner is ahead of this one
        self.written = {item: at for item, at in self.written.items() if not covers(copies, item, at)}
        if copies.is_ready and len(self.written) < max(1, self._copy_bytes // AGAIN_ITEM_BYTES):
            return None
        if copies.sweeps == 0:
            return _Sweep(0, as_of, moving.items(), len(moving))
        return _Sweep(copies.sweeps, as_of, iter(sorted(self.written)), len(self.written))

    def _make(
        self,
        sweep: _Sweep,
        epoch: int,
        store: Store | SpillingStore,
        replies: ReplyBook,
        copies: SourceCopies,
        out: list[Append],
    ) -> bool:
        """Send the next rows of the batch that is open; whether that were all of it."""
        self._made_before = epoch
        last = copies.current.end
        while last is not None and sweep.next is not None and sweep.next <= last:
            sweep.pass_on()  # another owner has copied it
        if self._open is None:
            self._open = _OpenBatch(len(copies.batches))
        open_, most = self._open, self._ledger.copies.batch_bytes or self._copy_bytes
        rows: dict[int, list[tuple[str, str, bytes | None]]] = {}
        states: dict[int, list[ReplyState]] = {}
        size, step_bytes = 0, min(self._copy_bytes, most)
        while sweep.next is not None and size < step_bytes:
            to, sequencer, operator, name = open_.end = sweep.next
            if sequencer == ENTITY:
                value = store.read((operator, name))
                size += len(operator) + len(name) + len(value or b"")
                rows.setdefault(to, []).append((operator, name, value))
            elif (given := replies.given((sequencer, name))) is not None:
                size += reply_bytes(given)
                states.setdefault(to, []).append(given)
            sweep.pass_on()
        open_.size += size
        for to in sorted({*rows, *states}):
            copy = MovedState(
                self._number, copies_epoch(self._layout), open_.index, rows.get(to, []), states.get(to, [])
            )
            out.append(AppendCalls(to, data := to_bytes(copy), as_it_is=True))
            open_.sends.append((to, digest(data)))
        if sweep.next is not None and open_.size < most:
            return False
        self._open, end = None, None if sweep.next is None else open_.end
        copied = Copied(
            self._number, self._layout, open_.index, sweep.number, sweep.as_of, end, open_.sends, sweep.left, open_.size
        )
        self._batch = _Batch(epoch - 1, copied)
        return True


def covers(copies: SourceCopies, item: Item, epoch: int) -> bool:
    """Whether what was written in this epoch is in its copy."""
    as_of = copies.as_of(item)
    return as_of is not None and as_of >= epoch
