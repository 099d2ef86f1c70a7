"""The envelope of messages: a version, a checksum and the payload. Bytes from outside fail here, as ``BadMessage``.

The envelope is one byte of format version, the CRC-32 of version and payload (4 bytes, big-endian), and the payload in
MessagePack. These five bytes mean the same in every version, so that damage is never taken for a newer version.
"""

from __future__ import annotations

import struct
import zlib
from enum import Enum
from typing import TypeVar

import msgspec

FORMAT_VERSION = 12
"""The newest that this release reads. It writes a message in the oldest format that has its fields (``format``)."""
FIRST_VERSION = 1

_HEAD = struct.Struct(">BI")
_CRC_SEED = {version: zlib.crc32(bytes([version])) for version in range(256)}
_ENCODER = msgspec.msgpack.Encoder()

M = TypeVar("M")


class BadReason(Enum):
    """Why bytes are not a message."""

    TOO_SHORT = "too short"
    TOO_LARGE = "too large"
    CRC = "damaged (CRC)"
    NEWER_VERSION = "of a newer version"
    MALFORMED = "malformed"


class BadMessage(Exception):
    """Bytes that are not a message of this version; ``reason`` is for counting, the text has the details.

    Callers count and ignore it, except ``NEWER_VERSION`` on the control topic, which must stop the node.
    """

    def __init__(self, reason: BadReason, detail: str) -> None:
        super().__init__(f"message {reason.value}: {detail}")
        self.reason = reason


def seal(value: object, limit: int, version: int = FIRST_VERSION) -> bytes:
    """Any typed value in the envelope. Raises ``BadMessage`` (too large)."""
    payload = _ENCODER.encode(value)
    if _HEAD.size + len(payload) > limit:
        raise BadMessage(BadReason.TOO_LARGE, f"{type(value).__name__} of {len(payload)} bytes, limit {limit}")
    return _HEAD.pack(version, zlib.crc32(payload, _CRC_SEED[version])) + payload


def unseal(decoder: msgspec.msgpack.Decoder[M], data: bytes, limit: int) -> M:
    """The contents that ``seal`` has put in the envelope. Raises ``BadMessage``, and nothing else."""
    if len(data) < _HEAD.size:
        raise BadMessage(BadReason.TOO_SHORT, f"{len(data)} bytes, the envelope alone has {_HEAD.size}")
    if len(data) > limit:
        raise BadMessage(BadReason.TOO_LARGE, f"{len(data)} bytes, limit {limit}")
    version, crc = _HEAD.unpack_from(data)
    payload = memoryview(data)[_HEAD.size :]
    if zlib.crc32(payload, _CRC_SEED[version]) != crc:
        raise BadMessage(BadReason.CRC, f"{len(data)} bytes, begins with {data[:16].hex()}")
    if version > FORMAT_VERSION:
        raise BadMessage(BadReason.NEWER_VERSION, f"version {version}, this release reads up to {FORMAT_VERSION}")
    try:
        return decoder.decode(payload)
    except (msgspec.MsgspecError, RecursionError, ValueError, TypeError) as error:
        raise BadMessage(BadReason.MALFORMED, str(error)) from error
