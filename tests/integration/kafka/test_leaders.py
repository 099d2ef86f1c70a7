"""A peer's answers about leaders and the ends of their epochs."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from nodes.log.kafka.direct.connection import EpochEnd, Leader, Lost, Wire, fetch_cluster, fetch_epoch_ends, text
from tests.unit.nodes.log.kafka.direct.test_connection import PLENTY_S, reply


@pytest.fixture
def ends() -> Iterator[tuple[Wire, socket.socket]]:
    """The connection, and its other end."""
    ours, theirs = socket.socketpair()
    ours.settimeout(PLENTY_S)
    theirs.settimeout(PLENTY_S)
    yield Wire(ours, "me"), theirs
    ours.close()
    theirs.close()


def answered(ends: tuple[Wire, socket.socket], body: bytes, number: int = 1) -> dict[int, Leader] | Lost:
    """The leaders that the client makes of that answer to its request of this number."""
    wire, peer = ends
    thread = threading.Thread(target=lambda: (peer.recv(1000), peer.sendall(reply(number, body))))
    thread.start()
    found = fetch_cluster(wire, ["t"])
    thread.join(PLENTY_S)
    return found if isinstance(found, Lost) else {number: leader for (_, number), leader in found.leaders.items()}


METADATA = (
    struct.pack(">iii", 0, 1, 5) + text("host") + struct.pack(">i", 9092) + text("rack") + text("cluster")
    + struct.pack(">iih", 5, 1, 0) + text("t") + b"\0" + struct.pack(">i", 2)
    + struct.pack(">hiii", 0, 1, 5, 3) + struct.pack(">iiiii", 1, 5, 1, 5, 0)
    + struct.pack(">hiii", 5, 0, -1, 4) + struct.pack(">iii", 0, 0, 0)
)  # fmt: skip


def test_leaders_are_told_with_their_epochs(ends: tuple[Wire, socket.socket]) -> None:
    assert answered(ends, METADATA) == {1: Leader(0, "host", 9092, 3), 0: Leader(5, "", 0, 4)}


def test_an_answer_that_breaks_off_anywhere_is_none(ends: tuple[Wire, socket.socket]) -> None:
    for size in range(len(METADATA)):
        assert isinstance(answered(ends, METADATA[:size], number=size + 1), Lost), size
    assert not isinstance(answered(ends, METADATA, number=len(METADATA) + 1), Lost)


def test_ends_of_epochs_are_asked_for_and_told_by_partition(ends: tuple[Wire, socket.socket]) -> None:
    wire, peer = ends
    rows = struct.pack(">hiiq", 0, 1, 3, 150) + struct.pack(">hiiq", 74, 0, -1, -1)
    body = struct.pack(">ii", 0, 1) + text("t") + struct.pack(">i", 2) + rows
    asked: list[bytes] = []
    thread = threading.Thread(target=lambda: (asked.append(peer.recv(1000)), peer.sendall(reply(1, body))))
    thread.start()
    found = fetch_epoch_ends(wire, {("t", 1): (5, 3), ("t", 0): (4, 2)})
    thread.join(PLENTY_S)
    assert found == {("t", 1): EpochEnd(0, 3, 150), ("t", 0): EpochEnd(74, -1, -1)}
    places = struct.pack(">iii", 0, 4, 2) + struct.pack(">iii", 1, 5, 3)
    assert asked[0].endswith(struct.pack(">ii", -1, 1) + text("t") + struct.pack(">i", 2) + places)
