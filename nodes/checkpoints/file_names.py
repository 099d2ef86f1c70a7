"""Names of checkpoints in a store, and the contents of a name.

One rule for this file: a name that this project has not made is refused before anything is done with it.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from nodes.checkpoints.errors import BadCheckpointName, CheckpointMissing
from wcrdt.replica.slots import Position

MERGED = -1
"""In place of a partition: a merged checkpoint, of the slots of all partitions."""
_JOB = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_NAME = re.compile(
    r"(?P<job>[^/]+)/(?P<incarnation>\d{1,10})/(?P<partition>\d{5,}|merged)/(?P<offset>\d{20})\.(?P<step>\d+)"
    r"-(?P<answered_ms>-?\d+)\.(?P<stage>\d+)-(?P<digest>[0-9a-f]{32})(?:-(?P<attempt>\d))?\.ckpt",
    re.ASCII,
)


class CheckpointKey(NamedTuple):
    """The origin of a checkpoint: both tracks' positions of one partition.

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
    def checkpoint(self) -> tuple[CheckpointKey, str]:
        """Equal for all files of the same contents."""
        return self.key, self.digest

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
