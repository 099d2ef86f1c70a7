"""Contents and keys of checkpoints for tests."""

from __future__ import annotations

import hashlib
import struct

from nodes.checkpoints import format as fmt
from nodes.checkpoints.store import CheckpointKey

TEXT = b"compressible " * 40
NOISE = hashlib.shake_256(b"noise").digest(500)


def key(offset: int = 10, answered_ms: int = 5_000, partition: int = 3) -> CheckpointKey:
    return CheckpointKey("q7", 0, partition, (offset, 1), (answered_ms, 0))


def sealed(version: int, body: bytes) -> bytes:
    """A file with a right checksum."""
    checksum = hashlib.blake2b(version.to_bytes(2, "big") + body, digest_size=16).digest()
    return struct.pack(">8sH16s", b"HOLONCKP", version, checksum) + body


def newer(body: bytes) -> bytes:
    return sealed(fmt.FORMAT_VERSION + 1, body)
