"""Which node should process which partition: balanced, sticky, and the same on every node.

Two rules for this file: the answer depends on the arguments' values alone, never on their order or on Python's
``hash``; as few partitions move as balance allows.

Rendezvous (highest random weight) hashing: Thaler and Ravishankar, "Using name-based mappings to increase hit rates",
1998. Deviation: capped at the balanced share, and an owner keeps its partition before any hash decides. A move costs a
replay, and a bare rendezvous assignment is not balanced.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.uint64]


def target(
    partitions: int, nodes: Sequence[str], owners: Mapping[int, str | None], keeping: Collection[str] = ()
) -> dict[int, str]:
    """Partition -> node, for all partitions; empty if there are no nodes.

    Every node gets ``partitions // len(nodes)`` or one more. Owners that are not among ``nodes`` count as gone. A free
    partition goes to the first node of its rendezvous order that has room. Nodes that are ``keeping`` have what they
    have, and all others share the rest; if there are no others, they share what nobody has.
    """
    names = tuple(sorted(set(nodes)))
    staying = tuple(name for name in names if name in keeping) if keeping else ()
    return dict(_target(partitions, names, tuple(sorted(owners.items())), staying))


@lru_cache(maxsize=16)
def _target(
    partitions: int, names: tuple[str, ...], owned: tuple[tuple[int, str | None], ...], keeping: tuple[str, ...]
) -> dict[int, str]:
    """Cached, since nodes call it again and again while nothing changes."""
    if not names:
        return {}
    fixed = {p: name for p, name in owned if name in keeping and p < partitions}
    owners = {p: name for p, name in owned if p not in fixed}
    names = tuple(name for name in names if name not in keeping) or names
    share, extras = divmod(partitions - len(fixed), len(names))
    chosen = fixed | _kept(partitions, names, owners, share, extras)
    index = {name: i for i, name in enumerate(names)}
    room = np.full(len(names), share)
    for name in [name for partition, name in chosen.items() if partition not in fixed]:
        room[index[name]] -= 1  # -1: the node has one of the extra ones
    extras -= int((room < 0).sum())
    seeds = _seeds(names)
    for partition in range(partitions):
        if partition not in chosen:
            has_room = room > 0 if extras == 0 else room >= 0
            taker = int(np.where(has_room, _weights(partition, seeds), 0).argmax())
            extras -= int(room[taker] == 0)
            room[taker] -= 1
            chosen[partition] = names[taker]
    return dict(sorted(chosen.items()))


def _kept(
    partitions: int, names: Sequence[str], owners: Mapping[int, str | None], share: int, extras: int
) -> dict[int, str]:
    """Partitions that stay in place: up to ``share`` of each node's partitions, and one more for ``extras`` nodes."""
    owned: dict[str, list[int]] = {name: [] for name in names}
    for partition in range(partitions):
        owner = owners.get(partition)
        if owner is not None and owner in owned:
            owned[owner].append(partition)
    chosen: dict[int, str] = {}
    for name, mine in owned.items():
        limit = share
        if len(mine) > share and extras > 0:
            limit, extras = share + 1, extras - 1
        if len(mine) > limit:  # the ones go in whose rendezvous order the node is lowest
            seed = _seeds([name])
            mine.sort(key=lambda partition: -int(_weights(partition, seed)[0]))
        chosen.update(dict.fromkeys(mine[:limit], name))
    return chosen


def rendezvous(partition: int, nodes: Iterable[str]) -> list[str]:
    """The nodes in the partition's own order, best first."""
    names = sorted(set(nodes))
    order = np.argsort(~_weights(partition, _seeds(names)), kind="stable")
    return [names[i] for i in order.tolist()]


def standbys(partition: int, nodes: Iterable[str], owner: str | None, replicas: int) -> list[str]:
    """The standbys of the partition: the first ``replicas - 1`` nodes in rendezvous order, the owner left out."""
    return [name for name in rendezvous(partition, nodes) if name != owner][: max(replicas - 1, 0)]


def grown(groups: Sequence[int], units: int) -> tuple[int, ...]:
    """Sizes of the ranges now that there are so many units: those that came belong to the last one."""
    return (*groups[:-1], units - sum(groups[:-1]))


def shares(
    groups: Sequence[int], live: Sequence[str], owners: Mapping[int, str | None], keeping: Collection[str] = ()
) -> dict[int, str]:
    """Unit -> the node that should have it; each range of units, of these sizes, is shared out evenly by itself.

    Nodes that are ``keeping`` get nothing more.
    """
    found: dict[int, str] = {}
    first = 0
    for size in groups:
        own = {unit - first: node for unit, node in owners.items() if first <= unit < first + size}
        found.update({first + unit: node for unit, node in target(size, live, own, keeping).items()})
        first += size
    return found


def heirs(
    partitions: int,
    nodes: Sequence[str],
    owners: Mapping[int, str | None],
    replicas: int,
    keeping: Collection[str] = (),
) -> dict[int, list[str]]:
    """The standbys of each owned partition, in order: first the next owner by ``target``.

    So what a dead node leaves is warm where it goes, and balanced. After the first, rendezvous order.
    """
    found: dict[int, list[str]] = {}
    for owner in sorted({name for name in owners.values() if name is not None}):
        rest = [name for name in nodes if name != owner]
        after = target(partitions, rest, owners, keeping)
        for partition in sorted(p for p, name in owners.items() if name == owner and after):
            first = after[partition]
            found[partition] = [first, *standbys(partition, rest, first, replicas - 1)][: max(replicas - 1, 0)]
    return dict(sorted(found.items()))


def _weights(partition: int, seeds: Weights) -> Weights:
    """The weight of each node for a partition: never 0, spread by the finaliser of splitmix64."""
    mixed = seeds ^ np.uint64(_seed(f"partition {partition}"))
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> np.uint64(31))) | np.uint64(1)


def _seeds(names: Sequence[str]) -> Weights:
    return np.array([_seed(f"node {name}") for name in names], dtype=np.uint64)


@lru_cache(maxsize=1 << 14)
def _seed(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
