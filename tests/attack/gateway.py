"""The HTTP gateway in this process, over a client that answers by itself, with limits that tests can wait for."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from nodes.transactions.gateway.app import HttpGateway
from nodes.transactions.gateway.http_protocol import bounded
from tests.integration.processes import PLENTY_S

TOKEN = "let-me-in"


class Client:
    """Answers each call with its arguments; ``calls`` counts them."""

    def __init__(self) -> None:
        self.calls = 0

    async def check(self) -> str | None:
        return None

    async def new_id(self, timeout_s: float = 30.0) -> str:
        return "new"

    async def try_call(self, operator: str, key: str, function: str, args: Any = None, **rest: Any) -> Any:
        self.calls += 1
        return args


class Gateway:
    """A server that listens on ``address``."""

    def __init__(self, token: str | None, connections: int, header_s: float, body_s: float) -> None:
        self.client = Client()
        self.door = HttpGateway(self.client, token=token)  # pyright: ignore[reportArgumentType]
        config = bounded(self.door, connections, header_s=header_s, body_s=body_s)  # pyright: ignore
        self.server = uvicorn.Server(config)
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = self.listening.getsockname()
        self.thread = threading.Thread(target=lambda: asyncio.run(self.server.serve([self.listening])), daemon=True)

    def connect(self) -> socket.socket:
        opened = socket.create_connection(self.address, PLENTY_S)
        opened.settimeout(PLENTY_S)
        return opened

    def exchange(self, data: bytes) -> bytes:
        """All that comes until the gateway closes the connection."""
        with self.connect() as opened:
            with contextlib.suppress(ConnectionError):  # it may have closed it already
                opened.sendall(data)
            return rest(opened)


@contextmanager
def gateway(
    *, token: str | None = None, connections: int = 100, header_s: float = 3600.0, body_s: float = 3600.0
) -> Iterator[Gateway]:
    """``header_s``: the limit for headers; ``body_s``: for a body."""
    served = Gateway(token, connections, header_s, body_s)
    served.thread.start()
    try:
        yield served
    finally:
        served.server.should_exit = served.server.force_exit = True
        served.thread.join(PLENTY_S)
        served.listening.close()


def rest(opened: socket.socket) -> bytes:
    """The bytes until the connection is closed."""
    found = bytearray()
    try:
        while part := opened.recv(1 << 16):
            found += part
    except ConnectionError:
        pass
    return bytes(found)


def request(body: bytes = b'{"operator":"o","key":"k","function":"f","args":[1]}', *headers: str) -> bytes:
    """A call, after which the connection is closed."""
    lines = ["POST /v1/call HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Connection: close"]
    lines += [f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
