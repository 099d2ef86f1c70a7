"""Draws of a simulated transactional fleet by which more events meet moves of keys, and counts of these.

New fleets have moves of many short steps and portions. Upgrades are proposed while keys move, so values that are
spilled, copied or on their way are converted by the version that reads them.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from nodes.sim.case import EIGHTEENTH_SEED
from nodes.transactions.driver import TransactionDriver
from nodes.transactions.layouts.repartitioning import Mode
from tests.sim.moving_faults import HEAD, TAGS
from tests.sim.transactions_met import Met
from transactional.epochs.copies import PORTION_BYTES, SLICE_ROWS
from transactional.epochs.messages import BadRecord, MovedState, call_message
from transactional.external import is_external_request
from transactional.layout import Layout

SLICES = SLICE_ROWS, 20, 3, 1
"""Rows of one step: a fleet has 60 keys at most, and a partition a part of them."""
PORTIONS = PORTION_BYTES, 400, 60, 10
"""Bytes a node of one portion."""
LAYOUT_ODDS = 0.0, 0.02, 0.05
"""Of a step at least, that a layout is requested; most find one under way."""
SPLIT_ODDS = 0.2
MODES: tuple[Mode, ...] = "stop", "online", "online", "online"
UPGRADE_ODDS = 0.0, 0.5, 1.0
"""Of a layout that is requested, that an upgrade is, too."""
UPGRADE_STEPS = 0, 20, 60, 120, 200
"""Steps of the fleet between the two: a failure timeout is 60 at least."""


class MeetingMoves:
    """Of one fleet, from a stream of its own. ``is_drawn``: the seed is one of those that have these draws."""

    def __init__(self, seed: int, met: Met) -> None:
        draw = self._draw = Random(seed ^ 0x3EE75)
        self.is_drawn = seed >= EIGHTEENTH_SEED
        self.slice_rows = draw.choice(SLICES) if self.is_drawn else SLICE_ROWS
        self.portion_bytes = draw.choice(PORTIONS)
        self.layout_odds = draw.choice(LAYOUT_ODDS) if self.is_drawn else 0.0
        self.split_odds = SPLIT_ODDS if self.is_drawn else 0.5
        self.modes = MODES if self.is_drawn else MODES[:2]
        self._upgrade_odds = draw.choice(UPGRADE_ODDS) if self.is_drawn else 0.0
        self._upgrades: list[int] = []  # in so many steps
        self._met = met
        self._version = self._layout = 0

    def requested(self) -> None:
        """A layout was."""
        if self._upgrade_odds and self._draw.random() < self._upgrade_odds:
            self._upgrades.append(self._draw.choice(UPGRADE_STEPS))

    def upgrade_is_due(self) -> bool:
        """Once a step."""
        due = 0 in self._upgrades
        self._upgrades = [steps - 1 for steps in self._upgrades if steps]
        return due

    def portion_ended(self, values: Iterable[bytes]) -> None:
        """Records of control are on the log."""
        self._met.portions_ended += sum(TAGS["portion ended"] in value[:HEAD] for value in values)

    def arrived(self, values: Iterable[bytes]) -> None:
        """Records of calls are on the log: those of moves may have open calls outside."""
        for value in values:
            if TAGS["moved"] not in value[:HEAD]:
                continue
            try:
                moved = call_message(value)
            except BadRecord:
                continue
            if isinstance(moved, MovedState):
                self._met.moved_calls += sum(is_external_request(each.failure) for each in moved.replies)

    def seen(self, version: int, *, moves: bool, drivers: Iterable[TransactionDriver]) -> None:
        """Once a step: the version that holds by the control topic, whether keys move, and the nodes."""
        self._met.upgraded_moves += moves and version > self._version
        self._version = max(self._version, version)
        for driver in drivers:
            ledger = driver.node.ledger
            newest = ledger.layouts.newest
            if not isinstance(newest, Layout) or newest.number <= self._layout:
                continue
            since = ledger.layouts.newest_since
            if ledger.done == since - 1:
                self._layout = newest.number
                self._met.moved_postponed += len(ledger.epoch(since).carried)
