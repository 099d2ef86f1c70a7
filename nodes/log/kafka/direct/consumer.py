"""A reader over connections of its own, which leaves to confluent-kafka what it does not know.

It handles a lost connection and a moved leader itself: it finds the new leader, fetches from it the end of the last
record's epoch (KIP-320), and goes on there; what was read beyond that end is a data loss, which is
reported. After any other answer (an offset out of range, a batch that ``fetch_requests`` does not know) confluent-kafka
reads from that offset on; after a while our own connection is tried again. The caller sees one sequence: no
record is left out or given twice.
"""

from __future__ import annotations

import contextlib
import logging
import math
import select
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as KafkaPartition

from nodes.compiled.loading import Compiled
from nodes.log.kafka.client_config import FETCH_WAIT_MS
from nodes.log.kafka.confluent_reader import (
    AT_END,
    Address,
    Arrived,
    ConfluentReader,
    PartitionEvent,
    RequestedHeaders,
    Where,
)
from nodes.log.kafka.direct.connection import FETCH, EpochEnd, Leader, Lost
from nodes.log.kafka.direct.fetch_requests import VERSION, Fetcher, Passed, Refused
from nodes.log.kafka.direct.fetched.positions import FetchPosition
from nodes.log.kafka.direct.leaders import Finder, Found, Wanted, addresses
from nodes.log.kafka.direct.security import Dialer

logger = logging.getLogger(__name__)

AGAIN_S = 5.0
"""How long confluent-kafka reads a partition before our own connection is tried again; each time twice as long."""
_AGAIN_AT_MOST_S = 300.0
LEADER_SEARCH_S = 30.0
"""How long this reader searches for a leader before confluent-kafka does, which reports why there is none."""
GONE_S = 2.0
"""The same where brokers answer that there is no such topic, or that it may not be read."""
LIBRARY_ERRORS_S = 0.05
"""How often errors of confluent-kafka's own connections are polled where it has no partition."""
LIBRARY_POLL_S = 0.002
"""The client of confluent-kafka cannot wake a wait for sockets, so where it has partitions it is looked at so often."""
_LEAST_PAUSE_S, _MOST_PAUSE_S = 0.02, 1.0
"""Between two searches for leaders."""


class Phase(Enum):
    """How a partition is read. SEARCHING: not at all, until its leader is found."""

    SEARCHING = "searching"
    FETCHING = "fetching"
    LEFT = "left to confluent-kafka"
    ENDED = "ended by a truncation"


@dataclass(slots=True)
class _Own:
    """A partition that is assigned. ``epoch``: the leader's of the record before ``offset``, -1: not known."""

    where: Where
    offset: int
    epoch: int = -1
    phase: Phase = Phase.SEARCHING
    fetcher: Fetcher | None = None
    pause_s: float = AGAIN_S
    again_s: float = 0.0
    since_s: float = field(default_factory=time.monotonic)
    left_because: str = ""
    """The last reason why it was left."""
    paused: bool = False
    """Nothing is requested of it, though its leader is known."""
    restarted_at: int = -1
    """The offset at which its reading was begun anew on another connection."""

    def search_leader(self) -> None:
        """From now on its leader is looked for."""
        self.phase, self.fetcher, self.since_s = Phase.SEARCHING, None, time.monotonic()


class DirectReader:
    """``library`` reads what cannot be read here. Belongs to one thread."""

    def __init__(
        self,
        library: ConfluentReader,
        loops: Compiled,
        config: Mapping[str, Any],
        requested_headers: RequestedHeaders,
        without_headers: str | None,
    ) -> None:
        self._library = library
        self._loops = loops
        self._requested_headers = requested_headers
        self._bare_name = without_headers
        self._owned: dict[Where, _Own] = {}
        self._left: dict[Where, tuple[int, int]] = {}  # offset and epoch of what was read here before
        self._fetchers: dict[Address, Fetcher] = {}
        self._bootstrap = addresses(config["bootstrap.servers"])
        self._brokers = list(self._bootstrap)
        # A socket, since what is sent on one that is closed goes nowhere else: a search may end after us.
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        self._finder = Finder(Dialer(config), self._wake)
        self._pause_s, self._search_s = _LEAST_PAUSE_S, 0.0
        self._polled_library_s = 0.0
        self._closed = False

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for fetcher in self._fetchers.values():
            fetcher.wire.close()
        self._finder.close()
        self._library.close()
        self._wake_receiver.close()
        self._wake_sender.close()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_sender.send(b"!")

    # --- which partitions --------------------------------------------------------------------------------------------

    def list_topics(self, name: str, timeout: float) -> Mapping[int, Address]:
        """See ``Reader``; raises ``KafkaException`` where no broker answers."""
        return self._library.list_topics(name, timeout)

    def incremental_assign(self, partitions: Sequence[KafkaPartition]) -> None:
        for one in partitions:
            where = one.topic, one.partition
            own = self._owned.get(where)
            if own is not None and own.fetcher is not None:
                if own.fetcher.resume(where, one.offset):
                    own.paused = False
                    continue
                own.fetcher.remove(where)
            known_offset, known_epoch = self._left.pop(where, (-1, -1))
            self._owned[where] = _Own(where, one.offset, known_epoch if known_offset == one.offset else -1)
        self._search_s = 0.0
        self._search_leaders(time.monotonic())

    def incremental_unassign(self, partitions: Sequence[KafkaPartition]) -> None:
        for one in partitions:
            own = self._owned.pop((one.topic, one.partition), None)
            if own is None:
                continue
            if own.phase is Phase.LEFT:
                self._library.incremental_unassign([one])
            elif own.fetcher is not None:
                place = own.fetcher.remove(own.where)
                if place is not None:
                    own.offset, own.epoch = place.offset, place.read_epoch
            self._left[own.where] = own.offset, own.epoch

    def pause(self, partitions: Sequence[KafkaPartition]) -> None:
        """See ``Reader``. A partition whose leader is known stays with its connection, so that no search follows."""
        for one in partitions:
            own = self._owned.get((one.topic, one.partition))
            if own is not None and own.fetcher is not None:
                own.paused = True
                own.fetcher.pause(own.where)
            else:
                self.incremental_unassign([one])

    def restart(self, partition: KafkaPartition) -> None:
        """See ``Reader``: on another connection; confluent-kafka reads it where that has not helped."""
        own = self._owned.get((partition.topic, partition.partition))
        if own is None:
            self.incremental_assign([partition])
        elif own.phase is Phase.LEFT:
            self._library.restart(partition)
        elif own.fetcher is not None and own.restarted_at != partition.offset:
            address = next(address for address, one in self._fetchers.items() if one is own.fetcher)
            self._lost(address, own.fetcher, f"nothing arrives of {own.where[0]}[{own.where[1]}]")
            own.restarted_at = partition.offset
            self._at(own, partition.offset)
            self._search_s = 0.0
        else:
            if own.fetcher is not None:
                own.fetcher.remove(own.where)
            self._at(own, partition.offset)
            self._leave(own, "nothing arrived")

    def _at(self, own: _Own, offset: int) -> None:
        """Go on there, whatever the position was taken for."""
        if own.offset != offset:
            own.offset, own.epoch = offset, -1

    def held_s(self, where: Where) -> float:
        """See ``Reader``."""
        own = self._owned.get(where)
        if own is None or own.phase is Phase.LEFT:
            return self._library.held_s(where)
        return float("-inf") if own.fetcher is None else own.fetcher.held_s

    # --- what has arrived --------------------------------------------------------------------------------------------

    def take(self, timeout_s: float) -> list[Arrived]:
        deadline = time.monotonic() + timeout_s
        while True:
            found = self._taken()
            left_s = deadline - time.monotonic()
            if found or left_s <= 0:
                return found
            self._wait(left_s)

    def _taken(self) -> list[Arrived]:
        found: list[Arrived] = []
        now_s = time.monotonic()
        if self._has(Phase.LEFT) or now_s - self._polled_library_s > LIBRARY_ERRORS_S:
            self._polled_library_s = now_s
            found += [one for one in self._library.take(0) if self._is_current(one)]
        self._adopt(found)
        for address, fetcher in list(self._fetchers.items()):
            arrived = fetcher.take()
            if isinstance(arrived, Lost):
                self._lost(address, fetcher, arrived.why)
                continue
            for one in arrived:
                if isinstance(one, Refused):
                    self._refused(one)
                elif isinstance(one, Passed):
                    found.append(PartitionEvent(*one.where, one.offset, AT_END))
                else:
                    found.append(one)
        self._search_leaders(now_s)
        return found

    def _has(self, phase: Phase) -> bool:
        return any(own.phase is phase for own in self._without_fetcher())

    def _without_fetcher(self) -> list[_Own]:
        """All that are not ``FETCHING``: mostly none, and this is called each time that something is read."""
        return [own for own in self._owned.values() if own.fetcher is None]

    def _is_current(self, one: Arrived) -> bool:
        """Whether confluent-kafka still reads this partition; follows its position."""
        where = (one.topic() or "", one.partition()) if isinstance(one, PartitionEvent) else one[:2]
        own = self._owned.get(where)
        if own is None:
            return isinstance(one, PartitionEvent) and one.topic() is None
        if own.phase is not Phase.LEFT:
            return False
        if not isinstance(one, PartitionEvent):
            own.offset = max(own.offset, int(one[2].offsets[-1]) + 1)
            own.epoch = self._library.epoch_at(*own.where)
        elif one.error().code() == AT_END.code() and one.offset() > own.offset:
            own.offset, own.epoch = one.offset(), -1  # behind control records, whose epoch is not known
        return True

    def _wait(self, timeout_s: float) -> None:
        """Wait for a socket, or for the next poll of what no socket signals."""
        if self._has(Phase.LEFT):
            timeout_s = min(timeout_s, LIBRARY_POLL_S)
        elif self._has(Phase.SEARCHING) and not self._finder.busy:
            timeout_s = min(timeout_s, max(0.0, self._search_s - time.monotonic()) + 0.001)
        waiting = select.poll()
        waiting.register(self._wake_receiver, select.POLLIN)
        for fetcher in self._fetchers.values():
            fetcher.wire.rouse_late()
            waiting.register(fetcher.wire, select.POLLIN | (select.POLLOUT if fetcher.wire.unsent else 0))
        for number, _ in waiting.poll(math.ceil(timeout_s * 1000)):
            if number == self._wake_receiver.fileno():
                with contextlib.suppress(BlockingIOError):
                    self._wake_receiver.recv(1024)

    # --- leaders -----------------------------------------------------------------------------------------------------

    def _search_leaders(self, now_s: float) -> None:
        """Search for the leaders of what is not read, one search at a time."""
        if not self._without_fetcher():
            return
        searching = [own for own in self._owned.values() if own.phase is Phase.SEARCHING]
        back = [own for own in self._owned.values() if own.phase is Phase.LEFT and own.again_s <= now_s]
        if not (searching or back) or self._finder.busy or now_s < self._search_s:
            return
        self._search_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, _MOST_PAUSE_S)
        for own in back:
            own.again_s = now_s + own.pause_s
        wanted = {own.where: own.epoch for own in (*searching, *back)}
        names = {topic for topic, _ in wanted}
        self._finder.start(self._brokers, Wanted(sorted(names), set(self._fetchers), {FETCH: VERSION}, wanted))
        self._brokers = [
            *self._brokers[1:],
            *self._brokers[:1],
        ]  # a broker that hangs must not be the first each time

    def _adopt(self, found: list[Arrived]) -> None:
        """Adopt the results of a search: connections, and whether what was read is on the new leaders."""
        result = self._finder.result()
        if result is None:
            return
        if isinstance(result, Lost):
            late = [own for own in self._owned.values() if own.phase is Phase.SEARCHING]
            for own in late:
                if time.monotonic() - own.since_s > LEADER_SEARCH_S:
                    self._leave(own, f"no leaders found: {result.why}")
            return
        self._brokers = list(dict.fromkeys([*result.cluster.brokers, *self._bootstrap]))
        for address, wire in result.wires.items():
            if address in self._fetchers:
                wire.close()
            else:
                self._fetchers[address] = Fetcher(
                    wire, self._loops, self._requested_headers, self._bare_name, FETCH_WAIT_MS
                )
        assert result.wanted.places is not None
        for where, epoch in result.wanted.places.items():
            own = self._owned.get(where)
            if own is not None and own.epoch == epoch and own.phase in (Phase.SEARCHING, Phase.LEFT):
                self._go_on(own, result, found)

    def _go_on(self, own: _Own, result: Found, found: list[Arrived]) -> None:
        leader = result.cluster.leaders.get(own.where)
        fetcher = None if leader is None else self._fetchers.get((leader.host, leader.port))
        if leader is None or fetcher is None or leader.error:
            patience_s = GONE_S if own.where[0] in result.cluster.errors else LEADER_SEARCH_S
            if own.phase is Phase.SEARCHING and time.monotonic() - own.since_s > patience_s:
                self._leave(own, "no leader was found")
            return  # else it is looked for again
        if own.phase is Phase.LEFT:
            self._library.incremental_unassign([KafkaPartition(*own.where, own.offset)])
        if 0 <= own.epoch < leader.epoch and not self._proved(own, result.ends.get(own.where), found):
            return
        self._pause_s = _LEAST_PAUSE_S
        self._read_here(own, fetcher, leader)

    def _proved(self, own: _Own, end: EpochEnd | None, found: list[Arrived]) -> bool:
        """Whether the new leader has all that was read; a leader that has less has lost acknowledged records."""
        own.search_leader()
        if end is None or end.error:
            return False  # the request came too early
        if end.offset < 0 or end.epoch > own.epoch:
            self._leave(own, "the leader does not know the epoch of what was read")
            return False
        if end.offset < own.offset:
            own.phase = Phase.ENDED
            text = f"the leader's log ends epoch {own.epoch} at offset {end.offset}: truncation"
            found.append(PartitionEvent(*own.where, own.offset, KafkaError(KafkaError._LOG_TRUNCATION, text)))
            return False
        return True

    # --- from hand to hand -------------------------------------------------------------------------------------------

    def _read_here(self, own: _Own, fetcher: Fetcher, leader: Leader) -> None:
        own.fetcher, own.phase = fetcher, Phase.FETCHING
        fetcher.add(FetchPosition(own.where, own.offset, leader.epoch, own.epoch))
        if own.paused:  # when its leader moved, or the connection was lost
            fetcher.pause(own.where)

    def _refused(self, refused: Refused) -> None:
        own = self._owned[refused.place.where]
        self._stop(own, refused.place)
        if not refused.moved:
            self._leave(own, refused.why)

    def _stop(self, own: _Own, place: FetchPosition) -> None:
        own.offset, own.epoch = place.offset, place.read_epoch
        own.search_leader()

    def _leave(self, own: _Own, why: str) -> None:
        """To confluent-kafka, with the epoch of the record before, so that it finds out what a leader has lost."""
        level = logging.DEBUG if why == own.left_because else logging.INFO  # retries give the same reason for ever
        logger.log(level, "%s[%d] is read by confluent-kafka from offset %d on: %s", *own.where, own.offset, why)
        own.left_because = why
        own.fetcher, own.phase = None, Phase.LEFT
        own.again_s = time.monotonic() + own.pause_s
        own.pause_s = min(2 * own.pause_s, _AGAIN_AT_MOST_S)
        from_here = KafkaPartition(*own.where, own.offset)
        if own.epoch >= 0:
            from_here = KafkaPartition(*own.where, own.offset, leader_epoch=own.epoch)
        self._library.incremental_assign([from_here])

    def _lost(self, address: Address, fetcher: Fetcher, why: str) -> None:
        logger.debug("the connection to %s:%d is lost: %s", *address, why)
        del self._fetchers[address]
        fetcher.wire.close()
        for place in list(fetcher.places.values()):
            self._stop(self._owned[place.where], place)
