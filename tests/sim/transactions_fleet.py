"""A fleet of transactional nodes with standbys, slow stores, kills at the worst moments and nodes that stand still.

Whole nodes (driver, claims, checkpoints) on a log in memory; all faults are drawn from one seed.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from random import Random
from types import ModuleType
from typing import Any

from nodes.log.contract import Log, LogError, LogFull
from nodes.sim.case import FOURTEENTH_SEED, SEVENTEENTH_SEED, SIXTEENTH_SEED
from nodes.transactions.clients.client import TransactionClient
from nodes.transactions.control_history import control_history
from nodes.transactions.driver import TransactionDriver
from tests.sim.cut_off_callers import CutOffCallers
from tests.sim.cut_off_log import CutOffLog
from tests.sim.full_disks import FullAtTimes, FullDisks, Killed
from tests.sim.meeting_moves import MeetingMoves
from tests.sim.moving_faults import MovingFaults
from tests.sim.outside_world import NodeCalls, OutsideWorld
from tests.sim.recorded_log import RecordedLog
from tests.sim.spilled_state import SpilledState, StateDiskFull
from tests.sim.transactions_books import Books, Counters, check_replies, is_booked, versions
from tests.sim.transactions_clients import ServedFleet
from tests.sim.transactions_met import Met
from tests.unit.txn_stage import NewStore, SlowSaver
from transactional.epochs.copies import COPY_BYTES, PORTION_BYTES
from transactional.requests.requests import WireRequest

TURN_MS = 5
RIVAL_ODDS = 0.01
"""Of a step in which a layout is requested, at least, where commands have rivals."""
PATIENCE_TURNS = 8_000
"""Of a healed fleet, until the next reply or the next record of epochs: takeovers, and a read of the whole log."""
MOST_PATIENCE = 10
"""Times as long it may take until the last reply."""


class Fleet(ServedFleet):
    """Let it run with ``go_on``, end its faults with ``heal``; ``check`` compares with what was acknowledged."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = Random(seed)
        self.replicas = draw.choice([1, 2, 2, 2, 3, 3])
        partitions = draw.randrange(1, 4)
        self.parting_draw = Random(seed ^ 0xA107E)  # its own stream, so that earlier draws stay as they are
        self.operators = self.parting_draw.choice([["count"], ["count", "other"], ["count", "other", "third"]])
        self.outside = OutsideWorld(seed, lambda: self.now_ms)
        self.versions = versions(seed, partitions, self.operators, self.outside)
        self.upgrade_draw = Random(seed ^ 0x0DD)  # its own stream too
        self.upgrade_odds = self.upgrade_draw.choice([0.0, 0.005])
        super().__init__(
            self.versions["1"],
            interval_ms=draw.choice([60, 150, 400]),
            trim_ms=draw.choice([0, 300]),
            new_log=RecordedLog,
        )
        self.delay_ms = draw.choice([0, 50, 300, 300, 600])
        self.size = draw.randrange(2, 5)
        self.away_draw = Random(seed ^ 0x57A127)  # its own stream, so that earlier draws stay as they are
        self.away_ms = self.away_draw.choice([0, 0, 100, 1_000, 12_000])  # at most, of the store at a node's start
        self.leave_draw = Random(seed ^ 0x1EA7E)  # so is this one
        self.leave_odds = self.leave_draw.choice([0.0, 0.001, 0.004])
        self.layout_draw = Random(seed ^ 0x1A707)  # and this one
        self.layout_odds = self.layout_draw.choice([0.0, 0.005, 0.02])
        self.mode_draw = Random(seed ^ 0xC0F7)  # and this
        self.strain_draw = Random(seed ^ 0x57A44)  # and this
        self.met = Met()
        self.meeting = MeetingMoves(seed, self.met)
        self.share = self.strain_draw.choice([1.0, 1.0, 0.3, 0.1])  # of the turns that a node gets
        backlog = self.strain_draw.choice([0, 0, 40, 150])  # requests that are there before any node is
        self._configure(seed)
        self.control = control_history(self.log, self.topics, 1)
        self.leaving: set[str] = set()
        self.stalled_until: dict[str, int] = {}
        self.savers: dict[str, dict[str, SlowSaver]] = {}
        self.logs: dict[str, CutOffLog] = {}
        self.steps = self.last_step = self.busy_until = 0
        self.spilled = SpilledState(seed, lambda: self.now_ms)
        self.node_logs: dict[str, Log] = {}
        self.calls: dict[str, NodeCalls] = {}
        self.own_programs: dict[str, Any] = {}
        self.disks = FullDisks(seed, self.topics, lambda: self.now_ms, self.step)
        self.faults = MovingFaults(seed, self.topics, self.store, trims=bool(self.trim_ms))
        calls = self.step, self.repartition, self.is_settled
        self.callers = CutOffCallers(seed, self.log, lambda: self.now_ms, *calls)
        least_odds = RIVAL_ODDS if self.callers.has_rivals else 0.0
        self.layout_odds = max(self.layout_odds, least_odds, self.meeting.layout_odds)
        self.client = TransactionClient(self.callers.client_log, clock_s=self.clock_s)
        self.late_ms = draw.choice([0, 0, 10, 60])  # at most, until what is sent arrives
        self.promoted: dict[str, int] = {}
        self.doomed: dict[str, tuple[int, str]] = {}  # when a node dies, and why
        self.births: list[int] = []
        self.born = 0
        self.asked = 0
        self.sent: dict[str, WireRequest] = {}
        self.outcomes: dict[str, Any] = {}  # of requests that the end of a run waits for
        count = draw.choice([4, 20, 60])
        self.book = Counters(draw, self.operators, [f"k{number}" for number in range(count)])
        if is_booked(seed):
            self.book = Books(seed, self.operators, count, self.outside)
        self.stall_odds = draw.choice([0.0, 0.002, 0.02])
        self.kill_odds = {
            "after a save": draw.choice([0.0, 0.05, 0.3]),
            "after a notice": draw.choice([0.0, 0.05, 0.3]),
            "after a promotion": draw.choice([0.0, 0.3]),
            "at any time": draw.choice([0.0, 0.0005, 0.003]),
        }
        self.met.backlogs = backlog
        if backlog:
            self.ask(backlog)
        for _ in range(self.size):
            self.bear()

    def _configure(self, seed: int) -> None:
        max_requests = self.strain_draw.choice([400, 400, 20, 5])
        copy_bytes = self.strain_draw.choice([COPY_BYTES, 2_000, 300])
        window_times = Random(seed ^ 0x9ACE).choice([1, 4, 1_000]) if seed >= FOURTEENTH_SEED else 1
        few_bytes = [30, 5, 1] if seed >= SIXTEENTH_SEED else []
        few_bytes = [400, 100, 20] if seed >= SEVENTEENTH_SEED else few_bytes
        portion_bytes = Random(seed ^ 0x57A6E).choice([PORTION_BYTES, *few_bytes])
        portion_bytes = self.meeting.portion_bytes if self.meeting.is_drawn else portion_bytes
        self.config = replace(
            self.config,
            max_requests=max_requests,
            copy_bytes=copy_bytes,
            copy_window_bytes=copy_bytes * window_times,
            portion_bytes=portion_bytes,
            slice_rows=self.meeting.slice_rows,
        )

    # --- nodes ------------------------------------------------------------------------------------------------------

    def bear(self) -> None:
        self.born += 1
        self.start(f"node-{self.born:03}")

    def log_of(self, name: str) -> Log:
        late = FullAtTimes(self.log, lambda: self.now_ms, lambda: self.draw.randrange(self.late_ms + 1), self._arrived)
        self.logs[name] = late
        made = self.disks.patient(late, name, lambda: name in self.nodes, lambda: name in self.leaving)
        self.node_logs[name] = made
        return made

    def _arrived(self, topic: str, values: Iterable[bytes]) -> None:
        self.faults.arrived(topic, values, self.now_ms, self.logs)
        if topic == self.topics.calls:
            self.meeting.arrived(values)
        elif topic == self.topics.control:
            self.meeting.portion_ended(values)

    def new_store_of(self, name: str) -> NewStore:
        return self.spilled.new_store(name)

    def more(self, name: str) -> dict[str, Any]:
        now_ms = lambda: self.now_ms  # noqa: E731
        full_ms = lambda: self.disks.store_ms(name)  # noqa: E731
        saver = SlowSaver(now_ms, lambda: full_ms() + self.draw.randrange(self.delay_ms // 2, self.delay_ms + 1))
        merger = SlowSaver(now_ms, lambda: self.draw.randrange(100))
        loader = SlowSaver(now_ms, lambda: self.draw.randrange(self.delay_ms + 1))
        ledger = SlowSaver(now_ms, lambda: self.away_draw.randrange(self.away_ms + 1))
        beside = {"saver": saver, "merger": merger, "loader": loader, "ledger-loader": ledger}
        self.savers[name] = beside
        loading = SlowSaver(now_ms, lambda: self.upgrade_draw.randrange(500))
        beside["program-loader"] = loading
        self.own_programs[name] = self.programs()
        return {
            "new_saver": lambda what: beside.get(what) or self.new_saver(what),
            "programs": self.own_programs[name],
            "plain_log": self.logs[name],
            "disk_bytes": self.spilled.disk_bytes(name),
        }

    def start(self, name: str) -> TransactionDriver:
        driver = super().start(name)
        self.promoted[name] = 0
        self.let_call(name, self.own_programs[name].own)
        return driver

    def let_call(self, name: str, program: Any, module: ModuleType | None = None) -> None:
        """A node calls outside, by the program that it was started with. ``module``: of the earlier release."""
        if self.outside.odds:
            log, key = self.node_logs[name], self.config.answer_key
            self.calls[name] = self.outside.calls_of(log, program, self.topics.requests, key, module)

    def kill(self, name: str, why: str) -> None:
        self.met.kills[why] = self.met.kills.get(why, 0) + 1
        self.logs[name].dies(self.draw)
        self._ends(name)

    def _ends(self, name: str) -> None:
        self.met.promotions += self.nodes[name][0].units.promotions
        self.leaving.discard(name)
        del self.logs[name], self.node_logs[name]
        self.calls.pop(name, None)
        self.own_programs.pop(name, None)
        del self.nodes[name], self.savers[name], self.promoted[name]
        self.stalled_until.pop(name, None)
        self.doomed.pop(name, None)
        self.births.append(self.now_ms + self.draw.choice([5, 300, 2_000]))

    def doom(self, name: str, why: str, within_ms: int) -> None:
        if self.draw.random() < self.kill_odds[why] and name not in self.doomed:
            self.doomed[name] = self.now_ms + self.draw.randrange(within_ms + 1), why

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.now_ms += TURN_MS
            self.faults.go_on(self.now_ms, self.logs)
            self.callers.go_on(self.client, self.sent)
            self.outside.go_on()
            for name in sorted(self.logs):
                notices = self.log.end_offset(self.topics.control, 0)
                self.logs[name].go_on()
                if self.log.end_offset(self.topics.control, 0) > notices:
                    self.doom(name, "after a notice", 30)
            for name in sorted(self.savers):
                self._work_beside(name)
            for name in sorted(self.nodes):
                self._turn_node(name)
            self._die_and_be_born()

    def _work_beside(self, name: str) -> None:
        """The threads of one node."""
        beside = self.savers[name]
        try:
            for what in ("merger", "loader", "ledger-loader", "program-loader"):
                beside[what].go_on()
        except StateDiskFull:  # the loop ends by the error of its loader
            self._has_no_room(name)
            return
        if did := beside["saver"].go_on():
            self.met.saved += did
            self.doom(name, "after a save", 0)

    def _turn_node(self, name: str) -> None:
        if name not in self.nodes or name in self.disks.waiting or self.stalled_until.get(name, 0) > self.now_ms:
            return
        try:
            self._node_turns(name)
        except LogFull:  # it waits for no room while it leaves
            self.met.full_left += 1
            self.logs[name].dies(self.draw)
            self._ends(name)
        except StateDiskFull:
            self._has_no_room(name)
        except Killed:
            pass

    def _has_no_room(self, name: str) -> None:
        self.kill(name, "no room for state")

    def _node_turns(self, name: str) -> None:
        if self.share < 1 and self.strain_draw.random() >= self.share:
            self.met.starved += 1
            return
        driver, feeding = self.nodes[name]
        driver.turn()
        self.met.ledger_waits += driver.ledger_load.is_loading
        feeding.turn(driver.node.sequencers)
        if name in self.calls:
            self.calls[name].turn(driver)
        if self._leaves(name, driver):
            return
        if driver.units.promotions > self.promoted[name]:
            self.promoted[name] = driver.units.promotions
            self.doom(name, "after a promotion", 1_500)
        if self.draw.random() < self.kill_odds["at any time"]:
            self.doomed.setdefault(name, (self.now_ms, "at any time"))
        if self.draw.random() < self.stall_odds:
            self.met.stalls += 1
            self.stalled_until[name] = self.now_ms + self.draw.choice([100, 300, 1_000, 5_000])

    def _leaves(self, name: str, driver: TransactionDriver) -> bool:
        """As a process does after SIGTERM; True once it has gone."""
        if name not in self.leaving:
            if self.leave_draw.random() >= self.leave_odds:
                return False
            self.leaving.add(name)
            driver.begin_leaving()
        if not driver.may_leave or self.logs[name].is_cut_off:
            return False
        self.met.handovers += driver.claiming.joined and not driver.claiming.owned
        driver.leave()
        self._ends(name)
        return True

    def _die_and_be_born(self) -> None:
        for name, (at_ms, why) in sorted(self.doomed.items()):
            if at_ms <= self.now_ms and name in self.nodes:
                self.kill(name, why)
        due = [at_ms for at_ms in self.births if at_ms <= self.now_ms]
        self.births = [at_ms for at_ms in self.births if at_ms > self.now_ms]
        for _ in due:
            self.bear()

    def go_on(self, turns: int) -> None:
        """So many steps, then no more faults."""
        self.last_step = turns
        while self.steps < turns:
            self.step()
        self.heal()
        self.met.upgrades = self.fold().number

    def step(self) -> None:
        """Requests in bursts, with pauses in which checkpoints have less and less to save. Then all nodes turn."""
        draw, number = self.draw, self.steps
        self.steps += 1
        if number >= self.last_step:
            self.disks.end()
            self.spilled.end()
        if draw.random() < 0.01:
            self.busy_until = number + draw.choice([5, 40, 200])
        if number < self.busy_until and draw.random() < 0.3:
            self.ask(draw.randrange(1, 10))
        if self.upgrade_draw.random() < self.upgrade_odds or self.meeting.upgrade_is_due():
            with suppress(LogError):  # it is cut off
                self.propose()
        if self.layout_draw.random() < self.layout_odds:
            self.repartition()
        self.spilled.maybe_begin(sorted(self.nodes))
        if self.disks.maybe_begin(sorted(self.nodes)):
            self.met.full_moves += self.fold().proposal is not None or self.control.read().layouts.open is not None
        for name in self.disks.dying():
            self.doomed.setdefault(name, (self.now_ms, "at any time"))
        self.turn()
        self.receive()
        self.check_layouts()

    def heal(self) -> None:
        """No more faults; fails if requests stay without a reply."""
        self.kill_odds, self.stall_odds, self.leave_odds = dict.fromkeys(self.kill_odds, 0.0), 0.0, 0.0
        self.share = 1.0
        self.faults.end(self.logs)
        self.disks.end()
        self.spilled.end()
        self.callers.end()
        self.stalled_until.clear()
        self.doomed.clear()
        waited, seen = 0, (0, 0)
        for _ in range(MOST_PATIENCE * PATIENCE_TURNS):
            self.turn()
            self.receive()
            now = len(self.sent), self.log.end_offset(self.topics.epochs, 0)
            waited, seen = waited + 1 if now == seen else 0, now
            if waited > PATIENCE_TURNS:
                break
            if not self.sent and not self.births and self._has_layout():
                self.check_layouts()
                return
        waits_for = {name: driver.proposer.waits_for for name, (driver, _) in self.nodes.items()}
        raise AssertionError(f"{len(self.sent)} requests have no reply: {sorted(self.sent)[:5]}; layouts: {waits_for}")

    def check(self) -> None:
        """Acknowledged requests have taken effect, once: on this fleet, and on one that begins with its checkpoints."""
        self.book.check(self.request_now)
        for name in sorted(self.nodes):
            self.kill(name, "all at once")
        self.births.clear()
        self.bear()
        self.book.check(self.request_now)
        self.met.restored += any(driver.steps.begun for driver, _ in self.nodes.values())
        check_replies(self.replies())

    def run(self) -> None:
        """Faults, the end of them, and the check; ``met`` has what came."""
        try:
            self.go_on(self.draw.choice([400, 1_000, 2_000]))
            self.check()
        finally:
            self.spilled.close()
        self.met.at_steps.update(self.faults.met)
        self.met.callers.update(self.callers.met)
        self.met.full, self.met.full_waits, self.met.full_killed = self.disks.met
        self.met.spills, self.met.full_spills = self.spilled.made, self.spilled.spells
        self.met.outside, self.met.again, self.met.late = self.outside.made, self.outside.again, self.outside.late
        self.met.functions.update(self.book.met)
        self.met.spilled_layouts = self.met.layouts * self.spilled.is_spilled
        self.met.outside_layouts = self.met.layouts * (self.outside.made > 0)


def simulate(seed: int) -> Met:
    """One run; fails where something that was acknowledged is lost, or done twice."""
    fleet = Fleet(seed)
    fleet.run()
    return fleet.met
