"""The child process that merges files of checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.bank import program
from nodes.checkpoints.errors import CheckpointDamaged, CheckpointMissing
from nodes.checkpoints.opening import open_checkpoints
from nodes.settings.settings import load_settings
from nodes.transactions.checkpoints.chains import load_file
from nodes.transactions.checkpoints.compaction import CompactingChild, CompactionFailed, CompactionRequest
from tests.sim.transactions.test_checkpoints import JOB, UNIT, random_chain
from transactional.epochs.ledger import Ledger
from transactional.state.partition import StatePartition
from transactional.state.restored import restored_state


def test_a_child_process_merges_files_and_names_damage(tmp_path: Path) -> None:
    settings = load_settings(definitions=[f"checkpoints.url={tmp_path}"], environ={}, directory=tmp_path)
    store = open_checkpoints(settings)
    parts, expected = random_chain(store, 3)  # type: ignore[arg-type]
    compact = CompactingChild(settings, store, small_bytes=0)
    (made,) = compact(CompactionRequest(JOB, UNIT, parts, whole=True))
    process = compact.process
    again = StatePartition(Ledger(program, 1), 0, id_window=5)
    again.restore(restored_state(load_file(store, made.name)[1], id_window=5))
    assert again.store.items == expected.store.items
    path = tmp_path / parts[0].name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointDamaged):
        load_file(store, parts[0].name)
    with pytest.raises(CompactionFailed, match=r"checkpoint .* checksum") as failed:
        compact(CompactionRequest(JOB, UNIT, parts, whole=True))
    assert failed.value.damaged
    assert compact.process is process is not None, "one process for all requests"
    with pytest.raises(CompactionFailed):
        CompactingChild(settings, store)(CompactionRequest(JOB, UNIT, parts, whole=True))
    path.unlink()
    with pytest.raises(CheckpointMissing):
        load_file(store, parts[0].name)
    compact.close()


def test_a_child_that_ended_for_want_of_requests_is_started_again(tmp_path: Path) -> None:
    settings = load_settings(definitions=[f"checkpoints.url={tmp_path}"], environ={}, directory=tmp_path)
    store = open_checkpoints(settings)
    parts, _ = random_chain(store, 3)  # type: ignore[arg-type]
    compact = CompactingChild(settings, store, small_bytes=0, idle_s=0.0)
    first = compact(CompactionRequest(JOB, UNIT, parts, whole=True))
    assert compact.process is not None
    compact.process.wait(120)
    assert compact(CompactionRequest(JOB, UNIT, parts, whole=True)) == first
    compact.close()
