"""Record batches as they are written here (direct/record_batch.py), against plain readers of their formats."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.columnar.loops import install
from holon.columnar.payloads import BinaryColumn
from nodes.compiled.loading import Compiled, ensure, loops
from nodes.log.kafka.direct.record_batch import HEAD_BYTES, Batch, BatchWriter, Producer, UnsentRecords
from nodes.log.kafka.record_columns import RecordColumns

Row = tuple[bytes, bytes, bytes | None]
"""Value, header and key."""
WRITTEN_BY = Producer(70_000_000_000, 3)


@pytest.fixture(scope="module")
def compiled() -> Iterator[Compiled]:
    assert ensure(), "numba is part of the development environment"
    found = loops()
    assert found is not None
    install(None)  # other tests of this process do without
    yield found


def _after(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


SUMS = [_after(byte) for byte in range(256)]


def crc32c(data: bytes) -> int:
    """Byte by byte."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = SUMS[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        assert 0 <= count <= len(self.data) - self.at
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self) -> int:
        found, shift = 0, 0
        while (byte := self.take(1)[0]) & 0x80:
            found, shift = found | (byte & 0x7F) << shift, shift + 7
        found |= byte << shift
        return found >> 1 ^ -(found & 1)

    def bytes_or_none(self) -> bytes | None:
        count = self.varint()
        return None if count < 0 else self.take(count)


def rows_of(data: bytes, sequence: int) -> list[Row]:
    """The contents of a batch, by the book; everything in its head is checked."""
    first, length, epoch, magic, crc = struct.unpack_from(">qiibI", data)
    assert (first, length, epoch, magic) == (0, len(data) - 12, -1, 2)
    assert crc == crc32c(data[21:])
    attributes, last, begin, end, producer, its_epoch, at, count = struct.unpack_from(">hiqqqhii", data, 21)
    assert (last, begin, end, at) == (count - 1, 1234, 1234, sequence)
    assert Producer(producer, its_epoch) == WRITTEN_BY
    body = data[HEAD_BYTES:]
    if attributes:
        assert attributes == 3
        body = pa.input_stream(pa.py_buffer(body), compression="lz4").read()
    reader, rows = Reader(body), []
    for number in range(count):
        end_of_record = reader.varint() + reader.at
        assert reader.take(1) == b"\0"
        assert (reader.varint(), reader.varint()) == (0, number)
        key, value, header = reader.bytes_or_none(), reader.bytes_or_none(), b""
        for _ in range(reader.varint()):
            assert reader.bytes_or_none() == b"holon"
            header = reader.bytes_or_none() or b""
        assert value is not None and reader.at == end_of_record
        rows.append((value, header, key))
    assert reader.at == len(body)
    return rows


def piece(rows: Sequence[Row], callbacks: list[int], name: int, listed: bool = False) -> UnsentRecords:
    """``listed``: as a list of values, of which few are written without the loops."""
    values, headers, keys = zip(*rows, strict=True)
    records = RecordColumns(list(values) if listed else BinaryColumn.of(values), headers, keys)
    return UnsentRecords(records, lambda end: callbacks.append(name), 0.0)


def written(
    compiled: Compiled, parts: Sequence[Sequence[Row]], batch_bytes: int, packed: bool, listed: bool = False
) -> list[Batch]:
    """All of these, as batches."""
    writer, callbacks, batches, sequence = BatchWriter(compiled, batch_bytes, packed), [], [], 0
    waiting = deque(piece(rows, callbacks, number, listed) for number, rows in enumerate(parts))
    while waiting:
        batches.append(writer.write(waiting, WRITTEN_BY, sequence, 1234))
        sequence += batches[-1].count
    return batches


small = st.binary(max_size=40) | st.sampled_from([b"the same text again and again", b"the same text again", b"x" * 300])
rows_strategy = st.lists(st.tuples(small, small, st.none() | small), min_size=1, max_size=30)


few_rows = st.lists(st.tuples(small | st.just(b"y" * 5_000), small, st.none() | small), min_size=1, max_size=5)


@pytest.mark.slow
@given(parts=st.lists(few_rows, min_size=1, max_size=3))
def test_few_records_are_written_in_python_as_the_loops_write_them(compiled: Compiled, parts: list[list[Row]]) -> None:
    plain, listed = (written(compiled, parts, 1 << 20, False, listed) for listed in (False, True))
    assert [(batch.data, batch.count, batch.size) for batch in listed] == [
        (batch.data, batch.count, batch.size) for batch in plain
    ]
    assert [[count for _, count in batch.callbacks] for batch in listed] == [
        [count for _, count in batch.callbacks] for batch in plain
    ]


@pytest.mark.slow
@given(
    parts=st.lists(rows_strategy, min_size=1, max_size=4),
    room=st.integers(200, 3_000),
    packed=st.booleans(),
    listed=st.booleans(),
)
def test_a_batch_says_what_was_handed_over(
    compiled: Compiled, parts: list[list[Row]], room: int, packed: bool, listed: bool
) -> None:
    batches, found = written(compiled, parts, room, packed, listed), []
    for batch in batches:
        rows = rows_of(batch.data, len(found))
        assert (batch.count, batch.size) == (len(rows), sum(len(v) + len(h) + len(k or b"") for v, h, k in rows))
        assert packed or len(batch.data) <= room or batch.count == 1
        found += rows
    assert found == [row for part in parts for row in part]


@pytest.mark.parametrize("count", [3, 100])
def test_what_was_handed_over_stays_what_it_was(compiled: Compiled, count: int) -> None:
    values, headers = [b"value"] * count, [b"header"] * count
    waiting = deque([UnsentRecords(RecordColumns(values, headers, None), lambda end: None, 0.0)])
    values.clear(), headers.clear()
    batch = BatchWriter(compiled, 1 << 20, False).write(waiting, WRITTEN_BY, 0, 1234)
    assert rows_of(batch.data, 0) == [(b"value", b"header", None)] * count


def test_who_handed_over_is_told_where_his_last_record_lies(compiled: Compiled) -> None:
    writer, callbacks = BatchWriter(compiled, 1_000, False), []
    waiting = deque([piece([(b"a" * 300, b"", None)] * 5, callbacks, 1), piece([(b"b", b"", None)], callbacks, 2)])
    batches = []
    while waiting:
        batches.append(writer.write(waiting, WRITTEN_BY, 0, 1234))
    assert [batch.count for batch in batches] == [3, 3]
    assert [[count for _, count in batch.callbacks] for batch in batches] == [[], [2, 3]]
    for batch in batches:
        for done, count in batch.callbacks:
            done(count)
    assert callbacks == [1, 2]


def test_a_record_above_the_batch_goes_alone(compiled: Compiled) -> None:
    rows: list[Row] = [(b"s", b"", None), (b"large" * 5_000, b"h", b"k"), (b"t", b"", None), (b"u", b"", None)]
    batches = written(compiled, [rows], 1_000, True)
    assert [batch.count for batch in batches] == [1, 1, 2]
    assert rows_of(batches[1].data, 1) == rows[1:2]


@given(
    chunks=st.lists(st.tuples(st.binary(min_size=1, max_size=60), st.integers(1, 4_000)), max_size=12),
    tail=st.binary(max_size=20),
)
def test_what_is_packed_is_unpacked_by_another_program(
    compiled: Compiled, chunks: list[tuple[bytes, int]], tail: bytes
) -> None:
    """Long and short repetitions, more than one block, and what does not get smaller."""
    value = b"".join(part * count for part, count in chunks) + tail
    (batch,) = written(compiled, [[(value, b"", None)]], 1_000, True)
    assert rows_of_packed(batch.data) == value


def rows_of_packed(data: bytes) -> bytes | None:
    """The value of the first record, without the slow check of the sum."""
    body = data[HEAD_BYTES:]
    if data[22]:
        body = pa.input_stream(pa.py_buffer(body), compression="lz4").read()
    reader = Reader(body)
    for skip in (reader.varint, lambda: reader.take(1), reader.varint, reader.varint, reader.bytes_or_none):
        skip()
    return reader.bytes_or_none()
