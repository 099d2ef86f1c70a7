"""Which schemas of a registry exist, by the order of the control topic: for each record the first verdict counts.

Two rules for this file. A verdict on a record never changes, whatever comes later: nodes act by it as soon as they read
it. An id that a registry does not know is no part of the state, so damaged records do not make it grow.
"""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from nodes.machine.facts import Fact


class SchemaState(msgspec.Struct, array_like=True, frozen=True):
    """The fold as a value. ``known``: by source the ids, in the order of their verdicts; ``ends``: by partition."""

    known: list[tuple[int, list[int]]] = []
    ends: list[tuple[int, list[tuple[int, int]]]] = []


class SchemaFold:
    """Of a partition there are ends, ``(before, count)`` in ascending order.

    Of its records before the offset ``before``, and not before an earlier end, those are read whose schema is among the
    first ``count`` known ids; all others are dead. Behind the last end known ids are read, and others have no verdict.
    """

    def __init__(self, state: SchemaState | None = None) -> None:
        state = SchemaState() if state is None else state
        self._known = {source: {id: n for n, id in enumerate(ids)} for source, ids in state.known}
        self._ends = {partition: list(ends) for partition, ends in state.ends}

    def state(self) -> SchemaState:
        """As a value, which later records do not change."""
        known = [(source, list(ids)) for source, ids in sorted(self._known.items())]
        return SchemaState(known, [(partition, list(ends)) for partition, ends in sorted(self._ends.items())])

    def take(self, source: int, partition: int, known: list[int], before: int) -> list[Fact]:
        """The next record: these ids exist, and no other one in records of the partition before this offset."""
        ids = self._known.setdefault(source, {})
        for id in known:
            ids.setdefault(id, len(ids))
        ends = self._ends.setdefault(partition, [])
        if before > self.end(partition):
            if ends and ends[-1][1] == len(ids):
                del ends[-1]  # no id became known in between
            ends.append((before, len(ids)))
        return []

    def end(self, partition: int) -> int:
        """All records of the partition before this offset have a verdict."""
        ends = self._ends.get(partition)
        return ends[-1][0] if ends else 0

    def knows(self, source: int, id: int) -> bool:
        """Whether records behind the last end are read."""
        return id in self._known.get(source, {})

    def verdict(self, source: int, partition: int, offset: int, id: int) -> bool | None:
        """Whether the record is read (True) or dead (False); None: it has no verdict yet."""
        number = self._known.get(source, {}).get(id)
        ends = self._ends.get(partition, [])
        at = bisect_right(ends, offset, key=lambda end: end[0])
        if at < len(ends):
            return number is not None and number < ends[at][1]
        return None if number is None else True
