"""The connection of our own to a Kafka broker, against a peer that answers as it is told; and CRC-32C."""

from __future__ import annotations

import random
import select
import socket
import struct
from array import array
from collections.abc import Iterator
from fcntl import ioctl
from termios import FIONREAD

import numpy as np
import pytest

from nodes.compiled.loading import Compiled
from nodes.log.codecs.crc32c_tables import SLICE_BYTES, tables
from nodes.log.kafka.direct.connection import Answer, Cursor, Lost, Wire

PLENTY_S = 60.0


@pytest.fixture
def ends() -> Iterator[tuple[Wire, socket.socket]]:
    """The connection, and its other end."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PLENTY_S)
    theirs.settimeout(PLENTY_S)
    yield Wire(ours, "me"), theirs
    ours.close()
    theirs.close()


def room(size: int) -> memoryview:
    return memoryview(bytearray(size + 5))


def reply(number: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), number) + body


def test_a_request_has_a_head_with_its_number_and_all_its_parts(ends: tuple[Wire, socket.socket]) -> None:
    wire, peer = ends
    assert wire.send(1, 11, b"ab", b"", memoryview(b"cd")) == 1
    assert peer.recv(100) == struct.pack(">ihhi", 16, 1, 11, 1) + b"\x00\x02me" + b"abcd"
    assert wire.send(0, 8) == 2


def test_a_large_request_leaves_in_pieces_without_waiting_and_arrives_whole(ends: tuple[Wire, socket.socket]) -> None:
    wire, peer = ends
    wire.without_waiting()
    parts = [random.Random(part).randbytes(30_000) for part in range(200)]
    assert wire.send(0, 8, *parts) == 1
    assert wire.unsent, "more than a socket takes"
    found = bytearray()
    while wire.unsent:
        found += peer.recv(1 << 20)
        assert wire.flush() is None
    peer.setblocking(False)
    size = 4 + 8 + 4 + 200 * 30_000
    while len(found) < size:
        found += peer.recv(1 << 20)
    assert bytes(found[16:]) == b"".join(parts)


def test_an_answer_is_given_when_it_is_whole_however_it_arrives(ends: tuple[Wire, socket.socket]) -> None:
    wire, peer = ends
    wire.without_waiting()
    body = random.Random(1).randbytes(3000)
    sent = reply(7, body) + reply(8, b"")
    found, arrived = [], list[int]()
    for at in range(0, len(sent), 11):
        assert wire.receive(room) is None
        peer.sendall(sent[at : at + 11])
        while isinstance(answer := wire.receive(room), Answer):
            found.append((answer.number, bytes(answer.data)))
        arrived.append(wire.arrived)
    assert found == [(7, body), (8, b"")]
    assert arrived[0] == 3 and arrived[1:270] == list(range(14, 14 + 269 * 11, 11)), "a line that is slow moves"


def waiting_bytes(wire: Wire) -> int:
    """Bytes that have arrived and were not received yet."""
    found = array("i", [0])
    ioctl(wire.fileno(), FIONREAD, found)
    return found[0]


def test_who_waits_is_roused_when_much_of_an_answer_is_here_and_for_the_next_by_its_first_byte() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        wire = Wire.connect("127.0.0.1", server.getsockname()[1], "me", PLENTY_S)
        peer, _ = server.accept()
    assert isinstance(wire, Wire)
    waiting = select.poll()
    waiting.register(wire, select.POLLIN)
    wire.without_waiting()
    with peer:
        peer.sendall(reply(1, bytes(1000))[:100])
        while waiting_bytes(wire) < 100:
            assert waiting.poll(1000 * PLENTY_S)
        assert wire.receive(room) is None
        peer.sendall(bytes(500))
        wire.rouse_late()
        assert not waiting.poll(50), "less than half of what is missing"
        peer.sendall(bytes(408))
        assert waiting.poll(1000 * PLENTY_S)
        assert isinstance(wire.receive(room), Answer)
        wire.rouse_late()
        peer.sendall(b"1")
        assert waiting.poll(1000 * PLENTY_S)
    wire.close()


@pytest.mark.parametrize("size", [-1, 3, 1 << 30 | 5])
def test_an_answer_of_impossible_size_ends_the_connection(ends: tuple[Wire, socket.socket], size: int) -> None:
    wire, peer = ends
    peer.sendall(struct.pack(">ii", size, 1))
    assert isinstance(wire.receive(room), Lost)


def test_a_peer_that_goes_is_a_value_and_not_an_exception(ends: tuple[Wire, socket.socket]) -> None:
    wire, peer = ends
    peer.sendall(reply(1, b"whole")[:-1])
    peer.close()
    assert isinstance(wire.receive(room), Lost)
    lost = [wire.send(0, 8, bytes(1 << 20)) for _ in range(2)]
    assert isinstance(lost[-1], Lost)


def test_nobody_who_listens_is_a_value() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert isinstance(Wire.connect("127.0.0.1", port, "me", PLENTY_S), Lost)


def test_a_cursor_gives_nothing_behind_the_end_and_believes_no_length() -> None:
    cursor = Cursor(struct.pack(">i", 1000) + b"ab")
    assert (cursor.count(), cursor.broken) == (0, True)
    cursor = Cursor(b"ab")
    assert (bytes(cursor.take(-1)), cursor.broken, cursor.number(8)) == (b"", True, 0)


def test_crc32c_is_that_of_the_table_at_all_lengths(loops: Compiled) -> None:
    table = tables()
    rng = random.Random(3)
    for size in [*range(40), 3 * SLICE_BYTES - 1, 3 * SLICE_BYTES, 7 * SLICE_BYTES + 5]:
        data = rng.randbytes(size)
        expected = 0xFFFFFFFF
        for byte in data:
            expected = int(table[(expected ^ byte) & 0xFF]) ^ (expected >> 8)
        padded = np.frombuffer(data + bytes(8), np.uint8)
        assert loops.crc32c(padded.ctypes.data, size, table.ctypes.data) == expected ^ 0xFFFFFFFF
    assert (
        loops.crc32c(np.frombuffer(b"123456789" + bytes(8), np.uint8).ctypes.data, 9, table.ctypes.data) == 0xE3069283
    )
