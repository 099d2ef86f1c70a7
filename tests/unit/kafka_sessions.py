"""A broker that keeps a session of fetch requests, by the rules of KIP-227, for tests."""

from __future__ import annotations

import struct
from typing import Any

from nodes.log.kafka.direct.connection import Answer, Cursor, Wire, text
from nodes.log.kafka.direct.fetched.batch_format import PARTITION
from nodes.log.kafka.direct.fetched.session import FORGOTTEN, OTHER_EPOCH
from tests.unit.kafka_batches import Row, batch

TOPICS, PARTITIONS = ("control", "deltas", "events"), 4
Where = tuple[str, int]
ALL = [(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
_NO_LEADER = 6
OUT_OF_RANGE = 1


class SessionBroker(Wire):
    """Has logs of batches and one session; gives at most ``room_bytes`` an answer, and at least a batch.

    ``refuses``: the next request gets this error. ``named``: of each request its session's epoch, how many partitions
    it has, and how many it forgets. ``given``: how many partitions its answer has. ``leaves``: partitions for which it
    has an ``error``; ``withholds``: those of which no record is given.
    """

    def __init__(self, room_bytes: int = 1 << 20) -> None:
        self.logs: dict[Where, list[bytes]] = {where: [] for where in ALL}
        self.ends = dict.fromkeys(ALL, 0)
        self.keeps, self.refuses, self.leaves, self.withholds = True, 0, set[Where](), set[Where]()
        self.error = _NO_LEADER
        self.session, self.epoch = 0, 0
        self.named: list[tuple[int, int, int]] = []
        self.given: list[int] = []
        self._room_bytes, self._body = room_bytes, b""
        self._known: dict[Where, int] = {}  # offsets, in the order in which answers are made
        self._said: dict[Where, int] = {}

    def append(self, where: Where, count: int) -> None:
        """A batch of so many records; each says where it is."""
        base = self.ends[where]
        rows = [Row(base + k, 0, f"{where} {base + k}".encode()) for k in range(count)]
        self.ends[where] = base + count
        self.logs[where].append(batch(rows, base=base, last=base + count - 1))

    def forget(self, where: Where) -> None:
        """As a broker whose session and whose client's differ: it gives nothing of the partition until it is named."""
        self._known.pop(where, None)

    def flush(self) -> None:
        return None

    def close(self) -> None:
        pass

    def send(self, api: int, version: int, *parts: Any) -> int:
        cursor = Cursor(b"".join(parts))
        cursor.take(struct.calcsize(">iiiib"))
        session, epoch = cursor.number(4), cursor.number(4)
        wanted: dict[Where, int] = {}
        for _ in range(cursor.number(4)):
            topic = cursor.text()
            for _ in range(cursor.number(4)):
                partition, _, offset, *_ = (cursor.number(size) for size in (4, 4, 8, 8, 4))
                wanted[topic, partition] = offset
        gone: list[Where] = []
        for _ in range(cursor.number(4)):
            topic = cursor.text()
            gone += [(topic, cursor.number(4)) for _ in range(cursor.number(4))]
        assert cursor.text() == "" and not cursor.broken
        self.named.append((epoch, len(wanted), len(gone)))
        error = self.refuses
        if not error and epoch > 0 and (session, epoch) != (self.session, self.epoch):
            error = FORGOTTEN if session != self.session else OTHER_EPOCH
        if error:
            self.refuses = 0
            self._body = struct.pack(">ihii", 0, error, 0, 0)
        else:
            self._body = self._answer(epoch == 0, wanted, gone)
        return 1

    def _answer(self, full: bool, wanted: dict[Where, int], gone: list[Where]) -> bytes:
        if full:
            self.session, self.epoch = self.session + self.keeps, 0
            self._known, self._said = {}, {}
        for where in gone:
            self._known.pop(where, None)
        self._known |= wanted
        self.epoch += 1
        parts, left = list[bytes](), self._room_bytes
        for where, offset in list(self._known.items()):
            data = b""
            for one in () if where in self.withholds else self.logs[where]:
                base, last = struct.unpack_from(">q", one)[0], struct.unpack_from(">i", one, 23)[0]
                if base + last >= offset and (len(one) <= left or left == self._room_bytes):
                    data, left = data + one, left - len(one)
                elif base + last >= offset:
                    break
            error, end = self.error if where in self.leaves else 0, self.ends[where]
            if full or data or error or self._said.get(where) != end:
                head = PARTITION.pack(where[1], error, end, end, 0, -1)
                data = b"" if error else data
                parts.append(text(where[0]) + struct.pack(">i", 1) + head + struct.pack(">ii", -1, len(data)) + data)
                self._said[where] = end
                if data:
                    self._known[where] = self._known.pop(where)
        self.given.append(len(parts))
        return struct.pack(">ihii", 0, 0, self.session if self.keeps else 0, len(parts)) + b"".join(parts)

    def receive(self, room: Any) -> Answer:
        into = room(len(self._body))[: len(self._body)]
        into[:] = self._body
        return Answer(1, into)
