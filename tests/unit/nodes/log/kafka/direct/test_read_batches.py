"""The compiled walk over record batches: what it gives of batches, and that no bytes whatever lead it elsewhere."""

from __future__ import annotations

import ctypes
import mmap
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest

from nodes.compiled import loading as compiled
from nodes.compiled.loading import Compiled
from nodes.log.codecs.crc32c_tables import tables
from nodes.log.kafka.direct import read_batches_table as table
from tests.unit.kafka_batches import Row, batch

PAD = 8
HOLON = int.from_bytes(b"holon", "little")
APPEND_TIME, CONTROL, LZ4 = 8, 32, 3
FUZZED = 4000


class Walked(NamedTuple):
    """The result of a walk: rows as offset, time, value, key, header."""

    rows: list[tuple[int, int, bytes, bytes | None, bytes]]
    behind: int
    status: int
    epoch: int
    beside: bool


def walked(loops: Compiled, data: bytes, offset: int = 0, *, checked: bool = True) -> Walked:
    memory = np.frombuffer(data + bytes(PAD), np.uint8)
    return walked_at(loops, memory, len(data), offset, checked=checked)


def walked_at(loops: Compiled, memory: np.ndarray, size: int, offset: int, *, checked: bool) -> Walked:
    """Of the first bytes of this memory; checks that all places are within."""
    start = memory.ctypes.data
    height = loops.count_records(start, start + size)
    assert 0 <= height * table.LEAST_RECORD_BYTES <= size
    columns, found = np.full((table.WIDTH, height), -7, np.int64), np.zeros(table.FOUND, np.int64)
    sums = tables().ctypes.data if checked else 0
    arguments = (columns.ctypes.data, height, 1, HOLON, sums, found.ctypes.data)
    count = loops.walk(start, 0, size, offset, *arguments)
    assert 0 <= count <= height
    rows = []
    for row in columns[:, :count].T.tolist():
        for low, high in zip(row[table.START :: 2], row[table.END :: 2], strict=True):
            assert low == -1 or 0 <= low <= high <= size
        value, header = (bytes(memory[row[at] : row[at + 1]]) for at in (table.START, table.HEADER_START))
        key = None if row[table.KEY_START] < 0 else bytes(memory[row[table.KEY_START] : row[table.KEY_END]])
        rows.append((row[table.OFFSET], row[table.STAMP], value, key, header))
    assert all(offset <= one[0] < two[0] for one, two in pairwise(rows))
    number = [int(found[at]) for at in (table.NEXT, table.STATUS, table.EPOCH, table.BESIDE)]
    return Walked(rows, number[0], number[1], number[2], bool(number[3]))


def rows_of(rng: random.Random, base: int, count: int) -> list[Row]:
    """Records with gaps, of all kinds."""
    offset, found = base, []
    for _ in range(count):
        headers = [(rng.choice([b"holon", b"trace", b"holom", b""]), rng.choice([b"h", b"", None, b"x" * 200]))
                   for _ in range(rng.choice([0, 0, 1, 3]))]  # fmt: skip
        value = rng.choice([None, b"", rng.randbytes(rng.choice([1, 70, 9000]))])
        found.append(Row(offset, rng.randrange(-5, 10**13), value, rng.choice([None, None, b"", b"key"]), headers))
        offset += rng.choice([1, 1, 1, 300])
    return found


def expected(rows: Sequence[Row]) -> list[tuple[int, int, bytes, bytes | None, bytes]]:
    def header(row: Row) -> bytes:
        ours = [value for name, value in row.headers if name == b"holon" and value is not None]
        return ours[-1] if ours else b""

    return [(row.offset, row.stamp_ms, row.value or b"", row.key, header(row)) for row in rows]


def test_batches_give_their_records_from_any_offset_on(loops: Compiled) -> None:
    rng, data, rows = random.Random(1), b"", []
    for number in range(6):
        base = rows[-1].offset + 5 if rows else 40
        more = rows_of(rng, base, rng.choice([1, 12, 40]))
        data += batch(more, base=base, last=more[-1].offset + number % 3, epoch=number)
        rows += more
    behind = rows[-1].offset + 5 % 3 + 1
    for offset in [0, 40, rows[7].offset, rows[20].offset + 1, rows[-1].offset, behind]:
        found = walked(loops, data, offset)
        assert found.rows == expected([row for row in rows if row.offset >= offset])
        assert (found.behind, found.status, found.epoch) == (behind, table.DONE, 5)


def test_a_batch_that_is_not_whole_is_left_for_the_next_answer(loops: Compiled) -> None:
    first = batch([Row(0, 1, b"a"), Row(1, 1, b"b")], base=0, last=1)
    data = first + batch([Row(2, 1, b"c")], base=2, last=2)
    for size in range(len(first), len(data)):
        found = walked(loops, data[:size])
        assert ([row[2] for row in found.rows], found.behind, found.status) == ([b"a", b"b"], 2, table.DONE)
    assert walked(loops, data[: len(first) - 1], 1) == Walked([], 1, table.DONE, -1, False)


def test_control_records_and_those_that_compaction_took_are_passed_over(loops: Compiled) -> None:
    data = batch([Row(0, 1, b"a")], base=0, last=4) + batch([Row(5, 1, b"mark", b"k")], base=5, last=5, flags=CONTROL)
    data += batch([], base=6, last=9)
    found = walked(loops, data)
    assert ([row[2] for row in found.rows], found.behind, found.beside) == ([b"a"], 10, False)


def test_the_logs_own_time_is_that_of_all_records_of_a_batch(loops: Compiled) -> None:
    data = batch([Row(0, 1, b"a"), Row(1, 9, b"b")], base=0, last=1, flags=APPEND_TIME, max_ms=77)
    assert [row[1] for row in walked(loops, data).rows] == [77, 77]


GOOD = batch([Row(0, 1, b"a")], base=0, last=0)
NEXT = batch([Row(1, 1, b"value" * 5)], base=1, last=1)


@pytest.mark.parametrize(
    ("second", "status"),
    [
        (NEXT[:-1] + bytes([NEXT[-1] ^ 1]), table.DAMAGED),
        (batch([Row(1, 1, b"b")], base=1, last=1, flags=LZ4), table.COMPRESSED),
        (NEXT[:16] + b"\1" + NEXT[17:], table.OTHER_MAGIC),
        (NEXT[:8] + b"\0\0\0\x30" + NEXT[12:], table.BROKEN),
        (batch([Row(2, 1, b"beyond its end")], base=1, last=1), table.BROKEN),
        (batch([Row(1, 1, b"b"), Row(1, 1, b"twice")], base=1, last=2), table.BROKEN),
    ],
)
def test_a_walk_ends_before_what_it_does_not_know_and_says_why(loops: Compiled, second: bytes, status: int) -> None:
    found = walked(loops, GOOD + second)
    assert ([row[2] for row in found.rows], found.behind, found.status) == ([b"a"], 1, status)


def fuzz() -> tuple[int, int, int]:
    """Walks that ended well, that did not, and their rows; over changed batches, without and with checksums."""
    assert compiled.ensure()
    loops = compiled.loops()
    assert loops is not None
    rng, ended, rows = random.Random(5), [0, 0], 0
    pages = mmap.mmap(-1, 64 * mmap.PAGESIZE)
    whole = np.frombuffer(pages, np.uint8)
    guard = whole.ctypes.data + 63 * mmap.PAGESIZE
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(guard), mmap.PAGESIZE, 0) == 0
    kinds = [batch(rows_of(rng, 100 * k, 8), base=100 * k, last=100 * k + 3000) for k in range(12)]
    for step in range(FUZZED):
        data = bytearray(b"".join(rng.choices(kinds, k=rng.choice([1, 2]))))
        for _ in range(step % 5):
            at = rng.randrange(len(data) if rng.random() < 0.5 else min(len(data), 120))
            data[at] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
        if step % 7 == 0:
            data = data[: rng.randrange(len(data))]
        memory = whole[63 * mmap.PAGESIZE - PAD - len(data) : 63 * mmap.PAGESIZE]
        memory[: len(data)] = np.frombuffer(data, np.uint8)
        found = walked_at(loops, memory, len(data), rng.choice([0, 150]), checked=step % 3 == 0)
        ended[found.status != table.DONE] += 1
        rows += len(found.rows)
    return ended[0], ended[1], rows


if __name__ == "__main__":
    print(*fuzz())
