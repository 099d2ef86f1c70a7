"""The results of the jobs whose windows fail, in plain Python: no line of Holon is shared."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from nodes.sim.options import Options

Windows = dict[int, Sized]
"""Of records, by their end."""


def marked(events: list[tuple[int, dict[str, Any]]]) -> list[Any]:
    """Of the job that fails at marked records: what it makes of each other one, in the order of its partition."""
    seen: dict[int, int] = {}
    results = []
    for partition, event in events:
        odd = event["id"] % 2
        seen[partition] = seen.get(partition, 0) + odd
        results.append({"id": event["id"], "seen": seen[partition] if odd else 0})
    return results


def windows(options: Options, windows: Windows) -> tuple[list[Any], list[Any]]:
    """Of the job whose windows fail: results, and the windows of its dead letters."""
    results: list[Any] = []
    dead: list[Any] = []
    totals = [0] * options.partitions
    for end, records in sorted(windows.items()):
        for partition in range(options.partitions):
            if _fails(len(records), partition):
                dead.append({"end": end, "key": None})
                continue
            totals[partition] += len(records)
            results.append({"partition": partition, "end": end, "total": totals[partition]})
    answered: list[list[int]] = [[] for _ in range(options.partitions)]
    for end, counts in sorted(_longer(options, windows).items()):
        for partition, ends in enumerate(answered):
            if sum(counts.values()) % 2 == partition % 2:
                dead.append({"end": end, "key": None})
                continue
            ends.append(end)
            shown = [counts[key] for key in sorted(counts)]
            results.append({"partition": partition, "counts": shown, "ends": ends[-2:]})
    return results, dead


def closed_by_windows(options: Options, windows: Windows) -> int | None:
    """The end of the last window that has anything; None: there is none."""
    return max([*windows, *_longer(options, windows)], default=None)


def _longer(options: Options, windows: Windows) -> dict[int, dict[int, int]]:
    """The counts of each partition, by the end of the longer windows."""
    found: dict[int, dict[int, int]] = {}
    size = 3 * options.window_ms
    for end, records in windows.items():
        for partition in range(options.partitions):
            if not _fails(len(records), partition):
                longer = ((end - 1) // size + 1) * size
                counts = found.setdefault(longer, {})
                counts[partition] = counts.get(partition, 0) + len(records)
    return found


def _fails(count: int, partition: int) -> bool:
    return (count + partition) % 3 == 0
