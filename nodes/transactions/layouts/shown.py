"""A job's partitions as its layout, its newest checkpoints and its newest commits have them, to be shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from nodes.checkpoints.errors import CheckpointDamaged, CheckpointMissing
from nodes.checkpoints.file_names import own_name
from nodes.checkpoints.store import CheckpointStore
from nodes.machine.messages import CheckpointSaved
from nodes.machine.ownership.layouts import LayoutProgress
from nodes.transactions.checkpoints.chains import chain_of
from nodes.transactions.layouts.cpu import RecentCpu, bucket_shares
from nodes.transactions.layouts.halves import Bucket
from nodes.transactions.layouts.heat import Recent, Work
from nodes.transactions.layouts.repartitioning import Repartitioning
from nodes.transactions.topics import checkpoint_job
from transactional.layout import Layout
from transactional.operators import StateKey
from transactional.state.snapshots import PartitionState

HOTTEST = 10
HOT_CORES, HOT_MARGIN = 0.1, 1.25
"""By CPU keys are too hot if they alone use so much of a core, and so many times an even share: it is an estimate."""


class PartitionRow(msgspec.Struct):
    """One state partition. ``member``: it takes part in epochs.

    Shares, from 0 to 1, are those of its keys in the work of ``HeatShown``; 0: there was none. The rest is of its
    newest checkpoint, of the end of ``epoch``: ``keys``, ``bytes`` of keys and values, ``replies`` that are remembered.
    ``calls`` are transactions that began here and have committed so far. None: it has no checkpoint that can be read.
    ``cpu_share``: of the CPU that nodes report of all partitions, ``cpu_cores`` that CPU in cores; None: none does.
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
    calls_share: float = 0.0
    bytes_share: float = 0.0
    heat_share: float = 0.0
    cpu_share: float | None = None
    cpu_cores: float | None = None


class HotKeys(msgspec.Struct):
    """All keys with this first part: they cannot be divided. Work and shares of all as in ``HeatShown``.

    ``too_hot``: they alone are more than an even share of all partitions, so no layout makes these even. ``cpu_share``:
    of the CPU of all partitions, measured if their calls cost much, else estimated by heat; None: it is not known.
    """

    operators: list[str]
    key: str
    partition: int
    calls: int
    bytes: int
    calls_share: float
    bytes_share: float
    heat_share: float
    too_hot: bool
    cpu_share: float | None = None


class HeatShown(msgspec.Struct):
    """The work of the newest epochs as the log has it: see ``heat.py``. ``seconds``: between these."""

    first_epoch: int
    last_epoch: int
    seconds: float
    calls: int
    bytes: int
    hottest: list[HotKeys]


class GroupRow(msgspec.Struct):
    """Operators whose keys have the same homes."""

    operators: list[str]
    partitions: int
    buckets: int


class LayoutShown(msgspec.Struct):
    """``under_way``: the requested layout that does not hold yet, as it was requested; ``copies``: how far they are.

    ``cpu_seconds``: over which CPU was measured; None: no node reports any.
    """

    job: str
    layout: int
    partitions: list[PartitionRow]
    groups: list[GroupRow]
    heat: HeatShown
    under_way: dict[str, str | int | list[str]] | None = None
    copies: LayoutProgress | None = None
    cpu_seconds: float | None = None


def layout_shown(
    job: str, requests: Repartitioning, store: CheckpointStore | None, cpu: RecentCpu | None = None
) -> LayoutShown:
    """``store`` None: nothing of the contents. Reads every file of the newest checkpoints, and writes nothing."""
    layout, ownership, work = requests.layout(), requests.read(), requests.recent()
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
    total = work.total
    for row, mine in zip(rows, work.by_partition(layout), strict=False):
        row.calls_share, row.bytes_share, row.heat_share = _shares(mine, total)
    if cpu is not None:
        for row in rows:
            row.cpu_share, row.cpu_cores = cpu.share(row.partition), cpu.cores.get(row.partition, 0.0)
    groups = [
        GroupRow(requests.operators_of([each.group]), 1 + max(each.homes), each.group.buckets) for each in layout.groups
    ]
    wanted = ownership.layouts.open
    heat = heat_shown(work, layout, [each.operators for each in groups], cpu)
    about, progress = (None, None) if wanted is None else (wanted.about, ownership.layouts.progress)
    seconds = None if cpu is None else cpu.seconds
    return LayoutShown(job, layout.number, rows, groups, heat, about, progress, seconds)


def heat_shown(work: Recent, layout: Layout, operators: Sequence[list[str]], cpu: RecentCpu | None = None) -> HeatShown:
    """``operators``: those of each group of the layout. All keys that are too hot are named, also more than usual.

    Those that are too hot by CPU come first, since calls of some functions cost more than those of others.
    """
    total, rows = work.total, list[tuple[bool, HotKeys]]()
    heats = work.heats(layout)
    cores = 0.0 if cpu is None else cpu.total
    shares: dict[Bucket, float] | None = None
    if cpu is not None:
        groups = {name: layout.groups[place].group for place, names in enumerate(operators) for name in names}
        shares = bucket_shares(cpu, layout, groups, heats)
    for (place, part), mine in work.by_part.items():
        group = layout.groups[place]
        bucket = Bucket(place, group.group.bucket(part))
        home = group.homes[bucket.number]
        share, costly = None, False
        if shares is not None:
            share = shares.get(bucket, 0.0) * mine.heat / max(1, heats[bucket])
            costly = share * cores >= HOT_CORES and share * layout.partitions > HOT_MARGIN
        too_hot = costly or mine.heat * layout.partitions > total.heat
        row = HotKeys(operators[place], part, home, mine.calls, mine.bytes, *_shares(mine, total), too_hot, share)
        rows.append((costly, row))
    rows.sort(key=lambda each: (not each[0], -each[1].heat_share, each[1].operators, each[1].key))
    shown = [row for number, (_, row) in enumerate(rows) if number < HOTTEST or row.too_hot]
    return HeatShown(work.first_epoch, work.last_epoch, work.seconds, total.calls, total.bytes, shown)


def _shares(mine: Work, total: Work) -> tuple[float, float, float]:
    """Of calls, of bytes and of heat."""
    pairs = (mine.calls, total.calls), (mine.bytes, total.bytes), (mine.heat, total.heat)
    calls, size_bytes, heat = (part / whole if whole else 0.0 for part, whole in pairs)
    return calls, size_bytes, heat


def _fill(row: PartitionRow, store: CheckpointStore, job: str, checkpoints: Sequence[CheckpointSaved]) -> None:
    found = newest_sizes(store, job, checkpoints)
    if found is None:
        return
    row.epoch, newest, sizes = found
    row.keys, row.bytes = len(sizes), sum(sizes.values())
    row.replies, row.calls = sum(count for _, count, _ in newest.reply_order), newest.committed


def newest_sizes(
    store: CheckpointStore, job: str, checkpoints: Sequence[CheckpointSaved]
) -> tuple[int, PartitionState, dict[StateKey, int]] | None:
    """Epoch and newest file of the newest of these checkpoints that can be read, and bytes of each entity."""
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
        return saved.offset, newest, sizes
    return None
