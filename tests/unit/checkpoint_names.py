"""Names of checkpoints as stores give them, for records of the control topic that tests make."""

from __future__ import annotations

import msgspec

from nodes.checkpoints.file_names import MERGED, CheckpointKey, digest_of, name_of
from nodes.machine import messages as m


def named(saved: m.CheckpointSaved) -> m.CheckpointSaved:
    """The record with the name that a store gives contents of the name that it has."""
    key = CheckpointKey("job", saved.incarnation, saved.partition, saved.record_position, saved.answered)
    return msgspec.structs.replace(saved, name=name_of(key, digest_of(saved.name.encode())))


def named_merged(saved: m.MergedSaved) -> m.MergedSaved:
    """As ``named``."""
    key = CheckpointKey("job", saved.incarnation, MERGED, (saved.control_offset, 0), (0, 0))
    return msgspec.structs.replace(saved, name=name_of(key, digest_of(saved.name.encode())))
