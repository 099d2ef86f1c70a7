"""The stored form of records: what goes in comes out, and no changed bit does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holon.columnar.loops import install
from holon.columnar.payloads import BinaryColumn
from nodes.compiled import loading as compiled
from nodes.log.embedded import block
from nodes.log.embedded.chunk import make_chunk
from nodes.log.embedded.columns import Gatherer
from nodes.log.embedded.damage.rescue import find_blocks, longest_run

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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.fixture(scope="module", params=["loops", "python"])
def gatherer(request: pytest.FixtureRequest) -> Gatherer:
    """Gathers whatever there is; of the two, only the loops find many small records."""
    if request.param == "loops":
        assert compiled.ensure(), "numba is part of the development environment"
    made = Gatherer(small_bytes=0)
    install(None)
    return made


SIZES = st.sampled_from([0, 1, 31, 32, 127, 128, 255, 256, 300, 4_000, 65_535, 65_536, 70_000])


@pytest.mark.slow
@given(st.lists(st.lists(SIZES, min_size=1, max_size=20), min_size=1, max_size=3), st.data())
def test_gathered_blocks_are_the_decoded_ones(gatherer: Gatherer, batches: list[list[int]], data) -> None:
    stored, first = [], 0
    for number, sizes in enumerate(batches):
        values = [bytes([(number + size) % 256]) * size for size in sizes]
        key = data.draw(st.sampled_from([None, None, None, b"", b"key"]))
        for body in block.encode_bodies(values, None, [key] * len(values), max_record_bytes=1 << 20, where="test"):
            stored.append(memoryview(block.seal(body, first, number)))
            first += body.records
    found = gatherer.gather([(block.read_head(one), one) for one in stored])
    decoded = [block.decode(one) for one in stored]
    assert [one._replace(values=list(one.values)) for one in found] == decoded
    skip = data.draw(st.integers(0, found[0].head.records - 1))
    chunks = [make_chunk(blocks, skip, 25, 100_000) for blocks in (found, decoded)]
    assert list(chunks[0].values) == chunks[1].values and chunks[0].keys == chunks[1].keys


def test_large_records_are_one_buffer_of_columns(gatherer: Gatherer) -> None:
    (body,) = block.encode_bodies([bytes(50_000)], None, None, max_record_bytes=1 << 20, where="test")
    stored = [memoryview(block.seal(body, first, 0)) for first in (4, 5)]
    found = gatherer.gather([(block.read_head(one), one) for one in stored])
    chunk = make_chunk(found, 4, 10, 1 << 20)
    assert isinstance(chunk.values, BinaryColumn) and list(chunk.values) == [bytes(50_000)] * 2


@given(st.data())
def test_no_changed_bit_is_gathered(gatherer: Gatherer, data) -> None:
    (body,) = block.encode_bodies([bytes(range(250)) * 4] + [b"."] * 3, None, None, max_record_bytes=1_000, where="t")
    changed = bytearray(block.seal(body, 0, 1))
    bit = data.draw(st.integers(0, len(changed) * 8 - 1))
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(block.BadBlock):
        gatherer.gather([(block.read_head(memoryview(changed)), memoryview(bytes(changed)))])


def test_a_buffer_is_used_again_once_nobody_holds_what_lies_in_it() -> None:
    gatherer = Gatherer()

    def gathered(fill: bytes) -> BinaryColumn:
        (body,) = block.encode_bodies([fill * 70_000], None, None, max_record_bytes=1 << 20, where="test")
        stored = memoryview(block.seal(body, 0, 0))
        (found,) = gatherer.gather([(block.read_head(stored), stored)])
        return BinaryColumn.of(found.values)

    held = gathered(b"a")
    view = gathered(b"b").buffer[:100]
    addresses = [held.buffer.ctypes.data, view.ctypes.data]
    addresses.append(gathered(b"c").buffer.ctypes.data)
    assert len(set(addresses)) == 3 and list(held) == [b"a" * 70_000]
    assert gathered(b"d").buffer.ctypes.data == addresses[2] and list(held) == [b"a" * 70_000]
    del held, view
    assert {one.buffer.ctypes.data for one in [gathered(b"e"), gathered(b"f"), gathered(b"g")]} <= set(addresses)
