"""Commits that are written some epochs at a time: no node waits for them, and each write costs the broker a request."""

from __future__ import annotations

HOLD_MS = 50
HOLD_BYTES = 1 << 18


class CommitBuffer:
    """Of one node. A node that dies with some unwritten leaves these epochs to be run again, which is all they save."""

    def __init__(self) -> None:
        self._values: dict[int, list[bytes]] = {}
        self._bytes = 0
        self._since_ms: int | None = None

    def add(self, partition: int, values: list[bytes], now_ms: int) -> None:
        """Commits of a state partition, in order."""
        self._values.setdefault(partition, []).extend(values)
        self._bytes += sum(map(len, values))
        if self._since_ms is None:
            self._since_ms = now_ms

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits to be written."""
        return self._since_ms is None

    def due(self, now_ms: int, *, at_once: bool = False) -> dict[int, list[bytes]]:
        """The commits to write now, by partition: all, or nothing."""
        if self._since_ms is None:
            return {}
        waits = 0 <= now_ms - self._since_ms < HOLD_MS and self._bytes < HOLD_BYTES
        if waits and not at_once:
            return {}
        values, self._values, self._bytes, self._since_ms = self._values, {}, 0, None
        return values
