"""One connection of the HTTP gateway: what uvicorn does, within limits that hold before anybody has shown a token.

Two rules for this file. A client that sends nothing, or a byte now and then, loses its connection in time. A client
that connects when all connections are taken gets an error, and costs nothing more.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import h11
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

logger = logging.getLogger(__name__)

HEADER_S = 10.0
"""A request's line and headers are there in so long."""
BODY_S = 30.0
"""Its body is there in so long; a body has at most 1 MB."""
_SPARE_FILES = 64
_FEWEST = 8


def most_connections(wanted: int) -> int:
    """As many as the process may open files for."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if soft == resource.RLIM_INFINITY else min(wanted, max(_FEWEST, soft - _SPARE_FILES))


class BoundedConfig(Config):
    """Uvicorn's, with a limit of connections and two time-outs, in seconds."""

    connections = 1_000
    header_s = HEADER_S
    body_s = BODY_S


def bounded(
    app: Callable[..., Awaitable[None]], connections: int, *, header_s: float = HEADER_S, body_s: float = BODY_S
) -> BoundedConfig:
    """For a server of ``app`` that trusts no header of a request about its origin."""
    config = BoundedConfig(
        app,
        interface="asgi3",
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
    )
    config.connections, config.header_s, config.body_s = most_connections(connections), header_s, body_s
    return config


class BoundedProtocol(H11Protocol):
    """For a server with ``BoundedConfig``."""

    config: BoundedConfig  # pyright: ignore[reportIncompatibleVariableOverride]
    _limit: asyncio.TimerHandle | None = None
    _phase: object = None
    _is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """As ``asyncio.Protocol``."""
        super().connection_made(transport)
        if len(self.connections) > self.config.connections:
            self._is_refused = True
            self._end(HTTPStatus.SERVICE_UNAVAILABLE, f"all {self.config.connections} connections are taken; try again")
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        """As ``asyncio.Protocol``."""
        if not self._is_refused:
            super().data_received(data)
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """As ``asyncio.Protocol``."""
        self._stop()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """As uvicorn's: from here on its own limit for an idle connection holds."""
        super().on_response_complete()
        self._stop()

    def _watch(self) -> None:
        """Bound what is on its way: headers, or a body. More bytes of it do not give it more time."""
        phase = self.conn.their_state
        if phase is self._phase and self._limit is not None:
            return
        self._stop()
        if phase is h11.IDLE and not self.transport.is_closing():
            self._limit = self.loop.call_later(self.config.header_s, self._is_late, "headers", self.config.header_s)
        elif phase is h11.SEND_BODY:
            self._limit = self.loop.call_later(self.config.body_s, self._is_late, "body", self.config.body_s)
        self._phase = phase

    def _stop(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _is_late(self, what: str, limit_s: float) -> None:
        self._limit = None
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()
            return
        logger.info("a client at %s has not sent the %s of its request in %g s", self.client, what, limit_s)
        self._end(HTTPStatus.REQUEST_TIMEOUT, f"the {what} of the request did not come in {limit_s:g} s")

    def _end(self, status: HTTPStatus, why: str) -> None:
        """Answer with the reason, and close; the request in flight is dropped."""
        body = f'{{"error":"{why}"}}'.encode()
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        if not self.transport.is_closing():
            self.transport.write(head.encode() + body)
            self.transport.close()
