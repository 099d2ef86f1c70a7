"""Claims of units: even shares of each kind."""

from __future__ import annotations

from nodes.machine.claiming import shares


def test_each_kind_of_unit_is_shared_out_evenly() -> None:
    owners: dict[int, str | None] = dict.fromkeys(range(8))
    wanted = shares((4, 4), ["one", "two"], owners)
    assert wanted == shares((4, 4), ["two", "one"], owners)
    for units in (range(4), range(4, 8)):
        assert sorted(wanted[unit] for unit in units) == ["one", "one", "two", "two"]
