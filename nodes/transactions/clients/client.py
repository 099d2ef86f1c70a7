"""The client of a transactional job: requests and replies. Guarantees of ids: docs/transactions.md, "Request ids"."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from nodes.errors import RunFailed, Unreachable
from nodes.log.contract import Log, OffsetOutOfRange, TopicPartition
from nodes.transactions.clients.request_ids import NoReply, RequestIds
from nodes.transactions.topics import TransactionTopics, job_on
from transactional.epochs.messages import BadRecord, Reply, reply_message
from transactional.errors import Aborted, by_name, restore
from transactional.requests.requests import (
    TOO_OLD,
    WRONG_PARTITION,
    WireRequest,
    partition_of,
    partitions_of,
    request_record,
    sendable,
)
from transactional.state.values import BadValue

_WAIT_S = 0.5
COUNT_AGAIN_S = 0.8
"""So often a client that waits looks for new partitions of the replies."""
_RECORD_REQUESTS = 200
_LARGE_BYTES = 1 << 18


class RepliesTrimmed(OffsetOutOfRange, Unreachable):
    """Replies that this client waits for may have been deleted before it has read them."""


class BadReply(RunFailed):
    """The reply to a request cannot be decoded: it comes from another writer, or is damaged.

    ``request_id``: a retry with this id gets the same reply.
    """

    def __init__(self, reply: Reply, where: str, why: str) -> None:
        ended = "has committed" if reply.failure is None and reply.result is not None else "has ended"
        super().__init__(
            f"the reply to request {reply.id}, whose transaction {ended}, cannot be decoded ({where}): {why}"
        )
        self.request_id = reply.id


class TransactionClient:
    """Belongs to one thread, as its log does.

    ``errors``: exceptions that the program declares, which ``call`` raises as what they are. ``clock_s``: only has to
    run; it bounds waits.

    >>> client.call("account", "alice", "transfer", {"to": "bob", "amount": 5})
    """

    def __init__(
        self,
        log: Log,
        job: str | None = None,
        errors: Iterable[type[Exception]] = (),
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.log = log
        self._clock_s = clock_s
        self._errors = by_name(errors)
        self.topics: TransactionTopics = job_on(log, job)
        self._ids = RequestIds(log, self.topics.requests, clock_s)
        partitions = range(log.partitions(self.topics.replies))
        self._at = {partition: log.end_offset(self.topics.replies, partition) for partition in partitions}
        self._counted_s = clock_s()
        self._waiting: set[str] = set()
        self._replies: dict[str, Any] = {}  # outcomes, and ``BadReply`` for what is none
        self._has_waited = False  # whether the last poll of the replies left something open

    def call(
        self,
        operator: str,
        key: str,
        function: str,
        args: Any = None,
        *,
        request_id: str | None = None,
        since: int | None = None,
        timeout_s: float = 30.0,
    ) -> Any:
        """One transaction: its result.

        Call again with the same ``request_id``, and ``since`` of the first try, to request the same once more. Without
        an id the client makes one that holds its time (``new_id``). Raises, where the transaction was aborted, the
        exception of its function if ``errors`` has its type, else ``CallFailed`` with ``aborted``: it had no effect.
        Raises ``BadArguments`` where the call cannot travel as it is. Raises ``NoReply``, which names id and ``since``,
        without a reply in ``timeout_s``, and ``RepliesTrimmed`` if this client has not read for so long that replies
        are gone. Whether it runs is then open; a call with the same id gets the outcome. Raises ``BadReply`` where the
        reply is there and cannot be decoded.
        """
        outcome = self.try_call(operator, key, function, args, request_id=request_id, since=since, timeout_s=timeout_s)
        return result_of(outcome, self._errors)

    def try_call(
        self,
        operator: str,
        key: str,
        function: str,
        args: Any = None,
        *,
        request_id: str | None = None,
        since: int | None = None,
        timeout_s: float = 30.0,
    ) -> Any | Aborted:
        """As ``call``, where a transaction that was aborted is a value: ``Aborted``."""
        end = self._clock_s() + timeout_s
        while True:
            name = self.new_id() if request_id is None else request_id
            outcome = self._call(sendable(WireRequest(name, operator, key, function, args, since)), end, timeout_s)
            if request_id is not None or not never_ran(outcome):
                return outcome

    def _call(self, request: WireRequest, end: float, timeout_s: float) -> Any:
        name, since = request.id, request.since
        if since is None:
            since = self.first_since(name)
        self.send_request(request)
        while name not in self._replies:
            left = end - self._clock_s()
            if left <= 0:
                self._waiting.discard(name)
                text = f"job {self.topics.job!r} gave no reply to request {name} in {timeout_s:g} s; do its nodes run?"
                raise NoReply(text, name, since)
            self.receive(min(left, _WAIT_S))
        return self.take(name)

    def check(self) -> None:
        """Check whether the log answers; raises what it raises."""
        self.log.end_offset(self.topics.requests, 0)

    def check_writing(self) -> None:
        """Append a record of no requests, which changes nothing; raises what the log raises."""
        self.log.append(self.topics.requests, 0, [request_record([])])

    def new_id(self) -> str:
        """An id for a request and all its retries, of this client or another: a retry that is too old is refused."""
        return self._ids.new()

    def first_since(self, name: str) -> int:
        """The ``since`` of an id that is tried for the first time now."""
        return self._ids.since(name)

    @property
    def ids(self) -> RequestIds:
        """The maker of request ids; it knows how old they may be."""
        return self._ids

    def expect(self, names: Iterable[str]) -> None:
        """Take the replies to these requests too, which another client sends."""
        self._waiting.update(names)

    def send(
        self,
        operator: str,
        key: str,
        function: str,
        args: Any = None,
        *,
        request_id: str | None = None,
        since: int | None = None,
    ) -> str:
        """Send without waiting; returns the request's id, under which ``take`` finds the reply."""
        name = self.new_id() if request_id is None else request_id
        return self.send_request(WireRequest(name, operator, key, function, args, since))

    def send_request(self, request: WireRequest) -> str:
        """As ``send``."""
        record = request_record(request)
        self._waiting.add(request.id)
        self.log.send(self.topics.requests, partition_of(request.id, self._ids.sequencers), [record])
        return request.id

    def send_all(self, requests: Iterable[WireRequest]) -> None:
        """As ``send`` of each, in few records: cheaper for all readers."""
        by_partition: dict[int, list[WireRequest]] = {}
        sent = list(map(sendable, requests))
        places = partitions_of([request.id for request in sent], self._ids.sequencers)
        for place, request in zip(places, sent, strict=True):
            by_partition.setdefault(place, []).append(request)
        records = {
            partition: [
                record
                for at in range(0, len(group), _RECORD_REQUESTS)
                for record in _records(group[at : at + _RECORD_REQUESTS])
            ]
            for partition, group in sorted(by_partition.items())
        }
        self._waiting.update(request.id for group in by_partition.values() for request in group)
        with self.log.batched():
            for partition, made in records.items():
                self.log.send(self.topics.requests, partition, made)

    def receive(self, timeout_s: float) -> int:
        """Read replies, waiting for one if there is none; gives how many have come."""
        self.log.poll_acks()
        self._find_partitions()
        return self._read([where.partition for where in self.log.wait(self.positions, timeout_s)])

    def poll(self) -> int:
        """As ``receive``, without waiting."""
        self.log.poll_acks()
        self._find_partitions()
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
        """The outcome of a request, once; ``KeyError`` if its reply is not here yet, ``BadReply`` if it is none."""
        outcome = self._replies.pop(name)
        self._waiting.discard(name)
        if isinstance(outcome, BadReply):
            raise outcome
        return outcome

    def take_all(self) -> list[tuple[str, Any]]:
        """All outcomes that are here, with the ids of their requests, each once; a ``BadReply`` for what is none."""
        found = list(self._replies.items())
        self._replies.clear()
        self._waiting.difference_update(name for name, _ in found)
        return found

    def forget(self, name: str) -> None:
        """No caller waits for the reply to this request any more."""
        self._waiting.discard(name)
        self._replies.pop(name, None)

    def _find_partitions(self) -> None:
        """State partitions may become more, and reply on partitions of their own."""
        now_s = self._clock_s()
        if now_s - self._counted_s >= COUNT_AGAIN_S and self._waiting:
            self._counted_s = now_s
            for partition in range(len(self._at), self.log.partitions(self.topics.replies)):
                self._at[partition] = self.log.start_offset(self.topics.replies, partition)

    def _read(self, partitions: Iterable[int]) -> int:
        found = 0
        for partition in partitions:
            offset = self._at[partition]
            try:
                chunk = self.log.poll(self.topics.replies, partition, offset)
            except OffsetOutOfRange as error:
                self._skip_trimmed(partition, offset, error)
                continue
            self._at[partition] = chunk.next_offset
            for at, value in zip(chunk.offsets.tolist(), chunk.values, strict=True):
                try:
                    record = reply_message(value)
                except BadRecord:
                    continue
                for reply in record.replies:
                    if reply.id in self._waiting and reply.id not in self._replies and not is_misplaced(reply):
                        self._replies[reply.id] = _outcome(reply, f"{self.topics.replies}[{partition}] at offset {at}")
                        self._ids.seen(reply.sequencer, reply.offset)
                        found += 1
        self._has_waited = len(self._waiting) > len(self._replies)
        return found

    def _skip_trimmed(self, partition: int, offset: int, error: OffsetOutOfRange) -> None:
        """Go on where the topic begins now. A request that no caller waited for yet can be in no reply that is gone."""
        topic = self.topics.replies
        start = self.log.start_offset(topic, partition)
        if start <= offset:
            raise error
        self._at[partition] = start
        if self._has_waited:
            raise RepliesTrimmed(
                f"job {self.topics.job!r}: replies of {topic}[{partition}] from offset {offset} to {start} were "
                f"deleted before this client has read them. Send the requests again with the same ids"
            ) from error


def _outcome(reply: Reply, where: str) -> Any:
    """The result, ``Aborted``, or ``BadReply``: one bad reply concerns only the caller that waits for it."""
    if reply.result is None and reply.failure is None:
        return BadReply(reply, where, "it holds no result and no failure")
    try:
        return reply.outcome
    except BadValue as error:
        return BadReply(reply, where, str(error))


def result_of(outcome: Any, errors: Mapping[str, type[Exception]]) -> Any:
    """Of a transaction that has committed; raises what it was aborted with."""
    if isinstance(outcome, Aborted):
        raise restore(outcome, errors)
    return outcome


def never_ran(outcome: Any) -> bool:
    """Of an id that this client has made and sent once: it came too late, and the call can be sent under a new id."""
    return isinstance(outcome, Aborted) and outcome.kind == TOO_OLD


def is_misplaced(reply: Reply) -> bool:
    """Whether it is to what another client has put elsewhere under this id: ours is where it belongs."""
    return reply.failure is not None and reply.failure.kind == WRONG_PARTITION


def _records(requests: list[WireRequest]) -> list[bytes]:
    """One for all, or one for each where that is large."""
    record = request_record(requests)
    return [record] if len(record) <= _LARGE_BYTES else [request_record(request) for request in requests]


__all__ = ["Aborted", "BadReply", "NoReply", "RepliesTrimmed", "TransactionClient"]
