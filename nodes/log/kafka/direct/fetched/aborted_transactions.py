"""Record batches of aborted transactions, which a broker sends with the list of these: a reader leaves them out.

As Kafka's own consumer does it: a transaction in the list begins at its first offset, and ends at the producer's
marker. Format: kafka.apache.org/documentation/#recordbatch and #controlbatch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from nodes.log.kafka.direct.fetched.batch_format import (
    ABORTED,
    BATCH,
    BEFORE_LENGTH,
    CONTROL,
    MAGIC,
    SUMMED_FROM,
    TRANSACTIONAL,
)

_MARKER = struct.Struct(">hh")  # version and kind, the key of a marker's only record
_ABORT = 0
_VARINTS_BEFORE_KEY = 4  # length, time, offset, length of the key

Checksum = Callable[[int, int], int]
"""CRC-32C of the bytes between two places of the buffer."""


class BatchRun(NamedTuple):
    """Whole batches between two places of a buffer, which are read; or, ``aborted``, left out up to ``next_offset``."""

    at: int
    end: int
    aborted: bool = False
    next_offset: int = -1
    epoch: int = -1


def batch_runs(data: memoryview, at: int, end: int, aborted: memoryview, checksum: Checksum) -> Iterator[BatchRun]:
    """The batches from ``at`` on, parted; the last run has what is no whole batch, is damaged, or is of another magic.

    ``aborted``: the broker's list of producers and first offsets.
    """
    waiting = sorted((first, producer) for producer, first in ABORTED.iter_unpack(aborted))
    within: set[int] = set()
    begun = at
    while at + BATCH.size <= end:
        base, length, epoch, magic, crc, flags, last, _, _, producer, *_ = BATCH.unpack_from(data, at)
        behind = at + BEFORE_LENGTH + length
        if magic != MAGIC or length < BATCH.size - BEFORE_LENGTH or behind > end:
            break
        while waiting and waiting[0][0] <= base + last:
            within.add(waiting.pop(0)[1])
        if producer in within and flags & TRANSACTIONAL:
            if checksum(at + SUMMED_FROM, behind) != crc:
                break  # the reader of the batch reports the damage
            if not flags & CONTROL:
                if begun < at:
                    yield BatchRun(begun, at)
                yield BatchRun(at, behind, True, base + last + 1, epoch)
                begun = behind
            elif _is_abort(data[at + BATCH.size : behind]):
                within.discard(producer)
        at = behind
    yield BatchRun(begun, end)


def _is_abort(record: memoryview) -> bool:
    at = 0
    for number in range(_VARINTS_BEFORE_KEY):
        while at < len(record) and record[at] & 0x80:
            at += 1
        at += 1 + (number == 0)  # a byte of flags follows the record's length
    return at + _MARKER.size <= len(record) and _MARKER.unpack_from(record, at)[1] == _ABORT
