"""The blocks that messages' bytes are gathered into."""

from __future__ import annotations

import random

import numpy as np

from holon.columnar.payloads import PAD_BYTES, Payloads
from nodes.log.contract import TopicPartition
from nodes.log.kafka_blocks import BLOCK_BYTES, BLOCK_RECORDS, Blocks
from nodes.log.kafka_columns import ENOUGH_RECORDS, ColumnTail, Piece


def gathered(blocks: Blocks, partition: int, values: list[bytes]) -> list[Payloads]:
    """As the reader does it."""
    sizes, pieces = np.array([len(value) for value in values]), []
    while values:
        count = blocks.fits(("t", partition), sizes)
        here, values, sizes = values[:count], values[count:], sizes[count:]
        data = np.frombuffer(b"".join(here), np.uint8)
        buffer, at = blocks.place(("t", partition), count, len(data))
        assert at + len(data) + PAD_BYTES <= len(buffer)
        buffer[at : at + len(data)] = data
        ends = np.cumsum([at, *map(len, here)])
        pieces.append(Payloads(buffer, ends[:-1], ends[1:]))
    return pieces


def test_what_is_held_stays_as_it_is_whatever_is_gathered_and_let_go_later() -> None:
    rng = random.Random(1)
    blocks, held = Blocks(), []
    for step in range(150):
        count, size = rng.choice([1, 40, 3000]), rng.choice([0, 300, 1500])
        values = [bytes([rng.randrange(256)]) * rng.randint(0, size) for _ in range(count)]
        pieces = gathered(blocks, rng.randrange(2), values)
        assert sum(map(len, pieces)) == count
        held.append((values, [piece[:] for piece in pieces]))
        if step % 3 == 0:
            held = rng.sample(held, min(len(held), 20))
    for values, pieces in held:
        assert [value for piece in pieces for value in piece] == values


def test_memory_that_nobody_holds_is_used_again() -> None:
    blocks = Blocks()
    values = [b"x" * 400] * 15_000  # more than half a block, so that each has one of its own or is cut
    for _ in range(50):
        gathered(blocks, 0, values)
    assert blocks._memory.held <= 3


def test_little_has_a_buffer_of_its_own_and_so_has_what_no_block_can_hold() -> None:
    blocks = Blocks()
    (little,) = gathered(blocks, 0, [b"beat"])
    (large,) = gathered(blocks, 1, [b"x" * (BLOCK_BYTES + 1)])
    assert len(little.buffer) == 4 + PAD_BYTES
    assert len(large.buffer) == BLOCK_BYTES + 1 + PAD_BYTES


def test_what_lies_in_one_block_is_put_together_without_copying() -> None:
    blocks = Blocks()
    first, second = (gathered(blocks, 0, [b"%d" % number * 100] * 5_000)[0] for number in (1, 2))
    joined = Payloads.joined([first[:10], second[5:20]])
    assert joined.buffer is first.buffer
    assert list(joined) == [b"1" * 100] * 10 + [b"2" * 100] * 15


def test_a_read_ends_with_a_block_once_it_has_enough() -> None:
    """And gives what is behind it at the next one; of small blocks it takes several."""
    blocks, tail = Blocks(), ColumnTail(TopicPartition("t", 0), 0)
    values = [b"%05d" % number for number in range(2 * BLOCK_RECORDS)]
    offset = 0
    for payloads in gathered(blocks, 0, values):
        offsets = np.arange(offset, offset + len(payloads))
        tail.add_piece(Piece(offsets, offsets, payloads, None, None, payloads.size))
        offset += len(payloads)
    taken = tail.new_taken(ENOUGH_RECORDS - 1, 1 << 30)
    assert taken.fill(tail)
    assert len(taken.chunk(0)) == ENOUGH_RECORDS - 1
    found = [values[: ENOUGH_RECORDS - 1]]
    while tail.has_some():
        taken = tail.new_taken(BLOCK_RECORDS, 1 << 30)
        taken.fill(tail)
        found.append(list(taken.chunk(0).values))
        assert len(found[-1]) >= ENOUGH_RECORDS or not tail.has_some()
    assert [value for chunk in found for value in chunk] == values
    assert [len(chunk) for chunk in found] == [ENOUGH_RECORDS - 1, BLOCK_RECORDS - ENOUGH_RECORDS + 1, BLOCK_RECORDS]


def test_records_that_came_as_objects_and_in_blocks_are_read_in_order_and_within_limits() -> None:
    rng = random.Random(2)
    values = [b"%d" % number * rng.randint(1, 9) for number in range(400)]
    for _ in range(20):
        tail, at = ColumnTail(TopicPartition("t", 0), 0), 0
        while at < len(values):
            to = min(len(values), at + rng.randint(1, 60))
            some = values[at:to] if rng.random() < 0.6 else Payloads.of(values[at:to])
            offsets = np.arange(at, to)
            tail.add_piece(Piece(offsets, offsets, some, None, None, sum(map(len, values[at:to]))))
            at = to
        found: list[bytes] = []
        while tail.has_some():
            most, most_bytes = rng.randint(1, 90), rng.randint(1, 900)
            taken = tail.new_taken(most, most_bytes)
            taken.fill(tail)
            chunk = taken.chunk(0)
            assert 0 < len(chunk) <= most
            assert len(chunk) == 1 or sum(map(len, chunk.values)) <= most_bytes
            assert chunk.offsets.tolist() == list(range(len(found), len(found) + len(chunk)))
            found += chunk.values
            assert tail.start == len(found)
        assert found == values
        assert tail.buffered == tail.records == 0
