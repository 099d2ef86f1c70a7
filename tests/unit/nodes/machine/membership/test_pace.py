"""A node that was taken for dead and lives gets nothing until it has kept pace; a dead one is missed as ever."""

from __future__ import annotations

from nodes.machine import facts as f
from nodes.machine.membership import pace as p
from nodes.machine.membership.failure_detector import LATE_CLAIM_TIMES, Detector

SUSPECT_MS = 300
STEP_MS = 50


class Observer:
    """The node a, which reads its own heartbeats, and those of b at each of its steps unless told otherwise."""

    def __init__(self) -> None:
        self.detector = Detector(SUSPECT_MS)
        self.now_ms = 0
        self.versions = 0
        self.receives(STEP_MS)

    def receives(self, duration_ms: int, *, step_ms: int = STEP_MS, node: str = "b") -> None:
        for _ in range(duration_ms // step_ms):
            self.now_ms += step_ms
            if self.detector.stalled(self.now_ms):
                self.detector.caught_up(self.now_ms)
            for each in ("a", node):
                if each:
                    self.detector.record_heartbeat(each, self.now_ms)

    def silence(self, duration_ms: int, *, step_ms: int = STEP_MS) -> None:
        self.receives(duration_ms, step_ms=step_ms, node="")

    def claimed(self, node: str, previous: str | None) -> None:
        self.versions += 1
        self.detector.claimed(f.PartitionClaimed(0, node, self.versions, previous), self.now_ms)

    def mistake(self) -> None:
        """The node a takes from b, which lives."""
        self.claimed("a", "b")
        self.receives(STEP_MS)

    def proves(self) -> int:
        """How long it takes b to be heir again."""
        began_ms = self.now_ms
        while "b" in self.detector.pace.unproven():
            self.receives(STEP_MS)
        return self.now_ms - began_ms

    def waits(self) -> int:
        """How long b is silent until a may take what it has."""
        began_ms = self.now_ms
        while "b" not in self.detector.suspects(["b"], self.now_ms) or not self.detector.may_take(
            "a", "b", self.now_ms
        ):
            self.silence(STEP_MS)
        return self.now_ms - began_ms


def test_a_silent_node_is_taken_from_at_the_configured_time() -> None:
    assert Observer().waits() == SUSPECT_MS


def test_a_node_that_was_taken_from_and_lives_gets_nothing_until_it_was_heard_in_time_for_long() -> None:
    observer = Observer()
    observer.claimed("a", "b")
    assert observer.detector.pace.unproven() == {"b"}
    assert observer.proves() >= p.PROOF_TIMES * SUSPECT_MS


def test_a_gap_between_two_heartbeats_begins_the_proof_anew() -> None:
    observer = Observer()
    observer.mistake()
    observer.receives(p.PROOF_TIMES * SUSPECT_MS - 2 * STEP_MS)
    observer.silence(SUSPECT_MS // 2 + STEP_MS)
    observer.receives(STEP_MS)
    assert observer.proves() >= p.PROOF_TIMES * SUSPECT_MS - STEP_MS


def test_what_an_observer_hears_that_is_late_itself_proves_nothing() -> None:
    observer = Observer()
    observer.mistake()
    for _ in range(20):
        observer.receives(p.PROOF_TIMES * SUSPECT_MS // 2)
        observer.receives(SUSPECT_MS, step_ms=SUSPECT_MS)
    assert observer.detector.pace.unproven() == {"b"}


def test_each_mistake_makes_the_next_proof_longer_and_the_next_suspicion_later() -> None:
    observer = Observer()
    proofs, waits = [], []
    for _ in range(3):
        observer.mistake()
        proofs.append(observer.proves())
        waits.append(observer.waits())
        observer.receives(STEP_MS)
    assert proofs[1] >= 1.5 * proofs[0] and proofs[2] >= 1.5 * proofs[1]
    assert waits[0] >= p.WARY_TIMES * SUSPECT_MS and waits[1] >= 2 * waits[0] - STEP_MS
    assert max(waits) <= p.MOST_TIMES * SUSPECT_MS


def test_a_mistake_is_forgotten_in_the_end() -> None:
    observer = Observer()
    observer.mistake()
    observer.proves()
    observer.receives(p.REMEMBERED_TIMES * SUSPECT_MS)
    assert observer.waits() == SUSPECT_MS


def test_a_new_incarnation_under_the_same_name_has_nothing_to_prove() -> None:
    observer = Observer()
    observer.mistake()
    observer.detector.forget("b")
    assert not observer.detector.pace.unproven()
    observer.receives(STEP_MS)
    assert observer.waits() == SUSPECT_MS


def test_who_was_given_a_free_unit_or_its_own_has_taken_from_nobody() -> None:
    observer = Observer()
    observer.claimed("a", None)
    observer.claimed("b", "b")
    assert not observer.detector.pace.unproven()


def test_a_node_that_was_taken_from_takes_from_others_only_as_the_last_resort() -> None:
    observer = Observer()
    observer.claimed("b", "a")
    assert observer.waits() >= p.LAST_RESORT_TIMES * SUSPECT_MS


def test_a_claim_that_arrives_from_behind_a_cut_after_its_node_was_given_up_proves_nothing() -> None:
    """Else who lives waits for long to take its work back from one that is dead."""
    observer = Observer()
    observer.claimed("c", "b")
    observer.silence(SUSPECT_MS)
    observer.detector.wrote("b", observer.now_ms)
    observer.claimed("b", "a")
    assert observer.detector.pace.unproven() == {"b"}
    assert observer.waits() == SUSPECT_MS


def test_a_claim_from_behind_a_long_cut_proves_nothing_though_nobody_took_from_its_node() -> None:
    observer = Observer()
    observer.silence(LATE_CLAIM_TIMES * SUSPECT_MS)
    observer.detector.wrote("b", observer.now_ms)
    observer.claimed("b", "a")
    assert not observer.detector.pace.unproven()
    assert observer.waits() == SUSPECT_MS


def test_a_claim_that_a_starved_node_was_slow_to_write_is_a_mistake_like_any_other() -> None:
    """Seed 2098655845194 of tests/sim/streams/test_starvation.py: a claim was 764 ms under way, and so a unit moved
    three times."""
    observer = Observer()
    observer.silence(764)
    observer.claimed("b", "a")
    observer.receives(STEP_MS)
    assert observer.detector.pace.unproven() == {"a"}


def test_a_late_claim_of_a_node_without_a_heartbeat_since_restricts_nobody() -> None:
    """Seed 1169549595418: a node that was cut off claimed its neighbour's unit and died. The neighbour, alone by then,
    was taken for one that does not keep pace, and would have waited for the last resort."""
    observer = Observer()
    observer.silence(2 * SUSPECT_MS)
    observer.detector.wrote("b", observer.now_ms)
    observer.claimed("b", "a")
    assert not observer.detector.pace.unproven()
    assert observer.waits() == SUSPECT_MS


def test_a_late_claim_is_forgotten_with_the_incarnation_of_its_node() -> None:
    observer = Observer()
    observer.silence(2 * SUSPECT_MS)
    observer.claimed("b", "a")
    observer.detector.forget("b")
    observer.receives(STEP_MS)
    assert not observer.detector.pace.unproven()


def test_a_late_claim_says_nothing_about_another_incarnation_of_its_victim() -> None:
    observer = Observer()
    observer.silence(2 * SUSPECT_MS)
    observer.claimed("b", "a")
    observer.detector.forget("a")
    observer.receives(STEP_MS)
    assert not observer.detector.pace.unproven()


def test_what_a_node_wrote_is_no_proof_that_it_keeps_pace() -> None:
    observer = Observer()
    observer.claimed("a", "b")
    for _ in range(2 * p.PROOF_TIMES * SUSPECT_MS // STEP_MS):
        observer.silence(STEP_MS)
        observer.detector.wrote("b", observer.now_ms)
    assert observer.detector.pace.unproven() == {"b"}
    assert observer.waits() == SUSPECT_MS


def test_an_observer_whose_steps_are_long_waits_for_several_of_them() -> None:
    observer = Observer()
    observer.receives(6_000, step_ms=600)
    observer.receives(STEP_MS)
    assert observer.waits() >= p.PATIENCE_STEPS * 600


def test_one_long_step_makes_no_suspicion_later() -> None:
    observer = Observer()
    observer.receives(60_000, step_ms=60_000)
    observer.receives(STEP_MS)
    assert observer.waits() <= SUSPECT_MS + STEP_MS


def test_many_heartbeats_at_once_prove_the_same() -> None:
    observer = Observer()
    observer.mistake()
    for _ in range(p.PROOF_TIMES * SUSPECT_MS // STEP_MS + 1):
        observer.now_ms += STEP_MS
        observer.detector.record_heartbeats(["b", "c", "d"], observer.now_ms)
    assert not observer.detector.pace.unproven()


def test_a_node_that_is_silent_for_long_again_and_again_is_missed_only_after_longer_silences() -> None:
    observer = Observer()
    for count in range(p.USUAL_SILENCES):
        assert observer.waits() == SUSPECT_MS, f"after {count} silences"
        observer.silence(300)
        observer.receives(STEP_MS)
    assert observer.waits() >= p.USUAL_TIMES * 600
    observer.receives((p.USUAL_WITHIN_TIMES + 1) * SUSPECT_MS)
    assert observer.waits() == SUSPECT_MS


def test_silences_are_remembered_where_others_pass_heartbeats_on_and_not_by_another_incarnation() -> None:
    observer = Observer()
    for _ in range(p.USUAL_SILENCES):
        observer.silence(2 * SUSPECT_MS)
        observer.detector.record_heartbeats(["b", "c"], observer.now_ms)
    assert observer.waits() >= p.USUAL_TIMES * 2 * SUSPECT_MS
    observer.detector.forget("b")
    observer.receives(STEP_MS)
    assert observer.waits() == SUSPECT_MS


def test_the_longest_usual_silence_has_a_bound() -> None:
    observer = Observer()
    for _ in range(p.USUAL_SILENCES):
        observer.silence(40 * SUSPECT_MS)
        observer.receives(STEP_MS)
    assert observer.waits() == p.MOST_TIMES * SUSPECT_MS
