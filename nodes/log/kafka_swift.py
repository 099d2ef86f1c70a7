"""A consumer that reads some topics over connections of its own, and everything else by librdkafka.

librdkafka stays the judge of whatever is difficult: where a connection is lost, a broker answers with an error, or a
batch is not what ``kafka_fetch`` knows, it goes on at that offset, with the leader's epoch of the record before, so
that it finds out where a leader has lost records. After a while our own connection is tried again. Who reads here sees
one sequence: no record is left out or given twice.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import math
import queue
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import TopicPartition as KafkaPartition

from nodes.compiled import Compiled
from nodes.log.kafka_blocks import Where
from nodes.log.kafka_columns import Piece
from nodes.log.kafka_config import FETCH_WAIT_MS
from nodes.log.kafka_fetch import Fetcher, Passed, Place, Ready, Refused, prepared
from nodes.log.kafka_native import AT_END, Event, NativeConsumer
from nodes.log.kafka_wire import Address, Lost

logger = logging.getLogger(__name__)

PREPARE_S = 2.0
"""How long a broker may take to be ready; its partitions are not read meanwhile, the first time."""
AGAIN_S = 5.0
"""How long librdkafka reads a partition before our own connection is tried again; each time twice as long."""
_AGAIN_AT_MOST_S = 300.0

Arrived = tuple[str, int, Piece] | Event


@dataclass(slots=True)
class _Own:
    """A partition that is assigned, of a topic that is read here. ``fetcher`` None: by librdkafka, or not yet.

    ``epoch``: the leader's of the record before ``offset``, -1: not known. ``proved``: librdkafka, which compares
    epochs, has gone on from where we stopped; before that nobody knows whether what we read is still there.
    """

    where: Where
    offset: int
    epoch: int = -1
    fetcher: Fetcher | None = None
    by_library: bool = False
    proved: bool = False
    pause_s: float = AGAIN_S
    again_s: float = 0.0


class SwiftConsumer(NativeConsumer):
    """``swift`` says of a topic, as the broker names it, whether it is read over our own connections."""

    def __init__(
        self,
        library: ctypes.CDLL,
        loops: Compiled,
        config: Mapping[str, Any],
        without_headers: str | None,
        swift: Callable[[str], bool],
    ) -> None:
        super().__init__(library, loops, config, without_headers)
        self._swift = swift
        self._bare_name = without_headers
        self._client_id = str(config["client.id"])
        self._owned: dict[Where, _Own] = {}
        self._left: dict[Where, tuple[int, int]] = {}  # offset and epoch of what was read here before
        self._addresses: dict[Where, Address] = {}
        self._leader_epochs: dict[Where, int] = {}
        self._fetchers: dict[Address, Fetcher] = {}
        self._preparing: set[tuple[Address, str]] = set()
        self._prepared: queue.SimpleQueue[tuple[Address, str, Ready | Lost]] = queue.SimpleQueue()
        self._closed = threading.Event()
        # Sockets, since what is sent on one that is closed goes nowhere else: a preparation may end after us.
        self._bell, self._ring = socket.socketpair()
        self._bell.setblocking(False)
        self._ring.setblocking(False)
        self.wake_by(self._ring.fileno())

    def close(self) -> None:
        if self._closed.is_set():
            return
        self._closed.set()
        for fetcher in self._fetchers.values():
            fetcher.wire.close()
        self.wake_by(-1)
        super().close()
        with contextlib.suppress(queue.Empty):
            while True:
                _close_of(self._prepared.get_nowait()[2])
        self._bell.close()
        self._ring.close()

    # --- which partitions --------------------------------------------------------------------------------------------

    def list_topics(self, name: str, timeout: float) -> list[Address | None]:
        leaders = super().list_topics(name, timeout)
        self._addresses.update({(name, number): leader for number, leader in enumerate(leaders) if leader is not None})
        return leaders

    def incremental_assign(self, partitions: Sequence[KafkaPartition]) -> None:
        for one in partitions:
            where = one.topic, one.partition
            if not self._swift(one.topic) or where not in self._addresses:
                super().incremental_assign([one])
                continue
            known_offset, known_epoch = self._left.pop(where, (-1, -1))
            own = _Own(where, one.offset, known_epoch if known_offset == one.offset else -1)
            self._owned[where] = own
            fetcher = self._fetchers.get(self._addresses[where])
            if fetcher is None or where not in self._leader_epochs:
                self._prepare(where)
            else:
                self._begin(own, fetcher)

    def incremental_unassign(self, partitions: Sequence[KafkaPartition]) -> None:
        for one in partitions:
            own = self._owned.pop((one.topic, one.partition), None)
            if own is None or own.by_library:
                super().incremental_unassign([one])
            elif own.fetcher is not None:
                place = own.fetcher.remove(own.where)
                if place is not None:
                    self._left[own.where] = place.offset, place.read_epoch

    # --- what has arrived --------------------------------------------------------------------------------------------

    def take(self, timeout_s: float) -> list[Arrived]:
        if not self._owned:
            return super().take(timeout_s)
        found = self._taken()
        if found or timeout_s <= 0:
            return found
        self._wait(timeout_s)
        return self._taken()

    def _taken(self) -> list[Arrived]:
        found = [one for one in super().take(0) if self._is_news(one)]
        self._welcome()
        for address, fetcher in list(self._fetchers.items()):
            arrived = fetcher.take()
            if isinstance(arrived, Lost):
                self._lost(address, fetcher, arrived.why)
                continue
            for one in arrived:
                if isinstance(one, Refused):
                    self._to_library(self._owned[one.place.where], one.why, one.place)
                elif isinstance(one, Passed):
                    found.append(Event(*one.where, one.offset, AT_END))
                else:
                    found.append(one)
        self._try_again()
        return found

    def _is_news(self, one: Arrived) -> bool:
        """What librdkafka gives, but for partitions that it no longer reads; follows where it stands."""
        where = (one.topic() or "", one.partition()) if isinstance(one, Event) else one[:2]
        own = self._owned.get(where)
        if own is None:
            return True
        if own.by_library and not isinstance(one, Event):
            own.offset, own.proved = max(own.offset, int(one[2].offsets[-1]) + 1), True
        elif own.by_library and isinstance(one, Event) and one.error().code() == AT_END.code():
            own.offset, own.proved = max(own.offset, one.offset()), True
        return own.by_library

    def _wait(self, timeout_s: float) -> None:
        waiting = select.poll()
        waiting.register(self._bell, select.POLLIN)
        for fetcher in self._fetchers.values():
            fetcher.wire.rouse_late()
            waiting.register(fetcher.wire, select.POLLIN | (select.POLLOUT if fetcher.wire.unsent else 0))
        for number, _ in waiting.poll(math.ceil(timeout_s * 1000)):
            if number == self._bell.fileno():
                with contextlib.suppress(BlockingIOError):
                    self._bell.recv(1024)

    # --- from hand to hand -------------------------------------------------------------------------------------------

    def _begin(self, own: _Own, fetcher: Fetcher) -> None:
        """If the leader is another one than that of what was read, librdkafka has to look first."""
        if 0 <= own.epoch < self._leader_epochs[own.where]:
            self._to_library(own, "it has had another leader since")
        else:
            self._read_here(own, fetcher)

    def _read_here(self, own: _Own, fetcher: Fetcher) -> None:
        own.fetcher, own.by_library = fetcher, False
        fetcher.add(Place(own.where, own.offset, self._leader_epochs[own.where], own.epoch))

    def _to_library(self, own: _Own, why: str, place: Place | None = None) -> None:
        logger.debug("%s[%d] is read by librdkafka from offset %d on: %s", *own.where, own.offset, why)
        if place is not None:
            own.offset, own.epoch = place.offset, place.read_epoch
        own.fetcher, own.by_library, own.proved = None, True, False
        own.again_s = time.monotonic() + own.pause_s
        own.pause_s = min(2 * own.pause_s, _AGAIN_AT_MOST_S)
        from_here = KafkaPartition(*own.where, own.offset)
        if own.epoch >= 0:
            from_here = KafkaPartition(*own.where, own.offset, leader_epoch=own.epoch)
        super().incremental_assign([from_here])

    def _lost(self, address: Address, fetcher: Fetcher, why: str) -> None:
        del self._fetchers[address]
        fetcher.wire.close()
        for place in list(fetcher.places.values()):
            self._to_library(self._owned[place.where], why, place)

    def _prepare(self, where: Where) -> None:
        key = self._addresses[where], where[0]
        if key in self._preparing:
            return
        self._preparing.add(key)
        threading.Thread(target=self._prepare_beside, args=key, name="kafka-wire", daemon=True).start()

    def _prepare_beside(self, address: Address, topic: str) -> None:
        """In a thread of its own: the name of a host, or a host that is gone, may take long."""
        found = prepared(address, topic, self._client_id, PREPARE_S)
        self._prepared.put((address, topic, found))
        if self._closed.is_set():
            _close_of(found)
        else:
            with contextlib.suppress(OSError):
                self._ring.send(b"!")

    def _welcome(self) -> None:
        """What has become of preparations."""
        while not self._prepared.empty():
            address, topic, found = self._prepared.get_nowait()
            self._preparing.discard((address, topic))
            waiting = [own for own in self._owned.values() if own.where[0] == topic and own.fetcher is None]
            concerned = [own for own in waiting if self._addresses[own.where] == address]
            if isinstance(found, Lost):
                for own in concerned:
                    if not own.by_library:
                        self._to_library(own, found.why)
                continue
            fetcher = self._fetcher_for(address, found)
            for number, leader in found.leaders.items():
                if leader.error == 0 and leader.host:
                    self._addresses[topic, number] = leader.host, leader.port
                    self._leader_epochs[topic, number] = leader.epoch
            for own in concerned:
                leader = found.leaders.get(own.where[1])
                if leader is None or leader.error or (leader.host, leader.port) != address:
                    if not own.by_library:
                        self._to_library(own, "another broker leads it")
                elif own.by_library and own.proved:
                    self._back_from_library(own)
                    self._read_here(own, fetcher)
                elif not own.by_library:
                    self._begin(own, fetcher)

    def _fetcher_for(self, address: Address, found: Ready) -> Fetcher:
        known = self._fetchers.get(address)
        if known is not None:
            found.wire.close()
            return known
        fetcher = Fetcher(found.wire, self._loops, self._bare_name, FETCH_WAIT_MS)
        self._fetchers[address] = fetcher
        return fetcher

    def _back_from_library(self, own: _Own) -> None:
        epoch = self.epoch_at(*own.where, own.offset)
        own.epoch = epoch if epoch >= 0 else own.epoch
        super().incremental_unassign([KafkaPartition(*own.where, own.offset)])

    def _try_again(self) -> None:
        now_s = time.monotonic()
        for own in _due(self._owned.values(), now_s):
            own.again_s = now_s + own.pause_s
            self._prepare(own.where)


def _due(owned: Iterable[_Own], now_s: float) -> list[_Own]:
    return [own for own in owned if own.by_library and own.again_s <= now_s]


def _close_of(found: Ready | Lost) -> None:
    if isinstance(found, Ready):
        found.wire.close()
