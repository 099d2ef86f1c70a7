"""Pieces that a reader gives, and the tail that keeps them until they are read."""

from __future__ import annotations

import random

import numpy as np

from holon.columnar.payloads import BinaryColumn
from nodes.log.contract import TopicPartition
from nodes.log.kafka.columns import ENOUGH_RECORDS, RecordRun, Tail, TakenPieces

BLOCK_RECORDS = 20_000


def test_a_read_ends_with_a_block_once_it_has_enough() -> None:
    """And gives what is behind it at the next one; of small blocks it takes several."""
    tail = Tail(TopicPartition("t", 0), 0)
    values = [b"%05d" % number for number in range(2 * BLOCK_RECORDS)]
    offset = 0
    for payloads in (BinaryColumn.of(values[at : at + BLOCK_RECORDS]) for at in (0, BLOCK_RECORDS)):
        offsets = np.arange(offset, offset + len(payloads))
        tail.add_piece(RecordRun(offsets, offsets, payloads, None, None, payloads.size))
        offset += len(payloads)
    taken = TakenPieces(ENOUGH_RECORDS - 1, 1 << 30, columns=True)
    assert taken.fill(tail)
    assert len(taken.chunk(0)) == ENOUGH_RECORDS - 1
    found = [values[: ENOUGH_RECORDS - 1]]
    while tail.has_some():
        taken = TakenPieces(BLOCK_RECORDS, 1 << 30, columns=True)
        taken.fill(tail)
        found.append(list(taken.chunk(0).values))
        assert len(found[-1]) >= ENOUGH_RECORDS or not tail.has_some()
    assert [value for chunk in found for value in chunk] == values
    assert [len(chunk) for chunk in found] == [ENOUGH_RECORDS - 1, BLOCK_RECORDS - ENOUGH_RECORDS + 1, BLOCK_RECORDS]


def test_records_that_came_as_objects_and_in_blocks_are_read_in_order_and_within_limits() -> None:
    rng = random.Random(2)
    values = [b"%d" % number * rng.randint(1, 9) for number in range(400)]
    for _ in range(20):
        tail, at = Tail(TopicPartition("t", 0), 0), 0
        while at < len(values):
            to = min(len(values), at + rng.randint(1, 60))
            some = values[at:to] if rng.random() < 0.6 else BinaryColumn.of(values[at:to])
            offsets = np.arange(at, to)
            tail.add_piece(RecordRun(offsets, offsets, some, None, None, sum(map(len, values[at:to]))))
            at = to
        found: list[bytes] = []
        while tail.has_some():
            most, most_bytes = rng.randint(1, 90), rng.randint(1, 900)
            taken = TakenPieces(most, most_bytes, rng.random() < 0.5)
            taken.fill(tail)
            chunk = taken.chunk(0)
            assert 0 < len(chunk) <= most
            assert len(chunk) == 1 or sum(map(len, chunk.values)) <= most_bytes
            assert chunk.offsets.tolist() == list(range(len(found), len(found) + len(chunk)))
            found += chunk.values
            assert tail.start == len(found)
        assert found == values
        assert tail.buffered == tail.records == 0
