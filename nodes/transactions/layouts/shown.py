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
from nodes.transactions.layouts.heat import Recent, Work
from nodes.transactions.layouts.repartitioning import Repartitioning
from nodes.transactions.topics import checkpoint_job
from transactional.layout import Layout
from transactional.operators import StateKey
from transactional.state.snapshots import PartitionState

HOTTEST = 10


class PartitionRow(msgspec.Struct):
    """One state partition. ``member``: it takes part in epochs.

    Shares, from 0 to 1, are those of its keys in the work of ``HeatShown``; 0: there was none. The rest is of its
    newest checkpoint, of the end of ``epoch``: ``keys``, ``bytes`` of keys and values, ``replies`` that are remembered.
    ``calls`` are transactions that began here and have committed so far. None: it has no checkpoint that can be read.
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


class HotKeys(msgspec.Struct):
    """All keys with this first part: they cannot be divided. Work and shares of all as in ``HeatShown``.

    ``too_hot``: they alone are more than an even share of all partitions, so no layout makes these even.
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
    """``under_way``: the requested layout that does not hold yet, as it was requested; ``copies``: how far they are."""

    job: str
    layout: int
    partitions: list[PartitionRow]
    groups: list[GroupRow]
    heat: HeatShown
    under_way: dict[str, str | int | list[str]] | None = None
    copies: LayoutProgress | None = None


def layout_shown(job: str, requests: Repartitioning, store: CheckpointStore | None) -> LayoutShown:
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
    groups = [
        GroupRow(requests.operators_of([each.group]), 1 + max(each.homes), each.group.buckets) for each in layout.groups
    ]
    wanted = ownership.layouts.open
    heat = heat_shown(work, layout, [each.operators for each in groups])
    about, progress = (None, None) if wanted is None else (wanted.about, ownership.layouts.progress)
    return LayoutShown(job, layout.number, rows, groups, heat, about, progress)


def heat_shown(work: Recent, layout: Layout, operators: Sequence[list[str]]) -> HeatShown:
    """``operators``: those of each group of the layout. All keys that are too hot are named, also more than usual."""
    total, rows = work.total, list[HotKeys]()
    hottest = sorted(work.by_part.items(), key=lambda each: (-each[1].heat, each[0]))
    for place_and_part, mine in hottest:
        place, part = place_and_part
        too_hot = mine.heat * layout.partitions > total.heat
        if len(rows) >= HOTTEST and not too_hot:
            break
        group = layout.groups[place]
        home = group.homes[group.group.bucket(part)]
        rows.append(HotKeys(operators[place], part, home, mine.calls, mine.bytes, *_shares(mine, total), too_hot))
    return HeatShown(work.first_epoch, work.last_epoch, work.seconds, total.calls, total.bytes, rows)


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
