"""The client of a transactional job: ask, and get the reply."""

from __future__ import annotations

import time
import uuid
from collections.abc import Container, Iterable
from typing import Any

from nodes.errors import Unreachable
from nodes.log.contract import Log, OffsetOutOfRange, TopicPartition
from nodes.transactions.topics import TransactionTopics, job_on
from transactional.errors import Aborted
from transactional.messages import BadMessage, Reply, reply_message
from transactional.requests import WireRequest, partition_of, request_record

_WAIT_S = 0.5
_TOGETHER = 200
_LARGE_BYTES = 1 << 18


class RepliesTrimmed(OffsetOutOfRange, Unreachable):
    """Replies that this client waits for may have been deleted before it has read them."""


class TransactionClient:
    """Belongs to one thread, as its log does.

    >>> client.call("account", "alice", "transfer", {"to": "bob", "amount": 5})
    """

    def __init__(self, log: Log, job: str | None = None) -> None:
        self.log = log
        self.topics: TransactionTopics = job_on(log, job)
        self._sequencers = log.partitions(self.topics.requests)
        partitions = range(log.partitions(self.topics.replies))
        self._at = {partition: log.end_offset(self.topics.replies, partition) for partition in partitions}
        self._waiting: set[str] = set()
        self._replies: dict[str, Reply] = {}
        self._has_waited = False  # whether the last look at the replies left something open

    def call(
        self,
        operator: str,
        key: str,
        function: str,
        args: Any = None,
        *,
        request_id: str | None = None,
        timeout_s: float = 30.0,
    ) -> Any:
        """One transaction: its result, or ``Aborted``.

        Call again with the same ``request_id`` to ask for the same once more: it runs once. Raises ``Unreachable``
        without a reply in ``timeout_s``, ``RepliesTrimmed`` if this client has not read for so long that replies are
        gone; whether it runs is then open, and the same id will tell.
        """
        name = self.send(operator, key, function, args, request_id=request_id)
        end = time.monotonic() + timeout_s
        while (reply := self._replies.pop(name, None)) is None:
            left = end - time.monotonic()
            if left <= 0:
                self._waiting.discard(name)
                raise Unreachable(
                    f"job {self.topics.job!r} gave no reply to request {name} in {timeout_s:g} s; are its nodes "
                    f"running? Asking again with the same request id runs it at most once"
                )
            self.receive(min(left, _WAIT_S))
        self._waiting.discard(name)
        return reply.outcome

    def send(self, operator: str, key: str, function: str, args: Any = None, *, request_id: str | None = None) -> str:
        """Ask without waiting; gives the request's id, under which ``take`` finds the reply."""
        name = uuid.uuid4().hex if request_id is None else request_id
        return self.ask(WireRequest(name, operator, key, function, args))

    def ask(self, request: WireRequest) -> str:
        """As ``send``."""
        self._waiting.add(request.id)
        partition = partition_of(request.id, self._sequencers)
        self.log.send(self.topics.requests, partition, [request_record(request)])
        return request.id

    def ask_all(self, requests: Iterable[WireRequest]) -> None:
        """As ``send`` of each, in few records: cheaper for all who read them."""
        by_partition: dict[int, list[WireRequest]] = {}
        for request in requests:
            self._waiting.add(request.id)
            by_partition.setdefault(partition_of(request.id, self._sequencers), []).append(request)
        with self.log.together():
            for partition, asked in sorted(by_partition.items()):
                pieces = (asked[at : at + _TOGETHER] for at in range(0, len(asked), _TOGETHER))
                self.log.send(
                    self.topics.requests, partition, [record for piece in pieces for record in _records(piece)]
                )

    def receive(self, timeout_s: float) -> int:
        """Read replies, waiting for one if there is none; gives how many have come."""
        self.log.delivered()
        return self._read([where.partition for where in self.log.wait(self.positions, timeout_s)])

    def poll(self) -> int:
        """As ``receive``, without waiting."""
        self.log.delivered()
        return self._read(self._at)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Where new replies would come."""
        return {TopicPartition(self.topics.replies, p): offset for p, offset in self._at.items()}

    @property
    def answered(self) -> Container[str]:
        """Requests whose reply is here and was not taken yet."""
        return self._replies.keys()

    def take(self, name: str) -> Any | Aborted | None:
        """The outcome of a request, once; ``KeyError`` if its reply is not here yet."""
        reply = self._replies.pop(name)
        self._waiting.discard(name)
        return reply.outcome

    def take_all(self) -> list[tuple[str, Any]]:
        """All outcomes that are here, with the ids of their requests, each once."""
        found = [(name, reply.outcome) for name, reply in self._replies.items()]
        self._replies.clear()
        self._waiting.difference_update(name for name, _ in found)
        return found

    def _read(self, partitions: Iterable[int]) -> int:
        found = 0
        for partition in partitions:
            offset = self._at[partition]
            try:
                chunk = self.log.follow(self.topics.replies, partition, offset)
            except OffsetOutOfRange as error:
                self._skip_trimmed(partition, offset, error)
                continue
            self._at[partition] = chunk.next_offset
            for value in chunk.values:
                try:
                    record = reply_message(value)
                except BadMessage:
                    continue
                for reply in record.replies:
                    if reply.id in self._waiting and reply.id not in self._replies:
                        self._replies[reply.id] = reply
                        found += 1
        self._has_waited = len(self._waiting) > len(self._replies)
        return found

    def _skip_trimmed(self, partition: int, offset: int, error: OffsetOutOfRange) -> None:
        """Go on where the topic begins now. What nobody waited for yet can be in no reply that is gone."""
        topic = self.topics.replies
        start = self.log.start_offset(topic, partition)
        if start <= offset:
            raise error
        self._at[partition] = start
        if self._has_waited:
            raise RepliesTrimmed(
                f"job {self.topics.job!r}: replies of {topic}[{partition}] from offset {offset} to {start} were "
                f"deleted before this client has read them. Ask again with the same request ids: nothing runs twice"
            ) from error


def _records(requests: list[WireRequest]) -> list[bytes]:
    """One for all, or one for each where that is large."""
    record = request_record(requests)
    return [record] if len(record) <= _LARGE_BYTES else [request_record(request) for request in requests]


__all__ = ["Aborted", "RepliesTrimmed", "TransactionClient"]
