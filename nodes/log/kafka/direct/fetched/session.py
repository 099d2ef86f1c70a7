"""Fetch requests, and the session that a broker keeps of them (KIP-227).

A request of a session names the partitions whose position has changed since the one before, and its answer has those
with news. So both cost what has arrived, however many partitions a node follows. A broker that has no room for a
session, or has forgotten it, gets all partitions again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from nodes.log.kafka.confluent_reader import Where
from nodes.log.kafka.direct.connection import text
from nodes.log.kafka.direct.fetched.positions import ANSWER_BYTES, FetchPosition

_HEAD = struct.Struct(">iiiibiii")
"""Replica (-1: none), how long to wait, bytes at least and at most, isolation, session, its epoch, number of topics."""
_PARTITION = struct.Struct(">iiqqi")
"""Partition, epoch of its leader, offset, a replica's first offset (-1: it is none), bytes at most."""
_NUMBER = struct.Struct(">i")
_READ_COMMITTED = 1
_NO_SESSION = 0
_FIRST, _WITHOUT = 0, -1
"""Epochs of a request that begins a session, and of one that wants none."""
_MOST_EPOCH = (1 << 31) - 1
FORGOTTEN, OTHER_EPOCH = 70, 71
"""Errors: the broker has no such session, or expects another request of it."""


class FetchSession:
    """Of one connection. ``places``: the partitions as the broker knows them, to which its answers belong."""

    def __init__(self, wait_ms: int) -> None:
        self.places: dict[Where, FetchPosition] = {}
        self._wait_ms = wait_ms
        self._number, self._epoch = _NO_SESSION, _FIRST
        self._turn = 0

    def request(self, places: Mapping[Where, FetchPosition]) -> bytes:
        """The body of a request for the records of these partitions; there is at least one.

        The broker gives at least a batch of the first, however large. In requests for all of them that is another one
        in turn; within a session the broker takes turns itself.
        """
        forgotten: list[Where] = []
        if self._epoch == _FIRST:
            self._turn += 1
            first, order = self._turn % len(places), list(places.values())
            self.places = {place.where: place for place in order[first:] + order[:first]}
            for place in order:
                place.sent_offset = -1
        else:
            forgotten = [where for where in self.places if where not in places]
            for where in forgotten:
                del self.places[where]
            for where in places.keys() - self.places.keys():
                places[where].sent_offset = -1  # the broker has forgotten it, as while it was paused
            self.places |= places
        sharing = sharing_places(places.values())
        changed: list[FetchPosition] = []
        for place in self.places.values():
            # The limit matters where there is more to read; it changes for all whenever one falls behind.
            if place.offset != place.sent_offset or (place.behind and place.fetch_bytes(sharing) != place.sent_bytes):
                place.sent_offset, place.sent_bytes = place.offset, place.fetch_bytes(sharing)
                changed.append(place)
        return _body(self._wait_ms, self._number, self._epoch, changed, forgotten)

    def answered(self, error: int, number: int) -> int:
        """Follow an answer that has this error and session; the error, 0 if the next request mends it."""
        if error in (FORGOTTEN, OTHER_EPOCH):
            self._number, self._epoch = (_NO_SESSION if error == FORGOTTEN else self._number), _FIRST
            return 0
        if number == _NO_SESSION:  # the broker keeps none, or keeps this one no longer
            self._number, self._epoch = _NO_SESSION, _FIRST
        elif error == 0:
            self._number, self._epoch = number, self._epoch % _MOST_EPOCH + 1
        return error


def sharing_places(places: Iterable[FetchPosition]) -> int:
    """The number of partitions that share an answer's bytes.

    Those that were read to their end, as most of a job's own topics, take no share.
    """
    behind = among = 0
    for place in places:
        behind, among = behind + place.behind, among + 1
    return behind or among


def single_request(place: FetchPosition) -> bytes:
    """The body of a request for one partition, which waits for nothing and begins no session."""
    place.sent_bytes = place.fetch_bytes(1)
    return _body(0, _NO_SESSION, _WITHOUT, [place], [])


def _body(wait_ms: int, session: int, epoch: int, places: Sequence[FetchPosition], forgotten: Sequence[Where]) -> bytes:
    """For the records from these places on; the broker waits at most so long for the first."""
    by_topic: dict[str, list[bytes]] = {}
    for place in places:
        topic, partition = place.where
        row = _PARTITION.pack(partition, place.epoch, place.offset, -1, place.sent_bytes)
        by_topic.setdefault(topic, []).append(row)
    left: dict[str, list[bytes]] = {}
    for topic, partition in forgotten:
        left.setdefault(topic, []).append(_NUMBER.pack(partition))
    head = _HEAD.pack(-1, wait_ms, 1, ANSWER_BYTES, _READ_COMMITTED, session, epoch, len(by_topic))
    return b"".join([head, *_rows(by_topic), _NUMBER.pack(len(left)), *_rows(left), text("")])  # no rack at the end


def _rows(by_topic: Mapping[str, Sequence[bytes]]) -> list[bytes]:
    return [part for topic, rows in by_topic.items() for part in (text(topic), _NUMBER.pack(len(rows)), *rows)]
