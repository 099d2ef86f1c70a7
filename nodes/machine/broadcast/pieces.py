"""Pieces: a broadcast message that no single record of the log holds, cut by its writer, put together by its readers.

Two rules for this file. A message is read when all of its pieces are here, or not at all. A missing piece is a gap like
any other, so a reader never waits for a piece.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from nodes.machine import messages as m

PIECE_BYTES = 900_000
"""Fits into a record of Kafka's own default limit (1,048,588 bytes), envelope included."""
MAX_OPEN = 2
"""Unfinished messages of one partition that are kept: those of an owner and of its predecessor."""
_DIGEST_BYTES = 16


class PieceLost(Exception):
    """A piece came, and one before it did not."""


def cut(incarnation: int, value: bytes, piece_bytes: int = PIECE_BYTES) -> list[bytes]:
    """The records for an encoded broadcast message: itself where it fits, else its pieces in order."""
    if len(value) <= piece_bytes:
        return [value]
    whole, count = _digest(value), -(-len(value) // piece_bytes)
    parts = [value[at : at + piece_bytes] for at in range(0, len(value), piece_bytes)]
    return [m.encode(m.PieceSent(incarnation, whole, index, count, part)) for index, part in enumerate(parts)]


@dataclass(slots=True)
class _OpenMessage:
    parts: list[bytes] = field(default_factory=list)
    size: int = 0


class BroadcastPieces:
    """The pieces read of unfinished messages. Several writers' pieces may be mixed; equal messages are one."""

    def __init__(self) -> None:
        self._open: dict[int, dict[bytes, _OpenMessage]] = {}
        self._done: dict[int, bytes] = {}

    @property
    def held(self) -> int:
        """Messages of which some pieces have arrived."""
        return sum(map(len, self._open.values()))

    def take(self, partition: int, piece: m.PieceSent) -> m.SlotSent | m.PunctuationSent | None:
        """The message with its last piece, else None. Raises ``PieceLost`` where it cannot be completed."""
        waiting = self._open.setdefault(partition, {})
        if piece.index > 0 and piece.whole not in waiting and self._done.get(partition) == piece.whole:
            return None  # of an equal message by another writer
        if piece.index == 0 and piece.whole not in waiting:
            waiting[piece.whole] = _OpenMessage()
        found = waiting.get(piece.whole)
        if found is None or piece.index > len(found.parts):  # the rest stays, for the next reading
            raise PieceLost(f"piece {piece.index} of {piece.count} of a message of partition {partition}")
        if piece.index == len(found.parts):
            found.parts.append(piece.data)
            found.size += len(piece.data)
        if len(found.parts) == piece.count:
            return self._finished(partition, piece, found)
        if len(waiting) > MAX_OPEN or found.size > m.MAX_BROADCAST_BYTES:
            del waiting[next(iter(waiting)) if len(waiting) > MAX_OPEN else piece.whole]
            raise PieceLost(f"an unfinished message of partition {partition}")
        return None

    def _finished(self, partition: int, piece: m.PieceSent, found: _OpenMessage) -> m.SlotSent | m.PunctuationSent:
        del self._open[partition][piece.whole]
        value = b"".join(found.parts)
        if _digest(value) != piece.whole:
            raise PieceLost(f"the pieces of a message of partition {partition} do not fit each other")
        self._done[partition] = piece.whole
        message = m.decode_broadcast(value)
        if isinstance(message, m.PieceSent):
            raise PieceLost(f"a message of partition {partition} is a piece of a piece")
        return message


def _digest(value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=_DIGEST_BYTES).digest()
