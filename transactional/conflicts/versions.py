"""The writes of an epoch's transactions in one state partition, for those with higher TIDs to read."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

from transactional.conflicts.accesses import Accesses
from transactional.operators import StateKey
from transactional.state.store import with_prefix


class Versions:
    """The writer of each key, by the key."""

    __slots__ = ("_ordered", "writers")

    def __init__(self) -> None:
        self.writers: dict[StateKey, Accesses] = {}
        self._ordered: dict[str, list[str]] | None = None  # from the first scan on

    def add(self, accesses: Accesses) -> None:
        """The write of a higher TID than all before."""
        if self._ordered is not None:
            for operator, key in sorted(accesses.writes.keys() - self.writers.keys()):
                insort(self._ordered.setdefault(operator, []), key)
        for key in accesses.writes:
            self.writers[key] = accesses

    def under(self, operator: str, prefix: str) -> Iterable[StateKey]:
        """Keys that were written, in order."""
        if self._ordered is None:
            self._ordered = {}
            for each, key in sorted(self.writers):
                self._ordered.setdefault(each, []).append(key)
        return [(operator, key) for key in with_prefix(self._ordered.get(operator, []), prefix)]
