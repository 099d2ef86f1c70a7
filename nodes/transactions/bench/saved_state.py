"""The state of a job as its newest checkpoints hold it: what a node that starts now would begin with."""

from __future__ import annotations

import json
import time
from pathlib import Path

from nodes.checkpoints.store import CheckpointStore
from nodes.errors import RunFailed
from nodes.log import Log
from nodes.transactions.checkpoints.chains import chain_of
from nodes.transactions.control_history import control_history
from nodes.transactions.topics import TransactionTopics
from transactional.operators import Program, StateKey
from transactional.state.versioned_values import plain_value

_POLL_INTERVAL_S = 0.2


def wait_for_checkpoints(log: Log, program: Program, sequencers: int, epoch: int, patience_s: float) -> None:
    """Until no state partition's newest checkpoint is older than ``epoch``; the nodes have to be up.

    Raises ``RunFailed`` where one stays out for so long.
    """
    end = time.monotonic() + patience_s
    while True:
        newest, partitions = _newest(log, program, sequencers)
        late = [p for p in range(partitions) if newest.get(p, (0, ""))[0] < epoch]
        if not late:
            return
        if time.monotonic() > end:
            raise RunFailed(f"no checkpoint of epoch {epoch} of state partitions {late} in {patience_s:g} s")
        time.sleep(_POLL_INTERVAL_S)


def newest_checkpoints(log: Log, program: Program, sequencers: int) -> dict[int, str]:
    """Their names by state partition; to be read after the nodes have ended, or they may be merged and deleted."""
    return {partition: name for partition, (_, name) in sorted(_newest(log, program, sequencers)[0].items())}


def _newest(log: Log, program: Program, sequencers: int) -> tuple[dict[int, tuple[int, str]], int]:
    """Epoch and name, by state partition; and how many partitions there are now, those that were emptied included."""
    ownership = control_history(log, TransactionTopics(program.name), sequencers + program.partitions).read()
    saved = {unit - sequencers: ownership.checkpoint(unit) for unit in range(sequencers, ownership.partitions)}
    newest = {partition: (each.offset, each.name) for partition, each in saved.items() if each is not None}
    return newest, ownership.partitions - sequencers


def write_state(store: CheckpointStore, names: dict[int, str], path: Path) -> int:
    """One JSON object an entity, ``operator``, ``key`` and ``value`` (JSON in a string); how many there are."""
    count = 0
    with path.open("w", encoding="utf-8") as lines:
        for name in names.values():
            for (operator, key), value in sorted(_items(store, name).items()):
                row = {"operator": operator, "key": key, "value": json.dumps(plain_value(value))}
                lines.write(json.dumps(row) + "\n")
                count += 1
    return count


def _items(store: CheckpointStore, name: str) -> dict[StateKey, bytes]:
    found: dict[StateKey, bytes] = {}
    for state in chain_of(store, name)[1]:
        for operator, key, value in state.items:
            if value is None:
                found.pop((operator, key), None)
            else:
                found[operator, key] = value
    return found
