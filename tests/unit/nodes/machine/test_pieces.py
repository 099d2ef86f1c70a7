"""Broadcast messages that no record holds are cut and put together (nodes/machine/broadcast/pieces.py)."""

from __future__ import annotations

import pytest

from nodes.machine import messages as m
from nodes.machine.broadcast.pieces import MAX_OPEN, BroadcastPieces, PieceLost, cut
from wcrdt.replica.replica import Punctuation

PIECE = 3


def message(number: int) -> bytes:
    """An encoded message; its number makes it another one."""
    return m.encode(m.PunctuationSent(0, Punctuation(3, (number, 0), 1_000 + number)))


def pieces_of(number: int) -> list[m.PieceSent]:
    found = [m.decode_broadcast(record) for record in cut(0, message(number), PIECE)]
    assert len(found) > 3 and all(isinstance(piece, m.PieceSent) for piece in found)
    return found  # type: ignore[return-value]


def taken(pieces: BroadcastPieces, records: list[m.PieceSent]) -> list[bytes]:
    """The messages that come out, encoded again."""
    found = [pieces.take(3, record) for record in records]
    return [m.encode(whole) for whole in found if whole is not None]


def test_a_message_that_fits_is_left_as_it_is() -> None:
    assert cut(0, message(1)) == [message(1)]


def test_the_whole_comes_with_the_last_piece_and_again_when_all_is_read_again() -> None:
    pieces = BroadcastPieces()
    for _ in range(2):
        assert taken(pieces, pieces_of(1)[:-1]) == []
        assert taken(pieces, pieces_of(1)[-1:]) == [message(1)]


def test_pieces_of_two_writers_may_be_mixed() -> None:
    mixed = [piece for pair in zip(pieces_of(1), pieces_of(2), strict=True) for piece in pair]
    assert taken(BroadcastPieces(), mixed) == [message(1), message(2)]


def test_equal_messages_of_two_writers_are_one() -> None:
    mixed = [piece for piece in pieces_of(1) for _ in range(2)]
    assert taken(BroadcastPieces(), mixed) == [message(1)]


def test_a_lost_piece_is_told_and_the_message_can_be_read_again() -> None:
    pieces, all_of_it = BroadcastPieces(), pieces_of(1)
    for lost in range(len(all_of_it) - 1):
        with pytest.raises(PieceLost, match=r"piece \d+ of \d+ of a message of partition 3"):
            taken(pieces, all_of_it[:lost] + all_of_it[lost + 1 :])
        assert taken(pieces, all_of_it) == [message(1)]


def test_what_one_reading_has_brought_stays_for_the_next() -> None:
    pieces, all_of_it = BroadcastPieces(), pieces_of(1)
    for lost in range(1, len(all_of_it) - 1):  # each reading loses the piece behind those of the readings before
        for piece in all_of_it[:lost]:
            assert pieces.take(3, piece) is None
        with pytest.raises(PieceLost):
            pieces.take(3, all_of_it[lost + 1])
    assert taken(pieces, all_of_it[-2:]) == [message(1)]


def test_pieces_of_another_message_under_its_digest_are_refused() -> None:
    first, second = pieces_of(1), pieces_of(2)
    forged = [m.PieceSent(0, first[0].whole, p.index, p.count, p.data) for p in second]
    with pytest.raises(PieceLost, match="do not fit"):
        taken(BroadcastPieces(), forged)


def test_writers_that_die_in_the_middle_leave_little_behind() -> None:
    pieces = BroadcastPieces()
    for number in range(MAX_OPEN):
        taken(pieces, pieces_of(number)[:2])
    with pytest.raises(PieceLost, match="unfinished"):
        taken(pieces, pieces_of(99)[:1])
    assert taken(pieces, pieces_of(99)[1:]) == [message(99)]
    assert pieces.held == MAX_OPEN - 1
