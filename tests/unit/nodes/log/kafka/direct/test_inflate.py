"""Batches that other writers have compressed, by each codec of Kafka, read over connections of our own."""

from __future__ import annotations

import random
import struct
from typing import Any, cast

import cramjam
import pytest

from holon.columnar.payloads import PAD_BYTES
from nodes.compiled.loading import Compiled
from nodes.log.kafka.direct.connection import Wire, text
from nodes.log.kafka.direct.fetch_requests import Fetcher, Refused
from nodes.log.kafka.direct.fetched.batch_format import PARTITION
from nodes.log.kafka.direct.fetched.inflate import INFLATED_BYTES, RUN_BYTES, inflated
from nodes.log.kafka.direct.fetched.positions import SMALL_BYTES, FetchPosition
from nodes.log.kafka.direct.read_batches_table import HEAD_BYTES
from tests.unit.kafka_batches import TRANSACTIONAL, Row, batch, crc32c
from tests.unit.nodes.log.kafka.direct.test_fetch_requests import TOPIC, Broker


def xerial(records: bytes) -> bytes:
    """In two blocks, as Java's clients write it."""
    half = len(records) // 2
    blocks = [bytes(cramjam.snappy.compress_raw(part)) for part in (records[:half], records[half:])]
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(one)) + one for one in blocks)


CODECS = {
    "gzip": (1, lambda records: bytes(cramjam.gzip.compress(records))),
    "snappy": (2, lambda records: bytes(cramjam.snappy.compress_raw(records))),
    "xerial": (2, xerial),
    "lz4": (3, lambda records: bytes(cramjam.lz4.compress(records))),
    "zstd": (4, lambda records: bytes(cramjam.zstd.compress(records))),
}


def compressed(data: bytes, codec: str, damage: bool = False) -> bytes:
    """The same batch with packed records; ``damage``: which are none, under a checksum that is right."""
    number, pack = CODECS[codec]
    records = b"no frame at all" if damage else pack(data[HEAD_BYTES:])
    checked = struct.pack(">h", number) + data[23:HEAD_BYTES] + records
    head = data[:8] + struct.pack(">i", HEAD_BYTES - 12 + len(records)) + data[12:17]
    return head + struct.pack(">I", crc32c(checked)) + checked


def read(loops: Compiled, log: bytes) -> tuple[list[tuple[int, bytes, bytes | None]], list[Refused]]:
    """Offset, value and key of the records, and where reading ended."""
    fetcher = Fetcher(cast("Wire", Broker([log])), loops, {}, None, 20)
    fetcher.add(FetchPosition((TOPIC, 0), 0, epoch=0))
    rows: list[tuple[int, bytes, bytes | None]] = []
    refused: list[Refused] = []
    for _ in range(2):
        for one in cast("list[Any]", fetcher.take()):
            if isinstance(one, Refused):
                refused.append(one)
            else:
                piece = one[2]
                keys = piece.keys or [None] * len(piece)
                rows += zip(piece.offsets.tolist(), list(piece.values), keys, strict=True)
    return rows, refused


@pytest.mark.parametrize("codec", CODECS)
def test_what_a_codec_has_packed_is_read_between_batches_that_are_plain(loops: Compiled, codec: str) -> None:
    rows = [Row(n, 5, b"value %d " % n * 9, key=b"k%d" % n if n % 3 else None) for n in range(30)]
    plain = [batch(rows[n : n + 10], base=n, last=n + 9) for n in (0, 10, 20)]
    expected = [(row.offset, row.value, row.key) for row in rows]
    for log in ((0, 1, 0), (1, 0, 1), (1, 1, 1)):
        parts = [compressed(one, codec) if packed else one for one, packed in zip(plain, log, strict=True)]
        assert read(loops, b"".join(parts)) == (expected, [])


@pytest.mark.parametrize("codec", CODECS)
def test_what_no_codec_has_packed_ends_reading_before_it(loops: Compiled, codec: str) -> None:
    first, second = batch([Row(0, 5, b"a")], base=0, last=0), batch([Row(1, 5, b"b")], base=1, last=1)
    rows, refused = read(loops, first + compressed(second, codec, damage=True))
    assert rows == [(0, b"a", None)]
    assert [one.place.offset for one in refused] == [1]


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_inflates_too_far_is_left_to_the_other_reader(codec: str) -> None:
    number, pack = CODECS[codec]
    for size, expected in ((1 << 20, HEAD_BYTES + (1 << 20)), (INFLATED_BYTES + 2, 0)):
        packed = pack(bytes(size))
        head = bytearray(HEAD_BYTES)
        struct.pack_into(">i4xB4xh", head, 8, HEAD_BYTES - 12 + len(packed), 2, number)
        data = memoryview(bytes(head) + packed)
        behind, plain = inflated(data, 0, len(data), lambda at, end: 0)
        assert (behind, len(plain)) == (len(data) if expected else 0, expected)


def packed_batches(count: int, size: int = 900) -> list[bytes]:
    """Of ten records each, by the codecs in turn."""
    names = sorted(CODECS)
    made = []
    for number in range(count):
        rows = [Row(10 * number + k, 5, b"%d " % number * size) for k in range(10)]
        made.append(compressed(batch(rows, base=10 * number, last=10 * number + 9), names[number % len(names)]))
    return made


def runs_of(loops: Compiled, log: bytes) -> tuple[list[Any], list[Refused]]:
    fetcher = Fetcher(cast("Wire", Broker([log])), loops, {}, None, 20)
    fetcher.add(FetchPosition((TOPIC, 0), 0, epoch=0))
    assert fetcher.take() == []
    found = cast("list[Any]", fetcher.take())
    return [one[2] for one in found if isinstance(one, tuple) and not isinstance(one, Refused)], [
        one for one in found if isinstance(one, Refused)
    ]


def test_batches_that_follow_each_other_are_one_run(loops: Compiled) -> None:
    batches = packed_batches(30)
    (run,), refused = runs_of(loops, b"".join(batches))
    assert run.offsets.tolist() == list(range(300)) and not refused
    assert [value.split(b" ")[0] for value in run.values] == [b"%d" % (row // 10) for row in range(300)]


def test_many_batches_and_one_that_is_larger_than_a_buffer_are_read_in_turn(
    loops: Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodes.log.kafka.direct.fetch_requests.BUFFER_BYTES", SMALL_BYTES + PAD_BYTES)
    noise = [random.Random(number).randbytes(SMALL_BYTES // 6) for number in range(12)]
    values = [*noise[:6], noise[0] * 7, *noise[6:]]
    batches = [batch([Row(at, 5, value)], base=at, last=at) for at, value in enumerate(values)]
    for codec in ("lz4", "snappy"):
        rows, refused = read(loops, b"".join(compressed(one, codec) for one in batches))
        assert [(offset, value) for offset, value, _ in rows] == list(enumerate(values)) and not refused


@pytest.mark.slow
def test_batches_beyond_the_bytes_of_a_run_are_the_next_run(loops: Compiled) -> None:
    batches = packed_batches(5, RUN_BYTES // 40)
    found, refused = runs_of(loops, b"".join(batches))
    assert len(found) > 1 and not refused
    assert [offset for run in found for offset in run.offsets.tolist()] == list(range(50))


def test_a_damaged_batch_among_compressed_ones_ends_reading_before_it(loops: Compiled) -> None:
    batches = packed_batches(4)
    damaged = bytearray(batches[2])
    damaged[-1] ^= 1
    (run,), (refused,) = runs_of(loops, b"".join([*batches[:2], damaged, batches[3]]))
    assert run.offsets.tolist() == list(range(20))
    assert refused.place.offset == 20 and "checksum" in refused.why


@pytest.mark.parametrize("aborted", [False, True])
def test_an_answer_that_inflates_far_is_read_in_parts_and_nothing_is_left_out(
    loops: Compiled, monkeypatch: pytest.MonkeyPatch, aborted: bool
) -> None:
    monkeypatch.setattr("nodes.log.kafka.direct.fetch_requests.PLAIN_BYTES", 30_000)
    monkeypatch.setattr("nodes.log.kafka.direct.fetched.inflate.RUN_BYTES", 10_000)
    batches, expected = packed_batches(20), list(range(200))
    if aborted:
        rows = [Row(offset, 5, b"gone") for offset in range(100, 110)]
        batches[10] = batch(rows, base=100, last=109, flags=TRANSACTIONAL, producer=77)
        del expected[100:110]
    broker = Rereading(b"".join(batches), aborted)
    fetcher = Fetcher(cast("Wire", broker), loops, {}, None, 20)
    fetcher.add(FetchPosition((TOPIC, 0), 0, epoch=0))
    given: list[list[int]] = []
    while broker.offset < 200:
        runs = [one[2] for one in cast("list[Any]", fetcher.take()) if isinstance(one[0], str)]
        given.append([offset for run in runs for offset in run.offsets.tolist()])
    assert [offset for part in given for offset in part] == expected
    assert all(len(part) <= 60 for part in given), "an answer of all records is read in parts"


class Rereading(Broker):
    """Gives all batches from the requested ``offset`` on; with ``aborted`` producer 77 began one at offset 100."""

    def __init__(self, log: bytes, aborted: bool) -> None:
        super().__init__([log])
        self.offset = 0
        self._aborted = aborted

    def send(self, api: int, version: int, *parts: Any) -> int:
        at_offset = struct.calcsize(">iiiibiii") + len(text(TOPIC)) + 12
        self.offset = struct.unpack_from(">q", b"".join(parts), at_offset)[0]
        data, at = self.logs[0], 0
        while at < len(data) and struct.unpack_from(">q", data, at)[0] < self.offset:
            at += struct.unpack_from(">i", data, at + 8)[0] + 12
        gone = struct.pack(">qq", 77, 100) if self._aborted else b""
        head = struct.pack(">ihii", 0, 0, 0, 1) + text(TOPIC) + struct.pack(">i", 1)
        head += PARTITION.pack(0, 0, 1 << 40, 1 << 40, 0, len(gone) // 16)
        self._body = head + gone + struct.pack(">ii", -1, len(data) - at) + data[at:]
        return 1


def test_of_a_compressed_topic_less_is_requested() -> None:
    place = FetchPosition((TOPIC, 0), 0, epoch=0)
    before = place.fetch_bytes(1)
    place.inflates(1000, 4000)
    assert place.fetch_bytes(1) == before // 4
    place.inflates(1000, 100_000_000)
    assert place.fetch_bytes(1) == SMALL_BYTES
