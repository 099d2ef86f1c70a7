"""Feeds bound topics into their job: reads a partition, requests one transaction after the other, skips what fails.

The owner of request partition ``p mod sequencers`` feeds input partition ``p``. Two owners do no harm: the transaction
itself checks that its records are next (``transactional/streams.py``). A record that another Holon job has written
twice is fed once: the outputs by which a record is known are part of the cursor that the transaction moves.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from typing import Any
from uuid import uuid4

import msgspec

from holon.errors import UpstreamReset
from holon.tracks.upstream_duplicates import Duplicates, SeenOutputs
from nodes.log.contract import FetchedRecords, Log, TopicPartition
from nodes.streams.upstream import upstream_incarnations
from nodes.transactions.clients.client import RepliesTrimmed, TransactionClient
from transactional.errors import RAISED, Aborted, BadArguments, describe
from transactional.operators import Program
from transactional.requests.requests import WireRequest, sendable
from transactional.streams import CURSORS, Binding

logger = logging.getLogger(__name__)

MAX_BYTES = 1 << 17
"""Of the records of one transaction; a single one may be larger."""
RETRY_AFTER_S = 5.0
"""A feed that has stopped checks at this interval whether it may go on."""


class Feeding:
    """All bindings of one node. ``now_s`` is the node's clock."""

    def __init__(
        self, log: Log, program: Program, sequencers: int, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._now_s = now_s
        self._job = program.name
        self._sequencers = sequencers
        self._client = TransactionClient(log, program.name) if program.bindings else None
        self._feeds: dict[tuple[Binding, int], _Feed] = {}
        self._places = [(each, p) for each in program.bindings for p in range(log.partitions(each.topic))]

    def turn(self, owned: Collection[int]) -> bool:
        """Go on with what is fed here; ``owned`` are request partitions. False if there was nothing to do."""
        client = self._client
        if client is None:
            return False
        for binding, partition in self._places:
            mine = partition % self._sequencers in owned
            if mine and (binding, partition) not in self._feeds:
                self._feeds[binding, partition] = _Feed(self._log, client, binding, partition, self._now_s)
            elif not mine:
                self._feeds.pop((binding, partition), None)
        if not self._feeds:
            return False
        try:
            client.poll()
        except RepliesTrimmed as error:  # this node was paused: its feeds query their cursors again
            logger.info("feeding begins anew: %s", error)
            self._feeds.clear()
            self._client = TransactionClient(self._log, self._job)
            return True
        moved = False
        for feed in self._feeds.values():
            moved |= feed.turn()
        return moved

    def waits_for(self) -> dict[TopicPartition, int]:
        """Where something new would concern what is fed here."""
        found: dict[TopicPartition, int] = {}
        for feed in self._feeds.values():
            if feed.read_from is not None:
                found[TopicPartition(feed.binding.topic, feed.partition)] = feed.read_from
        if self._client is not None and self._feeds:
            found.update(self._client.positions)
        return found


class _Feed:
    """One partition. ``read_from`` is None while it queries the partition's cursor, or waits for a reply."""

    def __init__(
        self, log: Log, client: TransactionClient, binding: Binding, partition: int, now_s: Callable[[], float]
    ) -> None:
        self.binding = binding
        self.partition = partition
        self.read_from: int | None = None
        self._next = 0  # as in the cursor; what lies between it and ``read_from`` holds no records
        self._log = log
        self._client = client
        self._waits: tuple[str, str, int, int, int] | None = None  # request, function, start, end, records
        self._one_by_one_to = 0
        self._now_s = now_s
        self._stopped_s: float | None = None
        self._seen: SeenOutputs | None = None  # None: no output of another job has been fed
        self._requested_seen: SeenOutputs | None = None  # as it is once the requested transaction is done
        self._upstream: list[Any] = []  # the same for the transaction that does it
        self._send("where", 0, 0, 0, [])

    def turn(self) -> bool:
        """Process the reply, and request the next transaction."""
        if self._waits is not None:
            if self._waits[0] not in self._client.answered:
                return False
            self._answered(self._client.take(self._waits[0]))
            return True
        if self._stopped_s is not None:
            if self._now_s() - self._stopped_s < RETRY_AFTER_S:
                return False
            self._stopped_s = None
            self._send("where", 0, 0, 0, [])
            return True
        assert self.read_from is not None
        most = 1 if self._next < self._one_by_one_to else self.binding.batch
        topic = self.binding.topic
        chunk = self._log.poll(topic, self.partition, self.read_from, max_records=most, max_bytes=MAX_BYTES)
        if not chunk.values:
            self.read_from = chunk.next_offset
            return False
        self._feed(self._next, chunk)
        return True

    def _feed(self, start: int, chunk: FetchedRecords) -> None:
        try:
            kept = self._first_copies(chunk)
        except UpstreamReset as error:
            self._reset(chunk, error)
            return
        calls: list[list[Any]] = []
        for row, (offset, value) in enumerate(zip(chunk.offsets.tolist(), chunk.values, strict=True)):
            if not kept[row]:
                continue
            made = self._call(value)
            if not isinstance(made, Aborted):
                calls.append(made)
            elif row == 0:
                self._first_copies(chunk.before(offset + 1))
                self._skip(start, offset + 1, made)
                return
            else:
                self._feed(start, chunk.before(offset))
                return
        end = chunk.next_offset
        arguments = [start, end, self.binding.operator, self.binding.function, calls, *self._upstream]
        self._send("feed", start, end, len(chunk), arguments)

    def _first_copies(self, chunk: FetchedRecords) -> list[bool]:
        """Which records are no duplicates. Their positions are kept by the next transaction.

        Raises ``UpstreamReset``.
        """
        headers = chunk.found_headers
        self._requested_seen, self._upstream = self._seen, []
        if headers is None:
            return [True] * len(chunk)
        if self._seen is None:
            duplicates = Duplicates(upstream_incarnations(self._log, self.binding.topic))
        else:
            duplicates = Duplicates({})
            duplicates.restore(self._seen)
        found = duplicates.first_copies(headers)
        kept = [True] * len(chunk) if found is None else found.tolist()
        self._requested_seen = duplicates.seen()
        self._upstream = [[msgspec.to_builtins(self._requested_seen), kept.count(False)]]
        return kept

    def _reset(self, chunk: FetchedRecords, error: UpstreamReset) -> None:
        """The fed records have taken effect, so a user has to decide; the records before are fed."""
        if len(chunk) > 1:
            self._one_by_one_to = chunk.next_offset
            return
        self._stopped_s, self.read_from = self._now_s(), None
        name = f"holon txn call _cursors {self.binding.cursor(self.partition)} follow"
        logger.error(
            "%s partition %d is not fed any more from record %d on: %s; or let the results of the new incarnation take "
            "effect too: %s",
            *(self.binding.topic, self.partition, self._next, error, name),
        )

    def _call(self, value: bytes) -> list[Any] | Aborted:
        """Key and arguments of a record, or why it has none."""
        try:
            record = msgspec.json.decode(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return Aborted("MalformedRecord", (str(error),))
        try:
            key, arguments = self.binding.key(record), self.binding.arguments(record)
        except RAISED as error:
            return describe(error)
        if not isinstance(key, str):
            return Aborted("MalformedRecord", (f"the key is {key!r}",))
        try:
            sendable(WireRequest("?", self.binding.operator, key, self.binding.function, arguments))
        except BadArguments as error:
            return describe(error)
        return [key, arguments]

    def _answered(self, outcome: Any) -> None:
        assert self._waits is not None
        _, function, start, end, records = self._waits
        self._waits = None
        if function == "where":
            begin = self._log.start_offset(self.binding.topic, self.partition)
            seen = None if outcome is None else outcome.get("seen")
            self._seen = None if seen is None else msgspec.convert(seen, SeenOutputs)
            self._go_on(begin if outcome is None else outcome["next"])
        elif outcome is True:
            self._seen = self._requested_seen
            self._go_on(end)
        elif outcome is False:  # another node feeds it too
            self._send("where", 0, 0, 0, [])
        elif records > 1:
            self._one_by_one_to = end
            self._go_on(start)
        else:
            self._skip(start, end, outcome)

    def _go_on(self, offset: int) -> None:
        self._next = self.read_from = offset

    def _skip(self, start: int, end: int, reason: Aborted) -> None:
        logger.warning("%s partition %d: record %d is left out: %s", self.binding.topic, self.partition, start, reason)
        self._send("skip", start, end, 0, [start, end, [reason.kind, list(reason.arguments)], *self._upstream])

    def _send(self, function: str, start: int, end: int, records: int, arguments: list[Any]) -> None:
        self.read_from = None
        name = uuid4().hex  # the cursor holds what was fed, so an id needs no meaning
        self._client.send(CURSORS, self.binding.cursor(self.partition), function, arguments, request_id=name)
        self._waits = name, function, start, end, records
