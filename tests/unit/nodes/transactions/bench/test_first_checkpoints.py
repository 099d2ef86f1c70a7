"""A job that begins with state: its checkpoints hold each entity at its home, and no job is begun twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nodes.checkpoints.object_store import ObjectCheckpoints
from nodes.errors import RunFailed
from nodes.log.memory import MemoryLog
from nodes.transactions.bench.first_checkpoints import begin_with
from nodes.transactions.bench.saved_state import newest_checkpoints, write_state
from nodes.transactions.checkpoints.chains import chain_of
from transactional.operators import StateKey
from transactional.state.values import encode
from transactional.workloads.ycsb_t import program

KEYS = [("account", f"a{number}") for number in range(50)]


def value(key: StateKey) -> bytes:
    return encode(int(key[1][1:]))


def test_each_partition_begins_with_the_entities_that_live_there(tmp_path: Path) -> None:
    log, store = MemoryLog(), ObjectCheckpoints(str(tmp_path / "checkpoints"))
    begin_with(log, store, program, 2, KEYS, value)
    names = newest_checkpoints(log, program, 2)
    assert list(names) == [0, 1, 2, 3]
    for partition, name in names.items():
        newest, chain = chain_of(store, name)
        assert newest.since is None and (newest.partition, newest.ledger.done) == (partition, 0)
        keys = [(operator, key) for state in chain for operator, key, _ in state.items]
        assert keys == [key for key in KEYS if program.place(*key) == partition] and keys
    assert write_state(store, names, tmp_path / "state") == 50
    rows = [json.loads(line) for line in (tmp_path / "state").read_text().splitlines()]
    assert {row["key"]: row["value"] for row in rows} == {f"a{number}": str(number) for number in range(50)}


def test_a_log_that_has_the_job_is_refused(tmp_path: Path) -> None:
    log, store = MemoryLog(), ObjectCheckpoints(str(tmp_path / "checkpoints"))
    begin_with(log, store, program, 2, KEYS, value)
    with pytest.raises(RunFailed, match="has begun on this log"):
        begin_with(log, store, program, 2, KEYS, value)
