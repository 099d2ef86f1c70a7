"""Whose standby a node is, and how long it stays one that it need not be any more."""

from __future__ import annotations

from nodes.machine.ownership.assignment import heirs
from nodes.machine.ownership.succession import LINGER_MS, Succession

LIVE = ["a", "b", "c"]
OWNERS: dict[int, str | None] = {0: "a", 1: "b", 2: "c", 3: "a", 4: None}


def test_each_group_has_its_own_order_and_units_without_an_owner_have_no_standby() -> None:
    first, second = heirs(2, LIVE, {0: "a", 1: "b"}, 3), heirs(3, LIVE, {0: "c", 1: "a", 2: None}, 3)
    for node in LIVE:
        expected = {unit: names.index(node) for unit, names in first.items() if node in names}
        expected |= {2 + unit: names.index(node) for unit, names in second.items() if node in names}
        succession = Succession(node, (2, 3), 3)
        assert succession.ranks(LIVE, OWNERS, (), (), 0) == expected and 4 not in expected
        assert [succession.rank(unit) for unit in range(5)] == [expected.get(unit, 3) for unit in range(5)]


def test_a_standby_that_is_none_any_more_stays_last_in_order_for_a_while() -> None:
    succession = Succession("c", (5,), 2)
    mine = min(succession.ranks(LIVE, OWNERS, (), (), 0))
    without = ["a", "b", "c", "d", "e", "f", "g"]
    others = OWNERS | {mine: None}
    assert succession.ranks(without, others, (), [mine], 100)[mine] == 2
    assert succession.ranks(without, others, (), [mine], 99 + LINGER_MS)[mine] == 2
    assert mine not in succession.ranks(without, others, (), [mine], 100 + LINGER_MS)
    assert mine not in succession.ranks(without, others, (), [], 200), "it does not become one again"


def test_one_that_is_wanted_again_stays_and_the_time_begins_anew() -> None:
    succession = Succession("c", (5,), 2)
    mine = min(succession.ranks(LIVE, OWNERS, (), (), 0))
    others = OWNERS | {mine: None}
    assert succession.ranks(LIVE, others, (), [mine], 0)[mine] == 2
    assert succession.ranks(LIVE, OWNERS, (), [mine], LINGER_MS - 1)[mine] == 0
    assert succession.ranks(LIVE, others, (), [mine], LINGER_MS + 1)[mine] == 2


def test_an_own_unit_does_not_linger() -> None:
    succession = Succession("c", (5,), 2)
    mine = min(succession.ranks(LIVE, OWNERS, (), (), 0))
    assert mine not in succession.ranks(LIVE, OWNERS | {mine: "c"}, (), [mine], 0)
