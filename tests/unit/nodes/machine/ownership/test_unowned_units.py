"""Units that nobody owns for long: any node may take them then, so a difference of opinion ends."""

from __future__ import annotations

from nodes.machine.ownership.unowned_units import ORPHANED_TIMES, UnownedUnits

SUSPECT_MS = 100
LONG_MS = ORPHANED_TIMES * SUSPECT_MS


def test_a_unit_may_be_taken_by_anybody_once_nobody_has_had_it_for_long() -> None:
    unowned = UnownedUnits(SUSPECT_MS)
    unowned.update([3], 1000)
    assert not unowned.may_take(3, 1000 + LONG_MS - 1) and not unowned.are_due(1000 + LONG_MS - 1)
    assert unowned.may_take(3, 1000 + LONG_MS) and unowned.are_due(1000 + LONG_MS)
    assert not unowned.may_take(4, 1000 + LONG_MS)


def test_looking_again_does_not_begin_the_wait_anew() -> None:
    unowned = UnownedUnits(SUSPECT_MS)
    for now_ms in range(0, LONG_MS, 10):
        unowned.update([3], now_ms)
    assert unowned.may_take(3, LONG_MS)


def test_a_unit_that_had_an_owner_meanwhile_waits_anew() -> None:
    unowned = UnownedUnits(SUSPECT_MS)
    unowned.update([3], 0)
    unowned.update([], LONG_MS - 1)
    unowned.update([3], LONG_MS)
    assert not unowned.may_take(3, 2 * LONG_MS - 1)
