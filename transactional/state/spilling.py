"""State beyond memory: what was used lately is kept in memory, the rest in a spill, which is scratch space.

Two rules for this file: it knows no files, a spill is handed to it; which values are in memory depends on what was read
and written, never on time.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping
from heapq import merge
from itertools import chain
from typing import Protocol

from transactional.operators import StateKey
from transactional.state.store import with_prefix

GENERATIONS = 3
ENTRY_BYTES = 400
"""The cost of an entry beside its text and value, with the spill's own work (measured)."""
_DRAINED = 64
"""Entries leave memory a few at a time, so that no commit has to wait for many."""


class Spill(Protocol):
    """Values by key, outside of memory, for as long as a partition is owned."""

    def get(self, key: StateKey) -> bytes | None: ...

    def write(self, rows: Iterable[tuple[StateKey, bytes | None]]) -> None:
        """None deletes."""
        ...

    def scan(self, operator: str, prefix: str) -> list[tuple[str, bytes]]:
        """In order of the keys."""
        ...

    def rows(self) -> Iterable[tuple[StateKey, bytes]]:
        """All, in any order."""
        ...


class SpillingStore:
    """As ``Store``, with no more than ``budget()`` bytes in memory, but for what was changed since the last checkpoint.

    ``failed``: what the spill has raised first, None: nothing. From there on values are wrong, or gone.
    A used entry comes into the youngest of three generations, which are as large as each other; the oldest is evicted.
    """

    def __init__(self, spill: Spill, budget: Callable[[], int]) -> None:
        self.changed: dict[StateKey, bytes | None] = {}
        self.failed: Exception | None = None
        self._spill = spill
        self._budget = budget
        self._young: dict[StateKey, bytes | None] = {}  # None: there is none
        self._old: dict[StateKey, bytes | None] = {}
        self._leaving: dict[StateKey, bytes | None] = {}
        self._young_bytes = 0
        self._fresh: set[StateKey] = set()  # in memory, and not so in the spill
        self._ordered: dict[str, list[str]] = {}  # of operators that are scanned: their fresh keys

    def read(self, key: StateKey) -> bytes | None:
        """None: the entity has no state."""
        young = self._young
        if key in young:
            return young[key]
        if key in self._old:
            value = self._old.pop(key)
        elif key in self._leaving:
            value = self._leaving.pop(key)
        else:
            try:
                value = self._spill.get(key)
            except Exception as error:
                self._fails(error)
                raise
        self._use(key, value)
        return value

    def scan(self, operator: str, prefix: str) -> list[tuple[str, bytes]]:
        """As ``Store.scan``; what is scanned does not come into memory for longer."""
        fresh = self._ordered.get(operator)
        if fresh is None:
            fresh = self._ordered[operator] = sorted(key for kind, key in self._fresh if kind == operator)
        try:
            found = self._spill.scan(operator, prefix)
        except Exception as error:
            self._fails(error)
            raise
        spilled = (row for row in found if (operator, row[0]) not in self._fresh)
        newer = ((key, self._in_memory((operator, key))) for key in with_prefix(fresh, prefix))
        return [(key, value) for key, value in merge(spilled, newer, key=_first) if value is not None]

    def check(self) -> None:
        """Raises what the spill has raised, for those who run functions: a function may have caught it."""
        if self.failed is not None:
            raise self.failed

    def forget_order(self) -> None:
        """As ``Store.forget_order``."""
        self._ordered.clear()

    def apply(self, writes: Mapping[StateKey, bytes | None]) -> None:
        """Commit writes; None deletes."""
        self.changed.update(writes)
        for key, value in writes.items():
            self._old.pop(key, None)
            self._leaving.pop(key, None)
            if key not in self._fresh:
                self._fresh.add(key)
                if key[0] in self._ordered:
                    insort(self._ordered[key[0]], key[1])
            self._use(key, value)
        self._drain(max(_DRAINED, GENERATIONS * len(writes)))

    def copied(self) -> dict[StateKey, bytes | None]:
        """All rows as they are now, in memory."""
        return dict(self.everything())

    def everything(self) -> Iterable[tuple[StateKey, bytes | None]]:
        """All rows, in any order."""
        spilled = (row for row in self._spill.rows() if row[0] not in self._fresh)
        hot = chain(self._young.items(), self._old.items(), self._leaving.items())
        return chain(spilled, ((key, value) for key, value in hot if key in self._fresh and value is not None))

    def keys(self) -> list[StateKey]:
        """As ``Store.keys``; reads all that is spilled."""
        return [key for key, _ in self.everything()]

    @property
    def tables(self) -> tuple[Mapping[StateKey, bytes | None], ...]:
        """The entries in memory; None: there are none."""
        return self._young, self._old, self._leaving

    @property
    def entries_in_memory(self) -> int:
        return len(self._young) + len(self._old) + len(self._leaving)

    # --- generations ------------------------------------------------------------------------------------------------

    def _in_memory(self, key: StateKey) -> bytes | None:
        for generation in (self._young, self._old):
            if key in generation:
                return generation[key]
        return self._leaving[key]

    def _use(self, key: StateKey, value: bytes | None) -> None:
        before = self._young.get(key)
        if before is None:
            self._young_bytes += ENTRY_BYTES + len(key[1])
        else:
            self._young_bytes -= len(before)
        self._young[key] = value
        self._young_bytes += len(value or b"")
        if self._young_bytes * GENERATIONS > self._budget():
            self._drain(len(self._leaving))
            self._leaving, self._old, self._young, self._young_bytes = self._old, self._young, {}, 0

    def _fails(self, error: Exception) -> None:
        self.failed = self.failed or error

    def _drain(self, count: int) -> None:
        """So many of the oldest generation leave memory."""
        if not self._leaving:
            return
        gone: list[tuple[StateKey, bytes | None]] = []
        for _ in range(min(count, len(self._leaving))):
            row = self._leaving.popitem()
            if row[0] in self._fresh:
                gone.append(row)
        if gone:
            try:
                self._spill.write(gone)
            except Exception as error:
                self._fails(error)
                raise
        for key, _ in gone:
            self._fresh.discard(key)
            ordered = self._ordered.get(key[0])
            if ordered is not None:
                del ordered[bisect_left(ordered, key[1])]


def _first(row: tuple[str, bytes | None]) -> str:
    return row[0]
