"""Fetch requests and their answers on a connection of our own: batches of some partitions of a broker, as pieces.

Batches of aborted transactions are left out. Whatever it does not know (an error, another kind of batch) ends its work
for that partition, as ``Refused``, at the exact offset where another reader has to go on.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from holon.columnar.payloads import PAD_BYTES, BinaryColumn, Places
from holon.columnar.record_parts import RecordParts
from nodes.compiled.loading import Compiled
from nodes.log.buffer_pool import Buffer, BufferPool
from nodes.log.codecs.crc32c_tables import tables
from nodes.log.kafka.append import HEADER
from nodes.log.kafka.columns import RecordRun
from nodes.log.kafka.confluent_reader import BUSY_BYTES, RequestedHeaders, Where
from nodes.log.kafka.direct import read_batches_table as table
from nodes.log.kafka.direct.connection import FETCH, Lost, Wire
from nodes.log.kafka.direct.fetched.aborted_transactions import Checksum, batch_runs
from nodes.log.kafka.direct.fetched.batch_format import ABORTED, PARTITION
from nodes.log.kafka.direct.fetched.inflate import INFLATED_BYTES, inflated, is_compressed
from nodes.log.kafka.direct.fetched.positions import ANSWER_BYTES, SMALL_BYTES, FetchPosition
from nodes.log.kafka.direct.fetched.session import FetchSession

VERSION = 11
"""The last of the old form. Since 9 a request names the leader's epoch, so that another leader refuses it."""
BUFFER_BYTES = ANSWER_BYTES + (64 << 10)
_SPARE = 4
_SPARE_PLAIN = 32
"""Buffers of inflated records that are kept while a backlog needs them: the system clears each page of a new one."""
_IDLE_S = 2.0
PLAIN_BYTES = 32 << 20
"""So many bytes of a partition are inflated of one answer: a small one may hold any number of equal records."""
_ANSWER = struct.Struct(">ihii")
"""An answer begins with its throttle time, an error, its session and the number of topics."""
_TOPIC = struct.Struct(">h")
_PARTITIONS = struct.Struct(">i")
_RECORDS = struct.Struct(">ii")
"""Behind aborted transactions: another replica to read from, and how many bytes of records follow."""
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
SLOW_S = 0.1
"""An answer that has been arriving for so long holds back what is behind it. Each one with records comes in pieces."""
_MOVED = frozenset([5, 6, 9, 56, 74, 75])
"""No leader, another leader, no replica, a disk that failed, an old and an unknown epoch: a search follows."""


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
        self._paused: set[Where] = set()
        self._loops = loops
        self._requested_headers = requested_headers
        self._bare = bare
        self._session = FetchSession(wait_ms)
        self._memory = BufferPool(BUFFER_BYTES, _SPARE)
        self._plain_memory = BufferPool(BUFFER_BYTES, _SPARE_PLAIN, at_rest=_SPARE)
        self._trimmed_s = 0.0
        self._number: int | None = None
        self._buffer = np.empty(0, np.uint8)
        self._tables = tables()
        self._row = np.zeros(table.FOUND, np.int64)
        # The address of an array is dear, and small batches are many.
        self._tables_at, self._row_at = self._tables.ctypes.data, self._row.ctypes.data
        self._silent_s = SILENT_S
        self._until_s = float("inf")
        self._throttled_s = 0.0
        self._arrived, self._arriving_s = 0, 0.0
        self.held_s = float("-inf")
        """When records last had to wait for a quota, or for those of others."""

    def add(self, place: FetchPosition) -> None:
        """Read this partition too; from the next request on."""
        self.places[place.where] = place

    def remove(self, where: Where) -> FetchPosition | None:
        """Read it no longer; what is on its way of it is dropped."""
        self._paused.discard(where)
        return self.places.pop(where, None)

    def pause(self, where: Where) -> None:
        """Request no more of it for now; what is on its way is given."""
        self._paused.add(where)

    def resume(self, where: Where, offset: int) -> bool:
        """Request it again; False if it is not read here, or reading would not go on at that offset."""
        self._paused.discard(where)
        place = self.places.get(where)
        return place is not None and place.offset == offset

    def take(self) -> list[Found] | Lost:
        """The records that have arrived; requests more."""
        found: list[Found] = []
        self._trim()
        lost = self.wire.flush()
        if lost is None and self._number is not None:
            answer = self.wire.receive(self._room)
            if isinstance(answer, Lost):
                return answer
            if answer is not None:
                number, self._number = self._number, None
                if answer.number != number:
                    return Lost(f"answer {answer.number} to request {number}")
                lost = self._read(answer.data, found)
            elif self.wire.arrived > self._arrived:  # a slow line: a large answer takes its time
                now_s = time.monotonic()
                self._arriving_s = now_s if self._arrived == 0 else self._arriving_s
                self._arrived = self.wire.arrived
                if now_s - self._arriving_s >= SLOW_S:
                    self.held_s = now_s
                self._until_s = max(self._until_s, now_s + self._silent_s)
            elif time.monotonic() > self._until_s:
                return Lost(f"no answer for {self._silent_s:.0f} s")
        if lost is None and self._number is None and len(self.places) > len(self._paused):
            lost = self._request()
        if lost is not None and not found:
            return lost
        return found  # if the connection was lost too, the next call returns that

    def _trim(self) -> None:
        """Let go of memory that the last seconds did not need."""
        if (now_s := time.monotonic()) > self._trimmed_s + _IDLE_S:
            self._trimmed_s = now_s
            self._plain_memory.release_idle()

    def _request(self) -> Lost | None:
        wanted = {where: place for where, place in self.places.items() if where not in self._paused}
        number = self.wire.send(FETCH, VERSION, self._session.request(wanted))
        if isinstance(number, Lost):
            return number
        self._number, self._arrived = number, 0
        self._until_s = time.monotonic() + self._silent_s + self._throttled_s
        return None

    def _room(self, size: int) -> memoryview:
        self._buffer = self._acquire(size)
        return self._buffer.data

    def _acquire(self, size: int) -> Buffer:
        pooled = SMALL_BYTES <= size <= BUFFER_BYTES - PAD_BYTES
        return self._memory.acquire() if pooled else np.empty(size + PAD_BYTES, np.uint8)

    # --- answers -----------------------------------------------------------------------------------------------------

    def _read(self, data: memoryview, found: list[Found]) -> Lost | None:
        try:
            throttle_ms, error, session, topics = _ANSWER.unpack_from(data)
            self._throttled_s = max(0, throttle_ms) / 1000  # the broker takes no request before that is over
            if throttle_ms > 0 or len(data) >= BUSY_BYTES:
                self.held_s = time.monotonic() + self._throttled_s
            error = self._session.answered(error, session)
            if error:
                return Lost(f"the broker answers with error {error}")
            at = _ANSWER.size
            for _ in range(topics):
                begin = at + _TOPIC.size
                at = begin + max(_TOPIC.unpack_from(data, at)[0], 0)
                topic = str(data[begin:at], "utf-8", "replace")
                (partitions,) = _PARTITIONS.unpack_from(data, at)
                at += _PARTITIONS.size
                for _ in range(partitions):
                    at = self._read_partition(data, at, topic, found)
        except struct.error:
            return Lost("an answer that breaks off")
        return None

    def _read_partition(self, data: memoryview, at: int, topic: str, found: list[Found]) -> int:
        """The place behind a partition of an answer; raises ``struct.error`` where the answer breaks off."""
        partition, error, _, stable_offset, _, aborted = PARTITION.unpack_from(data, at)
        gone = at + PARTITION.size
        behind_gone = gone + ABORTED.size * max(aborted, 0)
        _, size = _RECORDS.unpack_from(data, behind_gone)
        begin = behind_gone + _RECORDS.size
        end = begin + max(size, 0)
        if end > len(data):
            raise struct.error("records that break off")
        place = self._session.places.get((topic, partition))
        if place is not None and self.places.get(place.where) is place:
            if error:
                found.append(self._refuse(place, f"the broker answers with error {error}", error in _MOVED))
            elif aborted > 0:
                self._read_runs(place, data[gone:behind_gone], begin, end, found)
            else:
                self._read_batches(place, begin, end, found)
            place.behind = place.offset < stable_offset
        return end

    def _read_runs(self, place: FetchPosition, aborted: memoryview, at: int, end: int, found: list[Found]) -> None:
        """As ``_read_batches``, without the batches of aborted transactions."""
        for run in batch_runs(self._buffer.data, at, end, aborted, self._checksum()):
            if not run.aborted:
                if not self._read_batches(place, run.at, run.end, found):
                    return
            elif run.next_offset > place.offset:
                place.offset, place.read_epoch = run.next_offset, run.epoch
                found.append(Passed(place.where, place.offset))

    def _checksum(self) -> Checksum:
        """Of bytes of the answer."""
        crc32c, begin, tables_at = self._loops.crc32c, self._loops.address(self._buffer), self._tables_at
        return lambda at, end: crc32c(begin + at, end - at, tables_at) & 0xFFFFFFFF

    def _read_batches(self, place: FetchPosition, at: int, end: int, found: list[Found]) -> bool:
        """Whether all were read. The next request goes on at the others, where they are too many inflated bytes."""
        if at < end:
            place.inflation = 1.0
        plain = 0
        while at < end:
            if plain >= PLAIN_BYTES:
                return False
            if is_compressed(self._buffer.data, at, end):  # else a walk would find that out
                behind, buffer, size = self._inflated(at, end)
                if size:
                    place.inflates(behind - at, size)
                    plain += size
                    status, _ = self._read_run(place, buffer, 0, size, 0, found)
                    if status == table.DONE:
                        at = behind
                        continue
                    found.append(self._refuse(place, _NOT_READ[status]))
                    return False
            status, stopped = self._read_run(place, self._buffer, at, end, self._tables_at, found)
            if status == table.COMPRESSED and stopped > at:
                at = stopped
                continue
            if status != table.DONE:
                found.append(self._refuse(place, _NOT_READ[status]))
            return status == table.DONE
        return True

    def _inflated(self, at: int, end: int) -> tuple[int, Buffer, int]:
        """The place behind compressed batches, and a buffer that has so many bytes of them with plain records.

        Many are inflated where they stay: a copy of each, and pages for both, cost a fifth of the codec's own time.
        """
        data, checksum = self._buffer.data, self._checksum()
        if end - at >= SMALL_BYTES:
            buffer = self._plain_memory.acquire()
            behind, plain = inflated(data, at, end, checksum, buffer.data[:-PAD_BYTES])
            if len(plain):
                return behind, buffer, len(plain)
        behind, plain = inflated(data, at, end, checksum)
        buffer = self._acquire(len(plain))
        buffer.data[: len(plain)] = plain
        return behind, buffer, len(plain)

    def _read_run(
        self, place: FetchPosition, buffer: Buffer, at: int, end: int, sums: int, found: list[Found]
    ) -> tuple[int, int]:
        """Read whole batches up to one that cannot be walked: how the walk has ended, and where in the buffer."""
        piece, (_, behind, status, epoch, _, stopped) = self._walked(place, buffer, at, end, sums)
        if epoch >= 0:
            place.read_epoch = epoch
        if status == table.DONE:
            place.cut_off(buffer.data[stopped:end])
        before, place.offset = place.offset, behind
        if piece is not None:
            found.append((*place.where, piece))
            before = int(piece.offsets[-1]) + 1
        if behind > before:
            found.append(Passed(place.where, behind))
        return status, stopped

    def _refuse(self, place: FetchPosition, why: str, moved: bool = False) -> Refused:
        self.remove(place.where)
        return Refused(place, why, moved)

    def _walked(
        self, place: FetchPosition, buffer: Buffer, at: int, end: int, sums: int
    ) -> tuple[RecordRun | None, list[int]]:
        """The records in that range of the buffer, and the findings of ``read_batches_table``."""
        begin = self._loops.address(buffer)
        height = self._loops.count_records(begin + at, begin + end)
        fields = np.empty((table.NARROW, height), np.int64)
        rows = self._walk(place, begin, at, end, fields, 0, sums)
        findings: list[int] = self._row.tolist()
        if rows == 0:
            return None, findings
        headers = keys = parts = None
        names, some = self._requested_headers.get(place.where[0]), findings[table.BESIDE]
        if some and (names is not None or some & table.SOME_BESIDE):
            width = table.WIDTH if names is None else table.WHOLE
            fields = np.empty((width, height), np.int64)
            rows = self._walk(place, begin, at, end, fields, 1 if names is None else 2, 0)
            findings = self._row.tolist()
            headers, keys = _beside(buffer, fields[:, :rows], place.where[0] == self._bare)
            if names is not None:
                parts = self._parts(buffer, fields, rows, keys, names)
        values = BinaryColumn(buffer, fields[table.START, :rows], fields[table.END, :rows])
        size = values.size + (0 if headers is None else headers.size) + sum(len(key or b"") for key in keys or ())
        run = RecordRun(fields[table.OFFSET, :rows], fields[table.STAMP, :rows], values, headers, keys, size, parts)
        return run, findings

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

    def _walk(self, place: FetchPosition, begin: int, at: int, end: int, fields: Places, beside: int, sums: int) -> int:
        return self._loops.walk(
            begin, at, end, place.offset, self._loops.address(fields), fields.shape[1], beside, _NAME, sums,
            self._row_at,
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
