"""Laws of splits: halves as near as buckets allow, only buckets of the partition move, each has one home."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from nodes.transactions.layouts.halves import SCALE, Bucket, buckets_of, moving_half, split_layout, target_of
from transactional.layout import Group, Layout, moved

HEATS = st.dictionaries(
    st.builds(Bucket, st.integers(0, 2), st.integers(0, 40)),
    st.integers(0, 9) | st.integers(0, 4000),
    min_size=2,
    max_size=9,
)
GROUPS = st.sets(st.builds(Group, st.integers(1, 6), st.sampled_from([None, ":"])), min_size=1, max_size=2)


@given(HEATS, st.integers(0, 20_000))
def test_no_other_buckets_come_nearer_to_half_of_the_heat(heats: dict[Bucket, int], other: int) -> None:
    moving = moving_half(heats, other)
    assert moving and moving < heats.keys(), "both sides have some"
    weights = heats if any(heats.values()) else dict.fromkeys(heats, 1)
    total, mine = sum(weights.values()), sum(weights[bucket] for bucket in moving)
    least = min(
        abs(total - 2 * sum(weights[bucket] for bucket in some))
        for size in range(1, len(heats))
        for some in combinations(weights, size)
    )
    assert abs(total - 2 * mine) == least
    assert max(total - mine, other + mine) <= max(mine, other + total - mine), (
        "the lighter side goes to a loaded target"
    )
    assert moving_half(dict(reversed(heats.items())), other) == moving, "the order of a mapping decides nothing"


@given(st.lists(st.integers(1, 1 << 40), min_size=2, max_size=12))
def test_large_heats_are_halved_within_a_part_of_the_whole(heats: list[int]) -> None:
    by_bucket = {Bucket(0, number): heat for number, heat in enumerate(heats)}
    mine = sum(by_bucket[bucket] for bucket in moving_half(by_bucket, 0))
    best = min(abs(sum(heats) - 2 * sum(some)) for size in range(1, len(heats)) for some in combinations(heats, size))
    assert abs(sum(heats) - 2 * mine) <= best + 4 * len(heats) * (sum(heats) // SCALE + 1)


@given(GROUPS, st.data())
def test_only_buckets_of_the_partition_move_and_each_has_one_home(groups: set[Group], data: st.DataObject) -> None:
    layout = Layout.first_of(groups)
    partition = data.draw(st.integers(0, layout.partitions - 1))
    target = data.draw(st.integers(0, layout.partitions).filter(lambda each: each != partition))
    mine = buckets_of(layout, partition)
    seed = data.draw(st.integers(1, 1 << 30))
    moving = moving_half({bucket: seed * (bucket.number + 7) % 97 for bucket in mine}, 0)
    after = split_layout(layout, moving, target)
    assert after.number == layout.number + 1
    for place, (before, now) in enumerate(zip(layout.groups, after.groups, strict=True)):
        gone = {Bucket(place, number) for number in moved(before.homes, now.homes)}
        assert gone == {bucket for bucket in moving if bucket.place == place}
        assert all(before.homes[b.number] == partition and now.homes[b.number] == target for b in gone)
    assert buckets_of(after, partition) and set(buckets_of(after, target)) >= moving


@given(st.lists(st.integers(0, 30), min_size=1, max_size=6), st.data())
def test_the_target_is_no_hotter_afterwards_than_the_partition_was(heats: list[int], data: st.DataObject) -> None:
    by_partition = dict(enumerate(heats))
    partition = data.draw(st.integers(0, len(heats) - 1))
    target = target_of(by_partition, partition)
    others = [heat for each, heat in by_partition.items() if each != partition]
    if target < len(heats):
        assert target != partition and by_partition[target] == min(others)
        assert by_partition[target] + heats[partition] / 2 <= heats[partition]
    else:
        assert target == len(heats) and (not others or 2 * min(others) > heats[partition])
