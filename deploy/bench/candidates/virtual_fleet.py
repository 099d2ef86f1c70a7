"""Nodes in virtual time: the real state machines, whose steps take the CPU time that they take here.

One process steps all nodes. Each has a core of its own, and is busy for the CPU time of a step. Appends of the step are
read a round trip of the log later. So times have neither other work of the machine in them, nor the
log's own CPU. An event is (virtual time, order, what happens).
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from nodes.transactions.layouts.batch_sizes import BatchSizes
from transactional import events as e
from transactional.epochs.appends import Append, AppendCalls, AppendEpochs, AppendReply
from transactional.epochs.messages import MovedState, call_message, reply_message
from transactional.epochs.sequencer import EpochConfig
from transactional.node import TransactionNode
from transactional.operators import Program, StateKey
from transactional.requests.requests import WireRequest, partition_of, request_record
from transactional.state.store import Store

NOT_COMPRESSED = 1 << 30
Topic = tuple[str, int]


@dataclass(frozen=True, slots=True)
class LogTimes:
    """``trip_ms``: from an append to its readers; ``mb_s``: of one node's appends."""

    trip_ms: float = 2.0
    mb_s: float = 200.0

    def sending_s(self, size: int) -> float:
        return size / (1e6 * self.mb_s)


@dataclass(slots=True)
class Member:
    """One node. ``free_s``: the time of its next step, at the earliest. ``sent_s``: then its appends have left it.

    ``read``: how far, by topic partition.
    """

    number: int
    node: TransactionNode
    sizes: BatchSizes
    free_s: float = 0.0
    sent_s: float = 0.0
    is_due: bool = False
    read: dict[Topic, int] = field(default_factory=dict)
    batch_bytes: int = 0
    cpu_s: float = 0.0


class VirtualFleet:
    """``partitions``: all that there will ever be. ``after_step``: gives what a node appends besides."""

    def __init__(
        self,
        program: Program,
        nodes: int,
        sequencers: int,
        partitions: int,
        log: LogTimes,
        new_store: Callable[[], Store] = Store,
    ) -> None:
        self.now_s = 0.0
        self.sequencers = sequencers
        self.answered: dict[str, float] = {}
        self.outcomes: dict[str, object] = {}
        self.ended: dict[int, float] = {}
        """When the first node saw the end of an epoch."""
        self.moved_bytes = 0
        self.after_step: Callable[[Member], Sequence[Append]] = lambda member: ()
        self._log = log
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self._topics: dict[Topic, list[bytes]] = {}
        config = EpochConfig(compress_bytes=NOT_COMPRESSED)
        self.members = [
            Member(
                number,
                TransactionNode(program, sequencers, config, new_store=new_store),
                BatchSizes(config.copy_bytes, config.copy_window_bytes),
            )
            for number in range(nodes)
        ]
        for partition in range(partitions):
            self.owner(partition).node.receive(e.PartitionTaken(partition))
        for sequencer in range(sequencers):
            self.members[sequencer % nodes].node.receive(e.SequencerTaken(sequencer))

    def owner(self, partition: int) -> Member:
        return self.members[partition % len(self.members)]

    def load(self, rows: Mapping[StateKey, bytes], place: Callable[[str, str], int]) -> None:
        """Before the first request."""
        homes: dict[int, dict[StateKey, bytes | None]] = {}
        for key, value in rows.items():
            homes.setdefault(place(*key), {})[key] = value
        for partition, mine in homes.items():
            store = self.store(partition)
            store.apply(mine)
            store.changed.clear()

    def store(self, partition: int) -> Store:
        store = self.owner(partition).node.partitions[partition].store
        assert isinstance(store, Store)
        return store

    @property
    def first_node(self) -> TransactionNode:
        return self.members[0].node

    # --- what happens -----------------------------------------------------------------------------------------------

    def at(self, time_s: float, happens: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (time_s, self._order, happens))

    def request_at(self, due_s: float, request: WireRequest) -> None:
        record, topic = request_record(request), ("requests", partition_of(request.id, self.sequencers))
        self.at(due_s + self._log.trip_ms / 1e3, partial(self._appended, topic, record))

    def append(self, member: Member, appends: Sequence[Append]) -> None:
        """At the end of its step. In order: of one node each is behind the one before it."""
        member.sent_s = max(member.sent_s, member.free_s)
        for append in appends:
            size = len(append.value)
            member.sent_s += self._log.sending_s(size)
            read_s, topic = member.sent_s + self._log.trip_ms / 1e3, self._topic(append)
            if topic is not None:
                self.at(read_s, partial(self._appended, topic, append.value))
            elif isinstance(append, AppendReply):
                self._replied(read_s, append.value)
            if isinstance(append, AppendCalls) and isinstance(call_message(append.value), MovedState):
                self.moved_bytes += size

    def _topic(self, append: Append) -> Topic | None:
        match append:
            case AppendEpochs():
                return "epochs", 0
            case AppendCalls(partition):
                return "calls", partition
            case _:
                return None  # commits are read by the next owner alone

    def _replied(self, at_s: float, value: bytes) -> None:
        for reply in reply_message(value).replies:
            self.answered.setdefault(reply.id, at_s)
            self.outcomes.setdefault(reply.id, reply.outcome)

    def _appended(self, topic: Topic, value: bytes) -> None:
        self._topics.setdefault(topic, []).append(value)
        kind, number = topic
        for member in self.members if kind == "epochs" else [self.members[number % len(self.members)]]:
            self._wake(member)

    def _wake(self, member: Member) -> None:
        if not member.is_due:
            member.is_due = True
            self.at(max(self.now_s, member.free_s), partial(self._step, member))

    def _step(self, member: Member) -> None:
        member.is_due, node = False, member.node
        events = self._news(member)
        began_ns = time.thread_time_ns()
        for event in events:
            node.receive(event)
        size = member.sizes.turn(node.ledger, int(1000 * self.now_s))
        if size != member.batch_bytes:
            node.receive(e.CopiesPaced(size))
            member.batch_bytes = size
        made = node.step(e.Ticked(), int(1000 * self.now_s))
        took_s = (time.thread_time_ns() - began_ns) / 1e9
        member.cpu_s += took_s
        member.free_s = self.now_s + took_s
        self.append(member, made)
        if member.number == 0:
            for epoch in range(len(self.ended) + 1, node.ledger.done + 1):
                self.ended[epoch] = member.free_s
        self.append(member, self.after_step(member))
        if any(partition.is_sending for partition in node.partitions.values()):
            self._wake(member)

    def _news(self, member: Member) -> list[e.Event]:
        node, found = member.node, list[e.Event]()
        count = len(self.members)
        epochs = self._unread(member, ("epochs", 0))
        if epochs:
            found.append(e.EpochsRead(epochs, member.read["epochs", 0]))
        for partition in node.partitions:
            if values := self._unread(member, ("calls", partition)):
                end = member.read["calls", partition]
                found.append(e.CallsRead(partition, list(range(end - len(values), end)), values))
        for sequencer in range(member.number % count, self.sequencers, count):
            if values := self._unread(member, ("requests", sequencer)):
                end = member.read["requests", sequencer]
                found.append(e.RequestsRead(sequencer, list(range(end - len(values), end)), values, end))
        return found

    def _unread(self, member: Member, topic: Topic) -> list[bytes]:
        records = self._topics.get(topic, [])
        first = member.read.get(topic, 0)
        member.read[topic] = len(records)
        return records[first:]

    def run(self, until: Callable[[], bool]) -> None:
        """Until that holds, or nothing happens any more."""
        while self._events and not until():
            self.now_s, _, happens = heapq.heappop(self._events)
            happens()
