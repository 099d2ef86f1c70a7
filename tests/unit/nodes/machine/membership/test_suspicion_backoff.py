"""A node that was taken for dead and took its work back gets longer before it is suspected again."""

from __future__ import annotations

from nodes.machine import facts as f
from nodes.machine.membership.suspicion_backoff import CALM_TIMES, MOST_TIMES, SuspicionBackoff

SUSPECT_MS = 100


def stolen_back(returning: SuspicionBackoff, version: int, now_ms: int, back: str = "b") -> None:
    returning.claimed(f.PartitionClaimed(0, "a", version, "b"), now_ms)
    returning.claimed(f.PartitionClaimed(0, back, version + 1, "a"), now_ms)


def patience_ms(returning: SuspicionBackoff, now_ms: int) -> int:
    return next(ms for ms in range(0, 100 * SUSPECT_MS, SUSPECT_MS) if returning.may_take("b", ms, now_ms))


def test_each_time_somebody_takes_its_work_back_it_may_be_silent_for_twice_as_long() -> None:
    returning = SuspicionBackoff("a", SUSPECT_MS)
    assert patience_ms(returning, 0) == 0  # a suspect's work may be taken at once
    found = []
    for version in range(1, 11, 2):
        stolen_back(returning, version, 0)
        found.append(patience_ms(returning, 0) // SUSPECT_MS)
    assert found == [2, 4, MOST_TIMES, MOST_TIMES, MOST_TIMES]
    assert returning.may_take("c", 0, 0)


def test_that_is_forgotten_after_a_while_and_a_clock_that_was_set_back_does_not_keep_it() -> None:
    returning = SuspicionBackoff("a", SUSPECT_MS)
    stolen_back(returning, 1, 1_000)
    assert not returning.may_take("b", SUSPECT_MS, 1_000 + CALM_TIMES * SUSPECT_MS - 1)
    assert returning.may_take("b", SUSPECT_MS, 1_000 + CALM_TIMES * SUSPECT_MS)
    assert returning.may_take("b", SUSPECT_MS, 999)


def test_who_is_given_the_work_back_or_takes_that_of_others_has_shown_nothing() -> None:
    returning = SuspicionBackoff("a", SUSPECT_MS)
    stolen_back(returning, 1, 0, back="c")  # another one took it
    returning.claimed(f.PartitionClaimed(1, "a", 1, None), 0)  # it was free
    returning.claimed(f.PartitionClaimed(1, "b", 2, "a"), 0)
    returning.claimed(f.PartitionClaimed(2, "a", 1, "b"), 0)
    returning.claimed(f.PartitionClaimed(2, "b", 2, None), 0)  # handed over
    assert patience_ms(returning, 0) == 0
