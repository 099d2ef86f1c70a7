"""Law: gathered inserts are seen as the same inserts one by one are. The first seeds are a unit test."""

from __future__ import annotations

import pytest

from tests.unit.holon.tracks.gathered_programs import Obedient, Waiting
from tests.unit.holon.tracks.test_insert_buffer import SEEDS, Policy, check_gathered


@pytest.mark.parametrize("policy", ["fail", "dead-letter"])
@pytest.mark.parametrize("function", [Obedient, Waiting])
@pytest.mark.parametrize("seed", range(SEEDS, 30))
def test_gathered_and_one_by_one(seed: int, function: type, policy: Policy) -> None:
    check_gathered(seed, function, policy)
