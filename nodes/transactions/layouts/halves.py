"""Which buckets of a partition move when it is split, and to which partition: pure functions of heat.

Heat is a number for each bucket: how much work its keys bring (``heat.py``). Two rules for this file. The same heat
gives the same answer on every machine. A bucket without heat stays, since a copy of it would help nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from transactional.layout import Layout

SCALE = 1 << 16
"""Sums are exact up to this total. Of a larger one each bucket's heat is rounded to a part of it."""


class Bucket(NamedTuple):
    """``place``: of its operators' group in ``Layout.groups``; ``number``: in the group."""

    place: int
    number: int


def buckets_of(layout: Layout, partition: int) -> list[Bucket]:
    """Those that live there, in order."""
    return [
        Bucket(place, number)
        for place, each in enumerate(layout.groups)
        for number, home in enumerate(each.homes)
        if home == partition
    ]


def target_of(heats: Mapping[int, int], partition: int) -> int:
    """Of the partitions 0 to n-1 of a layout, by heat: the coldest other one, or n, which is a new one.

    A new one where half of the heat would make the coldest one hotter than ``partition`` is now.
    """
    others = [(heat, other) for other, heat in heats.items() if other != partition]
    coldest, other = min(others, default=(0, len(heats)))
    return other if 2 * coldest <= heats[partition] else len(heats)


def moving_half(heats: Mapping[Bucket, int], other: int) -> frozenset[Bucket]:
    """The buckets that leave: with them, heat of the two sides is as near to halves as buckets allow.

    ``other``: heat that the target has already. Of the two sides the one leaves that makes the hotter partition least
    hot; of equal ones that of fewer buckets. Where one bucket has all heat, it alone is one of the sides. Where none
    has any, buckets count.
    """
    assert len(heats) > 1 and min(heats.values()) >= 0, f"{len(heats)} buckets"
    if not any(heats.values()):
        heats = dict.fromkeys(heats, 1)
    hot = {bucket: heat for bucket, heat in heats.items() if heat}
    light = _lighter(hot) if len(hot) > 1 else heats.keys() - hot.keys()
    heavy = hot.keys() - light
    return frozenset(min((light, heavy), key=lambda side: _price(heats, side, other)))


def _price(heats: Mapping[Bucket, int], side: Collection[Bucket], other: int) -> tuple[int, int, list[Bucket]]:
    moved = sum(heats[bucket] for bucket in side)
    return max(sum(heats.values()) - moved, other + moved), len(side), sorted(side)


def _lighter(heats: Mapping[Bucket, int]) -> Collection[Bucket]:
    """The set that comes nearest to half of the heat without exceeding it, with the hottest buckets that it can have.

    All sums that sets of buckets have are the bits of one integer (subset sum by dynamic programming).
    """
    parts = _scaled(heats)
    order = sorted(parts, key=lambda bucket: (-parts[bucket], bucket))
    sums = [1]
    for bucket in order:
        sums.append(sums[-1] | sums[-1] << parts[bucket])
    half = sum(parts.values()) // 2
    wanted = (sums[-1] & ((1 << (half + 1)) - 1)).bit_length() - 1
    found: list[Bucket] = []
    for bucket, before in zip(reversed(order), reversed(sums[:-1]), strict=True):
        if not before >> wanted & 1:
            found.append(bucket)
            wanted -= parts[bucket]
    return found


def _scaled(heats: Mapping[Bucket, int]) -> dict[Bucket, int]:
    total = sum(heats.values())
    if total <= SCALE:
        return dict(heats)
    return {bucket: max(1, heat * SCALE // total) for bucket, heat in heats.items()}


def split_layout(layout: Layout, moving: Collection[Bucket], target: int) -> Layout:
    """The next layout, in which these live in ``target``."""
    homes = {
        each.group: tuple(target if Bucket(place, number) in moving else home for number, home in enumerate(each.homes))
        for place, each in enumerate(layout.groups)
    }
    return layout.changed(homes)
