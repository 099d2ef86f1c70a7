"""Fleets with standbys, slow stores and kills at the worst moments: what was acknowledged stands, and stands once."""

from __future__ import annotations

import os

from tests.sim.transactions_fleet import Met, simulate
from tests.sim.transactions_oracle import each_seed

SEEDS = 37
KILLS = {"after a save", "after a notice", "after a promotion", "at any time", "all at once"}


def test_nothing_acknowledged_is_lost_or_done_twice() -> None:
    base, met = int(os.environ["SIM_BASE_SEED"]), Met()
    for found in each_seed(base, SEEDS, simulate):
        met.add(found)
    assert met.kills.keys() == KILLS, met
    assert met.answered and met.saved and met.promotions and met.handovers, met
    assert met.stalls and met.restored and met.ledger_waits and met.upgrades, met
    assert met.starved and met.backlogs, met
    assert met.layouts > met.online > 0 and met.splits and met.moved, met
