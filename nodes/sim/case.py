"""A simulated job with what is special about it: its input, its topic, and the check of its results."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holon import Job
from nodes.sim.inputs.feed import Feed

if TYPE_CHECKING:
    from nodes.sim.options import Options

FIRST_SEED = 1 << 40
"""Seeds from here on meet stress, and the first flow."""
SECOND_SEED = 1 << 41
"""Seeds from here on meet more flows; seeds below are what reports name, and keep what they drew."""
THIRD_SEED = 1 << 42
"""Seeds from here on meet sessions too."""
FOURTH_SEED = 1 << 43
"""Seeds from here on meet windows at which functions fail, too."""
FIFTH_SEED = 1 << 44
"""Seeds from here on meet checkpoints of what has changed, and jobs of two topics, too."""
SIXTH_SEED = 1 << 45
"""Seeds from here on meet shards and sliding windows of flows, too."""
SEVENTH_SEED = 1 << 46
"""Seeds from here on meet windows driven by data, too, and newer jobs more often."""
EIGHTH_SEED = 1 << 47
"""Seeds from here on meet records that name schemas of a registry, too."""
NINTH_SEED = 1 << 48
"""Seeds from here on meet partitions that wait for one that ends in dead records, more often, too."""
TENTH_SEED = 1 << 49
"""Seeds from here on meet fleets whose nodes have different settings, too."""
ELEVENTH_SEED = 1 << 50
"""Seeds from here on cut off clients, commands and nodes of transactional fleets any time, too."""
TWELFTH_SEED = 1 << 51
"""Seeds from here on meet flows with joins, too."""
THIRTEENTH_SEED = 1 << 52
"""Seeds from here on draw rivals of commands of transactional fleets more often, too."""
FOURTEENTH_SEED = 1 << 53
"""Seeds from here on let records of jobs whose function is followed go by columns, too."""
FIFTEENTH_SEED = 1 << 54
"""Seeds from here on have columns of keyed state in files, too."""
SIXTEENTH_SEED = 1 << 55
"""Seeds from here on move keys of transactional fleets in portions, too."""
SEVENTEENTH_SEED = 1 << 56
"""Seeds from here on let transactional fleets spill their state, and call functions outside, too."""
EIGHTEENTH_SEED = 1 << 57
"""New seeds are drawn from here on: moves of transactional fleets have more steps and portions, and meet upgrades."""
TOPIC = "events"
"""The input of the jobs that simulation draws."""


@dataclass(frozen=True, slots=True)
class Case:
    """A job and what is special about it.

    ``late_by``: allowed lateness in windows. ``idle``: punctuation may move partitions, so what is late depends on
    the order on the broadcast; with ``backlog`` none is late for that. ``fails``: it stops at the first marked
    record. ``since``: the first seed that draws it. ``further_windows``: how many times as long windows of windows are.
    ``further_topics``: those of equal shares of the partitions, ``topic`` has the rest.

    ``feeds`` and ``check``, of a world, belong to a job of a user (None: drawn records, and ``checks.check_results``).
    ``log_begins_ms``: the log's time at the start. ``bounded``: the job starts on a bounded input.
    """

    make: Callable[[Options], Job]
    windowed: bool = True
    late_by: int = 0
    idle: bool = False
    backlog: bool = False
    guarded: bool = False
    manual: bool = False
    buries: bool = False
    fails: bool = False
    since: int = 0
    further_windows: tuple[int, ...] = ()
    topic: str = TOPIC
    further_topics: tuple[str, ...] = ()
    feeds: Callable[[Options, random.Random], list[Feed]] | None = None
    check: Callable[[Any], None] | None = None
    log_begins_ms: int = 0
    bounded: bool = False

    def topics(self, partitions: int) -> dict[str, int]:
        """The partitions of each topic, of so many in all."""
        share = partitions // (1 + len(self.further_topics))
        first = partitions - share * len(self.further_topics)
        return {self.topic: first} | dict.fromkeys(self.further_topics, share)
