"""The parts that the process of a transactional node is put together of (nodes/transactions/process.py)."""

from __future__ import annotations

from functools import partial

import pytest

from nodes.checkpoints.store import CheckpointKey, StoreUnavailable
from nodes.checkpoints.store_retries import PatientCheckpoints
from nodes.log.memory import MemoryLog
from nodes.settings.settings import load_settings
from nodes.sim.store import MemoryCheckpoints
from nodes.transactions import process
from transactional.workloads import ycsb_t


class AwayAtFirst(MemoryCheckpoints):
    """Answers from the third question on."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def load(self, name: str) -> bytes:
        self.asked += 1
        if self.asked < 3:
            raise StoreUnavailable("the store is away")
        return super().load(name)


def test_a_moving_unit_waits_for_a_store_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    store = AwayAtFirst()
    name = store.save(CheckpointKey("j", 0, 1, (1, 0), (0, 0)), b"state")
    monkeypatch.setattr(process, "open_checkpoints", lambda settings: store)
    monkeypatch.setattr(process, "PatientCheckpoints", partial(PatientCheckpoints, sleep=lambda pause_s: None))
    settings = load_settings(needs_bootstrap=False)
    node = process.TransactionProcess(ycsb_t.program, MemoryLog(), settings, 0, 1)
    assert node.driver.checkpoints.store.load(name) == b"state"
    assert store.asked == 3
