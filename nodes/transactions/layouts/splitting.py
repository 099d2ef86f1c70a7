"""A request to split a partition: checked by name before anything moves. It is a layout like any other after that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from nodes.checkpoints.store import CheckpointStore
from nodes.errors import SettingsError, UnknownName
from nodes.machine.ownership.layouts import ProposedLayout
from nodes.transactions.layouts.cpu import bucket_shares
from nodes.transactions.layouts.halves import Bucket, buckets_of, moving_half, split_layout, target_of
from nodes.transactions.layouts.repartitioning import Mode, Repartitioning, with_outcome
from nodes.transactions.layouts.shown import newest_sizes
from nodes.transactions.topics import checkpoint_job
from transactional.layout import Group, Layout

CPU, RECENT, CHECKPOINT, BUCKETS = "cpu", "recent", "checkpoint", "buckets"
"""By which heat was measured: CPU, the newest commits, bytes of the newest checkpoint, or each bucket alike."""
CPU_PARTS = 1_000_000
"""Of the CPU of all partitions: halves are of whole numbers."""


class Split(msgspec.Struct):
    """``heat_share``: of the partition's heat, from 0 to 1, that moves. ``None``: as in ``Repartitioned``."""

    partition: int
    target: int
    new: bool
    layout: int
    mode: str
    partitions: int
    buckets: int
    heat_by: str
    heat_share: float
    keys: int | None = None
    bytes: int | None = None
    replies: int | None = None
    took_s: float | None = None
    downtime_ms: int | None = None
    resumed: bool = False


def request_split(
    requests: Repartitioning,
    job: str,
    store: CheckpointStore | None,
    partition: int,
    to: int | None,
    mode: Mode = "online",
) -> tuple[ProposedLayout, Split]:
    """Write it down; gives it, and what is known of its outcome. Raises what names the reason before anything is.

    ``to`` None: the coldest partition, or a new one. ``UnknownName``: of a partition. ``SettingsError``: one that
    cannot be split, or a target that cannot be. ``RunFailed``, ``LogError``: as ``Repartitioning.request``.
    """
    requests.check_settled()
    layout = requests.layout()
    _check(layout, partition, to)
    heats, heat_by = measured(requests, layout, job, store, partition)
    by_partition = {p: sum(heats.get(bucket, 0) for bucket in buckets_of(layout, p)) for p in range(layout.partitions)}
    target = target_of(by_partition, partition) if to is None else to
    mine = {bucket: heats.get(bucket, 0) for bucket in buckets_of(layout, partition)}
    moving = moving_half(mine, by_partition.get(target, 0))
    after = split_layout(layout, moving, target)
    operators = requests.operators_of({layout.groups[bucket.place].group for bucket in moving})
    made = requests.propose(
        after,
        {
            "operators": operators, "from": layout.partitions, "to": after.partitions, "mode": mode,
            "split": partition, "target": target,
        },
        mode,
    )  # fmt: skip
    share = sum(mine[bucket] for bucket in moving) / max(1, sum(mine.values()))
    is_new = target == layout.partitions
    told = Split(partition, target, is_new, after.number, mode, after.partitions, len(moving), heat_by, share)
    return made, told


def wait_for_split(
    requests: Repartitioning, told: Split, timeout_s: float, tell: Callable[[str], None] | None = None
) -> Split:
    """Until it holds. Raises as ``Repartitioning.wait`` does."""
    return with_outcome(told, requests.outcome(told.layout, timeout_s, tell))


def measured(
    requests: Repartitioning, layout: Layout, job: str, store: CheckpointStore | None, partition: int
) -> tuple[dict[Bucket, int], str]:
    """Heat of all buckets that have some, and by what: by the first measure in which ``partition`` has any."""
    buckets = buckets_of(layout, partition)
    heats = requests.recent().heats(layout)
    if (cpu := requests.cpu()) is not None and cpu.compares(layout.partitions):
        shares = bucket_shares(cpu, layout, requests.groups, heats)
        parts = {bucket: round(CPU_PARTS * share) for bucket, share in shares.items()}
        if any(parts.get(bucket) for bucket in buckets):
            return parts, CPU
    if any(heats.get(bucket) for bucket in buckets):
        return heats, RECENT
    if store is not None:
        heats = _stored(requests, layout, checkpoint_job(job), store)
        if any(heats.get(bucket) for bucket in buckets):
            return heats, CHECKPOINT
    return {bucket: 1 for each in range(layout.partitions) for bucket in buckets_of(layout, each)}, BUCKETS


def _stored(requests: Repartitioning, layout: Layout, job: str, store: CheckpointStore) -> dict[Bucket, int]:
    """Bytes of the newest checkpoints."""
    first, ownership = requests.begun.sequencers, requests.read()
    places = {each.group: place for place, each in enumerate(layout.groups)}
    groups: Mapping[str, Group] = requests.groups
    found: dict[Bucket, int] = {}
    for partition in range(layout.partitions):
        newest = newest_sizes(store, job, ownership.checkpoints(first + partition))
        for (operator, key), size in ({} if newest is None else newest[2]).items():
            if (group := groups.get(operator)) is not None:
                bucket = Bucket(places[group], group.bucket(key))
                found[bucket] = found.get(bucket, 0) + size
    return found


def _check(layout: Layout, partition: int, to: int | None) -> None:
    if not 0 <= partition < layout.partitions:
        raise UnknownName("state partition", str(partition), map(str, range(layout.partitions)))
    if to == partition:
        raise SettingsError(f"--to {to}: partition {partition} cannot be split with itself")
    if to is not None and not 0 <= to <= layout.partitions:
        raise SettingsError(f"--to {to}: {_named(range(layout.partitions))}, and {layout.partitions} is a new one")
    count = len(buckets_of(layout, partition))
    if count < 2:
        raise SettingsError(f"partition {partition} has {count or 'no'} bucket: only two and more can be divided")


def _named(partitions: Sequence[int]) -> str:
    return "partition 0 is there" if len(partitions) == 1 else f"partitions 0 to {partitions[-1]} are there"
