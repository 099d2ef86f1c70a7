"""The requests of a writer of batches, and their answers: a producer's number, batches.

Versions before the "flexible" ones, which brokers since 2.1 take. Format: kafka.apache.org/protocol.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from nodes.log.kafka.direct.connection import (
    METADATA,
    METADATA_VERSION,
    PRODUCE,
    Cursor,
    Lost,
    PartitionName,
    Wire,
    text,
)
from nodes.log.kafka.direct.record_batch import Producer

INIT_PRODUCER_ID = 22
WANTED = {PRODUCE: 7, METADATA: METADATA_VERSION, INIT_PRODUCER_ID: 1}
"""Versions that are used here."""
_ALL_REPLICAS, _NOBODY = -1, -1
_NOT_YET = frozenset([7, 14, 15, 16])
"""Too late, numbers are being fetched from the controller, no broker assigns them: to be retried."""
_PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Taken:
    """A broker's answer to one batch."""

    error: int
    first_offset: int


def request_producer_id(wire: Wire, patience_s: float) -> Producer | int | Lost:
    """A new producer's number, or the error; waits, also for a broker that has none just now."""
    until_s = time.monotonic() + patience_s
    while (found := _request_producer_id(wire)) in _NOT_YET and time.monotonic() < until_s:
        time.sleep(_PAUSE_S)
    return found


def _request_producer_id(wire: Wire) -> Producer | int | Lost:
    answer = wire.request(INIT_PRODUCER_ID, WANTED[INIT_PRODUCER_ID], struct.pack(">hi", -1, 0))
    if isinstance(answer, Lost):
        return answer
    cursor = Cursor(answer)
    cursor.number(4)
    error, number, epoch = cursor.number(2), cursor.number(8), cursor.number(2)
    if cursor.broken:
        return Lost("an answer about a producer that ends too early")
    return error or Producer(number, epoch)


def send_batches(wire: Wire, batches: Sequence[tuple[PartitionName, bytes]], timeout_ms: int) -> int | Lost:
    """Send them, one of a partition, as far as the connection takes them now; the request's number."""
    by_topic: dict[str, list[tuple[int, bytes]]] = {}
    for (name, partition), data in batches:
        by_topic.setdefault(name, []).append((partition, data))
    head, parts = struct.pack(">hhii", _NOBODY, _ALL_REPLICAS, timeout_ms, len(by_topic)), []
    for name, its in by_topic.items():
        head += text(name) + struct.pack(">i", len(its))
        for partition, data in its:
            parts += [head + struct.pack(">ii", partition, len(data)), data]
            head = b""
    return wire.send(PRODUCE, WANTED[PRODUCE], *parts)


def taken(data: memoryview) -> dict[PartitionName, Taken] | Lost:
    """The contents of the answer to ``send_batches``."""
    cursor, found = Cursor(data), {}
    for _ in range(cursor.count()):
        name = cursor.text()
        for _ in range(cursor.count()):
            place = name, cursor.number(4)
            found[place] = Taken(cursor.number(2), cursor.number(8))
            cursor.take(16)  # time of appending, first offset that is kept
    return Lost("an answer about a batch that ends too early") if cursor.broken else found
