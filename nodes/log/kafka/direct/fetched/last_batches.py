"""The heads of the last batches of a topic: how it is written decides how it will be read."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nodes.log.kafka.direct.connection import FETCH, Cursor, Lost, Wire
from nodes.log.kafka.direct.fetch_requests import VERSION
from nodes.log.kafka.direct.fetched.batch_format import (
    ABORTED,
    APPEND_TIME,
    BATCH,
    CODEC,
    CONTROL,
    MAGIC,
    PARTITION,
    TRANSACTIONAL,
)
from nodes.log.kafka.direct.fetched.positions import FetchPosition
from nodes.log.kafka.direct.fetched.session import single_request
from nodes.log.kafka.direct.leaders import CONNECT_S, Wanted, addresses, find
from nodes.log.kafka.direct.security import Dialer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_MOST_MARKERS = 20
"""So many ends of transactions behind the last records are passed over."""


@dataclass(frozen=True, slots=True)
class BatchHead:
    """Of a partition's last batch; ``magic`` below 2: of a format before Kafka 0.11, of which nothing else is known.

    ``first``: its first offset. ``control``: it has no records, but ends a transaction.
    """

    first: int
    control: bool
    magic: int
    codec: str
    transactional: bool
    append_time: bool
    size: int


def last_batches(
    config: Mapping[str, Any], topic: str, ends: Mapping[int, int]
) -> tuple[dict[int, BatchHead], list[str]] | Lost:
    """By partition, of those that have records; and the brokers that lead them. ``ends``: offsets behind the last."""
    dialer = Dialer(config)
    found = find(addresses(config["bootstrap.servers"]), Wanted([topic], (), {}, {}), dialer)
    if isinstance(found, Lost):
        return found
    heads: dict[int, BatchHead] = {}
    for address in sorted(set(found.led.values())):
        wire = dialer.connect(address, CONNECT_S)
        if isinstance(wire, Lost):
            return wire
        lost = wire.lacks({FETCH: VERSION})
        for (name, partition), its in sorted(found.led.items()):
            if lost is not None or name != topic or its != address or partition not in ends:
                continue
            place = FetchPosition((name, partition), ends[partition] - 1, found.cluster.leaders[name, partition].epoch)
            head = _last(wire, place)
            if isinstance(head, Lost):
                lost = head
            elif head is not None:
                heads[partition] = head
        wire.close()
        if lost is not None:
            return lost
    return heads, sorted({f"{host}:{port}" for host, port in found.led.values()})


def _last(wire: Wire, place: FetchPosition) -> BatchHead | Lost | None:
    """Of the last batch with records, from this place back."""
    head = None
    for _ in range(_MOST_MARKERS):
        answer = wire.request(FETCH, VERSION, single_request(place))
        if isinstance(answer, Lost):
            return answer
        found = _head(Cursor(answer))
        if found is None:
            break
        head = found
        if not found.control or found.first == 0:
            break
        place.offset = found.first - 1
    return head


def _head(cursor: Cursor) -> BatchHead | None:
    """Of the first batch of an answer about one partition."""
    cursor.take(struct.calcsize(">ihii"))
    cursor.text()
    cursor.number(4)
    head = cursor.take(PARTITION.size)
    if cursor.broken:
        return None
    cursor.take(ABORTED.size * max(PARTITION.unpack(head)[5], 0))
    cursor.take(struct.calcsize(">ii"))
    batch = cursor.take(BATCH.size)
    if cursor.broken:
        return None
    first, size, _, magic, _, flags, *_ = BATCH.unpack(batch)
    if magic < MAGIC:
        flags = 0  # these bytes are others there
    codec = flags & CODEC
    name = CODECS[codec] if codec < len(CODECS) else f"codec {codec}"
    kind = (bool(flags & CONTROL), magic, name, bool(flags & TRANSACTIONAL), bool(flags & APPEND_TIME))
    return BatchHead(first, *kind, size)
