"""The owner of the first unit makes a requested layout hold: it proposes it on the epochs topic, and records its end.

Four rules for this file. All that it does follows from the two topics, so the next owner goes on where they stand.
A layout is proposed once each of its partitions has a checkpoint that the topics reach back to. A layout that is
proposed twice is void the second time. How much a portion moves is the planning node's choice: its plan is on the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from nodes.log.contract import Log
from nodes.machine import messages as m
from nodes.machine.ownership.claims import Claiming
from nodes.machine.ownership.commands import LAYOUT_DONE, LAYOUT_PROGRESS
from nodes.machine.ownership.layouts import LayoutOutcome, LayoutPortion, LayoutProgress, ProposedLayout
from nodes.transactions.checkpoints.checkpointing import TransactionCheckpoints
from nodes.transactions.layouts.pace import CopyingPace
from nodes.transactions.layouts.portions import BucketSizes, next_portion, portions_left
from nodes.transactions.topics import FIRST_INCARNATION, TransactionTopics
from transactional.epochs.layout_messages import NewLayout, PlannedLayout
from transactional.epochs.ledger import Ledger
from transactional.epochs.messages import to_bytes
from transactional.layout import Layout, moved_buckets

AGAIN_MS = 1_000
"""So long a record may be on its way before it is written once more."""


class LayoutProposer:
    """Of one node. ``waits_for``: why the requested layout does not hold yet; "": there is none, or it moves keys.

    ``portion_bytes``: about so many move at once for each node of the job, if they are copied ahead. ``bucket_sizes``:
    of two layouts, by the state partitions that this node owns or follows.
    """

    def __init__(
        self,
        log: Log,
        topics: TransactionTopics,
        claiming: Claiming,
        checkpoints: TransactionCheckpoints,
        portion_bytes: int,
        bucket_sizes: Callable[[Layout, Layout], BucketSizes | None],
    ) -> None:
        self.waits_for = ""
        self._log = log
        self._topics = topics
        self._claiming = claiming
        self._checkpoints = checkpoints
        self._portion_bytes = portion_bytes
        self._bucket_sizes = bucket_sizes
        self._sizes: tuple[int, BucketSizes | None] | None = None  # of a request, by its number
        self._number = 0  # of the layout that the following is about
        self._target: tuple[bytes, Layout] | None = None  # the requested layout, and its text
        self._planned: Layout | None = None
        self._takes_portions: bool | None = None  # None: that was not looked for
        self._known_since_ms: int | None = None  # what nodes of releases before this one stop at
        self._began = 0  # the request whose first portion was this node's
        self._since_ms = 0
        self._proposed = False
        self._written_ms: int | None = None
        self._stopped_ms: int | None = None
        self._told_ms: int | None = None
        self._pace = CopyingPace()

    def turn(self, ledger: Ledger, now_ms: int) -> list[bytes]:
        """Records for the control topic."""
        wanted = self._claiming.ownership.layouts.open
        if wanted is None or 0 not in self._claiming.owned:
            self._number, self.waits_for = 0, ""
            return []
        if wanted.number != self._number:
            self._number, self._since_ms = wanted.number, now_ms
            self._proposed, self._written_ms, self._stopped_ms, self._planned = False, None, None, None
            self._takes_portions, self._known_since_ms = None, None
            if wanted.so_far is None:
                self._told_ms, self._pace, self._began = None, CopyingPace(), wanted.number
        newest = ledger.layouts.newest
        if newest.number < wanted.number:
            return self._propose(ledger, wanted, now_ms)
        self.waits_for = ""
        since = ledger.layouts.newest_since
        if ledger.logged < since - 1:
            return []
        self._stopped_ms = now_ms if self._stopped_ms is None else self._stopped_ms
        if ledger.logged < since:
            return []
        outcome, (target, _) = self._outcome(ledger, wanted, since, now_ms), self._requested(wanted)
        if not wanted.in_portions:
            return self._done(outcome, now_ms)
        held = msgspec.Raw(msgspec.json.encode(newest))
        return self._ended(_command(m.LAYOUT_PORTION, LayoutPortion(outcome, held, target == newest)), now_ms)

    def _requested(self, wanted: ProposedLayout) -> tuple[Layout | None, str]:
        """The layout with the number of the present portion, or why it cannot be read."""
        text = bytes(wanted.layout)
        if self._target is None or self._target[0] != text:
            try:
                self._target = text, msgspec.json.decode(text, type=Layout)
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
                return None, f"it cannot be read: {error}"
        layout = self._target[1]
        return layout if wanted.so_far is None else msgspec.structs.replace(layout, number=wanted.number), ""

    def _propose(self, ledger: Ledger, wanted: ProposedLayout, now_ms: int) -> list[bytes]:
        if not wanted.in_portions and self._is_large(ledger, wanted):
            return self._ended(_named(m.IN_PORTIONS, str(wanted.number)), now_ms)
        if self._known_since_ms is None:
            self._known_since_ms, self._written_ms = now_ms, None
        waits_ms = 0 if wanted.so_far is not None else self._claiming.detector.failure_timeout_ms
        if now_ms - self._known_since_ms < waits_ms:
            return []  # nodes of releases before this one have read the control topic by then, and stop
        missing = self._checkpoints.new_units_without(wanted.units)
        if missing:
            return self._waits_for_checkpoints(missing, now_ms)
        layout, problem = self._requested(wanted)
        if layout is None or (problem := _problem(layout, ledger)):
            return self._done(LayoutOutcome(wanted.number, problem), now_ms)
        if wanted.online and not ledger.copies.are_ready:
            return self._copies(ledger, wanted, layout, now_ms)
        if (plan := ledger.layouts.open_plan) is not None:
            layout = plan.layout
        if not self._proposed or self._is_due(now_ms):  # what was written before is about copies
            self._proposed, self._written_ms = True, now_ms
            self._log.send(self._topics.epochs, 0, [to_bytes(NewLayout(layout))])
        return []

    def _is_large(self, ledger: Ledger, wanted: ProposedLayout) -> bool:
        """Whether it takes portions: looked for once. A plan that is there is of all that moves."""
        if self._takes_portions is None:
            (target, _), newest = self._requested(wanted), ledger.layouts.newest
            self._takes_portions = False
            if wanted.online and target is not None and target.divides(newest) and ledger.layouts.open_plan is None:
                self._takes_portions = self._portions(newest, target, wanted) > 1
        return self._takes_portions

    def _waits_for_checkpoints(self, units: Sequence[int], now_ms: int) -> list[bytes]:
        """Told from a second on, which is long for a file of no keys: the store may be away."""
        first = self._checkpoints.sequencers
        self.waits_for = f"first checkpoints of state partitions {', '.join(str(unit - first) for unit in units)}"
        waited_ms = now_ms - self._since_ms - self._claiming.detector.failure_timeout_ms
        if waited_ms < AGAIN_MS or (self._told_ms is not None and now_ms - self._told_ms < AGAIN_MS):
            return []
        self._told_ms = now_ms
        return [_command(LAYOUT_PROGRESS, LayoutProgress(self._number, 0, 0, waits_for=self.waits_for))]

    def _copies(self, ledger: Ledger, wanted: ProposedLayout, target: Layout, now_ms: int) -> list[bytes]:
        """The plan on the epochs topic, then how far copies to homes in it are."""
        newest, plan, so_far = ledger.layouts.newest, ledger.layouts.open_plan, wanted.so_far
        if plan is None:
            if self._is_due(now_ms):
                self.waits_for, self._written_ms = "its plan", now_ms
                self._told_ms = now_ms if self._told_ms is None else self._told_ms
                self._log.send(self._topics.epochs, 0, [to_bytes(PlannedLayout(self._portion(newest, target, wanted)))])
            return []
        if self._told_ms is not None and now_ms - self._told_ms < AGAIN_MS:
            return []
        self._told_ms = now_ms
        copied_bytes = 0 if so_far is None else so_far.size_bytes or 0
        later = self._later_items(newest, plan.layout, target, wanted)
        told = self._pace.progress(ledger.copies, plan, now_ms, copied_bytes, later)
        self.waits_for = f"copies: {told.copied_bytes} bytes, {told.left_items} keys and replies to go"
        return [_command(LAYOUT_PROGRESS, told)]

    def _later_items(self, newest: Layout, planned: Layout, target: Layout, wanted: ProposedLayout) -> int | None:
        """Of portions to come: as many for a bucket as in those that hold. None: none does yet."""
        left, size = moved_buckets(planned, target), max(1, moved_buckets(newest, planned))
        if (so_far := wanted.so_far) is None:
            return None if left else 0
        return ((so_far.keys or 0) + (so_far.replies or 0)) * left // (size * wanted.portions_held)

    def _portion(self, newest: Layout, target: Layout, wanted: ProposedLayout) -> Layout:
        if self._planned is None:
            portions = self._portions(newest, target, wanted) if wanted.in_portions else 1
            self._planned = next_portion(newest, target, self._sizes_for(newest, target, wanted), portions)
        return self._planned

    def _portions(self, newest: Layout, target: Layout, wanted: ProposedLayout) -> int:
        portion_bytes = self._portion_bytes * max(1, len(self._claiming.ownership.members))
        sizes = self._sizes_for(newest, target, wanted)
        return portions_left(newest, target, sizes, portion_bytes, wanted.portions_held)

    def _sizes_for(self, newest: Layout, target: Layout, wanted: ProposedLayout) -> BucketSizes | None:
        """As they are when this node first needs them for a request: state hardly changes while it moves."""
        request = wanted.as_requested.number
        if self._sizes is None or self._sizes[0] != request or self._sizes[1] is None:
            self._sizes = request, self._bucket_sizes(newest, target)
        return self._sizes[1]

    def _outcome(self, ledger: Ledger, wanted: ProposedLayout, since: int, now_ms: int) -> LayoutOutcome:
        found, change = ledger.handovers.known(since), ledger.layouts.change(since)
        resumed = not self._proposed or self._began != wanted.as_requested.number
        if change is None or len(found) != len(change.sources):
            return LayoutOutcome(self._number, resumed=resumed)  # they were before its checkpoint
        keys, replies = sum(each.keys for each in found), sum(each.replies for each in found)
        size_bytes = sum(each.size_bytes for each in found)
        if not self._proposed or self._stopped_ms is None:
            return LayoutOutcome(self._number, "", keys, size_bytes, replies, resumed=True)
        took_ms, downtime_ms = now_ms - self._since_ms, now_ms - self._stopped_ms
        return LayoutOutcome(self._number, "", keys, size_bytes, replies, took_ms, downtime_ms, resumed)

    def _done(self, outcome: LayoutOutcome, now_ms: int) -> list[bytes]:
        if outcome.problem and not self._is_due(now_ms):
            return []
        return self._ended(_command(LAYOUT_DONE, outcome), now_ms)

    def _ended(self, command: bytes, now_ms: int) -> list[bytes]:
        if not self._is_due(now_ms) and not self._proposed:
            return []
        self._proposed, self._written_ms = False, now_ms
        return [command]

    def _is_due(self, now_ms: int) -> bool:
        return self._written_ms is None or not 0 <= now_ms - self._written_ms < AGAIN_MS


def _command(name: str, about: LayoutOutcome | LayoutProgress | LayoutPortion) -> bytes:
    return _named(name, msgspec.json.encode(about).decode())


def _named(name: str, argument: str) -> bytes:
    return m.encode(m.Command(FIRST_INCARNATION, name, argument))


def _problem(layout: Layout, ledger: Ledger) -> str:
    """Why it could not hold; "": it can."""
    newest = ledger.layouts.newest
    if not layout.divides(newest) or not ledger.layouts.fits(layout):
        return "it is of other operators"
    if layout.number != newest.number + 1:
        return f"it is number {layout.number}, and {newest.number} is the last one"
    return ""
