"""Truncation: the log has lost acknowledged records at the end of a topic, as after an unclean leader election.

Two rules for this file. A loss of records that results rest on is never silent. The node that notices it writes it to
the control topic (``Failed``), so that neither another node nor a restart goes on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holon.tracks.snapshot import record_digest
from nodes.log.contract import TRUNCATION_CAUSES, Log, LogError, LogTruncated, OffsetOutOfRange, TopicPartition
from nodes.machine import messages as m
from nodes.machine.config import WantedInput
from nodes.machine.events import OutputPartition
from nodes.machine.node import Node
from nodes.streams.jobs import JobTopics

PATIENCE_MS = 1000
"""So long a node may be behind the known offset of an input, before it requests the input's end from the log."""


class Truncation:
    """One node's knowledge of how far topics went."""

    def __init__(self, node: Node, log: Log, report: Callable[[str], None]) -> None:
        self.node = node
        self.log = log
        self.report = report
        self.topics = JobTopics.of(node.run)
        self._inputs = [TopicPartition(*place) for place in self.topics.layout.places()]
        self._ends: dict[OutputPartition, int] = {}
        self._problem: LogTruncated | None = None
        self._lacking_since_ms: dict[int, int] = {}
        self._recorded = False
        self._checked_ms: int | None = None
        self._tails: dict[int, int] = {}
        self._begun: dict[int, int] = {}
        self._verified: dict[int, int] = {}

    def check(self) -> None:
        """Raise what an acknowledgement has shown."""
        if self._problem is not None:
            raise self._problem

    @contextmanager
    def recording_losses(self) -> Iterator[None]:
        """A loss found in here is reported."""
        try:
            yield
        except LogTruncated as error:
            raise self.record_loss(error) from error.__cause__

    def record_loss(self, error: LogTruncated, partition: int = 0, offset: int = 0) -> LogTruncated:
        """Write the loss to the control topic, once: the job stays failed until it is reset."""
        if not self._recorded:
            self._recorded = True
            node = self.node
            name, code, text = node.config.node, node.code_hash, str(error)
            if not text.startswith(f"node {name}"):
                text = f"node {name}: {text}"
                error.args = (text,)
            failed = m.Failed(node.run.incarnation, name, partition, offset, code, text)
            try:
                self.log.send(self.topics.control, 0, [m.encode(failed)])
                self.log.poll_acks(wait=True)
            except LogError as other:
                self.report(f"could not record the data loss: {other}")
        return error

    # --- input ------------------------------------------------------------------------------------------------------

    def input_gone(self, wanted: WantedInput, error: LogTruncated | OffsetOutOfRange) -> LogError:
        """The error where the input has nothing, or not the same, at the job's offset."""
        place = self._inputs[wanted.partition]
        where = self._where(*place)
        if isinstance(error, LogTruncated) or wanted.offset > self.log.high_watermark(*place):
            return self.input_lost(wanted, f"the job has read up to offset {wanted.offset}: {error}")
        return OffsetOutOfRange(
            f"{where} no longer holds offset {wanted.offset}, the job's position: {error}. Records that it has "
            f"not read were deleted; keep them longer, or start again with --reset"
        )

    def input_lost(self, wanted: WantedInput, how: str) -> LogTruncated:
        """Results rest on records that are gone."""
        lost = LogTruncated(
            f"{self._where(*self._inputs[wanted.partition])} has lost its end, and {how}. Acknowledged records "
            f"are gone ({TRUNCATION_CAUSES}), and results rest on them; start again with --reset"
        )
        return self.record_loss(lost, wanted.partition, wanted.offset)

    def check_inputs(self, now_ms: int) -> None:
        """Of some partition somebody has processed more than this node, or its declared end is further: is it there?

        A node that takes up a partition from a checkpoint reads up to where the log ends now, and would wait there, or
        go on with what is appended meanwhile. One request each time: a node that catches up on many has work to do.
        """
        self._check_begun()
        if self._checked_ms is not None and 0 <= now_ms - self._checked_ms < PATIENCE_MS // 10:
            return
        self._checked_ms = now_ms
        running = {runner.partition: runner for runner in self.node.work.running()}
        needed = {partition: self._known_offset(partition) for partition in running}
        lacking = [p for p, runner in running.items() if needed[p] > runner.task.next_offset]
        self._lacking_since_ms = {p: self._lacking_since_ms.get(p, now_ms) for p in lacking}
        if not lacking:
            return
        partition = min(lacking, key=lambda p: self._lacking_since_ms[p])
        if 0 <= now_ms - self._lacking_since_ms[partition] < PATIENCE_MS:
            return
        self._lacking_since_ms[partition] = now_ms
        end = self.log.high_watermark(*self._inputs[partition])
        if end < needed[partition]:
            runner = running[partition]
            how = f"ends at {end}; the job knows it up to offset {needed[partition]}"
            raise self.input_lost(WantedInput(partition, runner.key, runner.task.next_offset, None), how)

    def _check_begun(self) -> None:
        """Partitions that this node has just taken up: does the log reach to where it goes on?

        A node that waits there, for time or for checkpoints, reads nothing, and would go on behind a loss that was
        overgrown.
        """
        running = {runner.partition: runner for runner in self.node.work.running()}
        begun = [runner for p, runner in running.items() if self._begun.get(p) != runner.key]
        self._begun = {partition: runner.key for partition, runner in running.items()}
        places = {self._inputs[r.partition]: r for r in begun if r.task.next_offset}
        if not places:
            return
        for place, end in self.log.high_watermarks(places).items():
            runner = places[place]
            if end < runner.task.next_offset:
                how = f"ends at {end}; the job goes on at offset {runner.task.next_offset}"
                raise self.input_lost(WantedInput(runner.partition, runner.key, runner.task.next_offset, None), how)

    def verify_begin(self, wanted: WantedInput) -> None:
        """Before a partition is read on from a checkpoint: the record before it is the one that it was made behind.

        The end may have been lost, and grown again past that place, while no node ran. Compaction may have removed the
        record; if the log does not reach to it at all, the next read raises the reason.
        """
        if self._verified.get(wanted.partition) == wanted.version:
            return
        self._verified[wanted.partition] = wanted.version
        runner = self.node.work.runners.get(wanted.partition)
        offset, digest = (-1, b"") if runner is None else runner.task.began_behind
        if not digest:
            return
        try:
            found = self.log.read(*self._inputs[wanted.partition], offset, max_records=1)
        except (OffsetOutOfRange, LogTruncated):
            return
        here = len(found) > 0 and int(found.offsets[0]) == offset
        if here and record_digest(int(found.timestamps_ms[0]), bytes(found.values[0])) != digest:
            raise self.input_lost(wanted, f"holds another record at offset {offset}, which the job has read")

    def _known_offset(self, partition: int) -> int:
        """How far the input went, by outputs, all deltas, the checkpoints and the declared end."""
        ownership = self.node.ownership
        replica = self.node.replica
        known = [replica.slots[partition].record.position[0], replica.reported[partition]]
        known.append(ownership.known_end(partition))
        known += [saved.offset for saved in ownership.checkpoints(partition)[:1]]
        return max(*known, self._tails.get(partition, 0))

    # --- the job's own topics -----------------------------------------------------------------------------------------

    def beyond_end(self, topic: str, partition: int, offset: int) -> LogTruncated | None:
        """The error for a position that a topic no longer reaches; None if it does."""
        if offset <= 0 or offset <= (end := self.log.high_watermark(topic, partition)):
            return None
        return LogTruncated(
            f"{self._where(topic, partition)} ends at {end}, and the job has known it up to offset {offset}: "
            f"acknowledged records are gone ({TRUNCATION_CAUSES}); start again with --reset"
        )

    def resumed_at(self, partition: int, offset: int) -> int:
        """Where to go on with the broadcast behind a merged checkpoint that may have read more than there is now."""
        lost = self.beyond_end(self.topics.broadcast, partition, offset)
        return offset if lost is None else self._made_good(partition, lost)

    def broadcast_lost(self, partition: int, offset: int, error: LogTruncated | OffsetOutOfRange) -> bool:
        """Why the broadcast cannot be read on here: True if its end is gone, False if its beginning is."""
        gone = isinstance(error, LogTruncated)
        lost = error if gone else self.beyond_end(self.topics.broadcast, partition, offset)
        if lost is not None:
            self._made_good(partition, lost)
        return lost is not None

    def _made_good(self, partition: int, lost: LogTruncated) -> int:
        """Deltas are made again, or whole slots are requested; returns where the broadcast ends now.

        The order of punctuations is not made again, so where a job allows idleness this raises ``LogTruncated``.
        """
        if self.node.run.job.allows_idleness:
            raise lost
        self.report(f"the broadcast was truncated, missing deltas are requested ({str(lost).split(': ')[0]})")
        return self.log.end_offset(self.topics.broadcast, partition)

    # --- outputs ------------------------------------------------------------------------------------------------------

    def acknowledged(self, to: OutputPartition, count: int, end: int) -> None:
        """A write was acknowledged: it lies behind the last one, unless the log was cut between them."""
        known = self._ends.get(to, 0)
        if end - count < known:
            topic = self.topics.outputs[to[0]]
            self._problem = LogTruncated(
                f"{self._where(topic, to[1])} was acknowledged up to offset {known}, and then {count} more up to "
                f"{end}: acknowledged results are gone ({TRUNCATION_CAUSES}); start again with --reset"
            )
        self._ends[to] = max(known, end)

    def saw_tail(self, partition: int, offset: int) -> None:
        """An output holds a result of the record at ``offset`` of an input partition."""
        self._tails[partition] = max(offset + 1, self._tails.get(partition, 0))

    def last_check(self) -> None:
        """Before this node reports the job as done: its outputs, and the input that they rest on, are on the log."""
        places = [(self.topics.outputs[output], p, end) for (output, p), end in sorted(self._ends.items())]
        runners = sorted(self.node.work.runners.items())
        inputs = [(self._inputs[p], runner.task.next_offset) for p, runner in runners]
        places += [(topic, partition, offset) for (topic, partition), offset in inputs]
        for topic, partition, offset in places:
            lost = self.beyond_end(topic, partition, offset)
            if lost is not None:
                raise lost

    def _where(self, topic: str, partition: int) -> str:
        job = self.node.run.job
        what = "input " if topic in job.topics else ""
        return f"node {self.node.config.node}, job {job.name!r}: {what}{topic}[{partition}]"
