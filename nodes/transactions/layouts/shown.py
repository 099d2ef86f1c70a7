"""A job's partitions as its layout and its newest checkpoints have them, to be shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from nodes.checkpoints.errors import CheckpointDamaged, CheckpointMissing
from nodes.checkpoints.file_names import own_name
from nodes.checkpoints.store import CheckpointStore
from nodes.machine.messages import CheckpointSaved
from nodes.transactions.checkpoints.chains import chain_of
from nodes.transactions.layouts.repartitioning import Repartitioning
from nodes.transactions.topics import checkpoint_job
from transactional.operators import StateKey


class PartitionRow(msgspec.Struct):
    """One state partition. ``member``: it takes part in epochs.

    The rest is of its newest checkpoint, of the end of ``epoch``: ``keys``, ``bytes`` of keys and values, ``replies``
    that are remembered. ``calls`` are transactions that began here and have committed so far. None: it has no
    checkpoint that can be read.
    """

    partition: int
    member: bool
    owner: str | None
    buckets: int
    epoch: int | None = None
    keys: int | None = None
    bytes: int | None = None
    replies: int | None = None
    calls: int | None = None


class GroupRow(msgspec.Struct):
    """Operators whose keys have the same homes."""

    operators: list[str]
    partitions: int
    buckets: int


class LayoutShown(msgspec.Struct):
    """``under_way``: the requested layout that does not hold yet, as it was requested."""

    job: str
    layout: int
    partitions: list[PartitionRow]
    groups: list[GroupRow]
    under_way: dict[str, str | int | list[str]] | None = None


def layout_shown(job: str, requests: Repartitioning, store: CheckpointStore | None) -> LayoutShown:
    """``store`` None: nothing of the contents. Reads every file of the newest checkpoints, and writes nothing."""
    layout, ownership = requests.layout(), requests.read()
    first, counts = requests.begun.sequencers, Counter[int]()
    for each in layout.groups:
        counts.update(each.homes)
    rows = [
        PartitionRow(p, p < layout.partitions, ownership.owner(first + p), counts[p])
        for p in range(ownership.partitions - first)
    ]
    if store is not None:
        for row in rows:
            _fill(row, store, checkpoint_job(job), ownership.checkpoints(first + row.partition))
    groups = [
        GroupRow(requests.operators_of([each.group]), 1 + max(each.homes), each.group.buckets) for each in layout.groups
    ]
    wanted = ownership.layouts.open
    return LayoutShown(job, layout.number, rows, groups, None if wanted is None else wanted.about)


def _fill(row: PartitionRow, store: CheckpointStore, job: str, checkpoints: Sequence[CheckpointSaved]) -> None:
    for saved in checkpoints:
        try:
            newest, chain = chain_of(store, own_name(job, saved.name))
            sizes: dict[StateKey, int] = {}
            for state in chain:
                for operator, key, value in state.items:
                    if value is None:
                        sizes.pop((operator, key), None)
                    else:
                        sizes[operator, key] = len(key) + len(value)
        except (CheckpointDamaged, CheckpointMissing):
            continue  # an older one
        row.epoch, row.keys, row.bytes = saved.offset, len(sizes), sum(sizes.values())
        row.replies, row.calls = sum(count for _, count, _ in newest.reply_order), newest.committed
        return
