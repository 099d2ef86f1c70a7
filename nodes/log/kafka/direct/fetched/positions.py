"""Positions of reading partitions by fetch requests, and how much is requested of each."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from nodes.log.kafka.confluent_reader import Where

PARTITION_BYTES = 6 << 20
"""The most that a fetch requests of a partition: some 18,000 records of 333 bytes, nearly all that a node takes of one
in a step. With 2 MB a backlog costs up to a third more, as each step and each delta has its price."""
_LEAST_BYTES = 2 << 20
ANSWER_BYTES = 16 << 20
SMALL_BYTES = 64 << 10
"""Less than this has a buffer of its own: a partition with little traffic must not hold a large one."""
_SLACK = 32
"""By such a part batches may be larger than the one before."""
_BATCH = struct.Struct(">qi")  # a batch begins with its first offset and how many bytes follow


@dataclass(slots=True)
class FetchPosition:
    """The position of reading a partition. ``epoch`` of its leader; ``read_epoch`` of the last batch, -1: not known.

    ``batch_bytes``: of the last batch that an answer cut off, 0: none yet. ``inflation``: how much larger plain records
    are than the compressed ones that were read. ``behind``: whether the leader may have more than the last answer.
    ``sent_offset`` and ``sent_bytes``: position and limit that the broker knows of it in a session, -1: none.
    """

    where: Where
    offset: int
    epoch: int
    read_epoch: int = -1
    batch_bytes: int = 0
    inflation: float = 1.0
    behind: bool = True
    sent_offset: int = -1
    sent_bytes: int = -1

    def inflates(self, packed: int, plain: int) -> None:
        """So many bytes were so many plain ones."""
        self.inflation = max(1.0, plain / packed)

    def cut_off(self, rest: memoryview) -> None:
        """An answer ended with this part of a batch."""
        if len(rest) >= _BATCH.size:
            self.batch_bytes = max(0, _BATCH.unpack_from(rest)[1]) + _BATCH.size

    def fetch_bytes(self, places: int) -> int:
        """The maximum bytes to request for it, where it is one of so many partitions with more to read.

        A broker cuts its answer at that limit, even within a batch, and the part of that batch is sent for nothing: a
        third of the answer for batches of 1.4 MB and a limit of 2 MB. So the limit is a multiple of the last batch's
        size, as many as there is room for, at least one.
        """
        share = min(PARTITION_BYTES, max(ANSWER_BYTES // places, _LEAST_BYTES))
        if self.inflation > 1.0:
            share = max(int(share / self.inflation), min(share, SMALL_BYTES))
        if not self.batch_bytes:
            return share
        each = self.batch_bytes + self.batch_bytes // _SLACK
        return min(max(1, share // each) * each, ANSWER_BYTES)
