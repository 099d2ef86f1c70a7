"""A node that was taken for dead and took its work back gets longer before it is suspected again."""

from __future__ import annotations

from nodes.machine import facts as f
from nodes.machine.membership.suspicion_backoff import CALM_TIMES, MOST_TIMES, SuspicionBackoff

SUSPECT_MS = 100


def stolen_back(backoff: SuspicionBackoff, version: int, now_ms: int, back: str = "b") -> None:
    backoff.claimed(f.PartitionClaimed(0, "a", version, "b"), now_ms)
    backoff.claimed(f.PartitionClaimed(0, back, version + 1, "a"), now_ms)


def patience_ms(backoff: SuspicionBackoff, now_ms: int) -> int:
    return next(ms for ms in range(0, 100 * SUSPECT_MS, SUSPECT_MS) if backoff.may_take("b", ms, now_ms))


def test_each_time_somebody_takes_its_work_back_it_may_be_silent_for_twice_as_long() -> None:
    backoff = SuspicionBackoff("a", SUSPECT_MS)
    assert patience_ms(backoff, 0) == 0  # a suspect's work may be taken at once
    found = []
    for version in range(1, 11, 2):
        stolen_back(backoff, version, 0)
        found.append(patience_ms(backoff, 0) // SUSPECT_MS)
    assert found == [2, 4, MOST_TIMES, MOST_TIMES, MOST_TIMES]
    assert backoff.may_take("c", 0, 0)


def test_that_is_forgotten_after_a_while_and_a_clock_that_was_set_back_does_not_keep_it() -> None:
    backoff = SuspicionBackoff("a", SUSPECT_MS)
    stolen_back(backoff, 1, 1_000)
    assert not backoff.may_take("b", SUSPECT_MS, 1_000 + CALM_TIMES * SUSPECT_MS - 1)
    assert backoff.may_take("b", SUSPECT_MS, 1_000 + CALM_TIMES * SUSPECT_MS)
    assert backoff.may_take("b", SUSPECT_MS, 999)


def test_who_is_given_the_work_back_or_takes_that_of_others_has_shown_nothing() -> None:
    backoff = SuspicionBackoff("a", SUSPECT_MS)
    stolen_back(backoff, 1, 0, back="c")  # another one took it
    backoff.claimed(f.PartitionClaimed(1, "a", 1, None), 0)  # it was free
    backoff.claimed(f.PartitionClaimed(1, "b", 2, "a"), 0)
    backoff.claimed(f.PartitionClaimed(2, "a", 1, "b"), 0)
    backoff.claimed(f.PartitionClaimed(2, "b", 2, None), 0)  # handed over
    assert patience_ms(backoff, 0) == 0
