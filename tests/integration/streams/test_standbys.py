"""Real node processes with hot standbys: an owner dies, and nobody waits for a suspicion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodes.fleet.monitor import Monitor
from nodes.fleet.processes import Fleet
from nodes.machine import messages as m
from tests.integration.fleet_support import NOBODY_IS_SUSPECTED, PARTITIONS, Stage, owners
from tests.integration.jobs_mixed import OUTPUT


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path, "node.replicas=2", NOBODY_IS_SUSPECTED)
    yield stage
    stage.log.close()


def settled(monitor: Monitor, nodes: int) -> bool:
    """Every partition has its owner for good, as each node has its share, and its standby has no backlog."""
    members, shares = monitor.ownership.members, Counter(owners(monitor))
    heard = [view for name, view in monitor.nodes.items() if name in members]
    even = None not in shares and len(shares) == nodes and max(shares.values()) - min(shares.values()) <= 1
    return even and len(heard) == nodes and sum(view.stats.get("standbys", 0.0) for view in heard) == PARTITIONS


def promotions(monitor: Monitor, without: int) -> float:
    """How often a standby has become the owner, on the nodes but one."""
    return sum(view.stats.get("promotions", 0.0) for view in monitor.nodes.values() if view.number != without)


def goodbye(stage: Stage, monitor: Monitor, fleet: Fleet) -> None:
    """Say on behalf of a dead node that it has left: its partitions are free, without a suspicion."""
    monitor.poll()
    alive = {member.number for member in fleet.running()}
    for name, number in monitor.ownership.members.items():
        if number not in alive:
            stage.log.append(monitor.run.job.control_topic, 0, [m.encode(m.Goodbye(monitor.run.incarnation, name))])


@pytest.mark.long
def test_results_go_on_without_any_claim_when_an_owner_is_killed(stage: Stage) -> None:
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(2) as fleet:
        with stage.feeding():
            # A node that comes late is a standby of all partitions until it is handed some.
            stage.until(monitor, lambda: settled(monitor, 2), "every partition has a standby", fleet)
            orphaned = [p for p, owner in enumerate(owners(monitor)) if owner == 0]
            assert 0 < len(orphaned) < PARTITIONS
            fleet.kill(0)
            ends = {p: stage.log.end_offset(OUTPUT, p) for p in orphaned}
            more = lambda: all(stage.log.end_offset(OUTPUT, p) > end + 20 for p, end in ends.items())  # noqa: E731
            stage.until(monitor, more, "the standby publishes", fleet)
            assert [owners(monitor)[p] for p in orphaned] == [0] * len(orphaned), "nobody has claimed anything"
        goodbye(stage, monitor, fleet)
        stage.finish(run, fleet)
    stage.assert_exact()


@pytest.mark.long
def test_owners_may_change_again_and_again_between_copies(stage: Stage) -> None:
    """Each of three nodes is killed and started again in turn; every claim finds a standby in its place."""
    run = stage.open()
    monitor = stage.monitor(run)
    with stage.fleet(3) as fleet:
        with stage.feeding():
            for number in range(3):
                monitor.nodes.clear()  # what they said before the last change is no answer
                stage.until(monitor, lambda: settled(monitor, 3), "every partition has a standby", fleet)
                fleet.kill(number)
                before = promotions(monitor, number)
                goodbye(stage, monitor, fleet)
                grown = lambda n=number, old=before: promotions(monitor, n) > old  # noqa: E731
                stage.until(monitor, grown, "a standby took over in place", fleet)
                fleet.add(number)
            monitor.nodes.clear()
            stage.until(monitor, lambda: settled(monitor, 3), "every partition has a standby", fleet)
        stage.finish(run, fleet)
    stage.assert_exact()
