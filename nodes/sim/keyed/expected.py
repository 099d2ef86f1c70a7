"""The results of the jobs by key, in plain Python: no line of Holon is shared."""

from __future__ import annotations

from collections import Counter
from typing import Any

from nodes.sim.keyed.jobs import KEYS, LONGER, WINDOWS
from nodes.sim.options import Options

Windows = dict[int, list[tuple[int, dict[str, Any]]]]
"""Partitions and events, by the end of their window."""


def keyed(options: Options, windows: Windows) -> list[Any]:
    """Of all partitions."""
    results: list[Any] = []
    sums: dict[int, Counter[int]] = {}
    size = WINDOWS * options.window_ms
    for end, events in windows.items():
        longer = ((end - 1) // size + 1) * size
        sums.setdefault(longer, Counter()).update(event["id"] % 17 for _, event in events)
        for partition in range(options.partitions):
            mine: dict[int, set[int]] = {}
            for at, event in events:
                if at == partition:
                    mine.setdefault(event["key"], set()).add(event["id"])
            shown = [[key, sorted(ids)] for key, ids in sorted(mine.items())]
            results.append({"partition": partition, "end": end, "mine": shown})
    for end, counts in sums.items():
        shown = [list(item) for item in sorted(counts.items())]
        results += [{"partition": partition, "end": end, "sums": shown} for partition in range(options.partitions)]
    return results


def sharded(options: Options, windows: Windows) -> list[Any]:
    """Of all keys, whichever partition has answered for them."""
    results: list[Any] = []
    sums: dict[int, Counter[int]] = {}
    size = LONGER * options.window_ms
    for end, events in windows.items():
        longer = ((end - 1) // size + 1) * size
        sums.setdefault(longer, Counter()).update(event["id"] % KEYS % 3 for _, event in events)
        counts = Counter(event["id"] % KEYS for _, event in events)
        results += [{"end": end, "key": key, "count": count, "of": len(events)} for key, count in counts.items()]
        seen: dict[int, set[int]] = {}
        for _, event in events:
            seen.setdefault(event["key"], set()).add(event["id"])
        results += [{"end": end, "key": key, "ids": sorted(ids)} for key, ids in seen.items()]
    return results + [{"end": end, "sums": [list(item) for item in sorted(each.items())]} for end, each in sums.items()]
