"""Claims of units: even shares of each kind, and nothing given back to a node that was not heard again."""

from __future__ import annotations

from nodes.machine import messages as m
from nodes.machine.claiming import Claiming, shares

SUSPECT_AFTER_MS = 300


def test_each_kind_of_unit_is_shared_out_evenly() -> None:
    owners: dict[int, str | None] = dict.fromkeys(range(8))
    wanted = shares((4, 4), ["one", "two"], owners)
    assert wanted == shares((4, 4), ["two", "one"], owners)
    for units in (range(4), range(4, 8)):
        assert sorted(wanted[unit] for unit in units) == ["one", "one", "two", "two"]


class Fleet:
    """Nodes on one control topic, all of which read all of it at each step."""

    def __init__(self, *names: str) -> None:
        self.now_ms = 0
        self.topic = [m.encode(m.JobStarted(1, "", 4))]
        self.nodes = {name: Claiming(name, -1, 1, 4, suspect_after_ms=SUSPECT_AFTER_MS) for name in names}
        self.read = dict.fromkeys(names, 0)

    def step(self, ms: int) -> list[bytes]:
        """Time passes, everybody hears everybody; gives what was written."""
        self.now_ms += ms
        start = len(self.topic)
        for name, node in self.nodes.items():
            beats = [m.encode(m.Heartbeat(1, other, self.now_ms)) for other in self.nodes]
            node.heard(beats, self.now_ms)
            values, self.read[name] = self.topic[self.read[name] :], len(self.topic)
            self.topic += node.control(values, True, self.now_ms)
        return self.topic[start:]


def test_a_stall_of_its_heir_gives_a_dead_node_nothing_back() -> None:
    fleet = Fleet("one", "other")
    for _ in range(20):
        fleet.step(10)
    assert len(fleet.nodes["one"].owned) == len(fleet.nodes["other"].owned) == 2
    dead = fleet.nodes.pop("other")
    for _ in range(SUSPECT_AFTER_MS // 10 + 5):
        fleet.step(10)
    one = fleet.nodes["one"]
    assert one.owned == [0, 1, 2, 3]
    for ms in (10 * SUSPECT_AFTER_MS, *[10] * 5):  # it stood still, and may not judge for a while
        assert fleet.step(ms) == []
    fleet.nodes["other"] = dead  # it was only silent
    for _ in range(5):
        fleet.step(10)
    assert len(one.owned) == len(dead.owned) == 2
