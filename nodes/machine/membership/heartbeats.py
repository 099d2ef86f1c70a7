"""Heartbeats in large fleets: a node writes to its group, and some of the group publish to all.

Two rules for this file. A name is only passed on if its heartbeat was received directly since the last time, so that a
dead node falls silent for all within one interval. Nothing here decides who is alive: that is
``membership/failure_detector.py``.

In a small fleet each node writes to the one partition that all read: n nodes read n heartbeats an interval. Above
``group_heartbeats_above`` members a node writes to its group's partition (one of ``GROUPS``, by its name), which only
the group reads. ``RELAYS`` of each group publish the names that they have received. A node then reads about
n / GROUPS + GROUPS * RELAYS records an interval: 94 instead of 1,000. Design: ``docs/design/control.md``.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from nodes.machine import messages as m
from nodes.machine.config import NodeConfig
from nodes.machine.effects import WriteHeartbeat
from nodes.machine.ownership.assignment import rendezvous

GROUPS = 16
RELAYS = 2
"""Of each group: when one of them dies, nobody else of the group falls silent."""


@lru_cache(maxsize=1 << 14)
def group_of(node: str) -> int:
    """The same on every node."""
    return int.from_bytes(hashlib.blake2b(f"group {node}".encode(), digest_size=4).digest(), "big") % GROUPS


class HeartbeatGroups:
    """Where this node's heartbeats go, and whose it passes on. ``group`` is None in a small fleet."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.group: int | None = None
        self._both_until_ms = 0
        self._fresh: set[str] = set()

    def resize(self, members: int, now_ms: int) -> None:
        """The fleet has so many members now; to go back it must have shrunk by a quarter."""
        above = self.config.group_heartbeats_above
        if self.group is None and members > above:
            self.group = group_of(self.config.node)
            # Those who have not read yet how large the fleet is listen where all do.
            self._both_until_ms = now_ms + 3 * self.config.failure_timeout_ms
        elif self.group is not None and 4 * members <= 3 * above:
            self.group = None
            self._fresh.clear()

    def record_heartbeat(self, node: str) -> None:
        """A heartbeat that the node itself has written."""
        if self.group is not None and group_of(node) == self.group:
            self._fresh.add(node)

    def write(self, heartbeat: bytes, incarnation: int, now_ms: int) -> list[WriteHeartbeat]:
        """The record to write when a heartbeat is due."""
        if self.group is None:
            return [WriteHeartbeat(heartbeat)]
        written = [WriteHeartbeat(heartbeat, self.group)]
        if now_ms < self._both_until_ms:
            written.append(WriteHeartbeat(heartbeat))
        me, fresh = self.config.node, self._fresh
        fresh.add(me)
        if me in rendezvous(self.group, fresh)[:RELAYS]:
            written.append(WriteHeartbeat(m.encode(m.Alive(incarnation, me, sorted(fresh)))))
        self._fresh = set()
        return written
