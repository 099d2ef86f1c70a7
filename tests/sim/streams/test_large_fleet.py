"""Fleets of many nodes: all results right, with deaths and arrivals, also where a thousand nodes are one process."""

from __future__ import annotations

import pytest

from nodes.machine.membership.failure_detector import Detector
from nodes.sim.large_fleets.fleet import LargeFleet
from nodes.sim.node_process import InvariantBroken


@pytest.mark.long
@pytest.mark.timeout(1800)  # a thousand take minutes of CPU, however many the machine has
@pytest.mark.parametrize("nodes", [400, pytest.param(1000, marks=pytest.mark.nightly)])
def test_hundreds_of_nodes_give_the_right_results(nodes: int) -> None:
    report = LargeFleet(nodes, nodes).live()
    print(report)
    assert report.killed == 8
    assert report.results > 10 * nodes
    # Each node reads what all say: with heartbeats told to everybody, those alone would be above 500 bytes of each.
    assert report.heartbeat_bytes_per_s < 300 * nodes


@pytest.mark.long
def test_fleets_of_other_sizes_and_seeds_do_too() -> None:
    for nodes, partitions, seed in ((40, 90, 2), (60, 30, 3)):
        assert LargeFleet(nodes, partitions, seed).live().results > 100


@pytest.mark.long
def test_a_large_fleet_that_suspects_nobody_does_not_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Detector, "suspects", lambda self, members, now_ms: [])
    with pytest.raises(InvariantBroken):
        LargeFleet(40, 60).live()
