"""Aborted transactions in an answer are left out, whatever stands between them; a damaged batch never decides."""

from __future__ import annotations

import random
import struct
from typing import Any, cast

import pytest

from nodes.compiled.loading import Compiled
from nodes.log.kafka.direct.connection import Answer, Wire, text
from nodes.log.kafka.direct.fetch_requests import Fetcher, Passed, Refused
from nodes.log.kafka.direct.fetched.positions import FetchPosition
from tests.unit.kafka_batches import TRANSACTIONAL, Row, batch, marker

TOPIC = "events"
BATCHES = 60
PRODUCERS = 4


class Broker(Wire):
    """Gives one answer."""

    def __init__(self, data: bytes, aborted: list[tuple[int, int]]) -> None:
        listed = b"".join(struct.pack(">qq", producer, first) for producer, first in aborted)
        parts = [struct.pack(">ihii", 0, 0, 0, 1), text(TOPIC), struct.pack(">i", 1)]
        parts += [struct.pack(">ihqqqi", 0, 0, 0, 0, 0, len(aborted)), listed, struct.pack(">ii", -1, len(data)), data]
        self._body = b"".join(parts)

    def flush(self) -> None:
        return None

    def send(self, api: int, version: int, *parts: Any) -> int:
        return 1

    def receive(self, room: Any) -> Answer:
        into = room(len(self._body))[: len(self._body)]
        into[:] = self._body
        return Answer(1, into)


class Drawn:
    """A partition with interleaved transactions: its batches, the aborted ones, and the offsets that count."""

    def __init__(self, rng: random.Random) -> None:
        self.batches: list[bytes] = []
        self.ends: list[int] = []
        self.aborted: list[tuple[int, int]] = []
        self.committed: list[int] = []
        self.at = 0
        open_by: dict[int, list[int]] = {}
        for _ in range(BATCHES):
            producer = rng.randrange(PRODUCERS)
            if producer in open_by and rng.random() < 0.4:
                self.end(rng, producer, open_by.pop(producer))
            elif producer == 0:
                self.committed += self.put(rng, 0, 0)
            else:
                open_by.setdefault(producer, []).extend(self.put(rng, producer, TRANSACTIONAL))
        for producer, offsets in open_by.items():
            self.end(rng, producer, offsets)

    def put(self, rng: random.Random, producer: int, flags: int) -> list[int]:
        offsets = list(range(self.at, self.at + rng.randrange(1, 4)))
        self.at = offsets[-1] + rng.randrange(1, 3)  # compaction leaves gaps
        rows = [Row(offset, 0, b"%d" % offset) for offset in offsets]
        self.add(batch(rows, base=offsets[0], last=self.at - 1, flags=flags, producer=producer))
        return offsets

    def end(self, rng: random.Random, producer: int, offsets: list[int]) -> None:
        commits = rng.random() < 0.5
        if commits:
            self.committed += offsets
        else:
            self.aborted.append((producer, offsets[0]))
        self.at += 1
        self.add(marker(self.at - 1, producer, commits=commits))

    def add(self, data: bytes) -> None:
        self.batches.append(data)
        self.ends.append(self.at)


def taken(loops: Compiled, data: bytes, aborted: list[tuple[int, int]], offset: int) -> tuple[list[Any], FetchPosition]:
    fetcher = Fetcher(cast("Wire", Broker(data, aborted)), loops, {}, None, 20)
    place = FetchPosition((TOPIC, 0), offset, epoch=0)
    fetcher.add(place)
    assert fetcher.take() == []  # asks
    found = fetcher.take()
    assert isinstance(found, list)
    return found, place


def offsets_of(found: list[Any]) -> list[int]:
    pieces = [one[2] for one in found if not isinstance(one, Passed | Refused)]
    assert [int(value) for piece in pieces for value in piece.values] == [n for p in pieces for n in p.offsets.tolist()]
    return [offset for piece in pieces for offset in piece.offsets.tolist()]


@pytest.mark.parametrize("seed", range(40))
def test_of_interleaved_transactions_the_committed_ones_are_given(loops: Compiled, seed: int) -> None:
    """From any offset, with the list in any order, and where the last batch is cut off."""
    rng = random.Random(seed)
    drawn = Drawn(rng)
    rng.shuffle(drawn.aborted)
    offset = rng.choice([0, rng.randrange(drawn.at)])
    found, place = taken(loops, b"".join(drawn.batches), drawn.aborted, offset)
    assert offsets_of(found) == [one for one in sorted(drawn.committed) if one >= offset]
    assert not any(isinstance(one, Refused) for one in found)
    assert place.offset == drawn.at and place.read_epoch == 3
    passed = [one.offset for one in found if isinstance(one, Passed)]
    assert passed == sorted(passed) and all(offset < one <= drawn.at for one in passed)
    cut, place = taken(loops, b"".join(drawn.batches)[:-1], drawn.aborted, 0)
    assert offsets_of(cut) == [one for one in sorted(drawn.committed) if one < drawn.ends[-2]]
    assert place.offset == drawn.ends[-2] and place.batch_bytes == len(drawn.batches[-1])


def test_a_transaction_that_began_before_the_answer_is_left_out(loops: Compiled) -> None:
    data = batch([Row(9, 0, b"9")], base=9, last=9, flags=TRANSACTIONAL, producer=5) + marker(10, 5, commits=False)
    later = batch([Row(11, 0, b"11")], base=11, last=11, flags=TRANSACTIONAL, producer=5)
    found, place = taken(loops, data + later, [(5, 2)], 9)
    assert offsets_of(found) == [11] and place.offset == 12


@pytest.mark.parametrize("at", [23, 43, 61])
def test_a_damaged_batch_is_neither_given_nor_left_out(loops: Compiled, at: int) -> None:
    """Attributes, producer or records of one that would be left out: reading ends before it."""
    good = batch([Row(0, 0, b"0")], base=0, last=0)
    bad = bytearray(batch([Row(1, 0, b"1")], base=1, last=1, flags=TRANSACTIONAL, producer=5))
    bad[at if at != 23 else 22] ^= 64 if at != 23 else TRANSACTIONAL
    found, place = taken(loops, good + bytes(bad) + marker(2, 5, commits=False), [(5, 1)], 0)
    assert offsets_of(found) == [0]
    assert isinstance(found[-1], Refused) and place.offset == 1
