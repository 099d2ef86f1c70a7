"""The portions of an online move: layouts between the present one and the requested one. By each some keys move.

A target holds what has come until all of it is there. So what moves at once is what a node may have twice, and what
waits at the switch. A portion has about as many bytes as the job allows. Their number follows from the state of the
node that proposes them, and the portions from the log: the first plan of a number holds, whoever made it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from transactional.layout import GroupHomes, Layout, moved, moved_buckets
from transactional.operators import StateKey

MOST_PORTIONS = 32
"""Of one request, about: each looks through all keys of its sources, and takes some epochs."""
SAMPLED_KEYS = 1_000
_SPREAD = 2_654_435_761
"""Knuth's multiplier: buckets of one portion are of all sources and targets alike."""


def about_bytes(table: Mapping[StateKey, bytes | None]) -> int:
    """Keys and values of a table; of a large one extrapolated from as many keys as ``SAMPLED_KEYS``, evenly chosen."""
    step = max(1, len(table) // SAMPLED_KEYS)
    sizes = [len(key[1]) + len(value or b"") for key, value in islice(table.items(), 0, None, step)]
    return round(sum(sizes) * len(table) / len(sizes)) if sizes else 0


def portions_left(
    before: Layout, target: Layout, state_bytes: Mapping[int, int], portion_bytes: int, done: int = 0
) -> int:
    """How many portions are still to come, 1 at least. ``state_bytes``: of the state partitions that the node has.

    ``done``: portions that hold. A bucket is taken to be as large as any other of these partitions. A node that has
    none of them cannot tell, and takes all for one portion; so does one of which 0 bytes are wished.
    """
    if portion_bytes == 0:
        return 1
    buckets = moved_buckets(before, target)
    known_buckets = sum(home in state_bytes for was, _ in target.homes_since(before) for home in was)
    needed = -(-sum(state_bytes.values()) * buckets // (max(1, known_buckets) * portion_bytes))
    return max(1, min(needed, buckets, MOST_PORTIONS - done))


def next_portion(before: Layout, target: Layout, portions: int) -> Layout:
    """The layout in which one of so many parts of the buckets that still move have their homes by ``target``."""
    groups: list[GroupHomes] = []
    for (was, now), each in zip(target.homes_since(before), target.groups, strict=True):
        homes = list(was)
        for bucket in _share(moved(was, now), portions):
            homes[bucket] = now[bucket]
        groups.append(GroupHomes(each.group, tuple(homes)))
    return Layout(target.number, 1 + max(max(each.homes) for each in groups), tuple(groups))


def _share(buckets: Sequence[int], portions: int) -> Sequence[int]:
    return sorted(buckets, key=lambda bucket: bucket * _SPREAD % 2**32)[: -(-len(buckets) // portions)]
