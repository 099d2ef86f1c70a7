"""Node processes that are killed, stopped and started again at the worst moments: the results stay exact."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.fleet.monitor import Monitor
from nodes.fleet.processes import Fleet, FleetProcess
from nodes.machine.facts import PartitionClaimed
from nodes.machine.workload import PID
from tests.integration.fleet_support import PARTITIONS, SLOWLY_SUSPECTED, UNTRIMMED, Stage, owners
from tests.integration.processes import PLENTY_S, children

CRASHPOINTS = (
    "before-control:1",  # before its Hello
    "before-control:3",
    "after-read:3",
    "before-output:4",
    "after-output:4",
    "before-delta:5",
    "after-delta:5",
    "before-checkpoint:2",
    "after-checkpoint:2",
)
SOON_SUSPECTED = "node.failure_timeout_ms=1000"
UNMERGED = "node.merged_checkpoint_interval_ms=0"


@pytest.fixture
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """With the settings that the test asks for."""
    stage = Stage(tmp_path, *getattr(request, "param", ()))
    yield stage
    stage.log.close()


class Watching(Monitor):
    """Also knows ``robbed``: the lives of nodes that had partitions which others took."""

    def __init__(self, stage: Stage) -> None:
        self.robbed: set[str] = set()
        super().__init__(stage.log, stage.open())

    def _learn(self, fact: object) -> None:
        super()._learn(fact)
        if isinstance(fact, PartitionClaimed) and fact.previous not in (None, fact.node):
            self.robbed.add(fact.previous)

    def has_robbed(self, member: FleetProcess) -> bool:
        """Whether this very process was taken for dead."""
        lives = (view for view in self.nodes.values() if view.stats.get(PID) == member.process.pid)
        return any(view.node in self.robbed for view in lives)


def died(fleet: Fleet) -> list[int]:
    return [m.number for m in fleet.members if m.process.poll() == -signal.SIGKILL]


@pytest.mark.long
@pytest.mark.parametrize("stage", [(UNTRIMMED, SLOWLY_SUSPECTED)], indirect=True)
def test_a_node_may_die_at_every_named_point(stage: Stage) -> None:
    """Each joins a running job, takes partitions over and dies at its point; one node lives through it all.

    That one takes nothing from slow nodes, so that each gets on to its point. Partitions of the dead are taken by the
    next node, which suspects them soon, and by that one in the end.
    """
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(1) as fleet:
        with stage.feeding():
            stage.until(monitor, lambda: None not in owners(monitor), "the first node owns all", fleet)
            for number, point in enumerate(CRASHPOINTS, start=1):
                fleet.crashpoints[number] = point
                stage.add(fleet, number, SOON_SUSPECTED)
                died_there = lambda number=number: number in died(fleet)  # noqa: E731
                stage.until(monitor, died_there, f"node {number} dies at {point}", fleet)
        assert fleet.running() == fleet.members[:1]
        stage.finish(run, fleet)
    monitor.poll()
    assert monitor.steals > 0
    stage.assert_exact()


@pytest.mark.long
@pytest.mark.parametrize("stage", [(UNMERGED,)], indirect=True)
def test_all_may_die_at_once_and_find_their_checkpoints_damaged(stage: Stage) -> None:
    """Twice: first the newest checkpoint of every partition is damaged afterwards, then all of them."""
    run = stage.open()
    stage.feed(4000)
    for life in range(3):
        with stage.fleet(2) as fleet:
            if life == 2:
                stage.finish(run, fleet)
                break
            wait_for_checkpoints(stage, stage.monitor(run), fleet)
            stage.feed(4000)
            fleet.kill_all()
        damage(stage, newest_only=life == 0)
    stage.assert_exact()


def wait_for_checkpoints(stage: Stage, monitor: Monitor, fleet: Fleet) -> None:
    """Until every partition has three of them more than before."""
    before = [monitor.ownership.checkpoint(partition) for partition in range(PARTITIONS)]

    def enough() -> bool:
        kept = [monitor.ownership.checkpoints(partition) for partition in range(PARTITIONS)]
        return all(len(names) == 3 and old not in names for old, names in zip(before, kept, strict=True))

    with stage.feeding():
        stage.until(monitor, enough, "every partition has three new checkpoints", fleet)


def damage(stage: Stage, newest_only: bool) -> None:
    """Cut, flip or empty the files of checkpoints."""
    chosen = random.Random(7)
    folders = {path.parent for path in (stage.path / "checkpoints").rglob("*.ckpt")}
    assert len(folders) == PARTITIONS
    for folder in sorted(folders):
        files = sorted(folder.glob("*.ckpt"), key=lambda path: path.stat().st_mtime_ns)
        for file in files[-1:] if newest_only else files:
            data = bytearray(file.read_bytes())
            at = chosen.randrange(max(1, len(data)))
            data[at : at + 1] = bytes(byte ^ 1 << chosen.randrange(8) for byte in data[at : at + 1])
            file.write_bytes(chosen.choice([bytes(data), bytes(data[:at]), b""]))


@pytest.mark.long
@pytest.mark.parametrize("stage", [(UNTRIMMED, SOON_SUSPECTED)], indirect=True)
def test_a_node_that_is_stopped_for_longer_than_the_suspicion_goes_on_harmlessly(stage: Stage) -> None:
    """Three times: stop it, wait until the other has everything, let it go on with what it believes.

    Each time it then leaves for a new incarnation, since one that was taken from by mistake has to prove its pace
    first. So does each that was taken from while it was only slow. One that happens to be stopped within the log's
    write lock is killed by those who wait for it: that stop is none.
    """
    run = stage.open()
    with stage.fleet(2) as fleet:
        monitor = Watching(stage)
        came_back = 0
        with stage.feeding():
            while came_back < 3:
                zombie, other = (newest(fleet, number) for number in range(2))
                both = lambda: set(owners(monitor)) == {0, 1}  # noqa: E731
                lost = lambda z=zombie, o=other: [m for m in (z, o) if unfit(monitor, m)]  # noqa: E731
                stage.until(monitor, lambda: both() or bool(lost()), "both own partitions", fleet)  # noqa: B023
                if found := lost():
                    for member in found:
                        leave_and_restart(fleet, member)
                    continue
                zombie.process.send_signal(signal.SIGSTOP)
                stage.until(monitor, lambda: set(owners(monitor)) == {1}, "the other owns all", fleet)
                stopped_at = monitor.consumed
                stage.until(monitor, lambda at=stopped_at: monitor.consumed > at + 200, "it works on", fleet)
                if zombie.process.poll() is None:
                    zombie.process.send_signal(signal.SIGCONT)
                    came_back += 1
                    went_on_at = monitor.consumed
                    stage.until(monitor, lambda at=went_on_at: monitor.consumed > at + 200, "both work on", fleet)
                leave_and_restart(fleet, zombie)
        stage.finish(run, fleet)
    stage.assert_exact()


def newest(fleet: Fleet, number: int) -> FleetProcess:
    return [member for member in fleet.members if member.number == number][-1]


def unfit(monitor: Watching, member: FleetProcess) -> bool:
    """Whether it was killed in the moment in which it was let go on, or was taken for dead while it was slow."""
    return member.process.poll() is not None or monitor.has_robbed(member)


def leave_and_restart(fleet: Fleet, member: FleetProcess) -> None:
    """Asked to leave, unless it was killed."""
    if member.process.poll() is None:
        member.process.terminate()
        member.process.wait(PLENTY_S)
    assert member.process.returncode in (0, -signal.SIGKILL)
    fleet.add(member.number)


@pytest.mark.long
def test_a_stopped_owner_of_the_logs_write_lock_does_not_stop_the_fleet(stage: Stage) -> None:
    """A node that is stopped while it holds the lock of an output partition is killed by the nodes that wait for it."""
    run = stage.open()
    stage.feed(500)
    with stage.fleet(2) as fleet:
        monitor = stage.monitor(run)
        stage.until(monitor, lambda: None not in owners(monitor), "all is owned", fleet)
        with children("tests.integration.log_child", [("hold", stage.path, 1)]) as (holder,):
            assert holder.line() == "holding"
            holder.signal(signal.SIGSTOP)
            before = monitor.consumed
            with stage.feeding():
                stage.until(monitor, lambda: monitor.consumed > before + 2000, "the fleet works on", fleet)
            assert holder.finish() == -signal.SIGKILL
        assert len(fleet.running()) == 2
        stage.finish(run, fleet)
