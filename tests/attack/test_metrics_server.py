"""The HTTP server of a node: slow and many connections, and guessed tokens, cost it a bounded amount."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from nodes.metrics.health import Health
from nodes.metrics.server import BoundedServer, MetricsServer, Pages
from nodes.runtime.failed_tokens import FailedTokens
from tests.attack.gateway import rest
from tests.integration.processes import PLENTY_S, until


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MetricsServer]:
    """It waits for slow clients; its limits are those that the tests set."""
    monkeypatch.setattr(BoundedServer, "most_connections", 3)
    monkeypatch.setattr(BoundedServer, "connection_s", 3600.0)
    monkeypatch.setattr("nodes.metrics.server._Handler.timeout", 3600.0)
    pages = Pages(lambda accept: (b"", "text/plain"), Health, Health)
    server = MetricsServer(pages, "127.0.0.1", 0, "secret")
    server.start()
    yield server
    server.close()


def connect(server: MetricsServer) -> socket.socket:
    opened = socket.create_connection(server.address, PLENTY_S)
    opened.settimeout(PLENTY_S)
    return opened


def get(server: MetricsServer, token: str) -> bytes:
    with connect(server) as opened:
        try:
            opened.sendall(
                f"GET /healthz HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
            )
        except ConnectionError:
            return b""
        return rest(opened)


def test_a_connection_ends_however_slowly_its_bytes_come(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BoundedServer, "connection_s", 0.5)
    ended = threading.Event()
    with connect(server) as opened:

        def drip() -> None:
            try:
                opened.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
                while not ended.wait(0.05):
                    opened.sendall(b"x")
            except OSError:
                pass

        dripping = threading.Thread(target=drip)
        dripping.start()
        assert rest(opened) == b"", "no answer"
        ended.set()
        dripping.join(PLENTY_S)
        assert not dripping.is_alive()


def test_connections_have_a_limit_and_are_free_again(server: MetricsServer) -> None:
    taken = [connect(server) for _ in range(3)]
    until(lambda: server.connections == 3, "three connections")
    assert get(server, "secret") == b"", "nobody is let in, whatever is asked"
    for each in taken:
        each.close()
    until(lambda: b"200 OK" in get(server, "secret"), "the connections are free again")


def test_wrong_tokens_are_slowed_down(server: MetricsServer) -> None:
    asked: list[float] = []

    class Recorded(FailedTokens):
        def wait_s(self) -> float:
            asked.append(super().wait_s())
            return 0.0

    server.failed_tokens = Recorded()
    assert b" 401 " in get(server, "wrong") and len(asked) == 1
    assert b" 200 " in get(server, "secret") and len(asked) == 1
