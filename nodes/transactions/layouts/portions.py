"""The portions of an online move: layouts between the present one and the requested one. By each some keys move.

A target holds what has come until all of it is there. So what moves at once is what a node may have twice, and what
waits at the switch. A portion has about as many bytes as the job allows. Their number follows from the state of the
node that proposes them, and the portions from the log: the first plan of a number holds, whoever made it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, islice
from typing import NamedTuple, TypeAlias

from transactional.layout import Group, GroupHomes, Layout, moved
from transactional.operators import Operator, StateKey, hashes_mod

MOST_PORTIONS = 32
"""Of one request, about: each looks through all keys of its sources, and takes some epochs."""
SAMPLED_KEYS = 1_000
_SPREAD = 2_654_435_761
"""Knuth's multiplier: buckets of one portion are of all sources and targets alike."""

Table: TypeAlias = Mapping[StateKey, bytes | None]
BucketSizes: TypeAlias = Sequence[Sequence[float]]
"""About how many bytes of keys and values each bucket has: by the place of its group in a layout, and by bucket."""


class KnownState(NamedTuple):
    """Of a state partition that a node owns or follows. A row may be in memory and in the ``disk_bytes`` of files."""

    tables: Sequence[Table]
    disk_bytes: int = 0


def about_bytes(table: Table) -> int:
    """Keys and values of a table; of a large one extrapolated from as many keys as ``SAMPLED_KEYS``, evenly chosen."""
    sizes, factor = _sampled(table)
    return round(factor * sum(size for _, size in sizes))


def _sampled(table: Table) -> tuple[list[tuple[StateKey, int]], float]:
    """Some keys with their bytes, and for how many of all keys each of them stands."""
    step = max(1, len(table) // SAMPLED_KEYS)
    found = [(key, len(key[1]) + len(value or b"")) for key, value in islice(table.items(), 0, None, step)]
    return found, len(table) / len(found) if found else 0.0


def bucket_sizes(
    present: Layout, target: Layout, operators: Mapping[str, Operator], states: Mapping[int, KnownState]
) -> BucketSizes | None:
    """Of the buckets of the target's groups, by samples. ``states``: by the number of the state partition.

    A bucket of another partition is taken to be as large as these are on average. Bytes of files beyond those of rows
    in memory belong to all buckets of their partition alike. None: no partition is known.
    """
    homes = [was for was, _ in target.homes_since(present)]
    known = [[bucket for bucket, home in enumerate(each) if home in states] for each in homes]
    if not any(known):
        return None
    sizes = [[0.0] * len(each) for each in homes]
    places = {each.group: place for place, each in enumerate(target.groups)}
    groups = {name: target.group_of(name, Group.of(each)) for name, each in operators.items()}
    for number, state in states.items():
        in_memory = sum(_add(sizes, places, groups, table) for table in state.tables)
        beyond = max(0.0, state.disk_bytes - in_memory)
        mine = [
            (place, bucket) for place, each in enumerate(known) for bucket in each if homes[place][bucket] == number
        ]
        for place, bucket in mine if beyond else ():
            sizes[place][bucket] += beyond / len(mine)
    for each, buckets in zip(sizes, known, strict=True):
        mean = sum(each[bucket] for bucket in buckets) / max(1, len(buckets))
        for bucket in set(range(len(each))).difference(buckets):
            each[bucket] = mean
    return sizes


def _add(sizes: Sequence[list[float]], places: Mapping[Group, int], groups: Mapping[str, Group], table: Table) -> float:
    """The bytes of a table, which its buckets have now. Those of an operator of another version are in no bucket."""
    sample, factor = _sampled(table)
    by_operator: dict[str, list[tuple[str, int]]] = {}
    for (operator, key), size in sample:
        by_operator.setdefault(operator, []).append((key, size))
    for operator, found in by_operator.items():
        if (group := groups.get(operator)) is not None:
            mine = sizes[places[group]]
            buckets = hashes_mod([key for key, _ in found], group.colocate, group.buckets)
            for bucket, (_, size) in zip(buckets, found, strict=True):
                mine[bucket] += factor * size
    return factor * sum(size for _, size in sample)


def portions_left(before: Layout, target: Layout, sizes: BucketSizes | None, portion_bytes: int, done: int = 0) -> int:
    """How many portions are still to come, 1 at least; ``done``: portions that hold.

    A node that knows no partition cannot tell, and takes all for one portion; so does one of which 0 bytes are wished.
    """
    if portion_bytes == 0 or sizes is None:
        return 1
    moving = [
        (each[bucket], bucket)
        for each, (was, now) in zip(sizes, target.homes_since(before), strict=True)
        for bucket in moved(was, now)
    ]
    needed = -(-sum(size for size, _ in moving) // portion_bytes)
    return max(1, min(int(needed), len(moving), MOST_PORTIONS - done))


def next_portion(before: Layout, target: Layout, sizes: BucketSizes | None, portions: int) -> Layout:
    """The layout in which one of so many parts of what still moves has its homes by ``target``: one bucket at least."""
    groups: list[GroupHomes] = []
    for place, ((was, now), each) in enumerate(zip(target.homes_since(before), target.groups, strict=True)):
        homes = list(was)
        size_of = (lambda bucket: 1.0) if sizes is None else sizes[place].__getitem__
        for bucket in _share(moved(was, now), size_of, portions):
            homes[bucket] = now[bucket]
        groups.append(GroupHomes(each.group, tuple(homes)))
    return Layout(target.number, 1 + max(max(each.homes) for each in groups), tuple(groups))


def _share(buckets: Sequence[int], size_of: Callable[[int], float], portions: int) -> Sequence[int]:
    """A part of so many by their bytes, and all of what is left where one is left; by number, where none has a byte."""
    spread = sorted(buckets, key=lambda bucket: bucket * _SPREAD % 2**32)
    if portions <= 1:
        return spread
    ends = list(accumulate(size_of(bucket) for bucket in spread))
    if not ends or not ends[-1]:
        return spread[: -(-len(spread) // portions)]
    return [spread[0], *(bucket for bucket, end in zip(spread[1:], ends, strict=False) if end * portions < ends[-1])]
