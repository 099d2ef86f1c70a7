"""Cuts: what one node cannot read from the log, and what it cannot append to it, for a while.

A node that is cut off is not notified: a read finds nothing new, an append gets no answer, a heartbeat is lost.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from nodes.streams.jobs import JobTopics

NETSPLITS = ("whole", "whole", "appends", "reads", "control", "heartbeats")
"""Cut off altogether, or one way only, or from the topics that carry its heartbeats and claims."""
STALE = ("stale control", "stale broadcast", "stale shared")
"""Reads of one or several topics that find nothing new."""


@dataclass(slots=True)
class Cut:
    """``patience_ms``: after so long an append that gets no answer counts as failed."""

    kind: str
    until_ms: int
    patience_ms: int
    reads: frozenset[str]
    appends: frozenset[str]
    frozen: dict[tuple[str, int], int] = field(default_factory=dict)

    def blocks(self, topic: str, now_ms: int) -> bool:
        """True if an append to the topic gets no answer now."""
        return now_ms < self.until_ms and topic in self.appends

    def blinds(self, topic: str, now_ms: int) -> bool:
        """True if nothing new of the topic can be read now."""
        return now_ms < self.until_ms and topic in self.reads

    def describe(self) -> str:
        """For the trace."""
        return f"{self.kind} until {self.until_ms} ms, patience {self.patience_ms} ms"


def no_cut() -> Cut:
    """Everything arrives."""
    return Cut("none", -1, 0, frozenset(), frozenset())


def make_cut(kind: str, topics: JobTopics, until_ms: int, patience_ms: int) -> Cut:
    """One of ``NETSPLITS`` or ``STALE``."""
    heartbeats = frozenset((topics.heartbeats, topics.group_heartbeats))
    shared = heartbeats | {topics.control, *topics.deltas}
    everything = shared | {*topics.layout.topics, *topics.outputs.values()}
    with_control = heartbeats | {topics.control}
    nothing: frozenset[str] = frozenset()
    reads, appends = {
        "whole": (everything, everything),
        "appends": (nothing, everything),
        "reads": (everything, nothing),
        "control": (with_control, with_control),
        "heartbeats": (heartbeats, heartbeats),
        "stale control": (frozenset((topics.control,)), nothing),
        "stale broadcast": (frozenset(topics.deltas), nothing),
        "stale shared": (shared, nothing),
    }[kind]
    return Cut(kind, until_ms, patience_ms, reads, appends)


def draw_cut(
    rng: random.Random, kinds: tuple[str, ...], topics: JobTopics, now_ms: int, failure_timeout_ms: int
) -> Cut:
    """A cut from now on, for up to ten suspicion times."""
    until_ms = now_ms + rng.randint(1, 10 * failure_timeout_ms)
    return make_cut(rng.choice(kinds), topics, until_ms, rng.choice([failure_timeout_ms // 2, 10 * failure_timeout_ms]))
