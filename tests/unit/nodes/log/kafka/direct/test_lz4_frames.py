"""Frames of LZ4 that are read block by block give what the codec's own reader gives, damaged ones too."""

from __future__ import annotations

import random
import struct

import cramjam
import pytest

from nodes.log.kafka.direct.fetched.lz4_frames import inflate_frame

HEAD = bytes.fromhex("04224d18604082")
"""As Kafka's writers make it: independent blocks of 64 KB without checksums."""
BLOCK = 1 << 16


def frame(data: bytes, raw: frozenset[int] = frozenset(), head: bytes = HEAD) -> bytes:
    """Blocks of 64 KB, of which some (``raw``, by number) are not packed."""
    parts = [head]
    for number, at in enumerate(range(0, len(data), BLOCK)):
        plain = data[at : at + BLOCK]
        packed = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        size = len(plain) | 1 << 31 if number in raw else len(packed)
        parts += [struct.pack("<I", size), plain if number in raw else packed]
    return b"".join(parts) + bytes(4)


def taken(read: object, packed: bytes, room: int) -> bytes | None:
    """The bytes that a reader inflates; None where it refuses them."""
    into = bytearray(room)
    try:
        return bytes(into[: read(memoryview(packed), memoryview(into))])  # type: ignore[operator]
    except cramjam.DecompressionError:
        return None


def test_blocks_are_read_where_they_stay_whether_packed_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(b'{"ts":%d}' % number for number in range(20_000))
    assert len(data) > 3 * BLOCK
    packed = [frame(data), frame(data, raw=frozenset({1})), frame(data, raw=frozenset(range(9)))]
    assert taken(cramjam.lz4.decompress_into, packed[1], len(data)) == data
    monkeypatch.setattr(cramjam.lz4, "decompress_into", None)
    assert [taken(inflate_frame, one, len(data)) for one in packed] == [data] * 3


def test_frames_that_others_write_are_read_by_the_codec() -> None:
    data = b"linked blocks and checksums " * 9000
    packed = bytes(cramjam.lz4.compress(data))
    assert packed[: len(HEAD)] != HEAD and taken(inflate_frame, packed, len(data)) == data


@pytest.mark.parametrize("seed", range(3))
def test_damaged_frames_are_what_they_are_to_the_codec(seed: int) -> None:
    draw = random.Random(seed)
    for number in range(700):
        size = draw.choice((0, 1, BLOCK, BLOCK + 1, 100_000)) if number % 50 == 0 else draw.randrange(300)
        data = bytes(draw.choices(b"abc", k=size)) if draw.random() < 0.6 else draw.randbytes(size)
        packed = bytearray(frame(data, raw=frozenset(block for block in (0, 1) if draw.random() < 0.3)))
        for _ in range(draw.choice((0, 0, 1, 2))):
            damage = draw.choice(("bit", "end", "more"))
            if damage == "bit" and packed:
                packed[draw.randrange(len(packed))] ^= 1 << draw.randrange(8)
            elif damage == "end":
                del packed[draw.randrange(len(packed) + 1) :]
            else:
                packed += draw.randbytes(draw.randrange(1, 9))
        for room in (size, size + 9, max(0, size - 1)):
            expected = taken(cramjam.lz4.decompress_into, bytes(packed), room)
            assert taken(inflate_frame, bytes(packed), room) == expected, (seed, number, room)
