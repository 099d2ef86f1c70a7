"""Claims of units: even shares of each kind."""

from __future__ import annotations

from nodes.machine import messages as m
from nodes.machine.control_state import ControlState
from nodes.machine.membership.pace import PROOF_TIMES
from nodes.machine.ownership.assignment import shares
from nodes.machine.ownership.claims import HELD_BY_LIVING_TIMES, HELD_TIMES, Claiming
from nodes.machine.ownership.ownership import Ownership


def test_each_kind_of_unit_is_shared_out_evenly() -> None:
    owners: dict[int, str | None] = dict.fromkeys(range(8))
    wanted = shares((4, 4), ["one", "two"], owners)
    assert wanted == shares((4, 4), ["two", "one"], owners)
    for units in (range(4), range(4, 8)):
        assert sorted(wanted[unit] for unit in units) == ["one", "one", "two", "two"]


LONG_MS = 2_000


class Group:
    """Nodes that share a control topic and hear each other every 20 ms, but for those that are ``dead``.

    Those that are ``behind`` are abreast with no unit that comes to them.
    """

    def __init__(self, *names: str) -> None:
        self.nodes = {name: Claiming(name, -1, 1, 4, failure_timeout_ms=100, forget_after_ms=LONG_MS) for name in names}
        self.topic = [m.encode(m.JobStarted(1, "job", 4))]
        self.read = dict.fromkeys(names, 0)
        self.dead: set[str] = set()
        self.behind: set[str] = set()
        self.now_ms = 0

    def run(self, duration_ms: int) -> None:
        for _ in range(duration_ms // 20):
            self.now_ms += 20
            alive = sorted(self.nodes.keys() - self.dead)
            beats = [m.encode(m.Heartbeat(1, name, self.now_ms)) for name in alive]
            for name in alive:
                node, start = self.nodes[name], self.read[name]
                node.receive_heartbeats(beats, self.now_ms)
                self.read[name] = len(self.topic)
                abreast = [] if name in self.behind else node.incoming
                self.topic += node.control(self.topic[start:], True, self.now_ms, abreast)

    def members(self, seen_by: str) -> list[str]:
        return sorted(self.nodes[seen_by].ownership.members)

    def goodbyes(self) -> int:
        return sum(isinstance(m.decode_control(value), m.Goodbye) for value in self.topic)


def test_a_member_that_has_been_silent_for_very_long_is_said_to_have_left_once() -> None:
    group = Group("a", "b", "c")
    group.run(1_000)
    group.dead = {"c"}
    group.run(LONG_MS // 2)
    assert group.members("a") == ["a", "b", "c"] and not group.nodes["a"].ownership.owned_by("c")
    group.run(LONG_MS)
    assert group.members("a") == group.members("b") == ["a", "b"] and group.goodbyes() == 1


def test_one_that_was_said_to_have_left_and_has_not_joins_again() -> None:
    group = Group("a", "b")
    group.run(1_000)
    group.dead = {"b"}
    group.run(2 * LONG_MS)
    assert group.members("a") == ["a"]
    group.dead = set()
    group.run(2_000)
    assert group.members("a") == group.members("b") == ["a", "b"]
    assert len(group.nodes["a"].owned) == len(group.nodes["b"].owned) == 2


def folded(group: Group) -> ControlState:
    """The state of a node that has read all of the topic."""
    ownership = Ownership(4)
    for value in group.topic:
        ownership.apply(m.decode_control(value))
    return ownership.snapshot()


def stands_still(group: Group, name: str, duration_ms: int) -> None:
    """And finds that all of the topic is gone but for its checkpoint."""
    group.dead = {name}
    group.run(duration_ms)
    group.dead = set()
    group.nodes[name].restore(folded(group))
    group.read[name] = len(group.topic)


def test_one_that_stood_still_gives_up_what_others_have_claimed_meanwhile() -> None:
    group = Group("a", "b")
    group.run(1_000)
    assert len(group.nodes["b"].owned) == 2
    stands_still(group, "b", LONG_MS // 2)
    assert group.nodes["b"].joined and group.nodes["b"].owned == []
    group.run(2 * PROOF_TIMES * 100)
    assert len(group.nodes["a"].owned) == len(group.nodes["b"].owned) == 2


def test_one_that_stood_still_keeps_what_nobody_has_claimed_and_knows_who_has_left() -> None:
    group = Group("a", "b", "c")
    group.run(1_000)
    owned = group.nodes["b"].owned
    group.topic += group.nodes["c"].leave()
    stands_still(group, "b", 60)
    assert owned and set(owned) <= set(group.nodes["b"].owned) and group.members("b") == ["a", "b"]


def test_one_that_was_said_to_have_left_while_it_stood_still_joins_again() -> None:
    group = Group("a", "b")
    group.run(1_000)
    stands_still(group, "b", 2 * LONG_MS)
    assert not group.nodes["b"].joined and group.nodes["b"].owned == []
    group.run(2_000)
    assert group.members("a") == group.members("b") == ["a", "b"]
    assert len(group.nodes["a"].owned) == len(group.nodes["b"].owned) == 2


def joined_by_one_behind() -> Group:
    """Two nodes own two units each; to a third one, which has to load them, two units come."""
    group = Group("a", "b", "c")
    group.dead, group.behind = {"c"}, {"c"}
    group.run(1_000)
    group.dead = set()
    group.run(300)
    return group


def test_the_former_owner_works_on_until_the_next_one_is_abreast() -> None:
    group = joined_by_one_behind()
    coming = group.nodes["c"].incoming
    assert coming and group.nodes["c"].owned == []
    assert sorted(group.nodes["a"].owned + group.nodes["b"].owned) == [0, 1, 2, 3]
    group.behind = set()
    group.run(200)
    assert group.nodes["c"].owned == coming and group.nodes["c"].incoming == []
    assert not set(coming) & set(group.nodes["a"].owned + group.nodes["b"].owned)


def test_one_that_is_not_abreast_for_long_goes_on_while_the_former_owner_lives() -> None:
    group = joined_by_one_behind()
    coming = group.nodes["c"].incoming
    group.run((HELD_BY_LIVING_TIMES - HELD_TIMES) * 100)
    assert group.nodes["c"].owned == [] and group.nodes["c"].incoming == coming
    assert sorted(group.nodes["a"].owned + group.nodes["b"].owned) == [0, 1, 2, 3]
    group.run(HELD_TIMES * 100)
    assert group.nodes["c"].owned == coming, "checkpoints of what it has released do not count"


def test_one_that_is_not_abreast_for_long_claims_what_it_has_not_loaded_and_nobody_works_on() -> None:
    group = joined_by_one_behind()
    coming = group.nodes["c"].incoming
    for name in "ab":
        group.topic += group.nodes[name].leave()
    group.run(HELD_TIMES * 100)
    assert set(coming) <= set(group.nodes["c"].owned)


def leaving(group: Group, name: str) -> None:
    group.topic += group.nodes[name].begin_leaving()


def test_one_that_leaves_is_given_nothing_and_goes_when_others_have_all_of_its_units() -> None:
    group = Group("a", "b", "c")
    group.run(1_000)
    leaving(group, "c")
    group.behind = {"a", "b"}
    group.run(300)
    c = group.nodes["c"]
    assert c.owned and not c.has_handed_over(group.now_ms), "nobody is abreast"
    coming = group.nodes["a"].incoming + group.nodes["b"].incoming
    assert sorted(coming) == c.owned
    group.behind = set()
    group.run(200)
    assert c.owned == [] and c.has_handed_over(group.now_ms)
    group.dead = {"b"}
    group.run(1_000)
    assert len(group.nodes["a"].owned) == 4 and c.owned == []


def test_one_that_leaves_waits_for_no_node_that_is_dead_or_leaves_too() -> None:
    group = Group("a", "b", "c")
    group.run(1_000)
    group.dead = {"b"}
    group.run(1_000)
    for name in "ac":
        leaving(group, name)
        assert not group.nodes[name].has_handed_over(group.now_ms)
    group.run(40)
    assert all(group.nodes[name].owned and group.nodes[name].has_handed_over(group.now_ms) for name in "ac")


def test_one_that_leaves_and_was_said_to_have_left_does_not_join_again() -> None:
    group = Group("a", "b")
    group.run(1_000)
    leaving(group, "b")
    group.dead = {"b"}
    group.run(2 * LONG_MS)
    group.dead = set()
    group.run(2_000)
    assert group.members("a") == ["a"] and group.nodes["b"].has_handed_over(group.now_ms)


def test_what_another_one_should_have_instead_is_not_waited_for() -> None:
    group = joined_by_one_behind()
    coming = group.nodes["c"].incoming
    group.dead = {"c"}
    group.run(1_000)
    assert sorted(group.nodes["a"].owned + group.nodes["b"].owned) == [0, 1, 2, 3]
    assert all(group.nodes["a"].ownership.owner(unit) in ("a", "b") for unit in coming)
