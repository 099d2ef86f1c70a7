"""The stored form of records: what goes in comes out, and no changed bit does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.log import embedded_block as block
from nodes.log.embedded_chunk import make_chunk
from nodes.log.embedded_rescue import find_blocks, longest_run

records = st.lists(
    st.tuples(st.binary(max_size=50), st.binary(max_size=5), st.none() | st.binary(max_size=5)), min_size=1, max_size=40
)


def store(batch: list[tuple[bytes, bytes, bytes | None]], first: int, stamp_ms: int) -> list[bytes]:
    values, headers, keys = (list(column) for column in zip(*batch, strict=True))
    bodies = block.encode_bodies(values, headers, keys, max_record_bytes=1000, where="test")
    stored = []
    for body in bodies:
        stored.append(block.seal(body, first, stamp_ms))
        first += body.records
    return stored


@given(st.lists(records, min_size=1, max_size=4), st.data())
def test_records_come_back_from_any_offset_on(batches: list[list[tuple[bytes, bytes, bytes | None]]], data) -> None:
    stored, flat, stamps = [], [], []
    for number, batch in enumerate(batches):
        stored += store(batch, len(flat), number)
        flat += batch
        stamps += [number] * len(batch)
    blocks = [block.decode(memoryview(raw)) for raw in stored]
    offset = data.draw(st.integers(0, blocks[0].head.end - 1))
    limit = data.draw(st.integers(1, len(flat) + 1))
    chunk = make_chunk(blocks, offset, limit, 1 << 20)
    expected = flat[offset : offset + limit]
    assert chunk.values == [value for value, _, _ in expected]
    assert chunk.headers == [header for _, header, _ in expected]
    assert (chunk.keys or [None] * len(chunk)) == [key for _, _, key in expected]
    assert chunk.offsets.tolist() == list(range(offset, offset + len(expected)))
    assert chunk.timestamps_ms.tolist() == stamps[offset : offset + limit]
    assert chunk.next_offset == offset + len(expected)


@given(records, st.data())
def test_no_changed_bit_is_taken_for_records(batch: list[tuple[bytes, bytes, bytes | None]], data) -> None:
    stored = store(batch, 7, 1)[0]
    bit = data.draw(st.integers(0, len(stored) * 8 - 1))
    changed = bytearray(stored)
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(block.BadBlock):
        block.decode(memoryview(bytes(changed)))


@given(records, st.data())
def test_no_part_is_taken_for_the_whole(batch: list[tuple[bytes, bytes, bytes | None]], data) -> None:
    stored = store(batch, 7, 1)[0]
    with pytest.raises(block.BadBlock):
        block.decode(memoryview(stored[: data.draw(st.integers(0, len(stored) - 1))]))


def test_batches_are_cut_where_a_block_is_full() -> None:
    values = [bytes(1000)] * 100
    bodies = block.encode_bodies(values, None, None, max_record_bytes=10_000, where="test")
    assert [body.records for body in bodies] == [65, 35]
    assert [body.records for body in block.encode_bodies([b""] * 5000, None, None, max_record_bytes=1, where="t")] == [
        4096,
        904,
    ]


@given(st.lists(records, min_size=1, max_size=5), st.binary(max_size=40), st.data())
def test_blocks_are_found_in_a_file_without_order(
    batches: list[list[tuple[bytes, bytes, bytes | None]]], noise: bytes, data
) -> None:
    stored, end = [], 0
    for batch in batches:
        stored += store(batch, end, 1)
        end += len(batch)
    shuffled = data.draw(st.permutations([*stored, noise, block.MAGIC, stored[0][:-1], block.anchor(99, 1)]))
    run = longest_run(find_blocks(noise.join(shuffled)))
    assert (run[0][0].first, run[-1][0].end) == (0, end)
    assert [head.first for head, _, _ in run] == [block.read_head(raw).first for raw in stored]
