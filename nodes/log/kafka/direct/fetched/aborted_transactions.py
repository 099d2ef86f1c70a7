"""Record batches of aborted transactions, which a broker sends with the list of these: a reader leaves them out.

As Kafka's own consumer does it: a transaction in the list begins at its first offset, and ends at the producer's
marker. Format: kafka.apache.org/documentation/#recordbatch and #controlbatch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

_BATCH = struct.Struct(">qiibIhiqqqhii")
_AFTER_LENGTH = 12
"""A batch's length counts what follows its first offset and itself."""
_SUMMED_FROM = 21
"""The checksum covers what follows it."""
_TRANSACTIONAL, _CONTROL = 16, 32
_ABORTED = struct.Struct(">qq")
_MARKER = struct.Struct(">hh")  # version and kind, the key of a marker's only record
_ABORT = 0
_VARINTS_BEFORE_KEY = 4  # length, time, offset, length of the key

Checksum = Callable[[int, int], int]
"""CRC-32C of the bytes between two places of the buffer."""


class Run(NamedTuple):
    """Whole batches between two places of a buffer, which are read; or, ``aborted``, left out up to ``next_offset``."""

    at: int
    end: int
    aborted: bool = False
    next_offset: int = -1
    epoch: int = -1


def runs(data: memoryview, at: int, end: int, aborted: memoryview, checksum: Checksum) -> Iterator[Run]:
    """The batches from ``at`` on, parted; the last run has what is no whole batch, is damaged, or is of another magic.

    ``aborted``: the broker's list of producers and first offsets.
    """
    waiting = sorted((first, producer) for producer, first in _ABORTED.iter_unpack(aborted))
    within: set[int] = set()
    begun = at
    while at + _BATCH.size <= end:
        base, length, epoch, magic, crc, flags, last, _, _, producer, *_ = _BATCH.unpack_from(data, at)
        behind = at + _AFTER_LENGTH + length
        if magic != 2 or length < _BATCH.size - _AFTER_LENGTH or behind > end:
            break
        while waiting and waiting[0][0] <= base + last:
            within.add(waiting.pop(0)[1])
        if producer in within and flags & _TRANSACTIONAL:
            if checksum(at + _SUMMED_FROM, behind) != crc:
                break  # whoever reads it says so
            if not flags & _CONTROL:
                if begun < at:
                    yield Run(begun, at)
                yield Run(at, behind, True, base + last + 1, epoch)
                begun = behind
            elif _is_abort(data[at + _BATCH.size : behind]):
                within.discard(producer)
        at = behind
    yield Run(begun, end)


def _is_abort(record: memoryview) -> bool:
    at = 0
    for number in range(_VARINTS_BEFORE_KEY):
        while at < len(record) and record[at] & 0x80:
            at += 1
        at += 1 + (number == 0)  # a byte of flags follows the record's length
    return at + _MARKER.size <= len(record) and _MARKER.unpack_from(record, at)[1] == _ABORT
