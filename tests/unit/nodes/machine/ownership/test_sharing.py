"""Decisions about units: what one node claims and offers while others are silent, leaving or late."""

from __future__ import annotations

import pytest

from nodes.machine import facts as f
from nodes.machine import messages as m
from nodes.machine.membership.failure_detector import Detector
from nodes.machine.membership.pace import LAST_RESORT_TIMES, PROOF_TIMES
from nodes.machine.ownership.assignment import shares
from nodes.machine.ownership.ownership import Ownership
from nodes.machine.ownership.sharing import Sharing

SUSPECT_MS = 300
STEP_MS = 50


class Observer:
    """The node "me" beside others of which some are silent."""

    def __init__(self, *others: str, units: int = 6) -> None:
        self.now_ms = 0
        self.others = others
        self.ownership = Ownership(units)
        self.ownership.apply(m.JobStarted(1, "job", units))
        for node in ("me", *others):
            self.ownership.apply(m.Hello(1, node, -1, 1))
        self.detector = Detector(SUSPECT_MS, STEP_MS)
        self.sharing = Sharing("me", self.ownership, self.detector)
        for unit, node in shares((units,), self.ownership.members, {}).items():
            self.claim(unit, node)
        self.owners = self.ownership.owners()

    def claim(self, unit: int, node: str) -> None:
        for fact in self.ownership.apply(m.Claim(1, node, unit, self.ownership.version(unit) + 1)):
            assert isinstance(fact, f.PartitionClaimed)
            self.sharing.claimed(fact, self.now_ms)

    def passes(self, duration_ms: int, *silent: str) -> None:
        for _ in range(duration_ms // STEP_MS):
            self.now_ms += STEP_MS
            self.detector.stalled(self.now_ms)
            for node in ("me", *self.others):
                if node not in silent:
                    self.detector.record_heartbeat(node, self.now_ms)

    def suspects(self) -> list[str]:
        return self.detector.suspects(self.others, self.now_ms)

    def claims(self) -> list[int]:
        return [unit for unit, _ in self.sharing.decide(self.suspects(), self.now_ms).claims]

    def owned_by(self, node: str) -> list[int]:
        return [unit for unit, owner in self.owners.items() if owner == node]

    def was_wrong_about(self, node: str) -> None:
        """Its first unit was taken by a third node, while it lived; it proved since then that it keeps pace."""
        self.passes(SUSPECT_MS)
        unit = self.owned_by(node)[0]
        third = next(other for other in self.others if other != node)
        self.claim(unit, third)
        self.passes(2 * PROOF_TIMES * SUSPECT_MS)
        self.ownership.apply(m.Release(1, third, unit, self.ownership.version(unit), node))
        self.claim(unit, node)
        self.passes(2 * PROOF_TIMES * SUSPECT_MS)
        assert self.ownership.owners() == self.owners and node not in self.detector.pace.unproven()


def test_units_of_one_silent_node_are_claimed_as_the_assignment_says_and_each_once() -> None:
    seen = Observer("a", "b")
    seen.passes(SUSPECT_MS)
    assert not seen.claims()
    seen.passes(SUSPECT_MS, "a")
    assert seen.suspects() == ["a"]
    wanted = shares((6,), ["b", "me"], seen.owners)
    assert seen.claims() == [unit for unit in seen.owned_by("a") if wanted[unit] == "me"] != []
    assert not seen.claims()


def test_a_unit_that_is_barred_is_left_alone() -> None:
    seen = Observer("a")
    seen.passes(SUSPECT_MS)
    seen.passes(SUSPECT_MS, "a")
    barred, *free = seen.owned_by("a")
    decided = seen.sharing.decide(["a"], seen.now_ms, {barred})
    assert [unit for unit, _ in decided.claims] == free and not decided.again


def test_two_nodes_that_are_dead_at_once_are_inherited_at_once() -> None:
    seen = Observer("a", "b")
    seen.passes(SUSPECT_MS)
    seen.passes(SUSPECT_MS, "a", "b")
    assert seen.claims() == sorted(seen.owned_by("a") + seen.owned_by("b"))


def test_what_a_suspect_would_inherit_is_not_claimed_while_its_own_units_may_not_be_taken() -> None:
    """Found by seed 1379521841749 of starved nodes: a unit moved from the silent one here, and then to the late one."""
    seen = Observer("a", "b")
    seen.was_wrong_about("b")
    seen.passes(SUSPECT_MS, "a", "b")
    assert seen.suspects() == ["a", "b"]
    wanted = shares((6,), ["b", "me"], seen.owners)
    mine = [unit for unit in seen.owned_by("a") if wanted[unit] == "me"]
    assert seen.claims() == mine and len(mine) < len(seen.owned_by("a"))
    assert seen.sharing.decide(seen.suspects(), seen.now_ms).again
    seen.passes(8 * SUSPECT_MS, "a", "b")
    assert sorted(mine + seen.claims()) == sorted(seen.owned_by("a") + seen.owned_by("b"))


def test_balance_takes_nothing_from_a_suspect_that_may_not_be_taken_from_yet() -> None:
    seen = Observer("a", "b")
    seen.was_wrong_about("b")
    for unit in seen.owned_by("me"):
        seen.ownership.apply(m.Release(1, "me", unit, seen.ownership.version(unit), "b"))
        seen.claim(unit, "b")
    seen.passes(SUSPECT_MS, "b")
    assert seen.suspects() == ["b"] and not seen.claims()
    seen.passes(8 * SUSPECT_MS, "b")
    assert seen.claims()


def test_a_free_unit_waits_for_no_suspect() -> None:
    seen = Observer("a", "b")
    seen.was_wrong_about("b")
    seen.ownership.apply(m.Goodbye(1, "a", 1))
    seen.others = ("b",)
    seen.passes(SUSPECT_MS, "b")
    assert seen.suspects() == ["b"] and seen.claims() == seen.owned_by("a")


@pytest.mark.parametrize("leaving", ["me", "a"])
def test_who_leaves_is_given_nothing_and_its_units_are_offered(leaving: str) -> None:
    seen = Observer("a")
    seen.ownership.apply(m.Leaving(1, leaving, 1))
    seen.passes(SUSPECT_MS)
    decided = seen.sharing.decide(seen.suspects(), seen.now_ms)
    assert decided.claims == ()
    assert decided.offers == (tuple((unit, "a") for unit in seen.owned_by("me")) if leaving == "me" else ())


def with_idle_member(name: str) -> Observer:
    """Another member has nothing: it joined, and what became of it since is not known."""
    seen = Observer()
    seen.others = (name,)
    seen.ownership.apply(m.Hello(1, name, -1, 1))
    return seen


def test_a_member_without_a_heartbeat_is_offered_nothing_though_it_is_no_suspect_yet() -> None:
    """Found at a load of 20: a node gave units to members that had died before it began, and then died itself."""
    seen = with_idle_member("a")
    seen.passes(STEP_MS, "a")
    decided = seen.sharing.decide(seen.suspects(), seen.now_ms)
    assert not seen.suspects() and decided.offers == () and decided.again
    seen.passes(STEP_MS)
    decided = seen.sharing.decide(seen.suspects(), seen.now_ms)
    assert len(decided.offers) == 3 and not decided.again


def test_the_grace_after_a_stall_is_no_sign_that_a_member_lives() -> None:
    seen = with_idle_member("a")
    seen.passes(SUSPECT_MS)
    seen.passes(2 * SUSPECT_MS, "a")
    assert seen.suspects() == ["a"]
    seen.now_ms += 10 * SUSPECT_MS
    assert seen.detector.stalled(seen.now_ms)
    seen.detector.caught_up(seen.now_ms)
    decided = seen.sharing.decide(seen.suspects(), seen.now_ms)
    assert not seen.suspects() and decided.offers == () and decided.again


def test_a_node_that_does_not_read_its_own_heartbeats_takes_nothing_but_as_the_last_resort() -> None:
    """Records of the others do not reach it either. By its claims, work would wait until it is suspected itself."""
    seen = Observer("a", "b")
    seen.passes(2 * SUSPECT_MS)
    seen.passes((LAST_RESORT_TIMES - 1) * SUSPECT_MS, "me", "a", "b")
    assert seen.suspects() == ["a", "b"]
    assert not seen.claims()
    seen.passes(2 * SUSPECT_MS, "me", "a", "b")
    assert seen.claims() == [unit for unit, owner in seen.owners.items() if owner != "me"] != []


def test_a_node_that_reads_its_own_heartbeats_again_takes_what_silent_ones_had() -> None:
    seen = Observer("a", "b")
    seen.passes(2 * SUSPECT_MS)
    seen.passes(2 * SUSPECT_MS, "me", "a", "b")
    assert not seen.claims()
    seen.passes(STEP_MS, "a", "b")
    assert seen.claims() == [unit for unit, owner in seen.owners.items() if owner != "me"] != []


def test_the_last_heartbeats_that_a_node_reads_before_a_cut_make_no_claim() -> None:
    """Its own was later than those of the others, so it is in time for a moment when they are not."""
    seen = Observer("a", "b")
    seen.passes(2 * SUSPECT_MS)
    seen.passes(2 * STEP_MS, "a", "b")
    for _ in range(SUSPECT_MS // STEP_MS):
        seen.passes(STEP_MS, "me", "a", "b")
        assert not seen.claims()
    assert seen.suspects() == ["a", "b"]
