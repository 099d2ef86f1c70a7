"""The results that the flow of a join is expected to give, in plain Python."""

from __future__ import annotations

from collections import Counter
from typing import Any

from nodes.sim.flows.expected import Fate, Placed, Timed
from nodes.sim.joins.cases import JOINS

Event = dict[str, Any]


def by_join(window_ms: int, events: Placed) -> list[Any]:
    """As the flow of that name."""
    in_time = [event for _, event, at in events if not _is_late(window_ms, event, at)]
    results: list[Any] = []
    threes: Counter[int] = Counter()
    for event in filter(_is_left, in_time):
        for other in filter(_is_right, in_time):
            end = _end(event["ts"], window_ms)
            is_same = event["key"] == other["key"] and end == _end(other["ts"], window_ms)
            if is_same and event["amount"] != other["amount"]:
                results.append({"met": event["id"], "other": other["id"], "key": event["key"]})
                threes[_end(end - 1, 3 * window_ms)] += 1
    return results + [{"end": end, "span": 3, "sum": count} for end, count in threes.items()]


def fates(window_ms: int, events: Timed) -> list[Fate]:
    """The fate of each event. Each side has a state, and a late row of either has a letter."""
    found = []
    for event, at in events:
        sides = _is_left(event) + _is_right(event)
        missed = _is_late(window_ms, event, at) * sides
        found.append(Fate(missed > 0, missed, missed, not sides, missed))
    return found


def closed_by_join(window_ms: int, events: Timed) -> int | None:
    """The end of the last window; None: there is none."""
    in_time = [event for event, at in events if not _is_late(window_ms, event, at)]
    ends = [_end(event["ts"], window_ms) for event in in_time if _is_left(event) or _is_right(event)]
    threes = [row["end"] for row in by_join(window_ms, [(0, event, at) for event, at in events]) if "span" in row]
    return max(ends + threes, default=None)


def _is_left(event: Event) -> bool:
    return event["amount"] > 1


def _is_right(event: Event) -> bool:
    return event["id"] % 2 == 1


def _is_late(window_ms: int, event: Event, watermark: int | None) -> bool:
    """The window of the event is complete."""
    return watermark is not None and _end(event["ts"], window_ms) <= watermark


def _end(ts: int, size: int) -> int:
    return (ts // size + 1) * size


RESULTS = dict.fromkeys(JOINS, by_join)
"""By case, of the rows that came."""
FATES = dict.fromkeys(JOINS, (fates, closed_by_join))
"""By case: the fate of each record, and the end of the last window."""
