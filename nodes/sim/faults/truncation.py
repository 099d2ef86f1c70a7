"""A broker that comes back without acknowledged records at the end of a topic, once in a run.

While nodes run, those that had read further detect it at their next read, as by the leaders' epochs; the topic grows
again at once. So it does while none runs where an input has lost what a checkpoint was made from. Otherwise nothing is
appended before nodes had time to read: an overgrown loss behind the newest checkpoint cannot be seen (``faults.md``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodes.log.contract import LogTruncated, TopicPartition
from nodes.sim.node_process import InvariantBroken
from nodes.streams.jobs import JobTopics, declare_end

if TYPE_CHECKING:
    from nodes.sim.faults.stage import Stage

MOST = 12
HOLD_MS = 4000


class Truncating:
    """``lost``: what was cut; ``was_reported``: a node has ended with the named error; ``refuses``: none can begin."""

    def __init__(self, world: Stage) -> None:
        self.world = world
        self.lost: TopicPartition | None = None
        self.was_reported = False
        self.refuses = False
        self._topics = JobTopics.of(world.run)
        self._least = {self._topics.control: world.log.end_offset(self._topics.control, 0)}
        self._hold_until_ms = 0

    def holds_feed(self) -> bool:
        """True while producers wait."""
        return self.world.now_ms < self._hold_until_ms and not self.was_reported

    def noticed(self, error: LogTruncated) -> None:
        """A node has given up by name. Raises it where nothing was lost, or nothing that cannot be made again."""
        if self.lost is None or self._is_made_good:
            raise InvariantBroken(f"nothing was lost that cannot be made again, and a node ended: {error}")
        self.refuses |= self.was_reported  # where no node gets as far as to read what the first one has written
        self.was_reported = True

    def refused(self, error: LogTruncated) -> None:
        """A node could not begin."""
        self.noticed(error)
        self.refuses = True
        self.world.trace.add(self.world.now_ms, "refused-to-begin")

    def named(self, reason: str) -> bool:
        """True if a node may leave as failed: something was lost, and the reason names the remedy."""
        self.was_reported |= self.lost is not None and not self._is_made_good and "--reset" in reason
        return self.was_reported

    @property
    def _is_made_good(self) -> bool:
        """Lost deltas are, unless punctuations were among them."""
        return self.world.options.truncation == "broadcast" and not self.world.case.idle

    def check(self) -> None:
        """To be called at every step of the safety phase."""
        world, options = self.world, self.world.options
        if not options.truncation or self.lost is not None or world.now_ms < options.truncation_ms or world.depth:
            return
        if world.folded().all_done():
            return  # no node goes on
        places = [
            place for place in self._places(options.truncation) if self._floor(place) < world.log.end_offset(*place)
        ]
        if not places:
            return
        if not options.truncation_alive:
            for process in list(world.processes):
                world.kill(process)
            if world.folded().all_done():
                return  # by what the killed had sent, which arrived: the job was done before the loss
        place = world.rng.choice(places)
        end = self._cut(place)
        if not options.truncation_alive and not self._is_checkpointed(place, end):
            self._hold_until_ms = world.now_ms + HOLD_MS

    def _is_checkpointed(self, place: TopicPartition, end: int) -> bool:
        """Whether an input has lost what the newest checkpoint was made from, which names its last record."""
        partition = self._topics.layout.number_of(*place)
        saved = None if partition is None else self.world.folded().checkpoint(partition)
        return saved is not None and saved.offset > end

    def _places(self, kind: str) -> list[TopicPartition]:
        """Of outputs only those that one input partition writes to: another's results would hide the loss."""
        world, topics = self.world, self._topics
        several = range(world.run.partitions)
        if kind == "input":
            return [TopicPartition(*place) for place in topics.layout.places()]
        if kind == "broadcast":
            return [TopicPartition(topics.broadcast, p) for p in several]
        if kind == "control":
            return [TopicPartition(topics.control, 0)]
        return [
            TopicPartition(topics.outputs[output], p)
            for output, declared in sorted(world.run.job.outputs.items())
            for p in range(world.run.output_partitions[output])
            if world.run.partitions == 1 or not declared.route_by_key
        ]

    def _floor(self, place: TopicPartition) -> int:
        return max(self._least.get(place.topic, 0), self.world.trimmed.get((place.topic, place.partition), 0))

    def _cut(self, place: TopicPartition) -> int:
        world = self.world
        had = world.log.end_offset(*place)
        end = world.log.truncate(*place, max(self._floor(place), had - world.rng.randint(1, MOST)))
        self.lost = place
        world.appended_ms = world.now_ms
        world.trace.add(
            world.now_ms, f"truncated-{world.options.truncation}", f"{place.topic}[{place.partition}] {end} of {had}"
        )
        for process in world.processes:
            process.log.was_cut(place, end, knows_sequences=world.options.truncation == "output")
        if place.topic in self._topics.layout.topics:
            world.unsent.clear()  # of records that never were, for all who come later
        if place.topic == self._topics.control:
            world.forget_fold()
            if world.input_ended:  # a lost declaration is made again
                declare_end(world.log, world.run)
        return end
