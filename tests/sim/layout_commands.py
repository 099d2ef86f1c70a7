"""Commands that request layouts of a simulated transactional fleet, and the check that all agree on which ones hold."""

from __future__ import annotations

from random import Random

import msgspec

from nodes.errors import RunFailed, SettingsError
from nodes.log.contract import LogError
from nodes.machine.ownership.layouts import outcome_of
from nodes.runtime.control_topic import ControlHistory
from nodes.transactions.layouts.repartitioning import Repartitioning
from nodes.transactions.layouts.splitting import request_split
from tests.sim.cut_off_callers import CutOffCallers
from tests.sim.cut_off_log import CutOffLog
from tests.sim.meeting_moves import MeetingMoves
from tests.sim.moving_faults import REQUESTED, MovingFaults
from tests.sim.transactions_met import Met
from tests.unit.txn_stage import Stage
from transactional.layout import Layout


class LayoutCommands(Stage):
    """A fleet whose keys move; ``control`` is read by an observer."""

    operators: list[str]
    layout_draw: Random
    mode_draw: Random
    parting_draw: Random
    control: ControlHistory
    callers: CutOffCallers
    faults: MovingFaults
    meeting: MeetingMoves
    logs: dict[str, CutOffLog]
    met: Met
    done: tuple[bytes, Layout] | None = None
    """The newest layout that is done by the control topic: its text, and what that means."""

    def repartition(self) -> None:
        """Somebody requests another number of partitions, or a split, if none is under way; nodes see to the rest."""
        draw = self.layout_draw
        splits = draw.random() < self.meeting.split_odds
        alone = not splits and len(self.operators) > 1 and self.parting_draw.random() < 0.5
        try:
            requests = Repartitioning(self.callers.command_log(), self.topics, clock_s=self.clock_s)
            mode = self.mode_draw.choice(self.meeting.modes)
            if splits:
                partition = draw.randrange(requests.layout().partitions)
                request_split(requests, self.topics.job, None, partition, draw.choice([None, None, 0, 1]), mode)
            else:
                names = [self.parting_draw.choice(self.operators)]
                requests.request(names, draw.randrange(1, 6), draw.choice(["least", "all"]), mode, alone=alone)
        except (RunFailed, SettingsError, LogError):
            return  # one is under way, there are as many, it is its own target, no node lives, or it is cut off
        self.faults.reached(REQUESTED, self.now_ms, self.logs)
        self.meeting.requested()
        self.met.layouts += 1
        self.met.splits += splits
        self.met.alone += alone
        self.met.online += mode == "online"

    def _has_layout(self) -> bool:
        """Whether the last one that was requested holds."""
        layouts = self.control.read().layouts
        if layouts.open is None and layouts.number and (outcome := outcome_of(layouts, layouts.number)) is not None:
            self.met.moved += outcome.keys or 0
            self.met.resumed += outcome.resumed
        return layouts.open is None

    def is_settled(self) -> bool:
        """Whether neither a layout nor another version of the program is under way."""
        found = self.control.read()
        return found.layouts.open is None and found.programs.proposal is None

    def check_layouts(self) -> None:
        """The layout of a number that control has is the one by which nodes move keys: the first of that number."""
        control = self.control.read()
        newest, drivers = control.layouts.newest, [self.nodes[name][0] for name in sorted(self.nodes)]
        self.meeting.seen(control.programs.number, moves=control.layouts.open is not None, drivers=drivers)
        if newest is None:
            return
        text = bytes(newest.layout)
        if self.done is None or self.done[0] != text:
            self.done = text, msgspec.json.decode(text, type=Layout)
            self.met.portions += newest.so_far is not None
        for name, (driver, _) in sorted(self.nodes.items()):
            moved = driver.node.ledger.layouts.newest
            if isinstance(moved, Layout) and moved.number == newest.number:
                assert moved == self.done[1], f"node {name} has another layout {moved.number} than the control topic"
