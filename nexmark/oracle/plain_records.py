"""Records as the queries of the plain oracle get them, and the parts of a query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

PERSON, AUCTION, BID = 0, 1, 2
WINDOW_MS = 10_000
HOP_MS = 2_000
DAY_MS = 86_400_000

Row = dict[str, Any]


class Accepted(NamedTuple):
    """A record that takes part in the result. Of ``fields``, ``expires`` is in epoch milliseconds.

    ``closed_ms``: windows that end then or before were closed when the record came (None: none was).
    """

    partition: int
    kind: int
    fields: dict[str, Any]
    time_ms: int
    closed_ms: int | None = None


def window_end(time_ms: int) -> int:
    """End of the tumbling window that holds a time; windows are aligned to the epoch, start inclusive."""
    return time_ms // WINDOW_MS * WINDOW_MS + WINDOW_MS


def last_hop_end(time_ms: int) -> int:
    """End of the last of the sliding windows (10 s, one every 2 s) that hold a time."""
    return time_ms // HOP_MS * HOP_MS + WINDOW_MS


def day_end(time_ms: int) -> int:
    """End of the day that holds a time."""
    return time_ms // DAY_MS * DAY_MS + DAY_MS


@dataclass(frozen=True, slots=True)
class OracleQuery:
    """Which fields a record needs (by kind), which records count, and what comes out (records, partitions -> rows).

    ``last_end``: the end of the last window that takes a time.
    """

    needs: tuple[dict[str, type], dict[str, type], dict[str, type]]
    wanted: Callable[[int, dict[str, Any]], bool]
    windowed: bool
    answer: Callable[[Iterable[Accepted], int], Iterator[Row]]
    last_end: Callable[[int], int] = window_end
