"""Laws of layouts: the first moves nothing, the nearest even one no more than it has to; one home at each epoch."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transactional.layout import Group, GroupHomes, Homes, Layout, moved, spread_all, spread_least
from transactional.layout_history import LayoutHistory
from transactional.operators import Operator

PARTITIONS = st.integers(1, 40)
KEYS = st.text(st.characters(codec="utf-8"), max_size=8)
OPERATORS = st.lists(st.tuples(PARTITIONS, st.sampled_from([None, ":", "::"])), min_size=1, max_size=3).map(
    lambda drawn: {f"o{n}": Operator(f"o{n}", partitions=p, colocate=c) for n, (p, c) in enumerate(drawn)}
)


@st.composite
def homes(draw: st.DrawFn) -> Homes:
    """Of few buckets, even or not."""
    return tuple(draw(st.lists(st.integers(0, 7), min_size=1, max_size=60)))


@st.composite
def homes_and_partitions(draw: st.DrawFn) -> tuple[Homes, int]:
    drawn = draw(homes())
    return drawn, draw(st.integers(1, min(len(drawn), 12)))


@given(OPERATORS, KEYS, st.sampled_from(["", ":", "::x", ":y:z"]))
def test_the_first_layout_leaves_every_key_where_it_is(operators: dict[str, Operator], key: str, rest: str) -> None:
    layout = Layout.first(operators)
    places = layout.places(operators)
    assert layout.partitions == max(each.partitions for each in operators.values())
    for name, operator in operators.items():
        assert places[name].partition_of(key + rest) == operator.partition_of(key + rest)
        group = Group.of(operator)
        assert group.buckets % operator.partitions == 0 and group.buckets >= 1024
        assert places[name].partition_of(key + rest) == layout.homes_of(group)[group.bucket(key + rest)]


@given(
    OPERATORS, st.lists(st.tuples(st.integers(0, 2), KEYS, st.sampled_from(["", ":", "::x", ":y:z"]))), st.booleans()
)
def test_homes_of_many_keys_are_those_of_each(
    operators: dict[str, Operator], drawn: list[tuple[int, str, str]], is_changed: bool
) -> None:
    layout = Layout.first(operators)
    if is_changed:
        layout = layout.changed({each.group: tuple(reversed(each.homes)) for each in layout.groups})
    placement, names = layout.placement(operators), sorted(operators)
    keys = [(names[number % len(names)], key + rest) for number, key, rest in drawn]
    for some in (keys, [(name, f"{key}{number}") for number in range(150) for name, key in keys[:2]]):
        assert placement.place_all(some) == [placement.place(*key) for key in some]


@given(homes_and_partitions())
def test_shares_are_even_and_no_even_ones_are_nearer(drawn: tuple[Homes, int]) -> None:
    before, partitions = drawn
    after = spread_least(before, partitions)
    share, extras = divmod(len(before), partitions)
    counts = Counter(after)
    assert sorted(counts[p] for p in range(partitions)) == [share] * (partitions - extras) + [share + 1] * extras
    # Any even layout keeps at most ``share`` of each partition, and one more of as many as have one more.
    have = Counter(home for home in before if home < partitions)
    most_kept = sum(min(count, share) for count in have.values())
    most_kept += min(extras, sum(count > share for count in have.values()))
    assert len(moved(before, after)) == len(before) - most_kept
    assert spread_least(after, partitions) == after, "what is even stays"


@given(homes_and_partitions())
def test_all_are_spread_as_the_hash_alone_would(drawn: tuple[Homes, int]) -> None:
    before, partitions = drawn
    after = spread_all(before, partitions)
    assert after == tuple(bucket % partitions for bucket in range(len(before)))
    assert spread_all(after, partitions) == after and moved(after, after) == []


@given(homes(), st.sampled_from([0, -1, 1]))
def test_numbers_of_partitions_that_cannot_be_are_refused(before: Homes, wrong: int) -> None:
    partitions = wrong if wrong < 1 else len(before) + wrong
    for spread in (spread_least, spread_all):
        with pytest.raises(ValueError, match=f"^{partitions} partitions for {len(before)} buckets"):
            spread(before, partitions)


@given(OPERATORS, st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 1), st.integers(1, 9)), max_size=4), st.data())
def test_a_bucket_has_one_home_at_each_epoch_and_the_first_layout_of_a_number_wins(
    operators: dict[str, Operator], drawn: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    history = LayoutHistory(operators)
    since, holds = 0, [(0, history.newest)]
    for step, number, partitions in drawn:
        since += step
        known = {name: history.newest.group_of(name, Group.of(each)) for name, each in operators.items()}
        newest = history.newest.apart(data.draw(st.sets(st.sampled_from(sorted(operators)))), known)
        homes = {each.group: spread_least(each.homes, partitions) for each in newest.groups}
        proposed = msgspec.structs.replace(newest.changed(homes), number=newest.number + 1 + number)
        counts = number == 0 and since > holds[-1][0]
        assert history.add(since, proposed) == counts
        if counts:
            holds.append((since, proposed))
    epoch = data.draw(st.integers(0, since + 2))
    expected = [layout for first, layout in holds if first <= epoch][-1]
    assert history.at(epoch) == expected
    for (_, before), (first, after) in pairwise(holds):
        change = history.change(first)
        pairs = [(before.homes_of(before.before(each.group)), each.homes) for each in after.groups]
        assert after.homes_since(before) == pairs
        assert change is not None and (change.before.number, change.after.number) == (before.number, after.number)
        assert set(change.sources) == {was[b] for was, now in pairs for b in moved(was, now)}
        assert all(history.is_member(p, first) == (p < after.partitions) for p in range(10))
    assert history.placement(epoch).number == expected.number
    # A checkpoint of an epoch has what is needed for it and all later ones.
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(history.since(epoch)), type=list[tuple[int, Layout]])
    restored = LayoutHistory(operators, kept)
    later = range(epoch, since + 3)
    assert [restored.at(each) for each in later] == [history.at(each) for each in later]
    numbers = [history.at(each).number for each in later]
    changes = [history.change(each) is None for each in later[1:]]
    assert [restored.change(each) is None for each in later[1:]] == changes
    history.forget(epoch + 1)  # the move before that epoch needs the layout before it
    assert [history.placement(each).number for each in later] == numbers
    assert [history.change(each) is None for each in later[1:]] == changes
    assert history.since(epoch) == restored.since(epoch)


@given(OPERATORS, st.data())
def test_operators_that_are_set_apart_keep_their_homes_and_leave_those_of_the_others(
    operators: dict[str, Operator], data: st.DataObject
) -> None:
    layout, names = Layout.first(operators), st.sets(st.sampled_from(sorted(operators)))
    for _ in range(data.draw(st.integers(1, 3))):
        before, chosen = layout, data.draw(names)
        known = {name: before.group_of(name, Group.of(each)) for name, each in operators.items()}
        apart = before.apart(chosen, known)
        now = {name: apart.group_of(name, Group.of(each)) for name, each in operators.items()}
        assert apart.divides(before) and apart.apart(chosen, now) == apart, "once is enough"
        assert (len(apart.groups) == len(before.groups)) == before.divides(apart)
        assert all(apart.homes_of(now[name]) == before.homes_of(known[name]) for name in operators)
        assert all(
            (now[a] == now[b]) == (known[a] == known[b] and (a in chosen) == (b in chosen)) for a in now for b in now
        )
        layout = apart.changed({now[name]: spread_all(apart.homes_of(now[name]), 7) for name in chosen})
        places, older = layout.places(operators), before.places(operators)
        for name in operators.keys() - chosen:
            assert all(places[name].partition_of(str(key)) == older[name].partition_of(str(key)) for key in range(20))


def test_layouts_that_do_not_divide_the_one_before_are_void() -> None:
    operators = {name: Operator(name, partitions=4) for name in "abc"} | {"z": Operator("z", partitions=2)}
    first, base = Layout.first(operators), Group(4, None)
    parted = first.apart(["a", "b"], {name: Group.of(each) for name, each in operators.items()}).changed({})
    ab = Group(4, None, ("a", "b"))
    assert [each.group for each in parted.groups] == [Group(2, None), base, ab]

    def of(*groups: Group) -> Layout:
        homes = {each: parted.homes_of(Group.of(operators["z"]) if each.partitions == 2 else base) for each in groups}
        return Layout(2, 4, tuple(GroupHomes(each, homes[each]) for each in groups))

    z, a, b = Group(2, None), Group(4, None, ("a",)), Group(4, None, ("b",))
    known = {name: parted.group_of(name, Group.of(each)) for name, each in operators.items()}
    assert [each.group for each in parted.apart(["a"], known).groups] == [z, base, b, a], (
        "those that stay are apart still"
    )
    assert of(z, base, ab).divides(parted) and of(b, z, base, a).divides(parted)
    for wrong in (
        of(z, base),  # they come together again
        of(z, base, a),
        of(z, base, Group(4, None, ("a", "b", "c"))),
        of(z, base, a, ab),
        of(z, base, ab, ab),
        of(z, ab),
        of(base, ab),
        of(z, base, ab, Group(2, None, ("c",))),
        of(z, base, ab, Group(2, ":", ("z",))),
    ):
        history = LayoutHistory(operators)
        assert history.add(1, parted)
        assert not wrong.divides(parted) or wrong == of(z, base, ab, Group(2, None, ("c",))), wrong
        assert history.add(2, wrong) == wrong.divides(parted)


def test_what_is_no_layout_is_refused_by_name() -> None:
    operators = {"a": Operator("a", partitions=4), "b": Operator("b", partitions=2, colocate=":")}
    first = Layout.first(operators)
    a, b = Group(4, None), Group(2, ":")
    with pytest.raises(ValueError, match="3 homes for 1024 buckets"):
        GroupHomes(a, (0, 1, 2))
    with pytest.raises(ValueError, match="its last home in partition 9"):
        msgspec.structs.replace(first, groups=(GroupHomes(a, (9,) * 1024),))
    with pytest.raises(KeyError):
        first.changed({Group(3, None): (0,)})
    wider = first.changed({b: spread_least(first.homes_of(b), 6)})
    assert (wider.number, wider.partitions, wider.homes_of(a)) == (1, 6, first.homes_of(a))
    history = LayoutHistory(operators)
    missing = msgspec.structs.replace(wider, groups=[each for each in wider.groups if each.group == b])
    assert not history.add(3, missing), "a group is missing"
    assert history.add(3, wider)
    narrower = wider.changed({a: spread_least(first.homes_of(a), 1), b: spread_least(wider.homes_of(b), 2)})
    assert (narrower.partitions, history.add(4, narrower), history.placement(4).partitions) == (2, True, 2)
