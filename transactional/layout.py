"""Layouts: in which state partition each key lives. Keys fall into buckets, and a layout gives each bucket a home.

Two rules for this file. A layout is a value: the same arguments give the same one on every node. The effect of a layout
on running transactions is decided elsewhere. The plan is in docs/design/migration.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, NamedTuple, Protocol, TypeAlias

import msgspec

from transactional.operators import Operator, hashes_mod, key_hash

MIN_BUCKETS = 1024
"""A partition of few has many buckets, so that shares can be even; a table of them is small all the same."""

Homes: TypeAlias = tuple[int, ...]
"""The state partition of each bucket, by bucket."""


class Group(msgspec.Struct, array_like=True, frozen=True):
    """Operators whose keys have the same homes: those that were declared with the same ``partitions`` and separator.

    ``apart``: of these operators alone, which are in no other group of the layout; none: of all others.
    """

    partitions: Annotated[int, msgspec.Meta(ge=1)]
    colocate: str | None
    apart: tuple[str, ...] = ()

    @classmethod
    def of(cls, operator: Operator) -> Group:
        """As it is declared."""
        return cls(operator.partitions, operator.colocate)

    @property
    def declared(self) -> Group:
        """That of all operators which were declared alike."""
        return self if not self.apart else Group(self.partitions, self.colocate)

    @property
    def buckets(self) -> int:
        """The smallest multiple of ``partitions`` that is enough: so a bucket has one home in the first layout."""
        return self.partitions * -(-MIN_BUCKETS // self.partitions)

    def bucket(self, key: str) -> int:
        """Of a key, by the first part of a composite one; also of a prefix that has all of that part."""
        part = key if self.colocate is None else key.split(self.colocate, 1)[0]
        return key_hash(part) % self.buckets


class GroupHomes(msgspec.Struct, array_like=True, frozen=True):
    """Raises ``ValueError`` where there is not one home for each bucket."""

    group: Group
    homes: Homes

    def __post_init__(self) -> None:
        if len(self.homes) != self.group.buckets or min(self.homes) < 0:
            raise ValueError(f"{len(self.homes)} homes for {self.group.buckets} buckets of {self.group}")


class Layout(msgspec.Struct, array_like=True, frozen=True):
    """Number ``number`` of a job, 0 is the first. ``partitions``: of the state, those that take part in its epochs.

    Raises ``ValueError`` where its last partition is nobody's home, or there is none that is somebody's.
    """

    number: int
    partitions: int
    groups: tuple[GroupHomes, ...]

    def __post_init__(self) -> None:
        highest = max((max(each.homes) for each in self.groups), default=0)
        if highest + 1 != self.partitions:
            raise ValueError(
                f"layout {self.number} of {self.partitions} partitions has its last home in partition {highest}"
            )

    @classmethod
    def first(cls, operators: Mapping[str, Operator]) -> Layout:
        """Where keys live without any layout: ``hash mod partitions``."""
        return cls.first_of({Group.of(each) for each in operators.values()})

    @classmethod
    def first_of(cls, found: Collection[Group]) -> Layout:
        """As ``first``, of a job that has operators of these groups."""
        groups = sorted(found, key=_order)
        homes = [GroupHomes(each, tuple(bucket % each.partitions for bucket in range(each.buckets))) for each in groups]
        return cls(0, max(each.partitions for each in groups), tuple(homes))

    def homes_of(self, group: Group) -> Homes:
        """Raises ``KeyError`` where no operator of the job is of this group."""
        for each in self.groups:
            if each.group == group:
                return each.homes
        raise KeyError(group)

    def group_of(self, name: str, declared: Group) -> Group:
        """Of an operator that was declared in this group."""
        return next((each.group for each in self.groups if name in each.group.apart), declared)

    def before(self, group: Group) -> Group:
        """The group here of which this one is a part in a later layout."""
        return self.group_of(group.apart[0], group.declared) if group.apart else group

    def homes_since(self, before: Layout) -> list[tuple[Homes, Homes]]:
        """Of each group here: the homes in the layout before, and those in this one; each by bucket."""
        return [(before.homes_of(before.before(each.group)), each.homes) for each in self.groups]

    @property
    def is_parted(self) -> bool:
        """Whether some group has operators apart."""
        return any(each.group.apart for each in self.groups)

    def apart(self, operators: Collection[str], known: Mapping[str, Group]) -> Layout:
        """The same homes, with these operators in groups of their own; ``known``: of all operators, as they are here.

        Those that have the same homes stay together. A group of which all are named is what they wish already.
        """
        found: list[GroupHomes] = []
        for each in self.groups:
            mine = {name for name, group in known.items() if group == each.group}
            leaving = mine.intersection(operators)
            if not leaving or leaving == mine:
                found.append(each)
                continue
            group = each.group
            stay = tuple(sorted(mine - leaving)) if group.apart else ()
            for names in (stay, tuple(sorted(leaving))):
                found.append(GroupHomes(Group(group.partitions, group.colocate, names), each.homes))
        return Layout(self.number, self.partitions, tuple(found))

    def divides(self, before: Layout) -> bool:
        """Whether each group here is one of the layout before, or a part of it: none of these come together again."""
        mine = [each.group for each in self.groups]
        named = [name for group in mine for name in group.apart]
        if len(set(mine)) < len(mine) or len(set(named)) < len(named):
            return False
        if not {name for each in before.groups for name in each.group.apart} <= set(named):
            return False
        theirs = {each.group for each in before.groups}
        if {group.declared for group in mine if not group.apart} != {group for group in theirs if not group.apart}:
            return False
        parents = [{before.group_of(name, group.declared) for name in group.apart} or {group} for group in mine]
        return all(
            len(found) == 1 and found <= theirs and {each.declared for each in found} == {group.declared}
            for group, found in zip(mine, parents, strict=True)
        )

    def changed(self, homes: Mapping[Group, Homes]) -> Layout:
        """The next layout, in which these groups have these homes and the others have theirs.

        Partitions behind the last home take no part in its epochs.
        """
        for group in homes:
            self.homes_of(group)
        groups = tuple(GroupHomes(each.group, homes.get(each.group, each.homes)) for each in self.groups)
        return Layout(self.number + 1, 1 + max(max(each.homes) for each in groups), groups)

    def places(self, operators: Mapping[str, Operator]) -> dict[str, Place]:
        """By the name of an operator."""
        groups = {name: self.group_of(name, Group.of(each)) for name, each in operators.items()}
        return {name: Place(group, self.homes_of(group)) for name, group in groups.items()}

    def placement(self, operators: Mapping[str, Operator]) -> Placement:
        """In the first layout operators know the places of their keys, and need no table."""
        return Placement(self.number, self.partitions, self.places(operators) if self.number else operators)


class PlaceOfKeys(Protocol):
    """An operator, or its place in a layout."""

    def partition_of(self, key: str) -> int: ...

    def partitions_of(self, keys: Sequence[str]) -> list[int]: ...


class Placement(NamedTuple):
    """The homes of keys in the epochs of layout ``number``, by the names of operators; see ``Layout``."""

    number: int
    partitions: int
    places: Mapping[str, PlaceOfKeys]

    def place(self, operator: str, key: str) -> int:
        """State partition of an entity."""
        return self.places[operator].partition_of(key)

    def place_all(self, keys: Sequence[tuple[str, str]]) -> list[int]:
        """As ``place`` of each: many of an operator together cost little each."""
        by_operator: dict[str, list[int]] = {}
        for index, (operator, _) in enumerate(keys):
            by_operator.setdefault(operator, []).append(index)
        found = [0] * len(keys)
        for operator, indexes in by_operator.items():
            homes = self.places[operator].partitions_of([keys[index][1] for index in indexes])
            for index, home in zip(indexes, homes, strict=True):
                found[index] = home
        return found


class Place:
    """Where the keys of one operator live in one layout."""

    __slots__ = ("_buckets", "_colocate", "_homes")

    def __init__(self, group: Group, homes: Homes) -> None:
        self._buckets = group.buckets
        self._colocate = group.colocate
        self._homes = homes

    def partition_of(self, key: str) -> int:
        """The state partition of a key: in the hot path, so with a copy of ``Group.bucket``."""
        part = key if self._colocate is None else key.split(self._colocate, 1)[0]
        return self._homes[key_hash(part) % self._buckets]

    def partitions_of(self, keys: Sequence[str]) -> list[int]:
        """As ``partition_of`` each: of thousands at a time that takes a seventh of the CPU."""
        return list(map(self._homes.__getitem__, hashes_mod(keys, self._colocate, self._buckets)))


def spread_least(homes: Homes, partitions: int) -> Homes:
    """Homes in the first ``partitions`` partitions, each with an equal share or one more, as near as such homes can be.

    Of a partition with too many, the last buckets move.
    """
    _check(homes, partitions)
    share, extras = divmod(len(homes), partitions)
    counts = Counter(homes)
    most_first = sorted(range(partitions), key=lambda partition: (-counts[partition], partition))
    room = {partition: share + (rank < extras) for rank, partition in enumerate(most_first)}
    kept: list[int | None] = []
    for home in homes:
        stays = room.get(home, 0) > 0
        kept.append(home if stays else None)
        if stays:
            room[home] -= 1
    free = iter([partition for partition in sorted(room) for _ in range(room[partition])])
    return tuple(next(free) if home is None else home for home in kept)


def spread_all(homes: Homes, partitions: int) -> Homes:
    """Homes as the hash alone would give them with so many partitions: nearly every bucket moves, as in the paper."""
    _check(homes, partitions)
    return tuple(bucket % partitions for bucket in range(len(homes)))


def moved(before: Homes, after: Homes) -> list[int]:
    """The buckets that have another home."""
    return [bucket for bucket, (was, now) in enumerate(zip(before, after, strict=True)) if was != now]


def moved_buckets(before: Layout, after: Layout) -> int:
    """How many buckets have another home, of each group by itself."""
    return sum(len(moved(was, now)) for was, now in after.homes_since(before))


def _check(homes: Sequence[int], partitions: int) -> None:
    """Raises ``ValueError``."""
    if not 1 <= partitions <= len(homes):
        raise ValueError(f"{partitions} partitions for {len(homes)} buckets: 1 to {len(homes)} can have one each")


def _order(group: Group) -> tuple[int, str]:
    return group.partitions, group.colocate or ""
