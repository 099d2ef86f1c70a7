"""A job whose input was complete goes on behind it (``holon run --continue``), with all faults of its first part again.

Two rules for this file: it draws from streams of its own, so that the first part of a run is what it was before; a
refusal is right only where the final checkpoints, or the job's declaration, require it.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from holon.tracks.parts import snapshot_of
from nodes.checkpoints.errors import CheckpointDamaged, CheckpointMissing
from nodes.errors import RunFailed
from nodes.machine.config import JobRun
from nodes.sim.case import FIRST_SEED
from nodes.sim.faults.stage import Stage
from nodes.sim.inputs.feed import Feed
from nodes.sim.inputs.records import make_input
from nodes.sim.jobs import CASES
from nodes.sim.node_process import InvariantBroken
from nodes.streams.continuing import continue_job
from nodes.streams.io.partition_checkpoints import load_with_parts
from nodes.streams.jobs import open_job
from wcrdt.codec import DecodeError

if TYPE_CHECKING:
    from nodes.sim.options import Options

SHARE = 0.2
MOST_RECORDS = 120
NUMBERS_APART = 100_000
"""Records of different parts of the input have ids that lie so far apart."""


class Continued(Stage, Protocol):
    """A world whose job can go on."""

    def feed_more(self, feeds: list[Feed]) -> None: ...
    def goes_on(self, run: JobRun) -> None: ...


def with_continuing(options: Options) -> Options:
    """A fifth of the new seeds, once or twice; not where one fault alone is watched, or a lost end stops the job."""
    rng = random.Random(f"options {options.seed} {options.case} continuing")
    plain = not (options.isolation or options.truncation or CASES[options.case].fails)
    if options.seed < FIRST_SEED or not plain or rng.random() >= SHARE:
        return options
    return replace(
        options, continued=rng.choice([1, 1, 2]), continued_early=rng.random() < 0.5, bounded=rng.random() < 0.5
    )


class Continuing:
    """``ends``: of each part behind which the job went on, where the input of each partition ended."""

    def __init__(self, world: Continued) -> None:
        self.world = world
        self.ends: list[list[int]] = []
        self._parts = 0
        self._fed = 0
        self._is_fed = False
        self._rng = random.Random(f"continuing {world.options.seed} {world.options.case}")

    def input_ended(self) -> None:
        """More records come behind the declared end while nodes still work up to it, and may not know of it."""
        if self._parts < self.world.options.continued and self.world.options.bounded:
            self.world.trace.add(self.world.now_ms, "fed-behind-the-end")
            self._feed(self._parts + 1)

    def planned(self) -> list[int]:
        """Where the input of each partition will end in this part; [] where no node is informed."""
        world = self.world
        if not world.options.bounded:
            return []
        return [sum(feed.partition == partition for feed in world.feeds) for partition in range(world.run.partitions)]

    def reset(self) -> None:
        """The job begins anew with all that the input holds."""
        self.ends.clear()

    def may_begin_early(self) -> bool:
        """Whether the job has ended, and the next part begins while nodes of this one are still there."""
        world = self.world
        return world.options.continued_early and self._parts < world.options.continued and world.folded().all_done()

    def go_on(self) -> bool:
        """Begin the next part; False if there is none, or it is rightly refused."""
        world = self.world
        if self._parts >= world.options.continued or not world.folded().all_done():
            return False
        self._parts += 1
        ended, job = world.folded(), world.run.job
        ends = [ended.end_offset(partition) for partition in range(ended.partitions)]
        why = self._refusal(job.window_retention_ms)
        try:
            continue_job(world.log, job, world.store)
        except RunFailed as error:
            if why is None and world.options.case != "idle-backlog-all":
                raise InvariantBroken(f"the job is not continued, and nothing is in its way: {error}") from error
            world.trace.add(world.now_ms, "continue-refused", why or "a window over all time")
            return False
        if why is not None:
            raise InvariantBroken(f"the job is continued although {why}")
        self.ends.append([end or 0 for end in ends])
        if not self._is_fed:
            self._feed(self._parts)
        self._is_fed = False
        world.trace.add(world.now_ms, "continued", f"behind {self.ends[-1]}")
        world.goes_on(open_job(world.log, job))
        return True

    def _refusal(self, window_retention_ms: int) -> str | None:
        """The reason for which the job must not go on."""
        world = self.world
        if window_retention_ms:
            return "handlers read windows back"
        for partition in range(world.options.partitions):
            saved = world.folded().checkpoint(partition)
            assert saved is not None, "the job has ended"
            try:
                snapshot_of(*load_with_parts(world.store, world.run.job.name, saved.name))
            except (CheckpointDamaged, CheckpointMissing, DecodeError) as error:
                return f"checkpoint {saved.name} is gone: {type(error).__name__}"
        return None

    def _feed(self, part: int) -> None:
        """The records of that part: around the last event time, so that some are late."""
        world, rng, options = self.world, self._rng, self.world.options
        self._is_fed = True
        # After a reset a part is fed once more: an upstream job never gives two records one identity.
        self._fed = max(part, self._fed + 1)
        latest = max((_time_of(feed.payload) for feed in world.feeds), default=0)
        begin_ms = max(0, latest - rng.choice([0, 1, 2, 6]) * options.window_ms)
        preloaded = options.preloaded or rng.choice([0.0, 0.5])
        if CASES[options.case].backlog:  # half of a steady input would leave pauses in which partitions are idle
            preloaded = options.preloaded
        more = replace(
            options,
            records=min(MOST_RECORDS, options.records or 5),
            feed_ms=min(1500, options.feed_ms),
            preloaded=preloaded,
        )
        feeds = make_input(more, rng, first=NUMBERS_APART * self._fed, begin_ms=begin_ms)
        world.feed_more([replace(feed, at_ms=world.now_ms + feed.at_ms) for feed in feeds])


def _time_of(payload: bytes) -> int:
    """The event time of a record that has one, unless it is one of the far future."""
    try:
        time = json.loads(payload)["ts"]
    except (ValueError, TypeError, KeyError):
        return 0
    return time if type(time) is int and abs(time) < 10_000_000 else 0
