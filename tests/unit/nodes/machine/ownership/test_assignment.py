"""Which node processes what: balanced, sticky, and the same for everybody."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.machine.ownership.assignment import heirs, rendezvous, standbys, target

nodes = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=9, unique=True)
counts = st.integers(0, 40)


@st.composite
def fleets(draw: st.DrawFn) -> tuple[int, list[str], dict[int, str | None]]:
    """Partitions, living nodes, and owners of which some are dead, some None and some not listed at all."""
    living = draw(nodes)
    partitions = draw(counts)
    owner = st.sampled_from([*living, "dead-1", "dead-2", None])
    owners = draw(st.dictionaries(st.integers(0, max(partitions - 1, 0)), owner, max_size=partitions))
    return partitions, living, owners


def fewest_moves(partitions: int, living: list[str], owners: dict[int, str | None]) -> int:
    """By counting: the best choice of who gets one extra lets the fullest nodes keep it."""
    have = Counter(owners.get(p) for p in range(partitions))
    share, extras = divmod(partitions, len(living))
    kept = sum(min(have[node], share) for node in living)
    kept += min(extras, sum(have[node] > share for node in living))
    return partitions - kept


@pytest.mark.slow
@given(fleets())
def test_every_partition_has_one_living_node_and_all_have_the_same_share(fleet) -> None:
    partitions, living, owners = fleet
    chosen = target(partitions, living, owners)
    assert list(chosen) == list(range(partitions))
    loads = Counter(chosen.values())
    assert set(loads) <= set(living)
    share = partitions // len(living)
    assert all(share <= loads[node] <= share + 1 for node in living)
    assert sum(loads[node] > share for node in living) == partitions % len(living)


@pytest.mark.slow
@given(fleets())
def test_no_more_partitions_move_than_balance_needs(fleet) -> None:
    partitions, living, owners = fleet
    chosen = target(partitions, living, owners)
    assert sum(chosen[p] != owners.get(p) for p in chosen) == fewest_moves(partitions, living, owners)


@pytest.mark.slow
@given(fleets(), st.randoms(use_true_random=False))
def test_the_order_of_the_arguments_and_repeated_names_change_nothing(fleet, random) -> None:
    partitions, living, owners = fleet
    shuffled = [*living, living[0]]
    random.shuffle(shuffled)
    items = list(owners.items())
    random.shuffle(items)
    assert target(partitions, shuffled, dict(items)) == target(partitions, living, owners)


@pytest.mark.slow
@given(fleets())
def test_what_is_as_it_should_be_stays(fleet) -> None:
    partitions, living, owners = fleet
    chosen = target(partitions, living, owners)
    assert target(partitions, living, dict(chosen)) == chosen


@given(counts, nodes)
def test_a_node_that_dies_moves_its_own_partitions_only(partitions: int, living: list[str]) -> None:
    before = target(partitions, living, {})
    survivors = living[1:]
    after = target(partitions, survivors, dict(before))
    if survivors:
        assert all(after[p] == before[p] for p in before if before[p] != living[0])
    else:
        assert after == {}


@given(counts, nodes)
def test_a_node_that_joins_takes_its_share_and_nothing_moves_between_the_others(
    partitions: int, living: list[str]
) -> None:
    before = target(partitions, living, {})
    after = target(partitions, [*living, "the new one"], dict(before))
    moved = [p for p in before if after[p] != before[p]]
    assert all(after[p] == "the new one" for p in moved)
    assert len(moved) == partitions // (len(living) + 1)


def test_a_free_partition_goes_to_the_first_in_its_order_that_has_room() -> None:
    living = ["a", "b", "c", "d"]
    for partition in range(4):
        held = {p: None if p == partition else "?" for p in range(4)}
        full = [node for node in living if node != rendezvous(partition, living)[0]]
        held.update({p: full.pop() for p in held if p != partition})
        assert target(4, living, held)[partition] == rendezvous(partition, living)[0]


@pytest.mark.slow
def test_the_hash_spreads_the_partitions_over_the_nodes() -> None:
    living = [f"node-{i}" for i in range(10)]
    firsts = Counter(rendezvous(partition, living)[0] for partition in range(10_000))
    assert set(firsts) == set(living)
    assert max(abs(count - 1_000) for count in firsts.values()) < 150  # 5 standard deviations


def test_the_other_nodes_order_survives_when_one_is_taken_away() -> None:
    living = [f"node-{i}" for i in range(7)]
    for partition in range(50):
        order = rendezvous(partition, living)
        for gone in living:
            assert rendezvous(partition, [n for n in living if n != gone]) == [n for n in order if n != gone]


def test_standbys_follow_in_rendezvous_order_without_the_owner() -> None:
    living = ["a", "b", "c"]
    order = rendezvous(5, living)
    assert standbys(5, living, order[0], 2) == order[1:2]
    assert standbys(5, living, order[2], 2) == order[:1]
    assert standbys(5, living, order[1], 9) == [order[0], order[2]]
    assert standbys(5, living, None, 3) == order[:2]
    assert standbys(5, living, order[0], 1) == []
    assert standbys(5, living, order[0], 0) == []


def test_nobody_alive_means_no_assignment() -> None:
    assert target(4, [], {0: "dead"}) == {}
    assert target(0, ["a"], {}) == {}


@pytest.mark.parametrize("nodes", [2, 3, 5])
def test_the_first_standby_is_who_takes_over_when_the_owner_dies(nodes: int) -> None:
    names = [f"n{i}" for i in range(nodes)]
    owners: dict[int, str | None] = dict(target(24, names, {}))
    order = heirs(24, names, owners, 2)
    for dead in names:
        after = target(24, [name for name in names if name != dead], owners)
        for partition in [p for p, owner in owners.items() if owner == dead]:
            assert order[partition] == [after[partition]]


def test_standbys_are_other_nodes_each_once_and_as_many_as_there_are() -> None:
    names = ["a", "b", "c", "d"]
    owners: dict[int, str | None] = {0: "a", 1: "b", 2: None, 3: "gone"}
    for replicas in (1, 2, 3, 9):
        order = heirs(4, names, owners, replicas)
        assert 2 not in order, "whoever claims it first owns it"
        for partition, next_owners in order.items():
            others = [name for name in names if name != owners[partition]]
            assert len(next_owners) == min(replicas - 1, len(others))
            assert len(set(next_owners)) == len(next_owners) and set(next_owners) <= set(others)
    assert heirs(4, [], owners, 2) == {}


@pytest.mark.slow
@given(fleets(), st.randoms(use_true_random=False))
def test_nodes_that_are_keeping_have_what_they_have_and_others_share_the_rest(fleet, random) -> None:
    partitions, living, owners = fleet
    keeping = [node for node in living if random.random() < 0.5]
    chosen = target(partitions, living, owners, keeping)
    assert list(chosen) == list(range(partitions))
    kept = {p: node for p, node in owners.items() if node in keeping and p < partitions}
    assert kept.items() <= chosen.items()
    takers = [node for node in living if node not in keeping] or living
    rest = Counter(node for p, node in chosen.items() if p not in kept)
    share = (partitions - len(kept)) // len(takers)
    assert set(rest) <= set(takers) and all(share <= rest[node] <= share + 1 for node in takers)


def test_a_node_that_is_keeping_is_an_heir_only_where_no_other_is_left() -> None:
    owners: dict[int, str | None] = dict.fromkeys(range(6), "a")
    assert set(map(tuple, heirs(6, ["a", "b", "c"], owners, 2, ["c"]).values())) == {("b",)}
    assert set(map(tuple, heirs(6, ["a", "c"], owners, 2, ["c"]).values())) == {("c",)}
