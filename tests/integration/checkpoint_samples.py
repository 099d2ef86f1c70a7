"""Contents and keys of checkpoints for tests."""

from __future__ import annotations

import hashlib

from nodes.checkpoints import CheckpointKey

TEXT = b"compressible " * 40
NOISE = hashlib.shake_256(b"noise").digest(500)


def key(offset: int = 10, answered_ms: int = 5_000, partition: int = 3) -> CheckpointKey:
    return CheckpointKey("q7", 0, partition, (offset, 1), (answered_ms, 0))
