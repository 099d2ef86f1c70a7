"""Commits that earlier owners of a state partition have logged, unpacked only when an epoch's turn comes.

Two rules for this file. An epoch without a commit can be run, so a commit that cannot be believed costs no more than
that. A commit that inflates without end is refused by its size, before it is inflated, or by the cost of others before
it.
"""

from __future__ import annotations

from transactional.epochs.messages import BadRecord, Commit, RecordPiece, commit_message
from transactional.epochs.pieces import WHOLE_BYTES, WRITTEN_RATIO, RecordPieces

WASTED_BYTES = WHOLE_BYTES
"""So much is inflated in vain for a partition that is taken; then compressed commits are not read any more."""


class LoggedCommits:
    """Of one partition, from epoch ``first`` on."""

    def __init__(self, partition: int, first: int) -> None:
        self.bad = 0
        self._partition = partition
        self._first = first
        self._found: dict[int, list[Commit | RecordPiece]] = {}  # by epoch, as they are on the log
        self._left_bytes = WASTED_BYTES

    def __len__(self) -> int:
        return len(self._found)

    def add(self, value: bytes) -> None:
        """The next record of the commits topic. Raises ``BadRecord``."""
        message = commit_message(value)
        if message.epoch >= self._first:
            self._found.setdefault(message.epoch, []).append(message)

    def take(self, epoch: int) -> Commit | None:
        """The first that is one of this epoch and partition; it is forgotten with all others of the epoch."""
        pieces = RecordPieces(most_ratio=WRITTEN_RATIO)
        for message in self._found.pop(epoch, ()):
            found = message if isinstance(message, Commit) else self._unpacked(pieces, message)
            if found is not None and (found.partition, found.epoch) == (self._partition, epoch):
                return found
        return None

    def _unpacked(self, pieces: RecordPieces, piece: RecordPiece) -> Commit | None:
        size = piece.size or 0
        if size > self._left_bytes:
            self.bad += 1
            return None
        try:
            whole = pieces.take(piece)
            found = None if whole is None else commit_message(whole)
            if isinstance(found, RecordPiece):
                raise BadRecord("a piece of a piece")
        except BadRecord:
            self.bad += 1
            self._left_bytes -= size
            return None
        return found
