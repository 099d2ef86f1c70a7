"""The bytes and the name of a checkpoint file.

Two rules for this file: a damaged file is never taken for a good one, nor for one of a newer release; nothing read
here can cost more memory than the caller allows.

Layout, integers big-endian: magic (8), format version (2), checksum (16: BLAKE2b of version and all that follows),
length (1) and name of the release that wrote it, codec (1), size of the contents (8), then the contents as the codec
wrote them. Up to the codec everything means the same in every version; version 1 lacks the release.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from typing import NamedTuple

from wcrdt.slots import Position

FORMAT_VERSION = 2
MAX_CONTENTS_BYTES = 4 << 30
_MAGIC = b"HOLONCKP"
_HEAD = struct.Struct(">8sH16s")
_BODY = struct.Struct(">BQ")
_WRITER_BYTES = 255
OVERHEAD_BYTES = _HEAD.size + 1 + _WRITER_BYTES + _BODY.size
_RAW, _ZLIB = 0, 1
_SAMPLES, _SAMPLE_BYTES = 8, 16 << 10
_PAYS = 0.5
_SMALL_BYTES = 64 << 20
_FAR, _PIECE_BYTES = 16, 1 << 20
"""What is small, or inflates to no more than so many times what is stored, may be inflated before it is compared."""
MERGED = -1
"""In place of a partition: a merged checkpoint, of the slots of all partitions."""

_JOB = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_NAME = re.compile(
    r"(?P<job>[^/]+)/(?P<incarnation>\d{1,10})/(?P<partition>\d{5,}|merged)/(?P<offset>\d{20})\.(?P<step>\d+)"
    r"-(?P<answered_ms>-?\d+)\.(?P<stage>\d+)-(?P<digest>[0-9a-f]{32})(?:-(?P<attempt>\d))?\.ckpt",
    re.ASCII,
)


class CheckpointError(Exception):
    """Any failure with checkpoints; the message says what, where and what to do."""


class CheckpointDamaged(CheckpointError):
    """The file is torn or changed: fall back to an older checkpoint, or to replay."""


class CheckpointMissing(CheckpointError):
    """There is no such file: fall back to an older checkpoint, or to replay."""


class CheckpointNewer(CheckpointError):
    """An intact file of a format that this release cannot read: a node that needs it stops, and does not go back.

    An older checkpoint would do, but nobody would learn that the fleet has two releases that do not go together.
    """


class BadCheckpointName(CheckpointError, ValueError):
    """The name is not one that this project makes (or tries to leave the store's folder)."""


class CheckpointKey(NamedTuple):
    """What a checkpoint is of: both tracks' positions of one partition.

    A merged one has ``MERGED`` for its partition, and (offset of the control topic, 0) for its record position.
    """

    job: str
    incarnation: int
    partition: int
    record_position: Position
    answered: Position


class CheckpointName(NamedTuple):
    """A parsed name. ``attempt`` > 0: the same contents under another name, since the first file was damaged."""

    key: CheckpointKey
    digest: str
    attempt: int

    @property
    def age_order(self) -> tuple[Position, Position, int, str]:
        """Sorts checkpoints of one partition from the oldest to the newest."""
        return self.key.record_position, self.key.answered, self.attempt, self.digest


def digest_of(contents: bytes) -> str:
    """The part of a name that names the contents."""
    return hashlib.blake2b(contents, digest_size=16).hexdigest()


def folder_of(job: str, incarnation: int, partition: int) -> str:
    """Where a partition's checkpoints are. Raises ``BadCheckpointName``."""
    if not _JOB.fullmatch(job) or ".." in job:
        raise BadCheckpointName(f"job name {job!r}: use letters, digits and . _ - (up to 200, no leading . or -)")
    if incarnation < 0 or (partition < 0 and partition != MERGED):
        raise BadCheckpointName(f"incarnation {incarnation} and partition {partition} must not be negative")
    return f"{job}/{incarnation}/" + ("merged" if partition == MERGED else f"{partition:05d}")


def name_of(key: CheckpointKey, digest: str, attempt: int = 0) -> str:
    """The immutable name of a checkpoint. Raises ``BadCheckpointName``."""
    folder = folder_of(key.job, key.incarnation, key.partition)
    (offset, step), (answered_ms, stage) = key.record_position, key.answered
    again = f"-{attempt}" if attempt else ""
    name = f"{folder}/{offset:020d}.{step}-{answered_ms}.{stage}-{digest}{again}.ckpt"
    parse_name(name)
    return name


def parse_name(name: str) -> CheckpointName:
    """Raises ``BadCheckpointName`` on anything that ``name_of`` cannot give."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise BadCheckpointName(f"{name[:300]!r} is not the name of a checkpoint")
    key = CheckpointKey(
        found["job"],
        int(found["incarnation"]),
        MERGED if found["partition"] == "merged" else int(found["partition"]),
        (int(found["offset"]), int(found["step"])),
        (int(found["answered_ms"]), int(found["stage"])),
    )
    if not name.startswith(folder_of(key.job, key.incarnation, key.partition) + "/"):
        raise BadCheckpointName(f"{name[:300]!r} is not in the form that this release writes")
    return CheckpointName(key, found["digest"], int(found["attempt"] or 0))


def own_name(job: str, name: str) -> str:
    """The name, if it is one of this job's checkpoints. Raises ``CheckpointMissing``: a record may name anything."""
    try:
        if parse_name(name).key.job == job:
            return name
    except BadCheckpointName:
        pass
    raise CheckpointMissing(f"{name[:300]!r} is not the name of a checkpoint of job {job}")


def is_name_of(name: str, incarnation: int, partition: int, record_position: Position, answered: Position) -> bool:
    """Whether this is a name of a checkpoint of that partition at that position, of whichever job."""
    try:
        key = parse_name(name).key
    except BadCheckpointName:
        return False
    return key[1:] == (incarnation, partition, record_position, answered)


def is_merged_name(name: str, incarnation: int, control_offset: int) -> bool:
    """Whether this is a name of a merged checkpoint that was begun there on the control topic."""
    try:
        key = parse_name(name).key
    except BadCheckpointName:
        return False
    return key[1:4] == (incarnation, MERGED, (control_offset, 0))


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
    if step < _SAMPLE_BYTES:
        return True
    sample = b"".join(contents[start : start + _SAMPLE_BYTES] for start in range(0, step * _SAMPLES, step))
    return len(zlib.compress(sample, 1)) < _PAYS * len(sample)


def unpack(data: bytes, name: str, max_contents_bytes: int = MAX_CONTENTS_BYTES, digest: str | None = None) -> bytes:
    """The contents. Raises ``CheckpointDamaged`` or ``CheckpointNewer``.

    ``digest``: of the contents, as the name has it. What inflates to much is compared with it before memory is given
    to it.
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
            f"holds other contents than its name says"
        )


def _checksum(version: int, body: bytes | memoryview) -> bytes:
    checksum = hashlib.blake2b(version.to_bytes(2, "big"), digest_size=16)
    checksum.update(body)
    return checksum.digest()
