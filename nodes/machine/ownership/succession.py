"""Which units a node is a standby of, and in which place: where a unit would go without its owner, it is kept warm."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from nodes.machine.ownership.assignment import grown, heirs

LINGER_MS = 2000
"""How long a standby stays that is none any more: claims on their way may make it one again."""


class Succession:
    """Of one node. ``groups``: sizes of ranges of units, as in ``shares``; ``replicas``: in all, with the owner's."""

    def __init__(self, node: str, groups: Sequence[int], replicas: int) -> None:
        self.replicas = replicas
        self._node = node
        self._groups = groups
        self._situation: tuple[object, ...] | None = None
        self._ranks: dict[int, int] = {}
        self._unwanted_since_ms: dict[int, int] = {}

    def rank(self, unit: int) -> int:
        """This node's place among the unit's standbys, 0 is first; ``replicas`` where it is none."""
        return self._ranks.get(unit, self.replicas)

    def ranks(
        self,
        live: Sequence[str],
        owners: Mapping[int, str | None],
        keeping: Collection[str],
        held: Collection[int],
        running_ms: int,
    ) -> dict[int, int]:
        """Ranks by unit. ``keeping``: nodes that would be given nothing more; ``held``: units it is a standby of now.

        Units that are held and go to others have rank ``replicas``, for ``LINGER_MS`` of running time.
        """
        situation = tuple(live), tuple(owners.items()), frozenset(keeping)
        if situation != self._situation:
            self._situation = situation
            self._ranks = self._ranked(live, owners, keeping)
        unwanted = [unit for unit in held if unit not in self._ranks and owners.get(unit) != self._node]
        self._unwanted_since_ms = {unit: self._unwanted_since_ms.get(unit, running_ms) for unit in unwanted}
        stay = {u: self.replicas for u, since in self._unwanted_since_ms.items() if running_ms - since < LINGER_MS}
        return self._ranks | stay

    def _ranked(
        self, live: Sequence[str], owners: Mapping[int, str | None], keeping: Collection[str]
    ) -> dict[int, int]:
        found: dict[int, int] = {}
        first = 0
        for size in grown(self._groups, len(owners)):
            own = {unit - first: node for unit, node in owners.items() if first <= unit < first + size}
            for unit, names in heirs(size, live, own, self.replicas, keeping).items():
                if self._node in names:
                    found[first + unit] = names.index(self._node)
            first += size
        return found
