"""The bytes of a fetch answer's partitions, and of the head of a record batch (magic 2).

Format: kafka.apache.org/protocol#The_Messages_Fetch, and kafka.apache.org/documentation/#recordbatch.
"""

from __future__ import annotations

import struct

PARTITION = struct.Struct(">ihqqqi")
"""Partition, error, high watermark, last stable offset, first offset, how many aborted transactions follow."""
ABORTED = struct.Struct(">qq")
"""Of an aborted transaction: the producer, and the first offset."""
BATCH = struct.Struct(">qiibIhiqqqhii")
"""First offset, bytes that follow, the leader's epoch, magic, checksum, flags, last number, times, producer, more."""
BEFORE_LENGTH = 12
"""The length of a batch counts what follows its first offset and itself."""
SUMMED_FROM = 21
"""The checksum covers what follows it, from the flags on."""
MAGIC = 2
CODEC, APPEND_TIME, TRANSACTIONAL, CONTROL = 7, 8, 16, 32
"""Flags."""
