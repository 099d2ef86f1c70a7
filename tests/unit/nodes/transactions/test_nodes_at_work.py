"""Which nodes are at work: deaf ones, strangers and those that leave are not, in all commands alike."""

from __future__ import annotations

import pytest

from nodes.cli.txn.autoscale import begin_nodes
from nodes.errors import RunFailed
from nodes.log.memory import MemoryLog
from nodes.machine import messages as m
from nodes.sim.store import MemoryCheckpoints
from nodes.transactions.autoscaling.sampling import Sampler
from nodes.transactions.control_history import nodes_at_work
from nodes.transactions.layouts.repartitioning import Repartitioning
from nodes.transactions.topics import FIRST_INCARNATION
from nodes.transactions.upgrades.proposing import Upgrader
from tests.unit.nodes.transactions.autoscaling.test_autoscaler import Provider
from tests.unit.txn_stage import Stage, counters


def staged(*, deaf: bool) -> Stage:
    """Node a is at work, or deaf; b leaves; a stranger sends heartbeats, and somebody what cannot be read."""

    def wait(seconds: float) -> None:
        made.now_ms += 100
        incarnation = m.UNCOUNTED_INCARNATION if deaf else FIRST_INCARNATION
        beats = [m.Heartbeat(incarnation, "a", 1), m.Heartbeat(FIRST_INCARNATION, "b", 1)]
        beats.append(m.Heartbeat(FIRST_INCARNATION, "stranger", 1))
        made.log.append(made.topics.heartbeats, 0, [*map(m.encode, beats), b"\xff"])

    made = Stage(counters("living", 2), new_log=lambda on_wait: MemoryLog(on_wait=wait))
    made.start("a")
    leaves = made.start("b")
    made.turn(50)
    leaves.begin_leaving()
    made.turn(2)
    return made


def found(made: Stage) -> list[str]:
    requests = Repartitioning(made.log, made.topics)
    return nodes_at_work(made.log, made.topics, requests.read, 0.5, clock_s=made.clock_s)


def test_members_whose_heartbeats_count_and_that_do_not_leave_are_at_work() -> None:
    assert found(staged(deaf=False)) == ["a"]
    assert found(staged(deaf=True)) == []


@pytest.mark.parametrize("deaf", [False, True])
def test_upgrades_moves_and_autoscalers_know_the_same_nodes(monkeypatch: pytest.MonkeyPatch, deaf: bool) -> None:
    made = staged(deaf=deaf)
    monkeypatch.setattr("nodes.transactions.control_history.time.monotonic", made.clock_s)
    upgrader = Upgrader(made.log, MemoryCheckpoints(), counters("living", 2), "living:program")
    checked = upgrader.check(dry_run=True)
    assert checked.nodes == ([] if deaf else ["a"])
    assert any(each.startswith("no node of the job is at work") for each in checked.problems) == deaf
    requests = Repartitioning(made.log, made.topics, clock_s=made.clock_s)
    sampler = Sampler(made.log, made.topics, requests, lambda: made.now_ms)
    made.log.wait({}, 0)
    assert sampler.take().nodes == (0 if deaf else 1)
    provider = Provider()
    begin_nodes(made.log, "living", provider, 2, None)  # type: ignore[arg-type]  # the job is there, so it waits for nothing
    assert provider.asked == [(2, 0 if deaf else 1)]
    if deaf:
        with pytest.raises(RunFailed, match="no node of job 'living' runs: nothing was changed"):
            requests.request(["count"], 3, "least")
    else:
        assert requests.request(["count"], 3, "least")[1].to == 3
