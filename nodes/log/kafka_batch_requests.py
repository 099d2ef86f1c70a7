"""The requests of a writer of batches, and their answers: who leads a partition, a producer's number, batches.

Versions before the "flexible" ones, which brokers since 2.1 take. Format: kafka.apache.org/protocol.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nodes.log.kafka_batch import Producer
from nodes.log.kafka_wire import METADATA, PRODUCE, Cursor, Lost, Wire, text

INIT_PRODUCER_ID = 22
WANTED = {PRODUCE: 7, METADATA: 5, INIT_PRODUCER_ID: 1}
"""Versions that are used here."""
_ALL_REPLICAS, _NOBODY = -1, -1
Address = tuple[str, int]
Place = tuple[str, int]
"""Topic in the broker's words, and partition."""


@dataclass(frozen=True, slots=True)
class Leaders:
    """Where the partitions of some topics are led, and what the broker says against the others."""

    addresses: Mapping[Place, Address]
    errors: Mapping[str, int]
    brokers: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """What a broker says of a batch."""

    error: int
    first_offset: int


def understood(wire: Wire) -> str | None:
    """Why the broker does not take these requests; None if it does. Waits."""
    found = wire.versions()
    if isinstance(found, Lost):
        return found.why
    for api, version in WANTED.items():
        low, high = found.get(api, (1, 0))
        if not low <= version <= high:
            return f"request {api} is taken in versions {low} to {high}, and version {version} is known here"
    return None


def ask_leaders(wire: Wire, names: Iterable[str]) -> Leaders | Lost:
    """Waits for the answer."""
    wanted = sorted(names)
    body = struct.pack(">i", len(wanted)) + b"".join(text(name) for name in wanted) + b"\0"  # makes no topic
    answer = wire.ask(METADATA, WANTED[METADATA], body)
    if isinstance(answer, Lost):
        return answer
    cursor = Cursor(answer)
    cursor.number(4)  # how long to hold back
    brokers: dict[int, Address] = {}
    for _ in range(cursor.count()):
        number, host, port = cursor.number(4), cursor.text(), cursor.number(4)
        cursor.text()  # rack
        brokers[number] = (host, port)
    cursor.text()  # cluster
    cursor.number(4)  # controller
    addresses: dict[Place, Address] = {}
    errors: dict[str, int] = {}
    for _ in range(cursor.count()):
        error, name = cursor.number(2), cursor.text()
        cursor.number(1)  # internal
        if error:
            errors[name] = error
        for _ in range(cursor.count()):
            cursor.number(2)
            partition, leader = cursor.number(4), cursor.number(4)
            for _ in range(3):  # replicas, those in sync, those that are offline
                cursor.take(4 * cursor.count())
            if leader in brokers:
                addresses[name, partition] = brokers[leader]
    if cursor.broken:
        return Lost("an answer about leaders that ends too early")
    return Leaders(addresses, errors, tuple(brokers[number] for number in sorted(brokers)))


def ask_producer(wire: Wire) -> Producer | int | Lost:
    """A new producer's number, or the error; waits."""
    answer = wire.ask(INIT_PRODUCER_ID, WANTED[INIT_PRODUCER_ID], struct.pack(">hi", -1, 0))
    if isinstance(answer, Lost):
        return answer
    cursor = Cursor(answer)
    cursor.number(4)
    error, number, epoch = cursor.number(2), cursor.number(8), cursor.number(2)
    if cursor.broken:
        return Lost("an answer about a producer that ends too early")
    return error or Producer(number, epoch)


def send_batch(wire: Wire, place: Place, data: bytes, timeout_ms: int) -> int | Lost:
    """Send it as far as the connection takes it now; the request's number."""
    name, partition = place
    head = struct.pack(">hhii", _NOBODY, _ALL_REPLICAS, timeout_ms, 1) + text(name)
    return wire.send(PRODUCE, WANTED[PRODUCE], head + struct.pack(">iii", 1, partition, len(data)), data)


def taken(data: memoryview) -> dict[Place, Taken] | Lost:
    """What the answer to ``send_batch`` says."""
    cursor, found = Cursor(data), {}
    for _ in range(cursor.count()):
        name = cursor.text()
        for _ in range(cursor.count()):
            place = name, cursor.number(4)
            found[place] = Taken(cursor.number(2), cursor.number(8))
            cursor.take(16)  # time of appending, first offset that is kept
    return Lost("an answer about a batch that ends too early") if cursor.broken else found
