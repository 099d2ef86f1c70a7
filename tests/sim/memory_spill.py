"""Spilled state in memory."""

from __future__ import annotations

from collections.abc import Iterable

from transactional.operators import StateKey


class MemorySpill:
    """The ``Spill`` protocol over a dict."""

    def __init__(self) -> None:
        self.held: dict[StateKey, bytes] = {}
        self.get = self.held.get

    def write(self, rows: Iterable[tuple[StateKey, bytes | None]]) -> None:
        for key, value in rows:
            if value is None:
                self.held.pop(key, None)
            else:
                self.held[key] = value

    def scan(self, operator: str, prefix: str) -> list[tuple[str, bytes]]:
        return sorted((key, v) for (kind, key), v in self.held.items() if kind == operator and key.startswith(prefix))

    def rows(self) -> Iterable[tuple[StateKey, bytes]]:
        return self.held.items()
