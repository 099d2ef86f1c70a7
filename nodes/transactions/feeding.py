"""Feeds bound topics into their job: reads a partition, asks for one transaction after the other, skips what fails.

The owner of request partition ``p mod sequencers`` feeds input partition ``p``. Two owners do no harm: the transaction
itself checks that its records are next (``transactional/streams.py``).
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

import msgspec

from nodes.log.contract import Chunk, Log, TopicPartition
from nodes.transactions.client import RepliesTrimmed, TransactionClient
from transactional.errors import RAISED, Aborted, describe
from transactional.operators import Program
from transactional.streams import CURSORS, Binding

logger = logging.getLogger(__name__)

MAX_BYTES = 1 << 17
"""Of the records of one transaction; a single one may be larger."""


class Feeding:
    """All bindings of one node."""

    def __init__(self, log: Log, program: Program, sequencers: int) -> None:
        self._log = log
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
                self._feeds[binding, partition] = _Feed(self._log, client, binding, partition)
            elif not mine:
                self._feeds.pop((binding, partition), None)
        if not self._feeds:
            return False
        try:
            client.poll()
        except RepliesTrimmed as error:  # this node stood still: its feeds ask again how far their partitions are
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
    """One partition. ``read_from`` is None while it asks how far the partition has been fed, or waits for a reply."""

    def __init__(self, log: Log, client: TransactionClient, binding: Binding, partition: int) -> None:
        self.binding = binding
        self.partition = partition
        self.read_from: int | None = None
        self._next = 0  # as the cursor says; what lies between it and ``read_from`` holds no records
        self._log = log
        self._client = client
        self._waits: tuple[str, str, int, int, int] | None = None  # request, function, start, end, records
        self._one_by_one_to = 0
        self._ask("where", 0, 0, 0, [])

    def turn(self) -> bool:
        """Look at the reply, and ask for the next transaction."""
        if self._waits is not None:
            if self._waits[0] not in self._client.answered:
                return False
            self._answered(self._client.take(self._waits[0]))
            return True
        assert self.read_from is not None
        most = 1 if self._next < self._one_by_one_to else self.binding.batch
        topic = self.binding.topic
        chunk = self._log.follow(topic, self.partition, self.read_from, max_records=most, max_bytes=MAX_BYTES)
        if not chunk.values:
            self.read_from = chunk.next_offset
            return False
        self._feed(self._next, chunk)
        return True

    def _feed(self, start: int, chunk: Chunk) -> None:
        calls: list[list[Any]] = []
        end = start
        for offset, value in zip(chunk.offsets.tolist(), chunk.values, strict=True):
            made = self._call(value)
            if isinstance(made, Aborted):
                if not calls:
                    self._skip(start, offset + 1, made)
                    return
                break
            calls.append(made)
            end = offset + 1
        if len(calls) == len(chunk.values):
            end = chunk.next_offset
        arguments = [start, end, self.binding.operator, self.binding.function, calls]
        self._ask("feed", start, end, len(calls), arguments)

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
        return [key, arguments] if isinstance(key, str) else Aborted("MalformedRecord", (f"the key is {key!r}",))

    def _answered(self, outcome: Any) -> None:
        assert self._waits is not None
        _, function, start, end, records = self._waits
        self._waits = None
        if function == "where":
            begin = self._log.start_offset(self.binding.topic, self.partition)
            self._go_on(begin if outcome is None else outcome["next"])
        elif outcome is True:
            self._go_on(end)
        elif outcome is False:  # another node feeds it too
            self._ask("where", 0, 0, 0, [])
        elif records > 1:
            self._one_by_one_to = end
            self._go_on(start)
        else:
            self._skip(start, end, outcome)

    def _go_on(self, offset: int) -> None:
        self._next = self.read_from = offset

    def _skip(self, start: int, end: int, reason: Aborted) -> None:
        logger.warning("%s partition %d: record %d is left out: %s", self.binding.topic, self.partition, start, reason)
        self._ask("skip", start, end, 0, [start, end, [reason.kind, list(reason.arguments)]])

    def _ask(self, function: str, start: int, end: int, records: int, arguments: list[Any]) -> None:
        self.read_from = None
        name = self._client.send(CURSORS, self.binding.cursor(self.partition), function, arguments)
        self._waits = name, function, start, end, records
