"""One partition: blocks in an LMDB environment, each under its first offset. Several processes read and write it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import lmdb

from nodes.log.checks import out_of_range
from nodes.log.contract import Appended
from nodes.log.embedded import block
from nodes.log.embedded.environment import Environment
from nodes.log.embedded.errors import damaged, translate

DELETE_BLOCKS = 1000
"""Most blocks that one transaction of ``delete_before`` drops, so that appends are not held up."""

T = TypeVar("T")
Gather = Callable[[Sequence[tuple[block.Head, memoryview]]], list[block.Block]]
if TYPE_CHECKING:
    Txn = lmdb.Transaction[memoryview]
    Cursor = lmdb.Cursor[memoryview]

_pack_key = struct.Struct(">Q").pack
_unpack_key = struct.Struct(">Q").unpack
_LAST_KEY = b"\xff" * 8


def decode_each(stored: Sequence[tuple[block.Head, memoryview]]) -> list[block.Block]:
    """Blocks with an object for each record."""
    return [block.decode(data) for _, data in stored]


class Partition:
    """Opened once a process (embedded/open_environments.py). Safe to use from several threads."""

    def __init__(self, env: Environment, on_commit: Callable[[], None]) -> None:
        self.env = env
        self._on_commit = on_commit
        self._where = env.where
        self._bounds = (-1, 0, 0)  # commits seen, start, end
        self._tail = (-1, 0, 0)  # last own transaction, next offset, last timestamp
        self._kept: block.Block | None = None

    def bounds(self) -> tuple[int, int]:
        """Start and end offset; costs one memory access while nobody commits."""
        commits = self.env.commits()
        seen = self._bounds
        if commits != seen[0]:
            seen = self._bounds = (commits, *self._read(self._find_bounds))
        return seen[1], seen[2]

    def read(self, offset: int, max_records: int, max_bytes: int, gather: Gather = decode_each) -> list[block.Block]:
        """Blocks from the one that holds ``offset`` on, at least one, as many as the limits need; [] at the end.

        ``gather`` makes blocks of what is stored; the memory that it is given is only valid inside.
        """
        start, end = self.bounds()
        if not start <= offset <= end:
            raise out_of_range(self._where, offset, start, end)
        if offset == end:
            return []
        kept = self._kept
        if kept is not None and kept.head.first < offset and offset + max_records <= kept.head.end:
            return [kept]
        blocks = self._read(lambda cursor: self._blocks_from(cursor, offset, max_records, max_bytes, gather))
        if not blocks:  # deleted between the two reads, or damage has hidden it
            start, end = self.bounds()
            if start <= offset < end:
                raise self._damaged(f"offset {offset} is not found, and the partition holds {start} to {end - 1}")
            raise out_of_range(self._where, offset, start, end)
        self._kept = blocks[-1]
        return blocks

    def append(self, bodies: list[block.Body], now_ms: Callable[[], int], retention_ms: int | None) -> Appended:
        """Store encoded blocks, all or none; the time is taken, and never runs backwards, under the write lock."""
        return self._write("append", lambda txn: self._append(txn, bodies, now_ms, retention_ms))

    def delete_before(self, offset: int) -> int:
        """Drop records below ``offset``; returns the new start offset."""
        while True:
            start, end = self.bounds()
            if offset > end:
                raise out_of_range(self._where, offset, start, end)
            if offset <= start:
                return start
            self._write("delete", lambda txn: self._delete(txn, offset))

    def expire(self, before_ms: int) -> int:
        """Drop all that is older, but not the newest block; returns the new start offset."""
        start = -1
        while start != (start := self.bounds()[0]):
            self._write("delete", lambda txn: self._expire_and_commit(txn, before_ms))
        return start

    def recycle(self) -> None:
        """Make the pages of what was just deleted usable: LMDB gives them out from the second next commit on."""
        self._write("recycle", self._touch)

    def _append(
        self, txn: Txn, bodies: list[block.Body], now_ms: Callable[[], int], retention_ms: int | None
    ) -> Appended:
        txn_id = txn.id()
        cursor = txn.cursor()
        if txn_id == self._tail[0] + 1:  # nobody else has committed since
            first, last_ms = self._tail[1:]
        else:
            first, last_ms = self._find_end(cursor)
        timestamp_ms = max(last_ms, now_ms())
        items, offset = [], first
        for body in bodies:
            items.append((_pack_key(offset), block.seal(body, offset, timestamp_ms)))
            offset += body.records
        cursor.putmulti(items, dupdata=False, append=True)
        if retention_ms is not None:
            self._expire(cursor, timestamp_ms - retention_ms, 2 * len(items) + 4)
        txn.commit()
        self._tail = (txn_id, offset, timestamp_ms)
        return Appended(first, offset - first, timestamp_ms)

    def _expire(self, cursor: Cursor, before_ms: int, limit: int) -> None:
        """Drop at most ``limit`` blocks that are older; never the newest block."""
        for _ in range(limit):
            if not cursor.first() or self._head(cursor).timestamp_ms >= before_ms or not cursor.next():
                return
            cursor.prev()
            cursor.delete()

    def _expire_and_commit(self, txn: Txn, before_ms: int) -> None:
        self._expire(txn.cursor(), before_ms, DELETE_BLOCKS)
        txn.commit()

    def _touch(self, txn: Txn) -> None:
        txn.put(_LAST_KEY, b"")
        assert txn.delete(_LAST_KEY)
        txn.commit()

    def _delete(self, txn: Txn, offset: int) -> None:
        cursor = txn.cursor()
        end, last_ms = self._find_end(cursor)
        for _ in range(DELETE_BLOCKS):
            if not cursor.first():
                break
            head = self._head(cursor)
            if head.end <= offset:
                cursor.delete()
                continue
            if head.first < offset:
                rest = block.tail_body(self._decode(cursor), offset - head.first)
                cursor.delete()
                cursor.put(_pack_key(offset), block.seal(rest, offset, head.timestamp_ms))
            break
        if not cursor.first():
            cursor.put(_pack_key(end - 1), block.anchor(end - 1, last_ms))
        txn.commit()

    def _blocks_from(
        self, cursor: Cursor, offset: int, max_records: int, max_bytes: int, gather: Gather
    ) -> list[block.Block]:
        if not cursor.first() or _pack_key(offset) < bytes(cursor.key()):
            return []
        if not cursor.set_range(_pack_key(offset)):
            cursor.last()
        elif bytes(cursor.key()) != _pack_key(offset):
            cursor.prev()
        stored: list[tuple[block.Head, memoryview]] = []
        records, size, expected = 0, 0, offset
        more = True
        while more:
            data = cursor.value()  # called once, since each call touches all its pages
            size += len(data)
            if stored and size > max_bytes:
                break  # a block that would have to be cut is for the next read
            head = self._head(cursor, data)
            if head.anchor:
                return []
            if not (head.first == expected or (not stored and head.first < offset < head.end)):
                raise self._damaged(f"offset {expected} is missing, {head.first} comes next")
            expected = head.end
            stored.append((head, data))
            records += expected - max(head.first, offset)
            more = records < max_records and cursor.next()
        try:
            return gather(stored)
        except block.BadBlock as error:
            raise self._damaged(str(error)) from error

    def _find_bounds(self, cursor: Cursor) -> tuple[int, int]:
        if not cursor.first():
            return 0, 0
        head = self._head(cursor)
        return (head.end if head.anchor else head.first), self._find_end(cursor)[0]

    def _find_end(self, cursor: Cursor) -> tuple[int, int]:
        """Next offset and time of the last record."""
        if not cursor.last():
            return 0, 0
        head = self._head(cursor)
        return head.end, head.timestamp_ms

    def _head(self, cursor: Cursor, data: memoryview | None = None) -> block.Head:
        try:
            head = block.read_head(cursor.value() if data is None else data)
        except block.BadBlock as error:
            raise self._damaged(str(error)) from error
        if (head.first,) != _unpack_key(cursor.key()):
            raise self._damaged(f"the block of offset {head.first} has the key {bytes(cursor.key())!r}")
        return head

    def _decode(self, cursor: Cursor) -> block.Block:
        try:
            return block.decode(cursor.value())
        except block.BadBlock as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, reason: str) -> Exception:
        return damaged(self.env.path / "data.mdb", self._where, reason)

    def _read(self, work: Callable[[Cursor], T]) -> T:
        env = self.env
        try:
            while True:
                try:
                    with env.using, env.begin_read() as txn, txn.cursor() as cursor:
                        return work(cursor)
                except lmdb.MapResizedError:
                    with env.writing:
                        env.adopt_map()
        except lmdb.Error as error:
            raise translate(error, env.path, f"{self._where}: read") from error

    def _write(self, doing: str, work: Callable[[Txn], T]) -> T:
        """Run ``work``, which commits, in a write transaction; again with a larger map if it does not fit."""
        env = self.env
        try:
            with env.writing:
                while True:
                    try:
                        with env.begin_write() as txn:
                            result = work(txn)
                        break
                    except lmdb.MapFullError:
                        env.grow_map()
                    except lmdb.MapResizedError:
                        env.adopt_map()
        except lmdb.Error as error:
            raise translate(error, env.path, f"{self._where}: {doing}") from error
        self._on_commit()
        return result
