"""Records that a node writes to the broadcast and to its outputs, until the log has acknowledged them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nodes.log.contract import Log, RecordTooLarge
from nodes.machine import effects as x
from nodes.machine import events as e
from nodes.machine.broadcast.pieces import cut
from nodes.machine.config import JobRun
from nodes.streams.io.in_flight import InFlight
from nodes.streams.jobs import JobTopics
from nodes.streams.truncation import Truncation


class Sending:
    """Hands writes to the log without waiting. ``crashpoint`` is called with the points at which a crash may come."""

    def __init__(
        self, log: Log, run: JobRun, truncation: Truncation, crashpoint: Callable[[str], None], piece_bytes: int
    ) -> None:
        self._log = log
        self._topics = JobTopics.of(run)
        self._incarnation = run.incarnation
        self._truncation = truncation
        self._crashpoint = crashpoint
        self._piece_bytes = piece_bytes
        self._in_flight = InFlight()
        self._refused: set[tuple[int, int]] = set()

    def acknowledged(self) -> list[e.Acknowledged]:
        """The records new on the log since the last call."""
        return self._in_flight.take()

    def delta(self, write: x.WriteBroadcast) -> None:
        """In pieces, where it is too large for a record."""
        self._crashpoint("before-delta")
        self._in_flight.began(write)
        done = partial(self._delivered, write, None, 0)
        pieces = cut(self._incarnation, write.value, self._piece_bytes)
        if isinstance(write, x.WriteContribution):
            assert self._topics.shards is not None
            self._log.send(self._topics.shards, write.shard, pieces, done=done)
        else:
            self._log.send(self._topics.broadcast, write.partition, pieces, done=done)
        self._crashpoint("after-delta")

    def output(self, write: x.WriteOutput) -> e.OutputRefused | None:
        """The event for the node if the log takes no such record."""
        if (write.partition, write.version) in self._refused:
            return None  # what came after a record that is missing would hide it from those who go on here
        self._crashpoint("before-output")
        self._in_flight.began(write)
        output, partition = write.to
        keys = write.keys if write.keys.count(None) < len(write.keys) else None
        done = partial(self._delivered, write, write.to, len(write.values))
        topic = self._topics.outputs[output]
        try:
            self._log.send(topic, partition, write.values, headers=write.headers, keys=keys, done=done)
        except RecordTooLarge as error:
            self._refused.add((write.partition, write.version))
            return e.OutputRefused(write.partition, write.version, str(error))
        self._crashpoint("after-output")
        return None

    def _delivered(
        self, write: x.WriteBroadcast | x.WriteOutput, to: e.OutputPartition | None, count: int, end: int
    ) -> None:
        if to is not None:
            self._truncation.acknowledged(to, count, end)
        self._in_flight.done(write, {} if to is None else {to: end})
