"""Facts, by which a machine reports its changes, are values."""

from __future__ import annotations

from dataclasses import replace

from nodes.machine import facts as f


def test_facts_are_values() -> None:
    claimed = f.PartitionClaimed(0, "a", 1, None)
    assert replace(claimed) == claimed
    assert len({claimed, replace(claimed)}) == 1
