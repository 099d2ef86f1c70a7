"""Runs the gateway in this process until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType

from nodes.errors import RunFailed, SettingsError
from nodes.log import Log
from nodes.transactions.clients.asyncio_client import AsyncTransactionClient

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(
    open_log: Callable[[], Log],
    job: str | None,
    *,
    host: str,
    port: int,
    token: str | None,
    names: Collection[str],
    connections: int = 1_000,
    listening: Callable[[str], None],
) -> bool:
    """Report the address to ``listening`` once it is open; True if Ctrl-C has ended it.

    ``port`` 0: a free one. ``connections``: so many at once.

    Raises ``SettingsError`` for a host that others can reach without a token, ``RunFailed`` where the port is taken.
    """
    refuse_open_host(host, token)
    import uvicorn

    from nodes.transactions.gateway.app import HttpGateway
    from nodes.transactions.gateway.http_protocol import bounded

    class Server(uvicorn.Server):
        interrupted = False

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            self.interrupted |= not self.should_exit and sig == signal.SIGINT
            super().handle_exit(sig, frame)

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Ending on SIGTERM is this command's ordinary end."""
            loop = asyncio.get_running_loop()
            for signum in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(signum, self.handle_exit, signum, None)
            yield

    async def run(opened: socket.socket) -> bool:
        async with AsyncTransactionClient(open_log, job) as client:
            config = bounded(HttpGateway(client, token=token, names=(host, *names)), connections)
            server = Server(config)
            with server.capture_signals():  # before the address, and with it the process, is reported
                listening(_url(opened))
                await server.serve(sockets=[opened])
        return server.interrupted

    with _opened(host, port) as opened:
        return asyncio.run(run(opened))


def refuse_open_host(host: str, token: str | None) -> None:
    """Raises ``SettingsError`` for a host that others can reach, without a token that they were given."""
    if host not in LOOPBACK and not token:
        raise SettingsError(
            f"--host {host} lets other machines call functions: give a token (--token-file), or stay on 127.0.0.1"
        )


def _opened(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
        opened.listen()
    except OSError as error:
        opened.close()
        raise RunFailed(f"--host {host}, --port {port}: cannot listen there: {error}") from error
    return opened


def _url(opened: socket.socket) -> str:
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
