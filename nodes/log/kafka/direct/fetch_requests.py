"""Fetch requests and their answers on a connection of our own: batches of some partitions of a broker, as pieces.

Batches of aborted transactions are left out. Whatever it does not know (an error, another kind of batch) ends its work
for that partition, as ``Refused``, at the exact offset where another reader has to go on.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from holon.columnar.payloads import PAD_BYTES, BinaryColumn, Places
from holon.columnar.record_parts import RecordParts
from nodes.compiled.loading import Compiled
from nodes.log.buffer_pool import Buffer, BufferPool
from nodes.log.codecs.crc32c_tables import tables
from nodes.log.kafka.append import HEADER
from nodes.log.kafka.columns import RecordRun
from nodes.log.kafka.confluent_reader import RequestedHeaders, Where
from nodes.log.kafka.direct import read_batches_table as table
from nodes.log.kafka.direct.connection import (
    FETCH,
    Answer,
    Cursor,
    Lost,
    Wire,
    text,
)
from nodes.log.kafka.direct.fetched.aborted_transactions import Checksum, batch_runs
from nodes.log.kafka.direct.fetched.batch_format import ABORTED, PARTITION
from nodes.log.kafka.direct.fetched.inflate import INFLATED_BYTES, inflated

VERSION = 11
"""The last of the old form. Since 9 a request names the leader's epoch, so that another leader refuses it."""
PARTITION_BYTES = 6 << 20
"""The most that a fetch requests of a partition: some 18,000 records of 333 bytes, nearly all that a node takes of one
in a step. With 2 MB a backlog costs up to a third more, as each step and each delta has its price."""
_LEAST_BYTES = 2 << 20
ANSWER_BYTES = 16 << 20
_SLACK = 32
"""By such a part batches may be larger than the one before."""
BUFFER_BYTES = ANSWER_BYTES + (64 << 10)
_SPARE = 4
SMALL_BYTES = 64 << 10
"""Less than this has a buffer of its own: a partition with little traffic must not hold a large one."""
_READ_COMMITTED = 1
_BATCH = struct.Struct(">qi")  # a batch begins with its first offset and how many bytes follow
_NAME = int.from_bytes(HEADER.encode(), "little")
assert len(HEADER) == 5, "the compiled walk finds a name of five bytes"
_NOT_READ = {
    table.OTHER_MAGIC: "a batch of a format before Kafka 0.11",
    table.DAMAGED: "a batch whose checksum is wrong",
    table.COMPRESSED: f"a compressed batch of more than {INFLATED_BYTES >> 20} MB, or of a damaged one, or cramjam is "
    f"missing (pip install 'holon-streams[fast]')",
    table.BROKEN: "a batch that contradicts itself",
}
"""By the status of a walk, in words."""
SILENT_S = 3.0
"""After so long without an answer, beyond the throttle time that the broker has announced, the request is retried."""
_MOVED = frozenset([5, 6, 9, 56, 74, 75])
"""No leader, another leader, no replica, a disk that failed, an old and an unknown epoch: a search follows."""


@dataclass(slots=True)
class FetchPosition:
    """The position of reading a partition. ``epoch`` of its leader; ``read_epoch`` of the last batch, -1: not known.

    ``batch_bytes``: of the last batch that an answer cut off, 0: none yet. ``inflation``: how much larger plain records
    are than the compressed ones that were read. ``behind``: whether the leader may have more than the last answer.
    """

    where: Where
    offset: int
    epoch: int
    read_epoch: int = -1
    batch_bytes: int = 0
    inflation: float = 1.0
    behind: bool = True

    def inflates(self, packed: int, plain: int) -> None:
        """So many bytes were so many plain ones."""
        self.inflation = max(1.0, plain / packed)

    def cut_off(self, rest: memoryview) -> None:
        """An answer ended with this part of a batch."""
        if len(rest) >= _BATCH.size:
            self.batch_bytes = max(0, _BATCH.unpack_from(rest)[1]) + _BATCH.size

    def fetch_bytes(self, places: int) -> int:
        """The maximum bytes to request for it, where it is one of so many partitions with more to read.

        A broker cuts its answer at that limit, even within a batch, and the part of that batch is sent for nothing: a
        third of the answer for batches of 1.4 MB and a limit of 2 MB. So the limit is a multiple of the last batch's
        size, as many as there is room for, at least one.
        """
        share = min(PARTITION_BYTES, max(ANSWER_BYTES // places, _LEAST_BYTES))
        share = max(int(share / self.inflation), min(share, SMALL_BYTES))
        if not self.batch_bytes:
            return share
        each = self.batch_bytes + self.batch_bytes // _SLACK
        return min(max(1, share // each) * each, ANSWER_BYTES)


class Refused(NamedTuple):
    """This partition is no longer read here. ``moved``: another broker leads it, or will."""

    place: FetchPosition
    why: str
    moved: bool = False


class Passed(NamedTuple):
    """Up to here there are no more records: control records, or what compaction has left out."""

    where: Where
    offset: int


Found = tuple[str, int, RecordRun] | Passed | Refused


class Fetcher:
    """One connection and the partitions that are read over it. One request at a time: the broker takes no second one.

    ``requested_headers``: topics whose records are wanted with parts; ``bare``: one whose identities nobody reads.
    """

    def __init__(
        self, wire: Wire, loops: Compiled, requested_headers: RequestedHeaders, bare: str | None, wait_ms: int
    ) -> None:
        self.wire = wire
        self.places: dict[Where, FetchPosition] = {}
        self._loops = loops
        self._requested_headers = requested_headers
        self._bare = bare
        self._wait_ms = wait_ms
        self._memory = BufferPool(BUFFER_BYTES, _SPARE)
        self._requested: dict[Where, FetchPosition] | None = None
        self._number = 0
        self._turn = 0
        self._buffer = np.empty(0, np.uint8)
        self._tables = tables()
        self._row = np.zeros(table.FOUND, np.int64)
        self._silent_s = SILENT_S
        self._until_s = float("inf")
        self._throttled_s = 0.0

    def add(self, place: FetchPosition) -> None:
        """Read this partition too; from the next request on."""
        self.places[place.where] = place

    def remove(self, where: Where) -> FetchPosition | None:
        """Read it no longer; what is on its way of it is dropped."""
        return self.places.pop(where, None)

    def take(self) -> list[Found] | Lost:
        """The records that have arrived; requests more."""
        found: list[Found] = []
        lost = self.wire.flush()
        if lost is None and self._requested is not None:
            answer = self.wire.receive(self._room)
            if isinstance(answer, Lost):
                return answer
            if answer is not None:
                requested, self._requested = self._requested, None
                if answer.number != self._number:
                    return Lost(f"answer {answer.number} to request {self._number}")
                lost = self._read(answer, requested, found)
            elif time.monotonic() > self._until_s:
                return Lost(f"no answer for {self._silent_s:.0f} s")
        if lost is None and self._requested is None and self.places:
            lost = self._request()
        if lost is not None and not found:
            return lost
        return found  # if the connection was lost too, the next call returns that

    def _request(self) -> Lost | None:
        """In turn another partition is the first: the broker gives at least a batch of that one, however large."""
        self._turn += 1
        first = self._turn % len(self.places)
        order = list(self.places.values())
        self._requested = {place.where: place for place in order[first:] + order[:first]}
        number = self.wire.send(FETCH, VERSION, fetch_request(list(self._requested.values()), self._wait_ms))
        if isinstance(number, Lost):
            return number
        self._number = number
        self._until_s = time.monotonic() + self._silent_s + self._throttled_s
        return None

    def _room(self, size: int) -> memoryview:
        self._buffer = self._acquire(size)
        return self._buffer.data

    def _acquire(self, size: int) -> Buffer:
        pooled = SMALL_BYTES <= size <= BUFFER_BYTES - PAD_BYTES
        return self._memory.acquire() if pooled else np.empty(size + PAD_BYTES, np.uint8)

    # --- answers -----------------------------------------------------------------------------------------------------

    def _read(self, answer: Answer, requested: dict[Where, FetchPosition], found: list[Found]) -> Lost | None:
        cursor = Cursor(answer.data)
        self._throttled_s = max(0, cursor.number(4)) / 1000  # the broker takes no request before that is over
        error = cursor.number(2)
        cursor.number(4)
        if error:
            return Lost(f"the broker answers with error {error}")
        for _ in range(cursor.count()):
            topic = cursor.text()
            for _ in range(cursor.count()):
                head = cursor.take(PARTITION.size)
                if cursor.broken:
                    return Lost("an answer that breaks off")
                partition, error, _, stable_offset, _, aborted = PARTITION.unpack(head)
                gone = cursor.take(ABORTED.size * max(aborted, 0))
                cursor.number(4)
                size = max(cursor.number(4), 0)
                at = cursor.at
                cursor.take(size)
                if cursor.broken:
                    return Lost("an answer that breaks off")
                place = requested.get((topic, partition))
                if place is not None and self.places.get(place.where) is place:
                    found += self._of(place, error, gone, at, at + size)
                    place.behind = place.offset < stable_offset
        return Lost("an answer that breaks off") if cursor.broken else None

    def _of(self, place: FetchPosition, error: int, aborted: memoryview, at: int, end: int) -> Iterator[Found]:
        if error:
            yield self._refuse(place, f"the broker answers with error {error}", error in _MOVED)
        elif not len(aborted):
            yield from self._batches(place, at, end)
        else:
            for run in batch_runs(self._buffer.data, at, end, aborted, self._checksum()):
                if not run.aborted:
                    yield from self._batches(place, run.at, run.end)
                elif run.next_offset > place.offset:
                    place.offset, place.read_epoch = run.next_offset, run.epoch
                    yield Passed(place.where, place.offset)
                if self.places.get(place.where) is not place:
                    return

    def _checksum(self) -> Checksum:
        """Of bytes of the answer. An array's address is dear, and small batches are many."""
        crc32c, begin, tables_at = self._loops.crc32c, self._buffer.ctypes.data, self._tables.ctypes.data
        return lambda at, end: crc32c(begin + at, end - at, tables_at) & 0xFFFFFFFF

    def _batches(self, place: FetchPosition, at: int, end: int) -> Iterator[Found]:
        if at < end:
            place.inflation = 1.0
        while at < end:
            yield from self._run(place, self._buffer, at, end, self._tables.ctypes.data)
            status = int(self._row[table.STATUS])
            if status == table.COMPRESSED:
                packed_at = int(self._row[table.AT])
                at, buffer, size = self._inflated(packed_at, end)
                if size:
                    place.inflates(at - packed_at, size)
                    yield from self._run(place, buffer, 0, size, 0)
                    status = int(self._row[table.STATUS])
                    if status == table.DONE:
                        continue
            if status != table.DONE:
                yield self._refuse(place, _NOT_READ[status])
            return

    def _inflated(self, at: int, end: int) -> tuple[int, Buffer, int]:
        """The place behind compressed batches, and a buffer that has so many bytes of them with plain records.

        Many are inflated where they stay: a copy of each, and pages for both, cost a fifth of the codec's own time.
        """
        data, checksum = self._buffer.data, self._checksum()
        if end - at >= SMALL_BYTES:
            buffer = self._memory.acquire()
            behind, plain = inflated(data, at, end, checksum, buffer.data[:-PAD_BYTES])
            if len(plain):
                return behind, buffer, len(plain)
        behind, plain = inflated(data, at, end, checksum)
        buffer = self._acquire(len(plain))
        buffer[: len(plain)] = plain
        return behind, buffer, len(plain)

    def _run(self, place: FetchPosition, buffer: Buffer, at: int, end: int, sums: int) -> Iterator[Found]:
        """Records of whole batches up to one that cannot be walked; ``self._row`` gets the findings."""
        piece = self._walked(place, buffer, at, end, sums)
        behind = int(self._row[table.NEXT])
        if self._row[table.EPOCH] >= 0:
            place.read_epoch = int(self._row[table.EPOCH])
        if self._row[table.STATUS] == table.DONE:
            place.cut_off(buffer.data[int(self._row[table.AT]) : end])
        before, place.offset = place.offset, behind
        if piece is not None:
            yield *place.where, piece
        if behind > (before if piece is None else int(piece.offsets[-1]) + 1):
            yield Passed(place.where, behind)

    def _refuse(self, place: FetchPosition, why: str, moved: bool = False) -> Refused:
        del self.places[place.where]
        return Refused(place, why, moved)

    def _walked(self, place: FetchPosition, buffer: Buffer, at: int, end: int, sums: int) -> RecordRun | None:
        """The records in that range of the buffer; ``self._row`` gets the findings."""
        address = buffer.ctypes.data
        height = self._loops.count_records(address + at, address + end)
        fields = np.empty((table.NARROW, height), np.int64)
        rows = self._walk(place, buffer, at, end, fields, 0, sums)
        if rows == 0:
            return None
        headers = keys = parts = None
        names, some = self._requested_headers.get(place.where[0]), int(self._row[table.BESIDE])
        if some and (names is not None or some & table.SOME_BESIDE):
            width = table.WIDTH if names is None else table.WHOLE
            fields = np.empty((width, height), np.int64)
            rows = self._walk(place, buffer, at, end, fields, 1 if names is None else 2, 0)
            headers, keys = _beside(buffer, fields[:, :rows], place.where[0] == self._bare)
            if names is not None:
                parts = self._parts(buffer, fields, rows, keys, names)
        values = BinaryColumn(buffer, fields[table.START, :rows], fields[table.END, :rows])
        size = values.size + (0 if headers is None else headers.size) + sum(len(key or b"") for key in keys or ())
        return RecordRun(fields[table.OFFSET, :rows], fields[table.STAMP, :rows], values, headers, keys, size, parts)

    def _parts(
        self, buffer: Buffer, fields: Places, rows: int, keys: list[bytes | None] | None, names: Collection[str]
    ) -> RecordParts:
        """The requested parts of the records of a table with all columns."""
        columns: dict[str, list[bytes | None]] = {}
        for name in names:
            word, places = np.frombuffer(name.encode() or b"\0", np.uint8), np.empty((2, rows), np.int64)
            self._loops.find_header(
                buffer.ctypes.data, fields.ctypes.data, fields.shape[1], rows, word.ctypes.data, len(name.encode()),
                places.ctypes.data,
            )  # fmt: skip
            columns[name] = _with_none(buffer, places[0], places[1])
        nulls = fields[table.SIZE, :rows] < 0
        return RecordParts(keys, columns, nulls if nulls.any() else None)

    def _walk(
        self, place: FetchPosition, buffer: Buffer, at: int, end: int, fields: Places, beside: int, sums: int
    ) -> int:
        return self._loops.walk(
            buffer.ctypes.data, at, end, place.offset, fields.ctypes.data, fields.shape[1], beside, _NAME, sums,
            self._row.ctypes.data,
        )  # fmt: skip


def _beside(buffer: Buffer, fields: Places, bare: bool) -> tuple[BinaryColumn | None, list[bytes | None] | None]:
    """Headers and keys of the records in the table."""
    headers = keys = None
    if not bare and (fields[table.HEADER_END] > fields[table.HEADER_START]).any():
        headers = BinaryColumn(buffer, fields[table.HEADER_START], fields[table.HEADER_END])
    starts = fields[table.KEY_START]
    if (starts >= 0).any():
        keys = _with_none(buffer, starts, fields[table.KEY_END])
    return headers, keys


def _with_none(buffer: Buffer, starts: Places, ends: Places) -> list[bytes | None]:
    """The bytes between these places; None where the start is -1."""
    found = BinaryColumn(buffer, np.maximum(starts, 0), np.where(starts < 0, 0, ends))
    return [value if at >= 0 else None for value, at in zip(found, starts.tolist(), strict=True)]


def fetch_request(places: list[FetchPosition], wait_ms: int) -> bytes:
    """For the records from these places on; the broker waits at most so long for the first.

    Partitions that were read to their end, as most of a job's own topics, take no share of the answer's bytes.
    """
    sharing = sum(place.behind for place in places) or len(places)
    by_topic: dict[str, list[FetchPosition]] = {}
    for place in places:
        by_topic.setdefault(place.where[0], []).append(place)
    parts = [struct.pack(">iiiibiii", -1, wait_ms, 1, ANSWER_BYTES, _READ_COMMITTED, 0, -1, len(by_topic))]
    for topic, its in by_topic.items():
        parts += [text(topic), struct.pack(">i", len(its))]
        parts += [
            struct.pack(">iiqqi", place.where[1], place.epoch, place.offset, -1, place.fetch_bytes(sharing))
            for place in its
        ]
    return b"".join([*parts, struct.pack(">i", 0), text("")])
