"""A connection of our own to a Kafka broker: numbered requests, and their answers as they lie in a buffer.

For what librdkafka's objects are too slow for; it knows requests of the old form (before
"flexible" versions), which all brokers since 2.3 take. A failure is a value, ``Lost``: the caller
connects again or leaves it to confluent-kafka. Format: kafka.apache.org/protocol.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

PRODUCE, FETCH, METADATA, API_VERSIONS, EPOCH_ENDS = 0, 1, 3, 18, 23
_REQUEST = struct.Struct(">ihhi")  # bytes that follow, request type, its version, number
_ANSWER = struct.Struct(">ii")  # bytes that follow, number
_NUMBER_BYTES = 4
_MOST_BYTES = 1 << 30
"""No answer of Kafka is larger: a larger length is garbage."""
_VECTORS = 64
_ROUSE_BYTES = 1 << 20

METADATA_VERSION = 7
"""The first with leaders' epochs."""
EPOCH_ENDS_VERSION = 3
Address = tuple[str, int]
PartitionName = tuple[str, int]
"""Topic in the broker's words, and partition."""
Room = Callable[[int], memoryview]
"""Gives a buffer of at least so many bytes for an answer."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection cannot be used any more."""

    why: str


@dataclass(frozen=True, slots=True)
class Unserved(Lost):
    """The broker has answered, and does not take requests of these versions: a retry would not help."""


class Answer(NamedTuple):
    """``data`` is the answer without its number, in the buffer that ``room`` gave."""

    number: int
    data: memoryview


def text(value: str) -> bytes:
    """A string as Kafka writes it."""
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


class Cursor:
    """Reads an answer from its start. Behind the end everything is 0 and empty, and ``broken`` is set."""

    def __init__(self, data: memoryview | bytes) -> None:
        self._data = memoryview(data)
        self.at = 0
        self.broken = False

    def take(self, count: int) -> memoryview:
        """So many bytes."""
        if not 0 <= count <= len(self._data) - self.at:
            self.broken = True
            return memoryview(b"")
        self.at += count
        return self._data[self.at - count : self.at]

    def number(self, count: int) -> int:
        """Signed, of so many bytes."""
        return int.from_bytes(self.take(count), "big", signed=True)

    def count(self) -> int:
        """Length of an array; of one that is missing 0. More than there are bytes left is no length."""
        found = self.number(4)
        if found > len(self._data) - self.at:
            self.broken = True
            return 0
        return max(found, 0)

    def text(self) -> str:
        """A string; a missing one is empty."""
        return bytes(self.take(max(self.number(2), 0))).decode("utf-8", "replace")


class Socket(Protocol):
    """The methods used of a socket. A call that would wait raises ``BlockingIOError`` where it must not."""

    def sendmsg(self, buffers: list[memoryview], /) -> int: ...
    def recv_into(self, into: memoryview, /) -> int: ...
    def setsockopt(self, level: int, option: int, value: int, /) -> None: ...
    def setblocking(self, flag: bool, /) -> None: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...


class Wire:
    """One connection, used by one thread at a time. After ``without_waiting`` only ``request`` waits."""

    arrived: int = 0
    """So many bytes of the next answer are here, and not all."""

    def __init__(self, connected: Socket, client_id: str) -> None:
        self._socket = connected
        self._client = text(client_id)
        self._next = 0
        self._unsent: deque[memoryview] = deque()
        self._head = bytearray(_ANSWER.size)
        self._number = 0
        self._body: memoryview | None = None
        self._rouses_at = 1

    @classmethod
    def connect(
        cls,
        host: str,
        port: int,
        client_id: str,
        timeout_s: float,
        secured: Callable[[socket.socket, str], Socket] | None = None,
    ) -> Wire | Lost:
        """Waits for it at most so long (and for the name of the host as long as the system does).

        ``secured`` makes the socket one by TLS to that host. It raises ``ValueError`` where it never can, ``OSError``
        where it cannot now.
        """
        try:
            plain = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            return Lost(f"{host}:{port}: {error}")
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if secured is None:
            return cls(plain, client_id)
        try:
            return cls(secured(plain, host), client_id)
        except (OSError, ValueError) as error:
            plain.close()
            return (Unserved if isinstance(error, ValueError) else Lost)(f"{host}:{port}: TLS: {error}")

    def without_waiting(self) -> None:
        """From now on nothing waits."""
        self._socket.setblocking(False)

    def fileno(self) -> int:
        """For ``poll``."""
        return self._socket.fileno()

    def close(self) -> None:
        """Safe to call twice."""
        self._socket.close()

    # --- requests ----------------------------------------------------------------------------------------------------

    def send(self, api: int, version: int, *parts: bytes | memoryview) -> int | Lost:
        """Send a request, as far as it goes now (``flush`` goes on); its number. The parts must stay."""
        self._next = (self._next + 1) & 0x7FFFFFFF
        size = _REQUEST.size - _NUMBER_BYTES + len(self._client) + sum(memoryview(part).nbytes for part in parts)
        head = _REQUEST.pack(size, api, version, self._next) + self._client
        self._unsent += [memoryview(part).cast("B") for part in (head, *parts) if len(part)]
        lost = self.flush()
        return self._next if lost is None else lost

    @property
    def unsent(self) -> bool:
        """Whether something waits until the socket takes more."""
        return bool(self._unsent)

    def flush(self) -> Lost | None:
        """Send what is left, as far as it goes."""
        try:
            while self._unsent:
                sent = self._socket.sendmsg([self._unsent[k] for k in range(min(len(self._unsent), _VECTORS))])
                while self._unsent and sent >= len(self._unsent[0]):
                    sent -= len(self._unsent.popleft())
                if sent:
                    self._unsent[0] = self._unsent[0][sent:]
        except BlockingIOError:
            return None
        except OSError as error:
            return Lost(f"sending: {error}")
        return None

    # --- answers -----------------------------------------------------------------------------------------------------

    def receive(self, room: Room) -> Answer | Lost | None:
        """The next answer; None if it is not here as a whole yet. ``room`` is called once for each."""
        try:
            if self._body is None:
                if not self._fill(memoryview(self._head)):
                    return None
                size, self._number = _ANSWER.unpack(self._head)
                if not _NUMBER_BYTES <= size <= _MOST_BYTES:
                    return Lost(f"an answer of {size} bytes")
                self._body = room(size - _NUMBER_BYTES)[: size - _NUMBER_BYTES]
                self.arrived = 0
            if not self._fill(self._body):
                return None
        except BlockingIOError:
            return None
        except OSError as error:
            return Lost(f"receiving: {error}")
        except EOFError:
            return Lost("the broker has closed the connection")
        answer = Answer(self._number, self._body)
        self._body, self.arrived = None, 0
        return answer

    def rouse_late(self) -> None:
        """Before waiting: ``poll`` ends when much of what is missing of an answer is here, not for each packet."""
        missing = 1 if self._body is None else max(1, min(len(self._body) - self.arrived, _ROUSE_BYTES))
        if missing != self._rouses_at:
            self._rouses_at = missing
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, missing)

    def _fill(self, into: memoryview) -> bool:
        while self.arrived < len(into):
            count = self._socket.recv_into(into[self.arrived :])
            if count == 0:
                raise EOFError
            self.arrived += count
        return True

    def request(self, api: int, version: int, *parts: bytes) -> bytes | Lost:
        """Send a request and wait for its answer; nothing else is on its way."""
        number = self.send(api, version, *parts)
        if isinstance(number, Lost):
            return number
        answer = self.receive(lambda size: memoryview(bytearray(size)))
        if not isinstance(answer, Answer):
            return answer or Lost("no answer in time")
        return bytes(answer.data) if answer.number == number else Lost(f"answer {answer.number} to request {number}")

    def versions(self) -> dict[int, tuple[int, int]] | Lost:
        """Lowest and highest version of each request that the broker takes; waits."""
        answer = self.request(API_VERSIONS, 0)
        if isinstance(answer, Lost):
            return answer
        cursor = Cursor(answer)
        error = cursor.number(2)
        found = {cursor.number(2): (cursor.number(2), cursor.number(2)) for _ in range(cursor.count())}
        return Lost(f"versions of requests: error {error}") if error or cursor.broken else found

    def lacks(self, wanted: Mapping[int, int]) -> Lost | None:
        """Why the broker does not take these requests in these versions; None if it does. Waits."""
        known = self.versions()
        if isinstance(known, Lost):
            return known
        for api, version in wanted.items():
            low, high = known.get(api, (0, -1))
            if not low <= version <= high:
                return Unserved(f"the broker takes request {api} in versions {low} to {high}, not {version}")
        return None


class Leader(NamedTuple):
    """The leader of a partition; ``error`` is the broker's number, 0 if there is none."""

    error: int
    host: str
    port: int
    epoch: int


class Cluster(NamedTuple):
    """A broker's knowledge of some topics: ``leaders`` by topic and partition, errors of topics, and all brokers."""

    leaders: dict[tuple[str, int], Leader]
    errors: dict[str, int]
    brokers: tuple[Address, ...]


def fetch_cluster(wire: Wire, topics: Iterable[str]) -> Cluster | Lost:
    """Waits for the answer; makes no topic."""
    wanted = sorted(topics)
    body = struct.pack(">i", len(wanted)) + b"".join(text(topic) for topic in wanted) + b"\0"
    answer = wire.request(METADATA, METADATA_VERSION, body)
    if isinstance(answer, Lost):
        return answer
    cursor = Cursor(answer)
    cursor.number(4)  # how long to hold back
    brokers: dict[int, Address] = {}
    for _ in range(cursor.count()):
        number = cursor.number(4)
        brokers[number] = cursor.text(), cursor.number(4)
        cursor.text()  # its rack
    cursor.text()  # the cluster's name
    cursor.number(4)  # who controls it
    found: dict[tuple[str, int], Leader] = {}
    errors: dict[str, int] = {}
    for _ in range(cursor.count()):
        topic_error, topic = cursor.number(2), cursor.text()
        if topic_error:
            errors[topic] = topic_error
        cursor.number(1)  # internal
        for _ in range(cursor.count()):
            error, partition, leader, epoch = cursor.number(2), cursor.number(4), cursor.number(4), cursor.number(4)
            for _ in range(3):  # replicas, those in sync, those that are away
                cursor.take(4 * cursor.count())
            found[topic, partition] = Leader(topic_error or error, *brokers.get(leader, ("", 0)), epoch)
    if cursor.broken:
        return Lost("an answer about leaders that is none")
    return Cluster(found, errors, tuple(brokers[number] for number in sorted(brokers)))


class EpochEnd(NamedTuple):
    """Where a leader's log has the end of an epoch; ``offset`` -1: it does not know."""

    error: int
    epoch: int
    offset: int


def fetch_epoch_ends(
    wire: Wire, epochs: Mapping[tuple[str, int], tuple[int, int]]
) -> dict[tuple[str, int], EpochEnd] | Lost:
    """Of each topic and partition, where the last record of an epoch lies; given the leader's epoch and that one.

    A record that was read beyond that end is not on the leader's log (KIP-320). Waits.
    """
    by_topic: dict[str, list[bytes]] = {}
    for (topic, partition), (current, wanted) in sorted(epochs.items()):
        by_topic.setdefault(topic, []).append(struct.pack(">iii", partition, current, wanted))
    parts = [struct.pack(">ii", -1, len(by_topic))]
    for topic, rows in by_topic.items():
        parts += [text(topic), struct.pack(">i", len(rows)), *rows]
    answer = wire.request(EPOCH_ENDS, EPOCH_ENDS_VERSION, b"".join(parts))
    if isinstance(answer, Lost):
        return answer
    cursor, found = Cursor(answer), {}
    cursor.number(4)  # how long to hold back
    for _ in range(cursor.count()):
        topic = cursor.text()
        for _ in range(cursor.count()):
            error, partition = cursor.number(2), cursor.number(4)
            found[topic, partition] = EpochEnd(error, cursor.number(4), cursor.number(8))
    return Lost("an answer about epochs that is none") if cursor.broken else found


def leaders(wire: Wire, topic: str) -> dict[int, Leader] | Lost:
    """The leaders of a topic's partitions, as this broker knows them; waits."""
    found = fetch_cluster(wire, [topic])
    return found if isinstance(found, Lost) else {number: leader for (_, number), leader in found.leaders.items()}
