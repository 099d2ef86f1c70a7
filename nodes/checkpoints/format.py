"""The bytes of a checkpoint file.

Two rules for this file. A damaged file is never taken for a good one, nor for one of a newer release. Reading costs no
more memory than the caller allows.

Layout, integers big-endian: magic (8), format version (2), checksum (16: BLAKE2b of version and all that follows),
length (1) and name of the release that wrote it. Then come codec (1), size of the contents (8), and the contents as the
codec wrote them. Up to the codec everything means the same in every version; version 1 lacks the release.
"""

from __future__ import annotations

import hashlib
import struct
import zlib

from nodes.checkpoints.errors import CheckpointDamaged, CheckpointNewer

FORMAT_VERSION = 2
MAX_CONTENTS_BYTES = 4 << 30
_MAGIC = b"HOLONCKP"
_HEAD = struct.Struct(">8sH16s")
_BODY = struct.Struct(">BQ")
_WRITER_BYTES = 255
OVERHEAD_BYTES = _HEAD.size + 1 + _WRITER_BYTES + _BODY.size
_RAW, _ZLIB = 0, 1
_SAMPLES, _SAMPLE_BYTES, _LEAST_SAMPLE_BYTES = 8, 2 << 10, 512
_PAYS = 0.5
_SMALL_BYTES = 64 << 20
_FAR, _PIECE_BYTES = 16, 1 << 20
"""Contents that are small, or inflate to at most so many times their stored size, may be inflated before comparison."""


def pack(contents: bytes, writer: str = "") -> bytes:
    """The file's bytes: compressed if that saves enough. ``writer`` names the release, for later ones."""
    stored, codec = contents, _RAW
    if _pays(contents):
        compressed = zlib.compress(contents, 1)
        if len(compressed) < len(contents):
            stored, codec = compressed, _ZLIB
    name = writer.encode("ascii", "replace")[:_WRITER_BYTES]
    body = bytes([len(name)]) + name + _BODY.pack(codec, len(contents)) + stored
    return _HEAD.pack(_MAGIC, FORMAT_VERSION, _checksum(FORMAT_VERSION, body)) + body


def _pays(contents: bytes) -> bool:
    """Whether compressing is worth its time, by a sample of what is large: 18 s of CPU a GB."""
    step = len(contents) // _SAMPLES
    size = min(_SAMPLE_BYTES, step // _SAMPLES)
    if size < _LEAST_SAMPLE_BYTES:
        return True
    sample = b"".join(contents[start : start + size] for start in range(0, step * _SAMPLES, step))
    return len(zlib.compress(sample, 1)) < _PAYS * len(sample)


def unpack(data: bytes, name: str, max_contents_bytes: int = MAX_CONTENTS_BYTES, digest: str | None = None) -> bytes:
    """The contents. Raises ``CheckpointDamaged`` or ``CheckpointNewer``.

    ``digest``: of the contents, as the name has it. Contents that inflate to much are compared with it before memory is
    given to them.
    """
    if len(data) < _HEAD.size:
        raise CheckpointDamaged(f"checkpoint {name} is cut off: {len(data)} bytes, the header alone has {_HEAD.size}")
    magic, version, checksum = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if magic != _MAGIC:
        raise CheckpointDamaged(f"checkpoint {name} does not begin as one: {data[:8]!r}")
    if _checksum(version, body) != checksum:
        raise CheckpointDamaged(f"checkpoint {name} does not match its checksum ({len(data)} bytes)")
    writer, body = _writer(version, body, name)
    if version > FORMAT_VERSION:
        raise CheckpointNewer(
            f"checkpoint {name} has format {version}, written by Holon {writer}; this release reads up to "
            f"{FORMAT_VERSION}: run that release or a later one (going back to an older checkpoint would hide it)"
        )
    if len(body) < _BODY.size:
        raise CheckpointDamaged(f"checkpoint {name} has no contents")
    codec, size = _BODY.unpack_from(body)
    if size > max_contents_bytes:
        raise CheckpointDamaged(f"checkpoint {name} claims {size} bytes of contents, the limit is {max_contents_bytes}")
    stored = body[_BODY.size :]
    if codec == _ZLIB and digest is not None and size > max(_SMALL_BYTES, _FAR * len(stored)):
        _check_far(size, stored, name, digest)
    return _expand(codec, size, stored, name)


def _writer(version: int, body: memoryview, name: str) -> tuple[str, memoryview]:
    """The release that wrote it, and what follows."""
    if version < 2:
        return "?", body
    length = body[0] if len(body) else 0
    if len(body) < 1 + length:
        raise CheckpointDamaged(f"checkpoint {name} has no contents")
    shown = "".join(char for char in bytes(body[1 : 1 + length]).decode("ascii", "replace") if char.isprintable())
    return shown or "?", body[1 + length :]


def _expand(codec: int, size: int, stored: memoryview, name: str) -> bytes:
    if codec == _RAW:
        contents, whole = bytes(stored), True
    elif codec == _ZLIB:
        inflater = zlib.decompressobj()
        try:
            contents = inflater.decompress(stored, size + 1)  # never more than what was announced
        except zlib.error as error:
            raise CheckpointDamaged(f"checkpoint {name} cannot be decompressed: {error}") from error
        whole = inflater.eof and not inflater.unused_data
    else:
        raise CheckpointDamaged(f"checkpoint {name} has the unknown codec {codec}")
    if len(contents) != size or not whole:
        raise CheckpointDamaged(f"checkpoint {name} has {len(contents)} bytes of contents instead of {size}")
    return contents


def _check_far(size: int, stored: memoryview, name: str, digest: str) -> None:
    """Inflate a piece at a time, and keep nothing: who wrote the file also knows the digest, or it is damaged."""
    inflater, made, found = zlib.decompressobj(), hashlib.blake2b(digest_size=16), 0
    data: bytes | memoryview = stored
    try:
        while found <= size and not inflater.eof:
            part = inflater.decompress(data, _PIECE_BYTES)
            if not part:
                break
            made.update(part)
            found, data = found + len(part), inflater.unconsumed_tail
    except zlib.error as error:
        raise CheckpointDamaged(f"checkpoint {name} cannot be decompressed: {error}") from error
    if found != size or made.hexdigest() != digest:
        raise CheckpointDamaged(
            f"checkpoint {name} inflates from {len(stored)} bytes to {found}{' and more' if found > size else ''}, and "
            f"its contents do not match its name"
        )


def _checksum(version: int, body: bytes | memoryview) -> bytes:
    checksum = hashlib.blake2b(version.to_bytes(2, "big"), digest_size=16)
    checksum.update(body)
    return checksum.digest()
