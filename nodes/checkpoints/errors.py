"""Faults of a checkpoint: each means another way on."""

from __future__ import annotations


class CheckpointError(Exception):
    """Any failure with checkpoints; the message names the failure, its place and the remedy."""


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
