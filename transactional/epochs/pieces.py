"""How long records of the internal topics travel: compressed, and in pieces where the log takes no such record.

Three rules for this file. A record's name is the digest of its uncompressed whole, so the writer and its compression do
not matter. Pieces of two writers may be mixed, and equal records are one. The inflated size of pieces is bounded before
they are inflated.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import msgspec

from transactional.epochs.appends import Append, AppendCalls, AppendEpochs, AppendReply
from transactional.epochs.layout_messages import Copied, copies_epoch
from transactional.epochs.messages import BadRecord, MessageBatch, RecordPiece, to_bytes
from transactional.state.values import decode, digest

COMPRESS_BYTES = 4096
"""Longer messages are compressed. Source: Styx, section 6.4."""
PIECE_BYTES = 1 << 19
WHOLE_BYTES = 1 << 28
"""A record that claims to be longer is none of ours."""
WRITTEN_RATIO = 32
"""A record is no more than so many times as long as its pieces: what compresses better is filled up with zeros."""
READ_RATIO = 250
"""As ``WRITTEN_RATIO``, of what releases before that rule may have written: the most that zlib's level 1 comes to."""
MESSAGE_BATCH_BYTES = 1 << 16
"""Each record costs its writer, the broker and all readers the more, the shorter it is."""
_COPIED = Copied.__struct_config__.tag
_LEVEL = 1
_PAYS = 0.9


class _RecordHead(msgspec.Struct, array_like=True, frozen=True):
    """How every record begins that may travel in pieces."""

    kind: str
    source: int
    epoch: int

    @property
    def needed_in(self) -> int:
        """Until this epoch is over its pieces are of use. Batches of copies name a layout in its place."""
        return copies_epoch(self.epoch) if self.kind == _COPIED else self.epoch


def travelling(
    appends: Iterable[Append], compress_bytes: int = COMPRESS_BYTES, piece_bytes: int = PIECE_BYTES
) -> list[Append]:
    """As they go on the log; replies stay as they are, since clients read them."""
    out: list[Append] = []
    for append in appends:
        most = piece_bytes if isinstance(append, AppendCalls) and append.as_it_is else min(compress_bytes, piece_bytes)
        if len(append.value) <= most or isinstance(append, AppendReply):
            out.append(append)
        else:
            out += [replace(append, value=value) for value in _pieces(append.value, compress_bytes, piece_bytes)]
    return out


def batch_messages(appends: list[Append], limit_bytes: int = MESSAGE_BATCH_BYTES) -> list[Append]:
    """A message that goes to the epochs topic as one record, unless that is long, in front of the rest."""
    values = [append.value for append in appends if isinstance(append, AppendEpochs)]
    if len(values) < 2 or sum(map(len, values)) > limit_bytes:
        return appends
    rest: list[Append] = [append for append in appends if not isinstance(append, AppendEpochs)]
    return [AppendEpochs(to_bytes(MessageBatch(values))), *rest]


def _pieces(value: bytes, compress_bytes: int, piece_bytes: int) -> Iterator[bytes]:
    packed = zlib.compress(value, _LEVEL) if len(value) > compress_bytes else value
    is_packed = len(packed) < _PAYS * len(value)
    sent = packed.ljust(-(-len(value) // WRITTEN_RATIO), b"\0") if is_packed else value  # zlib knows its own end
    if not is_packed and len(value) <= piece_bytes:
        yield value
        return
    whole, epoch = digest(value), decode(value, _RecordHead).needed_in
    count = -(-len(sent) // piece_bytes)
    name = digest(sent) if is_packed and count > 1 else whole
    for index in range(count):
        part = sent[index * piece_bytes : (index + 1) * piece_bytes]
        yield to_bytes(RecordPiece(epoch, whole, name, index, count, len(value) if is_packed else None, part))


@dataclass(slots=True)
class _OpenRecord:
    epoch: int
    pieces: list[RecordPiece] = field(default_factory=list)


class RecordPieces:
    """The pieces read of unfinished records of one log partition. ``most_ratio``: what inflates further is refused."""

    def __init__(self, kept: Iterable[RecordPiece] = (), most_ratio: int = READ_RATIO) -> None:
        self._most_ratio = most_ratio
        self._open: dict[tuple[bytes, int, int | None], _OpenRecord] = {}  # by name, count and size
        for piece in kept:
            self.take(piece)

    def take(self, piece: RecordPiece) -> bytes | None:
        """The whole record with its last piece, else None. Raises ``BadRecord`` for what is no piece of a record."""
        if not 0 <= piece.index < piece.count or not 0 <= (piece.size or 0) <= WHOLE_BYTES:
            raise BadRecord(f"piece {piece.index} of {piece.count} of {piece.size} bytes")
        name = piece.name, piece.count, piece.size
        found = self._open.setdefault(name, _OpenRecord(piece.epoch))
        if piece.index != len(found.pieces):  # of a second writer, or what came before it was not written
            if not found.pieces:
                del self._open[name]
            return None
        found.pieces.append(piece)
        if len(found.pieces) < piece.count:
            return None
        del self._open[name]
        sent = b"".join(each.data for each in found.pieces)
        if (piece.size or 0) > self._most_ratio * len(sent):
            raise BadRecord(f"{len(sent)} bytes claim to be {piece.size}, more than {self._most_ratio} times as many")
        return _whole(piece, sent)

    def forget(self, before: int, layout: int = 0) -> None:
        """No node requests records of epochs before this one, or copies to homes in this layout or one before it."""
        if self._open:
            self._open = {name: each for name, each in self._open.items() if not is_past(each.epoch, before, layout)}

    def forget_epoch(self, epoch: int) -> None:
        """As ``forget``, of one epoch."""
        self._open = {name: each for name, each in self._open.items() if each.epoch != epoch}

    def kept(self) -> list[RecordPiece]:
        """All of unfinished records, for ``RecordPieces(kept)``."""
        return [piece for each in self._open.values() for piece in each.pieces]


def is_past(epoch: int, before: int, layout: int) -> bool:
    """Whether it is before this one, or stands for copies to homes in this layout or one before it."""
    return epoch < before or copies_epoch(0) < epoch <= copies_epoch(layout)


def _whole(piece: RecordPiece, sent: bytes) -> bytes:
    whole = sent
    if piece.size is not None:
        unpacking = zlib.decompressobj()
        try:
            whole = unpacking.decompress(sent, piece.size + 1)
        except zlib.error as error:
            raise BadRecord(f"{len(sent)} bytes do not unpack: {error}") from None
    if digest(whole) != piece.whole:
        raise BadRecord(f"the pieces of a record of epoch {piece.epoch} do not fit each other")
    return whole
