"""Copies ahead of a move, on the epochs topic: what of a partition's state is at its next home already, and as of when.

Keys and remembered replies are copied while the layout before still holds. Once all sources have copied, and again what
changed meanwhile, the planned layout follows. Then the rest moves between two epochs, as without copies. Source: Styx,
section 8.3, Algorithm 4. Deviation: nothing is fetched on demand, since the old homes go on to serve.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import chain
from typing import NamedTuple

from transactional.epochs.layout_messages import Addressed, Copied, CopyArrived, Item, NewLayout, PlannedLayout
from transactional.layout_history import LayoutHistory
from transactional.state.snapshots import CopiesState

COPY_BYTES = 1 << 18
"""Of all records of a batch that one step makes: a node's loop does nothing else meanwhile."""
COPY_WINDOW_BYTES = 1 << 22
"""Of a batch at most: so much is copied in one round trip of the log."""
PORTION_BYTES = 32 << 20
"""Of an online move, about, for each node: more go in portions, so that no node has much of the state twice."""
SLICE_ROWS = 2_000
"""Of rows in one step: heartbeats, and the node's other partitions, wait for no more."""
SWEEPS = 2
"""The second one has what changed during the first, so little is left for the move itself."""


class MoveSteps(NamedTuple):
    """How much of a move one step does."""

    copy_bytes: int = COPY_BYTES
    slice_rows: int = SLICE_ROWS


ANY_STEPS = MoveSteps()


class Sweep:
    """One way through all items, as far as it was logged."""

    def __init__(self) -> None:
        self.is_over = False
        self._ends: list[Item] = []
        self._as_of: list[int] = []

    @property
    def end(self) -> Item | None:
        """The last item that is covered; None: none is, or all are."""
        return self._ends[-1] if self._ends and not self.is_over else None

    def add(self, end: Item | None, as_of: int) -> None:
        self._as_of.append(as_of)
        if end is None:
            self.is_over = True
        else:
            self._ends.append(end)

    def as_of(self, item: Item) -> int | None:
        """Its copy has what was written up to this epoch; None: it is not covered."""
        index = bisect_left(self._ends, item)
        return self._as_of[index] if index < len(self._as_of) else None


class SourceCopies:
    """All batches of one partition, and what they cover."""

    def __init__(self) -> None:
        self.batches: list[Copied] = []
        self.finished = Sweep()
        """The last sweep that is over."""
        self.current = Sweep()
        self.sweeps = 0
        """How many are over."""

    def admits(self, batch: Copied) -> bool:
        """Whether it follows the others."""
        end = self.current.end
        is_behind = end is None or batch.end is None or batch.end > end
        return batch.index == len(self.batches) and is_behind and self.continues(batch.sweep, batch.as_of)

    def continues(self, sweep: int, as_of: int) -> bool:
        """Whether the next batch may be of this sweep and this epoch."""
        return sweep == self.sweeps and not (self.batches and as_of < self.batches[-1].as_of)

    def add(self, batch: Copied) -> None:
        """It counts from here on."""
        self.batches.append(batch)
        self.current.add(batch.end, batch.as_of)
        if self.current.is_over:
            self.finished, self.current, self.sweeps = self.current, Sweep(), self.sweeps + 1

    def as_of(self, item: Item) -> int | None:
        """The next home of the item has what was written up to this epoch; None: nothing of it."""
        found = self.current.as_of(item)
        return self.finished.as_of(item) if found is None else found

    @property
    def is_ready(self) -> bool:
        """Whether little is left for the move."""
        return self.sweeps >= SWEEPS

    @property
    def sends(self) -> Addressed:
        """All of them, in order."""
        return [each for batch in self.batches for each in batch.sends]


NOTHING = SourceCopies()
"""Of a partition of which no batch was logged."""


class Pending:
    """A batch that is on the log, with the partitions that have what is for them."""

    def __init__(self, batch: Copied) -> None:
        self.batch = batch
        self.missing = set(batch.sends)


class Copies:
    """Of one ledger, by layout and partition: copies to the homes of keys in it."""

    def __init__(self, layouts: LayoutHistory, state: CopiesState | None = None) -> None:
        self._layouts = layouts
        self.sender: int | None = None
        """The partition of this node that sends: one at a time, so that transactions wait for one step at most."""
        self.batch_bytes: int | None = None
        """Of the next batch of this node; None: as much as one step makes."""
        self._found: dict[tuple[int, int], SourceCopies] = {}
        self._pending: dict[tuple[int, int], Pending] = {}
        self._arrived: dict[tuple[int, int], list[CopyArrived]] = {}
        if state is not None:
            for each in state.batches:
                self._add(each)
            self._pending = {(each.layout, each.partition): Pending(each) for each in state.pending}
            for each in state.arrived:
                self._arrive(each)

    def release(self, partition: int) -> None:
        """Another partition may send, if this one did."""
        if self.sender == partition:
            self.sender = None

    def take(self, batch: Copied) -> bool:
        """False where it does not count. One that comes after its layout is void: what is left follows from those."""
        plan, name = self._layouts.open_plan, (batch.layout, batch.partition)
        if plan is None or batch.layout != plan.layout.number or batch.partition not in plan.change.sources:
            return False
        if batch.as_of < plan.since or not self.of(*name).admits(batch):
            return False
        self._arrived.pop(name, None)
        if batch.sends:
            self._pending[name] = Pending(batch)
        else:
            self._pending.pop(name, None)
            self._add(batch)
        return True

    def arrive(self, arrived: CopyArrived) -> bool:
        """False where it is of no batch that waits for it."""
        plan = self._layouts.open_plan
        return plan is not None and plan.layout.number == arrived.layout and self._arrive(arrived)

    def _arrive(self, arrived: CopyArrived) -> bool:
        name = arrived.layout, arrived.source
        pending = self._pending.get(name)
        if pending is None or (arrived.partition, arrived.name) not in pending.missing:
            return False
        pending.missing.discard((arrived.partition, arrived.name))
        self._arrived.setdefault(name, []).append(arrived)
        if not pending.missing:
            self._add(pending.batch)
            del self._pending[name], self._arrived[name]
        return True

    def _add(self, batch: Copied) -> None:
        self._found.setdefault((batch.layout, batch.partition), SourceCopies()).add(batch)

    def of(self, layout: int, partition: int) -> SourceCopies:
        """Of a partition, to its keys' homes in this layout: those that count."""
        return self._found.get((layout, partition), NOTHING)

    def pending(self, layout: int) -> dict[int, Pending]:
        """Batches that do not count yet, by the partition that has sent them."""
        return {partition: each for (number, partition), each in self._pending.items() if number == layout}

    def progress(self) -> tuple[int, int]:
        """Bytes that were copied to homes in the planned layout, and items that sweeps still have to copy."""
        plan = self._layouts.open_plan
        sources = [] if plan is None else [self.of(plan.layout.number, each).batches for each in plan.change.sources]
        copied = sum(batch.size_bytes for batches in sources for batch in batches)
        return copied, sum(batches[-1].left for batches in sources if batches)

    @property
    def are_ready(self) -> bool:
        """Whether the planned layout may follow."""
        plan = self._layouts.open_plan
        return plan is not None and all(self.of(plan.layout.number, p).is_ready for p in plan.change.sources)

    def state(self, done: int) -> CopiesState:
        """For a snapshot of the end of this epoch, without those to homes that hold by then."""
        number = self._layouts.at(done).number if self._found or self._pending else 0
        found = [copies.batches for (layout, _), copies in sorted(self._found.items()) if layout > number]
        pending = [each.batch for (layout, _), each in sorted(self._pending.items()) if layout > number]
        arrived = [each for (layout, _), some in sorted(self._arrived.items()) if layout > number for each in some]
        return CopiesState(list(chain.from_iterable(found)), pending, arrived)

    def close(self, layout: int) -> None:
        """It holds from here on: what has not arrived counts no more."""
        for name in [name for name in self._pending if name[0] <= layout]:
            del self._pending[name]
            self._arrived.pop(name, None)

    def forget(self) -> None:
        """Drop those whose layouts before were forgotten: they have moved."""
        number = self._layouts.oldest_number
        for name in [name for name in self._found if name[0] <= number]:
            del self._found[name]


def take_layout(
    message: NewLayout | PlannedLayout | Copied | CopyArrived, layouts: LayoutHistory, copies: Copies, next_cut: int
) -> bool:
    """Whether it counts; ``next_cut``: the first epoch of which no cut is on the log."""
    match message:
        case NewLayout(layout):  # cuts that were made before this was read are void from there on
            if counts := layouts.add(next_cut, layout):
                copies.close(layout.number)
            return counts
        case PlannedLayout(layout):
            return layouts.add_plan(next_cut, layout)
        case Copied():
            return copies.take(message)
        case CopyArrived():
            return copies.arrive(message)
