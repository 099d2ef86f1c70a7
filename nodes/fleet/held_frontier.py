"""A held frontier as the fleet's command sees it: from the heartbeats of the nodes, and how far they have come."""

from __future__ import annotations

from collections.abc import Mapping

from nodes.fleet.monitor import Monitor
from nodes.streams.held_frontier import HELD_END_MS, HELD_MS, HeldFrontier, behind_first, held_partition
from wcrdt.windows.assigners import BEFORE_TIME_MS

FRESH_MS = 3_000
"""Heartbeats that are older than the newest by more are of nodes that have left."""


def held_frontier(monitor: Monitor, watermarks: Mapping[int, int]) -> HeldFrontier | None:
    """The contents of the nodes' heartbeats; ``watermarks`` are those that are known of partitions, in ms."""
    newest_ms = max((view.last_heartbeat_ms for view in monitor.nodes.values()), default=0)
    fresh = [view for view in monitor.nodes.values() if newest_ms - view.last_heartbeat_ms <= FRESH_MS]
    held = max(fresh, key=lambda view: view.stats.get(HELD_MS, 0), default=None)
    if held is None or not held.stats.get(HELD_MS) or monitor.done:
        return None
    found, layout = [], monitor.run.layout
    for partition in range(monitor.run.partitions):
        watermark_ms = watermarks.get(partition, BEFORE_TIME_MS)
        if watermark_ms < held.stats[HELD_END_MS]:
            offset, end = monitor.progress[partition], monitor.input_end(partition)
            found.append(held_partition(layout, partition, watermark_ms, offset, max(0, end - offset)))
    held_ms = int(held.stats[HELD_MS])
    timeout_ms = layout.idle_timeout_ms(each.partition for each in found)
    return HeldFrontier(behind_first(found), held.last_heartbeat_ms - held_ms, held_ms, timeout_ms)
